"""The routes of documents."""

import itertools

import orjson
import pytest
from serving import SCOPE, Service

from fencepost.mailbox.server import desk

ALLOWED = "client:alice@user:me+ada-=tok,client:ops=ops"


@pytest.fixture
def service():
    return Service()


def test_a_document_is_written_and_read(service):
    """With all the keys of the wire."""
    written = service.write("notes/a.md", "one")

    assert written == service.read("notes/a.md")
    assert {
        "scope": SCOPE,
        "path": "notes/a.md",
        "content": "one",
        "version": 1,
        "created_at": written["created_at"],
        "updated_at": written["created_at"],
        "actor": "client:default",
        "redacted": False,
        "extra": {},
    } == written
    assert written["created_at"].endswith("Z")


def test_who_writes_is_the_client_and_whoever_it_says(service):
    """What the client says stands behind what its token says."""
    assert "client:default/me" == service.write("a.md", actor="me")["actor"]
    assert "client:default/cli:local" == service.write("a.md", actor="cli:local")["actor"]
    assert "value_error" == service.refused("memory/write", scope=SCOPE, path="a", content="", actor="a b")["code"]


def test_what_is_not_there_is_null(service):
    """Nothing is refused for that."""
    assert service.read("a.md") is None
    assert {"deleted": False} == service.ask("memory/delete", scope=SCOPE, path="a.md")
    assert {"versions": [], "next_cursor": None} == service.ask("memory/versions", scope=SCOPE, path="a.md")
    assert {"count": 0} == service.ask("memory/redact", scope=SCOPE, path="a.md")


def test_versions_grow_whatever_happens(service):
    """The same text again is one, a deletion too, and whoever writes after that goes on from there."""
    service.write("a.md", "one")
    service.write("a.md", "one")
    assert {"deleted": True} == service.ask("memory/delete", scope=SCOPE, path="a.md")
    assert service.read("a.md") is None
    assert 4 == service.write("a.md", "two")["version"]
    found = service.ask("memory/versions", scope=SCOPE, path="a.md")["versions"]

    assert [(4, "created", "two"), (3, "deleted", "one"), (2, "modified", "one"), (1, "created", "one")] == [
        (each["version"], each["action"], each["content"]) for each in found
    ]
    assert {"path", "version", "action", "content", "actor", "created_at", "redacted"} == found[0].keys()


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_an_expected_version_is_compared(service, expected):
    """The details say which it is."""
    service.write("a.md", "one")
    asked = {"scope": SCOPE, "path": "a.md", "content": "two", "expected_version": expected}
    error = service.refused("memory/write", **asked)

    assert "memory_conflict" == error["code"]
    assert {
        "scope": SCOPE,
        "path": "a.md",
        "reason": "version_mismatch",
        "expected_version": expected,
        "actual_version": 1,
    } == error["details"]
    assert 2 == service.write("a.md", "two", expected_version=1)["version"]


def test_a_rename_is_a_deletion_and_a_creation(service):
    """The destination continues its own history; an occupied one is a conflict."""
    service.write("a.md", "one")
    service.write("b.md", "two")
    error = service.refused("memory/rename", scope=SCOPE, src="a.md", dst="b.md")
    assert ("memory_conflict", "target_occupied") == (error["code"], error["details"]["reason"])
    service.ask("memory/delete", scope=SCOPE, path="b.md")
    moved = service.ask("memory/rename", scope=SCOPE, src="a.md", dst="b.md")["document"]

    assert ("one", 3) == (moved["content"], moved["version"])
    assert service.read("a.md") is None


@pytest.mark.parametrize(
    "route,asked,key",
    [
        ("memory/list_documents", {}, "entries"),
        ("memory/list_documents", {"prefix": "d"}, "entries"),
        ("memory/history", {}, "versions"),
        ("memory/history", {"since": "2026-11-30T12:00:07Z"}, "versions"),
        ("memory/versions", {"path": "d3.md"}, "versions"),
        ("memory/redactions", {}, "redactions"),
    ],
)
def test_pages_lose_nothing_and_repeat_nothing(service, route, asked, key):
    """All pages together are the whole, whatever their size."""
    for number in range(7):
        service.write(f"d{number}.md", "x")
        service.write("d3.md", "x")
        service.ask("memory/redact", scope=SCOPE, path=f"d{number}.md")
        service.ask("memory/write", scope=SCOPE, path=f"message-links/s{number}/c", content="")
    whole = service.ask(route, scope=SCOPE, **asked)
    assert whole["next_cursor"] is None
    for size in (1, 2, 3, 100):
        found, cursor = [], None
        for _ in itertools.count():
            page = service.ask(route, scope=SCOPE, limit=size, cursor=cursor, **asked)
            found += page[key]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert whole[key] == found


def test_a_cursor_is_for_the_same_arguments(service):
    """Any other is refused."""
    for name in ("a.md", "b.md"):
        service.write(name)
    cursor = service.ask("memory/list_documents", scope=SCOPE, limit=1)["next_cursor"]

    for asked in ({"prefix": "a"}, {"scope": "user:you"}):
        error = service.refused("memory/list_documents", **({"scope": SCOPE, "cursor": cursor} | asked))
        assert "value_error" == error["code"]


@pytest.mark.parametrize("route", ["list_documents", "versions", "history", "redactions"])
def test_limits_of_listings(service, route):
    """None is an empty page, a negative one is refused, and none answers more than it may."""
    service.write("a.md")
    asked = {"scope": SCOPE, **({"path": "a.md"} if route == "versions" else {})}
    empty = service.ask(f"memory/{route}", limit=0, **asked)

    assert [[], None] == [value for _, value in sorted(empty.items(), key=lambda each: each[0] == "next_cursor")]
    assert "value_error" == service.refused(f"memory/{route}", limit=-1, **asked)["code"]
    assert service.ask(f"memory/{route}", limit=10_000, **asked)


def test_no_listing_answers_more_than_500(service):
    """However many are asked for."""
    for number in range(502):
        service.write(f"{number}.md")

    for limit in (None, 501, 10_000):
        page = service.ask("memory/list_documents", scope=SCOPE, limit=limit)
        assert 500 == len(page["entries"])
        assert page["next_cursor"] is not None


def test_long_rows_make_short_pages(service, monkeypatch):
    """What one page holds in memory has an end, and the pages are still the whole."""
    monkeypatch.setattr(desk, "_LONG", 100)
    for number in range(12):
        service.write("a.md", "x" * 40 + str(number))
    for route in ("history", "versions"):
        asked = {"scope": SCOPE, **({"path": "a.md"} if route == "versions" else {})}
        first = service.ask(f"memory/{route}", **asked)
        assert 2 == len(first["versions"])
        found, cursor = first["versions"], first["next_cursor"]
        while cursor is not None:
            page = service.ask(f"memory/{route}", cursor=cursor, **asked)
            found, cursor = found + page["versions"], page["next_cursor"]
        assert list(range(12, 0, -1)) == [each["version"] for each in found]
    monkeypatch.setattr(desk, "_LONG", 1)
    assert 1 == len(service.ask("memory/history", scope=SCOPE)["versions"])


def test_erasing_clears_every_version(service):
    """Path, version, time and actor stay, and the count is the same again."""
    before = [service.write("a.md", text) for text in ("one", "two")]
    for _ in range(2):
        assert {"count": 1} == service.ask("memory/redact", scope=SCOPE, path="a.md", actor="ops")
    read = service.read("a.md")
    found = service.ask("memory/versions", scope=SCOPE, path="a.md")["versions"]

    assert ("", 2, True, before[1]["updated_at"]) == (
        read["content"],
        read["version"],
        read["redacted"],
        read["updated_at"],
    )
    assert [("", True)] * 2 == [(each["content"], each["redacted"]) for each in found]
    acts = service.ask("memory/redactions", scope=SCOPE)["redactions"]
    assert [("a.md", "client:default/ops", 1)] * 2 == [(each["path"], each["actor"], each["count"]) for each in acts]
    assert {"path", "actor", "created_at", "count"} == acts[0].keys()


def test_erasing_a_scope_counts_its_paths(service):
    """Distinct ones, and those that were deleted."""
    service.write("a.md")
    service.write("b.md")
    service.ask("memory/delete", scope=SCOPE, path="b.md")

    assert {"count": 2} == service.ask("memory/redact", scope=SCOPE)
    assert service.ask("memory/redactions", scope=SCOPE)["redactions"][0]["path"] is None


def test_since_takes_any_offset_and_needs_one(service):
    """A naive time is refused."""
    service.write("a.md")
    assert service.ask("memory/history", scope=SCOPE, since="2026-11-30T14:00:00+02:00")["versions"]
    assert "value_error" == service.refused("memory/history", scope=SCOPE, since="2026-11-30T14:00:00")["code"]
    for odd in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x"):
        assert "value_error" == service.refused("memory/history", scope=SCOPE, since=odd)["code"]


@pytest.mark.parametrize("path", ["", "/a", "../a", "a//b", ".", "a\0", "a" * 2_000, "messages/../a"])
def test_odd_paths_are_refused(service, path):
    """By every route that takes one."""
    for route in ("read", "delete", "versions"):
        assert "value_error" == service.refused(f"memory/{route}", scope=SCOPE, path=path)["code"]


@pytest.mark.parametrize("scope", ["", "me", "user:", "user:a b", "user:me/", "x" * 2_000])
def test_odd_scopes_are_refused(service, scope):
    """Likewise."""
    for route in ("list_documents", "history", "redactions", "redact"):
        assert "value_error" == service.refused(f"memory/{route}", scope=scope)["code"]


def test_an_allowance_is_checked_first():
    """Outside of it nothing is told, and what is about everything is not either."""
    service = Service(said=ALLOWED)
    service.write("a.md", token="tok")
    asks = [
        ("memory/read", {"scope": "user:you", "path": "a.md"}),
        ("memory/redact", {"scope": "host:x"}),
        ("memory/list_documents", {"scope": "user:you"}),
        ("store/scopes", {}),
        ("store/conversations", {}),
        ("store/restore_scope", {"scope": "user:me/x:y", "documents": [], "versions": [], "redactions": []}),
        ("conversation/read_turns", {"conversation_id": "bob-1"}),
        ("conversation/search_turns", {"query": "x"}),
        ("conversation/search_turns", {"query": "x", "conversations": ["ada-1", "bob-1"]}),
        ("conversation/turn_redactions", {}),
    ]
    for route, asked in asks:
        error = service.refused(route, token="tok", status=403, **asked)
        assert ("forbidden", "forbidden") == (error["code"], error["fencepost"]["code"])
        assert 200 == service.raw(route, orjson.dumps(asked), "ops").status_code
    assert service.ask("memory/read", token="tok", scope="user:me/proj:x", path="a.md")
    assert service.ask("conversation/search_turns", token="tok", query="x", conversations=["ada-1"])


def test_a_conversation_is_not_reached_through_its_scope():
    """Who may name every scope and some conversations may not erase the others."""
    service = Service(said="client:a+ada-=tok")

    service.refused("memory/redact", token="tok", status=403, scope="conversation:bob-1")
    service.ask("memory/redact", token="tok", scope="conversation:ada-1")
