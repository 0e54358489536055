"""The state process as HTTP: who gets in, what a body may be, and what is told when something is wrong."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from serving import SCOPE, TOKEN, Service

from fencepost.journal.errors import JournalConflict, JournalCorrupt, JournalFull
from fencepost.mailbox.errors import MemoryConflict, UnknownMessage
from fencepost.mailbox.server import bodies
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.wire.contract import ROUTES

PATIENCE_S = 20


@pytest.fixture
def service():
    return Service()


def test_health_needs_no_token(service):
    """And says nothing but that."""
    response = service.http.get("/health")

    assert (200, {"status": "ok"}) == (response.status_code, response.json())


@pytest.mark.parametrize("error", [JournalFull(path="/x"), JournalCorrupt(file="f", offset=1, why="w")])
def test_a_store_that_cannot_be_written_is_not_well(service, error):
    """The code of the reason, under 503."""

    def check():
        raise error

    service.store.check = check
    response = service.http.get("/health")

    assert (503, error.code) == (response.status_code, response.json()["code"])


def test_a_check_that_fails_otherwise_is_no_health(service, caplog):
    """Whatever it was."""

    def check():
        raise RuntimeError("a secret")

    service.store.check = check

    assert 503 == service.http.get("/health").status_code
    assert "a secret" not in caplog.text


def test_capabilities(service):
    """What the wire asks for, and the key of our own."""
    response = service.http.get("/v1/capabilities", headers={"Authorization": f"Bearer {TOKEN}"})
    found = response.json()

    assert 6 == found["wire_version"]
    assert "fencepost" in found["neosian_version"]
    assert ("memory", "client:default") == (found["backend"], found["client"])
    assert found["supports_optimistic_concurrency"] is found["pageable"] is found["erasable"] is True


def test_capabilities_name_the_extensions_where_there_are_some():
    """A client that finds the key may use them."""
    service = Service(extensions=lambda *_: None)
    headers = {"Authorization": f"Bearer {TOKEN}"}

    assert {"extensions": 1} == service.http.get("/v1/capabilities", headers=headers).json()["fencepost"]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x"])
@pytest.mark.parametrize("path", ["/v1/capabilities", "/v1/memory/read", "/v1/nope", "/", "/mcp"])
def test_nobody_gets_in_without_a_token(service, path, token):
    """A plain 401, whatever was asked for."""
    for response in (
        service.http.post(path, content=b"{}", headers={"Authorization": f"Bearer {token}"}),
        service.http.get(path),
    ):
        assert (401, "Bearer") == (response.status_code, response.headers["WWW-Authenticate"])
        assert "json" not in response.headers["Content-Type"]


def test_what_there_is_not_is_not_found(service):
    """Without an envelope."""
    assert 404 == service.raw("memory/nope", b"{}").status_code


@pytest.mark.parametrize("name", ROUTES)
def test_every_route_refuses_what_is_no_object(service, name):
    """Whatever the bytes are, it is not our failure."""
    for body in (
        b"",
        b"[]",
        b"null",
        b"1",
        b"{",
        b"\xff\xfe",
        b'{"scope": NaN}',
        b'{"scope": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"scope": 1e999}',
    ):
        response = service.raw(name, body)
        assert (400, "value_error") == (response.status_code, response.json()["error"]["code"]), body[:20]


@pytest.mark.parametrize("name", [name for name, parameters in ROUTES.items() if parameters])
def test_every_parameter_is_typed(service, name):
    """A value of another type is refused, and a bool is no number."""
    right = {
        "scope": SCOPE,
        "path": "a.md",
        "src": "a.md",
        "dst": "b.md",
        "content": "x",
        "conversation_id": "c",
        "query": "x",
        "messages": [],
        "entries": [],
        "documents": [],
        "versions": [],
        "turns": [],
        "projections": [],
    }
    wrong = [True, 1.5, {"a": 1}, [[1]], [True], 2**70, "\0"]
    for parameter in ROUTES[name]:
        for value in wrong:
            asked = {key: each for key, each in right.items() if key in ROUTES[name]} | {parameter: value}
            if name == "conversation/redact_turns" and parameter == "through":
                asked.pop("turns")
            error = service.refused(name, **asked) if 2**70 != value else None
            response = service.raw(name, orjson.dumps(asked) if error else _json(asked))
            assert 400 == response.status_code, (parameter, value)
            assert "value_error" == response.json()["error"]["code"]


def _json(value):
    import json

    return json.dumps(value).encode()


def test_a_key_twice_is_the_last(service):
    """As every reader of JSON has it; it is no failure."""
    body = b'{"scope": "user:other", "scope": "user:me", "path": "a.md", "content": "x"}'

    assert "user:me" == service.raw("memory/write", body).json()["document"]["scope"]


def test_keys_that_are_not_known_are_not_looked_at(service):
    """And an optional one that is null is one that is absent."""
    assert service.write("a.md", whatever=[1], expected_version=None, actor=None)


def test_the_content_type_is_not_read(service):
    """JSON is JSON."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain"}
    response = service.http.post("/v1/memory/read", content=b'{"scope": "user:me", "path": "a"}', headers=headers)

    assert {"document": None} == response.json()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bodies, "REQUEST_BYTES_MAX", 1_000)
    monkeypatch.setattr(bodies, "_THROWN_AWAY_MAX", 5_000)


@pytest.mark.parametrize("size", [1_001, 4_000, 50_000])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_body_that_is_too_large(service, small, size, streamed):
    """It is refused with and without a declared length, and counted while it comes."""
    body = (b"x" * 500 for _ in range(0, size, 500)) if streamed else b"x" * size
    response = service.raw("memory/read", body)

    assert (413, "value_error") == (response.status_code, response.json()["error"]["code"])
    assert "body_too_large" == response.json()["error"]["fencepost"]["code"]


def test_a_body_that_is_too_large_is_nobodys_without_a_token(service, small):
    """The token comes first."""
    assert 401 == service.raw("memory/read", b"x" * 2_000, token="wrong").status_code


def test_a_failure_says_nothing(service, caplog):
    """No envelope, and one line in the log that says where and repeats nothing."""

    def find(_):
        raise RuntimeError("the body was: a secret")

    service.store.find = find
    with caplog.at_level(logging.ERROR):
        response = service.raw("memory/read", b'{"scope": "user:me", "path": "secret.md"}')

    assert (500, "Internal Server Error") == (response.status_code, response.text)
    assert 1 == len(caplog.records)
    assert "RuntimeError" in caplog.text
    for secret in ("secret", TOKEN):
        assert secret not in caplog.text


def test_our_own_code_is_in_the_envelope(service):
    """So that a client of ours raises the very class."""
    error = service.refused("memory/rename", scope=SCOPE, src="a.md", dst="b.md")

    assert "memory_document_not_found" == error["code"]
    assert {"code": "unknown_document"} == error["fencepost"]
    assert {"scope": SCOPE, "path": "a.md"} == error["details"]


def test_others_being_quicker_is_a_conflict_of_the_wire(service):
    """Where a write is never let through, the answer has the details of a conflict."""

    def append(*_, **__):
        raise JournalConflict(scope=SCOPE, stream="a.md", expected_version=0, actual_version=1)

    service.store.append = append
    error = service.refused("memory/write", scope=SCOPE, path="a.md", content="x")

    assert "memory_conflict" == error["code"]
    assert {
        "scope": SCOPE,
        "path": "a.md",
        "reason": "version_mismatch",
        "expected_version": 0,
        "actual_version": 1,
    } == error["details"]
    assert MemoryConflict.code == error["fencepost"]["code"]


# --- beside the wire ----------------------------------------------------------------------------------


def test_a_route_beside_the_wire_is_handed_on():
    """The store, the method, what was asked, and who asks; the answer stands under `result`."""
    seen = []
    service = Service(said="client:alice=tok", extensions=lambda *asked: seen.append(asked) or [1])
    response = service.raw("fencepost/inbox", b'{"query": 1}', token="tok")

    assert {"result": [1]} == response.json()
    store, method, asked, who = seen[0]
    assert (service.store, "inbox", {"query": 1}, "alice") == (store, method, asked, who.name)


def test_a_route_beside_the_wire_refuses_in_the_same_envelope():
    """With the details of the error as they are."""

    def extensions(*_):
        raise UnknownMessage(message_id="m", searched="/user")

    service = Service(extensions=extensions)
    error = service.refused("fencepost/claim")

    assert {"message_id": "m", "searched": "/user"} == error["details"]
    assert {"code": "unknown_message"} == error["fencepost"]


def test_a_conflict_beside_the_wire_stays_what_it_is():
    """Whoever decides again needs to know which stream it was."""

    def extensions(*_):
        raise JournalConflict(scope=SCOPE, stream="s", expected_version=1, actual_version=2)

    error = Service(extensions=extensions).refused("fencepost/append")

    assert {"scope": SCOPE, "stream": "s", "expected_version": 1, "actual_version": 2} == error["details"]


class Locked:
    """A store in which one scope is locked by somebody else."""

    def __init__(self, scope):
        self._store, self._scope = memory_store(), scope
        self.waiting, self.unlocked = threading.Semaphore(0), threading.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, batch, expect, **how):
        if batch.events[0].scope == self._scope:
            self.waiting.release()
            assert self.unlocked.wait(PATIENCE_S)
        self._store.append(batch, expect, **how)


def turn(service, scope, number):
    return "conversation/append_turn", {
        "conversation_id": scope.removeprefix("conversation:"),
        "messages": [{"role": "user", "content": "x"}],
    }


def document(service, scope, number):
    return "memory/write", {"scope": scope, "path": f"p{number}", "content": "x"}


def extension(service, scope, number):
    event = {"scope": scope, "stream": f"p{number}", "type": "document.written", "key": None}
    event["data"] = '{"schema":1,"content":"x"}'
    batch = {"at": "2026-11-30T12:00:00Z", "actor": "host:x", "events": [event], "erases": []}
    return "fencepost/append", {"batch": batch, "expect": [[scope, f"p{number}", 0]]}


@pytest.mark.parametrize("kind", [turn, document, extension])
def test_whoever_waits_for_one_scope_keeps_nobody_from_another(kind):
    """However many they are, and by whichever route they come."""
    locked, free = ("conversation:a", "conversation:b") if kind is turn else ("user:a", "user:b")
    store = Locked(locked)
    service = Service(store)
    with service.http, ThreadPoolExecutor(17) as pool:
        asks = [
            pool.submit(service.ask, route, **asked) for route, asked in (kind(service, locked, n) for n in range(16))
        ]
        assert store.waiting.acquire(timeout=PATIENCE_S)
        while any(not each.running() for each in asks):
            time.sleep(0.001)
        route, asked = kind(service, free, 0)
        pool.submit(service.ask, route, **asked).result(PATIENCE_S)
        assert not any(each.done() for each in asks)
        store.unlocked.set()
        assert 16 == len([each.result(PATIENCE_S) for each in asks])
