"""fencepost.mailbox.http: what a client says of whatever there may be at the other end."""

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import traceback
from datetime import UTC, datetime

import orjson
import pytest
from property.test_errors import KINDS, example
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from wire_places import TOKEN, Served, StateProcess, json_response, serving

from fencepost.journal.errors import (
    ClosedHandle,
    MissingExtra,
    MissingToken,
    NoAnswer,
    OtherWireVersion,
    OutcomeUnknown,
    RequestTooLarge,
    ServerFailed,
    ServerRefused,
    StrangeAnswer,
    SyncFailed,
    TokenRefused,
    Unreachable,
)
from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec, open_store
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.errors import Forbidden, InvalidNumber, InvalidUrl
from fencepost.mailbox.events import Written
from fencepost.mailbox.http.opening import TOKEN_VARIABLE, remote_store
from fencepost.mailbox.http.remote import RemoteStore
from fencepost.mailbox.http.transport import is_loopback
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.wire.access import Client

SCOPE = "user:me"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
GOOD = {"wire_version": 6, "client": "client:default", "fencepost": {"extensions": 1}}


def written(path="a.md"):
    """A batch that writes a document, and what it expects."""
    event = NewEvent(SCOPE, path, *codec.encode(Written("x")))
    return Batch(NOON, "client:default/me", (event,)), {(SCOPE, path): 0}


def process(call, capabilities=None):
    """Something that shakes hands, and answers every method by a function."""

    async def hello(_):
        return json_response(GOOD | (capabilities or {}))

    async def method(request):
        await request.body()
        return call(request)

    return Starlette(
        routes=[Route("/v1/capabilities", hello), Route("/v1/fencepost/{method}", method, methods=["POST"])]
    )


@pytest.fixture
def answering():
    """A store at the other end of which a function answers."""
    opened = []

    def open_it(call, **options):
        served = Served(process(call))
        opened.append(served)
        store = remote_store(served.url, TOKEN, **options)
        opened.insert(0, store)
        return store

    yield open_it
    for each in opened:
        each.close()


def dead_url():
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


# --- opening ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 7, "6", 6.0, True, None])
def test_another_wire_is_refused_before_any_call(version):
    """A client says which version it found, and asks nothing more."""
    with serving(memory_store(), capabilities={"wire_version": version}) as (process, url):
        with pytest.raises(OtherWireVersion) as refusal:
            remote_store(url, TOKEN)
        assert str(version) == refusal.value.found
        assert [] == process.asked


def test_a_token_comes_from_the_environment(monkeypatch):
    """Where nobody hands it over."""
    with serving(memory_store()) as (_, url):
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        open_store(url).close()
        monkeypatch.delenv(TOKEN_VARIABLE)
        with pytest.raises(MissingToken):
            remote_store(url)


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "tökén", "x" * 5_000])
def test_what_no_header_carries_is_no_token(token):
    """It is refused here, and not shown."""
    with pytest.raises(MissingToken) as refusal:
        remote_store("http://127.0.0.1:9", token)
    assert not token or token not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:sekret@127.0.0.1:9",
        "http://sekret@127.0.0.1:9",
        "http://127.0.0.1:9/?token=sekret",
        "http://127.0.0.1:9/#sekret",
        "ftp://127.0.0.1:9",
        "http://",
        "http://[::1",
        "http://127.0.0.1:70000",
        "http://127.0.0.1:9/a b",
        "127.0.0.1:9",
        "",
    ],
)
def test_a_url_holds_no_secret(url):
    """One that does, or is none, is refused without being repeated."""
    with pytest.raises(InvalidUrl) as refusal:
        remote_store(url, TOKEN)
    assert "sekret" not in str(refusal.value)


def test_a_url_without_a_scheme_is_told_what_it_lacks():
    """It is what people type first."""
    with pytest.raises(InvalidUrl) as refusal:
        remote_store("127.0.0.1:6367", TOKEN)
    assert "does not begin with http://" in str(refusal.value)


def test_a_time_is_needed():
    """No answer at once is no answer."""
    with pytest.raises(InvalidNumber):
        remote_store("http://127.0.0.1:9", TOKEN, timeout_s=0)


def test_the_extra_is_named():
    """Without httpx there is one sentence, which says what to install."""
    script = (
        "import sys; sys.modules['httpx'] = None\n"
        "from fencepost.mailbox.http.opening import remote_store\n"
        "try: remote_store('http://127.0.0.1:9', 'x')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert f"MissingExtra {MissingExtra(extra='http')}\n" == told.stdout
    assert "pip install 'fencepost[http]'" in told.stdout


def test_a_token_that_is_not_known_is_refused():
    """It is said where it came from, and not what it was."""
    token = f"another-{os.getpid()}"  # so that no line of this file is taken for it
    with serving(memory_store()) as (_, url):
        with pytest.raises(TokenRefused) as refusal:
            remote_store(url, token)
        told = "".join(traceback.format_exception(refusal.value)) + repr(refusal.value)
        assert token not in told


@pytest.mark.parametrize(
    "url", [dead_url, lambda: "http://a..b:9", lambda: "http://xn--\u2603:9", lambda: "http://*:9"]
)
def test_nobody_is_there(url):
    """A dead host is told as such, and nothing was sent; so is a name that no host has."""
    with pytest.raises(Unreachable):
        remote_store(url(), TOKEN)


@pytest.mark.parametrize(
    "hello",
    [
        lambda _: PlainTextResponse("Welcome."),
        lambda _: json_response([1]),
        lambda _: json_response(GOOD | {"client": 7}),
        lambda _: RedirectResponse("http://127.0.0.1:9/elsewhere"),
        lambda _: PlainTextResponse("no", 404),
    ],
)
def test_what_is_no_state_process_is_told(hello):
    """Something else answers there; no redirect is followed."""

    async def answer(request):
        return hello(request)

    with Served(Starlette(routes=[Route("/v1/capabilities", answer)])) as served, pytest.raises(StrangeAnswer):
        remote_store(served.url, TOKEN)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_refusal_comes_back_as_it_was(answering, kind):
    """The same class, the same details, the same sentence; whether something was asked or written."""
    error = example(kind)
    said = {
        "code": error.wire_code,
        "message": str(error),
        "details": error.details,
        "fencepost": {"code": error.code},
    }
    store = answering(lambda _: json_response({"error": said}, error.wire_status))
    for call in (lambda: store.find((SCOPE, "a.md")), lambda: store.append(*written())):
        with pytest.raises(kind) as told:
            call()
        assert (type(error), error.details, str(error)) == (type(told.value), told.value.details, str(told.value))


def test_a_sync_that_failed_there_is_of_unknown_outcome():
    """Whoever catches the one catches the other."""
    assert issubclass(SyncFailed, OutcomeUnknown)
    assert "outcome_unknown" == pickle.loads(pickle.dumps(SyncFailed(path="x", why="y"))).code


@pytest.mark.parametrize(
    "said",
    [
        {"code": "value_error", "message": "No.", "details": {}},
        {"code": "value_error", "message": "No.", "details": {}, "fencepost": {"code": "a_newer_one"}},
        {"code": "value_error", "message": "No.", "details": {}, "fencepost": {"code": "journal_conflict"}},
        {"code": "value_error", "message": "No.", "details": {"name": 7}, "fencepost": {"code": "forbidden"}},
        {"code": "value_error", "message": "No.", "details": [], "fencepost": []},
    ],
)
def test_a_refusal_that_is_not_known_says_what_was_said(answering, said):
    """A general error carries the sentence of the other end."""
    store = answering(lambda _: json_response({"error": said}, 400))
    for call in (lambda: store.find((SCOPE, "a.md")), lambda: store.append(*written())):
        with pytest.raises(ServerRefused) as told:
            call()
        assert ("value_error", "No.") == (told.value.reason, told.value.said)


def test_an_allowance_is_refused_as_such():
    """Over the wire as directly."""
    store = memory_store()
    with serving(store, clients={TOKEN: Client("alice", "user:alice", "alice")}) as (_, url):
        remote = remote_store(url, TOKEN)
        with pytest.raises(Forbidden) as told:
            Mailbox(remote, [Mount(SCOPE, "/me")]).send("Hello.")
        assert SCOPE == told.value.name
        assert (1, 0) == store.feed_bounds()
        remote.close()


# --- whether it has happened --------------------------------------------------------------------------

STRANGE = {
    "500 without a word": (lambda _: PlainTextResponse("Internal Server Error", 500), ServerFailed, OutcomeUnknown),
    "500 that says why": (lambda _: json_response({"error": {"code": "x"}}, 500), ServerFailed, OutcomeUnknown),
    "502 of a proxy": (lambda _: Response("<html>", 502), ServerFailed, OutcomeUnknown),
    "200 and no JSON": (lambda _: PlainTextResponse("ok"), StrangeAnswer, OutcomeUnknown),
    "200 and no object": (lambda _: json_response([]), StrangeAnswer, OutcomeUnknown),
    "302": (lambda _: RedirectResponse("http://127.0.0.1:9/"), StrangeAnswer, OutcomeUnknown),
    "401": (lambda _: PlainTextResponse("no", 401), TokenRefused, TokenRefused),
    "403 of a proxy": (lambda _: PlainTextResponse("no", 403), StrangeAnswer, StrangeAnswer),
    "404": (lambda _: PlainTextResponse("no", 404), StrangeAnswer, StrangeAnswer),
    "413": (lambda _: PlainTextResponse("too large", 413), RequestTooLarge, RequestTooLarge),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_write_that_may_have_happened_says_so(answering, name):
    """And one that cannot have happened says that; what was only asked is neither."""
    call, asked, told = STRANGE[name]
    store = answering(call)
    with pytest.raises(asked):
        store.find((SCOPE, "a.md"))
    with pytest.raises(told):
        store.append(*written())


@pytest.mark.parametrize("result", [7, "x", {"body": None}, {"items": [[1, "{}"]], "unsupported": []}])
def test_an_answer_of_another_shape_is_strange(answering, result):
    """It is not taken for anything."""
    store = answering(lambda _: json_response({"result": result}))
    with pytest.raises(StrangeAnswer):
        store.find((SCOPE, "a.md"))
    with pytest.raises(StrangeAnswer):
        store.changes(0, 5, None, 5)
    with pytest.raises(StrangeAnswer):
        Mailbox(store, [Mount(SCOPE, "/me")]).list()
    with pytest.raises(OutcomeUnknown):
        store.redact(SCOPE, "a.md", at=NOON, actor="client:default/me")


class Half:
    """Takes a request and dies over it: at once, or in the middle of its answer."""

    def __init__(self, piece=b""):
        self.url = ""
        self.count = 0
        self._piece = piece
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        hello = b'{"wire_version":6,"client":"client:default","fencepost":{"extensions":1}}'
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(65_536)
                if asked.startswith(b"GET"):
                    length = f"{len(hello)}".encode()
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: " + length + b"\r\n\r\n"
                    )
                    connection.sendall(hello)
                elif asked:
                    self.count += 1
                    connection.sendall(self._piece)

    def close(self):
        self._listening.close()


@pytest.mark.parametrize("piece", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"])
def test_a_process_that_dies_over_a_write_leaves_it_unknown(piece):
    """It is not repeated; a question is, some times, and then given up."""
    half = Half(piece)
    store = remote_store(half.url, TOKEN)
    with pytest.raises(OutcomeUnknown):
        store.append(*written())
    assert 1 == half.count
    with pytest.raises(NoAnswer):
        store.find((SCOPE, "a.md"))
    assert 4 == half.count
    store.close()
    half.close()


def test_a_process_that_is_gone_was_not_told(answering):
    """No connection, no doubt: nothing has happened."""
    with serving(memory_store()) as (_, url):
        store = remote_store(url, TOKEN)
    with pytest.raises(Unreachable):
        store.append(*written())
    with pytest.raises(Unreachable):
        store.find((SCOPE, "a.md"))
    store.close()


def test_a_slow_process_is_not_waited_for(answering):
    """A question is given up, and a write is in doubt; neither is asked again."""
    done = threading.Event()
    asked = []

    def slow(request):
        asked.append(request.path_params["method"])
        done.wait(20)
        return json_response({"result": None})

    store = answering(slow, timeout_s=0.2)
    with pytest.raises(NoAnswer):
        store.find((SCOPE, "a.md"))
    done.set()
    done.clear()
    with pytest.raises(OutcomeUnknown):
        store.append(*written())
    done.set()
    assert asked[:1] == ["find"]
    assert 1 == asked.count("find")
    assert asked.count("append") <= 1


class Dripping:
    """Something that shakes hands, and then says a little now and then, without end."""

    def __init__(self, begin, again):
        self._begin, self._again = begin, again
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked = []
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listening.accept()[:1], daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            while asked := connection.recv(1 << 16):
                if b"/v1/capabilities" in asked:
                    raw = orjson.dumps(GOOD)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
                    continue
                if not asked.startswith(b"POST"):
                    continue  # the body of a request
                self.asked.append(asked.split()[1].rpartition(b"/")[2])
                connection.sendall(self._begin)
                while not self._over.wait(0.02):
                    connection.sendall(self._again)

    def close(self):
        self._over.set()
        self._listening.close()


@pytest.mark.parametrize(
    "begin,again",
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    ],
    ids=["interim answers", "a head", "a body"],
)
def test_a_byte_now_and_then_is_no_answer(begin, again):
    """Wherever in an answer it comes; nothing is asked twice, and the next question is asked as before."""
    with contextlib.ExitStack() as opened:
        there = opened.enter_context(contextlib.closing(Dripping(begin, again)))
        store = opened.enter_context(contextlib.closing(remote_store(there.url, TOKEN, timeout_s=0.3)))
        with pytest.raises(NoAnswer, match="too slowly"):
            store.find((SCOPE, "a.md"))
        with pytest.raises(OutcomeUnknown, match="too slowly"):
            store.append(*written())
        with pytest.raises(NoAnswer):
            store.has_seen("s")

    assert [b"find", b"append", b"has_seen"] == there.asked


def test_a_question_survives_a_connection_that_breaks():
    """The other end was restarted in between."""
    store = memory_store()
    state = StateProcess(store)
    served = Served(state.app)
    remote = remote_store(served.url, TOKEN)
    assert remote.find((SCOPE, "a.md")) is None
    served.close()
    port = int(served.url.rpartition(":")[2])
    again = Served(state.app, port)
    remote.append(*written())
    assert 1 == remote.find((SCOPE, "a.md")).version
    remote.close()
    again.close()


def test_an_answer_has_an_end(answering, monkeypatch):
    """What is larger than anybody asked for is not read to its end."""
    monkeypatch.setattr("fencepost.mailbox.http.transport.ANSWER_BYTES_MAX", 1_000)
    store = answering(lambda _: json_response({"result": "x" * 5_000}))
    with pytest.raises(StrangeAnswer):
        store.change_mark()


# --- using it -------------------------------------------------------------------------------------------


def test_threads_share_a_store():
    """Each gets its own answers, and every write is there once."""
    store = memory_store()
    with serving(store) as (_, url):
        remote = remote_store(url, TOKEN)
        boxes = [Mailbox(remote, [Mount(SCOPE, "/me")]) for _ in range(4)]
        threads = [
            threading.Thread(target=lambda box=box: [box.send(f"Message {number}.") for number in range(10)])
            for box in boxes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 40 == len(boxes[0].list(limit=500).items)
        remote.close()


def test_what_is_closed_stays_closed():
    """Closing twice does nothing, and using it after that is told."""
    with serving(memory_store()) as (_, url):
        remote = remote_store(url, TOKEN)
        remote.close()
        remote.close()
        with pytest.raises(ClosedHandle):
            remote.change_mark()
        with pytest.raises(ClosedHandle):
            remote.append(*written())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking where there are threads, which is the point
def test_a_forked_child_makes_connections_of_its_own():
    """And the parent goes on with those it has."""
    with serving(memory_store()) as (_, url):
        remote = remote_store(url, TOKEN)
        assert remote.change_mark() == 0
        child = os.fork()
        if child == 0:
            try:
                remote.append(*written())
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert 0 == status
        assert 1 == remote.find((SCOPE, "a.md")).version
        remote.close()


def test_what_was_sent_is_told_so():
    """The command asks a question more, which the client may not ask; that makes no failure of what was done."""
    main = "from fencepost.mailbox.cli.main import main; main()"
    words = ["messages", "send", "--body", "Hello.", "--conversation", "bob-1", "--scope", SCOPE]
    store = memory_store()
    with serving(store, clients={TOKEN: Client("alice", SCOPE, "alice-")}) as (_, url):
        command = [sys.executable, "-P", "-c", main, *words, "--url", url]
        environ = {**os.environ, TOKEN_VARIABLE: TOKEN}
        told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ("Sent to", "") == (told.stdout[:7], told.stderr)
    assert (1, 1) == store.feed_bounds()


def test_no_proxy_stands_before_this_machine(monkeypatch):
    """What the environment says of proxies is for other hosts."""
    monkeypatch.setenv("HTTP_PROXY", dead_url())
    monkeypatch.setenv("ALL_PROXY", dead_url())
    with serving(memory_store()) as (_, url):
        remote_store(url, TOKEN).close()
    near = ["http://localhost:1", "http://127.8.9.1:1", "http://[::1]:1", "http://a.localhost"]
    far = ["http://10.0.0.1", "http://localhost.example:1", "https://example.org"]
    assert ([True] * 4, [False] * 3) == ([*map(is_loopback, near)], [*map(is_loopback, far)])


def test_a_fencepost_at_the_other_end_carries_everything():
    """It says so when hands are shaken."""
    with serving(memory_store()) as (_, url):
        remote = remote_store(url + "/", TOKEN)
        assert isinstance(remote, RemoteStore)
        assert "client:default/host:me" == remote.actor("host:me")
        remote.close()
