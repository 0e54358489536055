"""The published schema, used alone."""

import json
from pathlib import Path

import jsonschema
import pytest

ID = "0b0e7f3e-3c55-4d6c-9d0e-0c1d2e3f4a5b"
NOON = "2026-11-30T12:00:00Z"
LATER = "2026-11-30T12:30:00.000001Z"
LETTER = {
    "id": ID,
    "scope": "user:pat/proj:app",
    "conversation": None,
    "turn": None,
    "source": "one",
    "about": None,
    "about_turn": None,
    "actor": "cli:pat",
    "body": "Check it",
    "created_at": NOON,
    "delivery": "next_activity",
    "actionable": True,
    "context": None,
}
MAILBOX = {
    "format": 1,
    **{key: value for key, value in LETTER.items() if key != "context"},
    "due_at": NOON,
    "occurrence": 1,
    "status": "open",
    "read_by": None,
    "read_at": None,
    "owner": None,
    "claim_token": None,
    "claim_until": None,
    "outcome": None,
    "wake_owner": None,
    "wake_token": None,
    "wake_until": None,
    "wake_accepted": False,
}
EVENTS = {
    "message.sent": {"schema": 1, "letter": LETTER, "due_at": NOON, "idempotency": None},
    "message.acknowledged": {"schema": 1, "by": "one", "at": NOON},
    "message.claimed": {"schema": 1, "by": "one", "at": NOON, "token": "t", "until": LATER},
    "message.renewed": {"schema": 1, "until": LATER},
    "message.released": {"schema": 1},
    "message.completed": {"schema": 1, "outcome": "Fixed"},
    "message.snoozed": {"schema": 1, "due_at": LATER, "outcome": "Not yet"},
    "message.cancelled": {"schema": 1, "outcome": None},
    "message.reserved": {"schema": 1, "by": "one", "token": "t", "until": LATER},
    "message.accepted": {"schema": 1},
    "message.declined": {"schema": 1},
    "session.linked": {"schema": 1, "session": "two", "parent": "one"},
    "document.written": {"schema": 1, "content": ""},
    "document.deleted": {"schema": 1},
    "message.rewritten": {"schema": 1, "body": "{}"},
    "message.shown": {"schema": 1, "occurrence": 2, "session": "one", "door": "hook"},
    "checkpoint.moved": {"schema": 1, "position": 17},
    "turn.appended": {"schema": 1, "messages": [{"role": "user", "content": "Look."}]},
    "projections.appended": {"schema": 1, "entries": [{"turn": 1, "kind": "log", "text": "Looked.", "span": 1}]},
    "turns.redacted": {"schema": 1, "turns": [1, 3], "reason": None},
    "annotations.redacted": {"schema": 1, "entries": [{"path": f"messages/{ID}", "about": "s", "about_turn": None}]},
    "redaction.recorded": {"schema": 1, "path": f"messages/{ID}", "count": 1, "reason": None},
    "agent.bound": {"schema": 1, "session": "s-1", "history": "/home/pat/s-1.jsonl"},
    "agent.held": {"schema": 1, "holder": "box:/srv/fleet-state/chef 6f1d", "runtime": "codex"},
    "agent.released": {"schema": 1},
    "agent.unbound": {"schema": 1},
    "room.found": {"schema": 1, "rule": "#kitchen:example.org", "room": "!r"},
    "delivery.saved": {
        "schema": 1,
        "id": ID,
        "text": "Look.",
        "history": "/home/pat/s-1.jsonl",
        "offset": 0,
        "reads": [{"room": "!r", "token": "t2", "taken": ["$1"], "passed": [{"event": "$2", "why": "muted"}]}],
        "mail": [f"{ID}/1"],
    },
    "delivery.submitted": {"schema": 1, "attempt": 1},
    "delivery.confirmed": {"schema": 1, "entry": "item-1"},
    "delivery.checkpointed": {"schema": 1},
    "delivery.acknowledged": {"schema": 1},
    "room.opened": {"schema": 1, "token": "s1", "at": NOON},
    "room.read": {"schema": 1, "token": "t2", "taken": ["$1"], "passed": [{"event": "$2", "why": "muted"}]},
    "room.resynced": {"schema": 1, "token": "t3", "why": "restored"},
    "room.closed": {"schema": 1, "why": "banned"},
}
REFERENCE = {"scope": "user:pat", "path": "notes/plan.md", "version": 3}


def test_the_checkout_and_the_wheel_hold_the_same_schema(schema):
    """Whoever takes the file from the source tree has the one that is installed."""
    source = Path(__file__).parents[2] / "assets" / "contracts" / "state-v1.schema.json"

    assert json.loads(source.read_text(encoding="utf-8")) == schema


def test_is_a_schema(schema):
    """It is valid JSON Schema 2020-12, and every definition says in a sentence what it is."""
    jsonschema.Draft202012Validator.check_schema(schema)

    assert [] == [name for name, definition in schema["$defs"].items() if not definition.get("description")]


def test_every_reference_leads_somewhere(schema):
    """No definition names one that is not there."""
    text = json.dumps(schema)
    named = {part.partition('"')[0] for part in text.split("#/$defs/")[1:]}

    assert set() == named - set(schema["$defs"])


def test_events_are_all_here(schema):
    """The definitions with a dot in their name are the events."""
    assert set(EVENTS) == {name for name in schema["$defs"] if "." in name}


@pytest.mark.parametrize("name", EVENTS)
def test_event(check, name):
    """An event is described; one with another schema number, with a key too many or with one too few is not it."""
    check(name, EVENTS[name])
    broken = [EVENTS[name] | {"schema": 2}, EVENTS[name] | {"extra": 1}]
    broken += [{k: v for k, v in EVENTS[name].items() if k != key} for key in EVENTS[name]]
    for document in broken:
        with pytest.raises(jsonschema.ValidationError):
            check(name, document)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"conversation": "c", "turn": 1, "about": "d", "about_turn": 2}, id="addressed"),
        pytest.param({"conversation": "c"}, id="conversation"),
        pytest.param({"read_by": "one", "read_at": NOON}, id="read"),
        pytest.param({"owner": "one", "claim_token": "t", "claim_until": LATER}, id="claimed"),
        pytest.param({"wake_owner": "one", "wake_token": "t", "wake_until": LATER}, id="reserved"),
        pytest.param({"status": "done", "outcome": "Fixed"}, id="done"),
        pytest.param({"context": REFERENCE}, id="context"),
        pytest.param({"context": REFERENCE | {"change_id": "c-1"}}, id="context-change"),
        pytest.param({"body": "first line\n\tsecond \u202e\x1b[31m"}, id="hostile-body"),
        pytest.param({"occurrence": 2**70}, id="many-snoozes"),
    ],
)
def test_document(check, changes):
    """What a message can be is described."""
    check("Mailbox", MAILBOX | changes)
    check("Receipt", {"version": 1} | MAILBOX | changes)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"format": 2}, id="another-format"),
        pytest.param({"extra": 1}, id="another-key"),
        pytest.param({"version": 1}, id="the-receipts-key"),
        pytest.param({"turn": 1}, id="turn-without-conversation"),
        pytest.param({"about_turn": 1}, id="about-turn-without-about"),
        pytest.param({"turn": 0, "conversation": "c"}, id="turn-0"),
        pytest.param({"read_by": "one"}, id="half-a-receipt"),
        pytest.param({"read_at": NOON}, id="other-half-of-a-receipt"),
        pytest.param({"owner": "one", "claim_token": "t"}, id="claim-without-end"),
        pytest.param({"owner": "one", "claim_until": LATER}, id="claim-without-token"),
        pytest.param({"claim_token": "t"}, id="claim-without-owner"),
        pytest.param({"wake_owner": "one", "wake_until": LATER}, id="reservation-without-token"),
        pytest.param({"wake_until": LATER}, id="reservation-without-owner"),
        pytest.param({"context": None}, id="context-null"),
        pytest.param({"context": {"scope": "user:pat", "path": "a"}}, id="context-without-version"),
        pytest.param({"context": REFERENCE | {"content": "secret"}}, id="context-with-content"),
        pytest.param({"due_at": "2026-11-30T12:00:00"}, id="naive-time"),
        pytest.param({"due_at": "2026-11-30T12:00:00+01:00"}, id="time-with-an-offset"),
        pytest.param({"due_at": NOON + "\n"}, id="time-and-newline"),
        pytest.param({"body": " \n"}, id="blank-body"),
        pytest.param({"body": "a\0b"}, id="nul-in-body"),
        pytest.param({"occurrence": 0}, id="occurrence-0"),
        pytest.param({"status": "lost"}, id="another-status"),
        pytest.param({"delivery": "soon"}, id="another-delivery"),
        pytest.param({"actionable": None}, id="no-actionable"),
        pytest.param({"id": ID.upper()}, id="upper-case-id"),
        pytest.param({"scope": "pat"}, id="scope-without-kind"),
        pytest.param({"scope": "user:pat/"}, id="scope-with-an-empty-part"),
        pytest.param({"actor": "pat"}, id="actor-without-kind"),
        pytest.param({"source": "a b"}, id="session-with-a-space"),
        pytest.param({"source": ""}, id="empty-session"),
    ],
)
def test_no_such_document(check, changes):
    """What a message cannot be is not described."""
    with pytest.raises(jsonschema.ValidationError):
        check("Mailbox", MAILBOX | changes)


@pytest.mark.parametrize("key", MAILBOX)
def test_no_key_may_be_missing(check, key):
    """All keys but `context` are always there."""
    with pytest.raises(jsonschema.ValidationError):
        check("Mailbox", {name: value for name, value in MAILBOX.items() if name != key})


def test_answers(check):
    """Listing, view, link and refusal are described."""
    receipt = {"version": 1} | MAILBOX
    unknown = {"scope": "user:pat", "path": f"messages/{ID}", "version": 1, "why": "a document of format 2"}
    check("Listing", {"items": [receipt], "unsupported": [unknown]})
    check("View", receipt | {"history": [receipt]})
    check("Receipt", receipt | {"repeated": True})
    check("Link", {"session": "two", "parent": "one"})
    check("Refusal", {"error": {"code": "closed", "message": "It is done.", "details": {"status": "done"}}})
    for shape, document in [
        ("Receipt", receipt | {"repeated": False}),
        ("Receipt", receipt | {"history": [receipt]}),
        ("View", receipt | {"history": []}),
        ("Listing", {"items": [MAILBOX], "unsupported": []}),
        ("Refusal", {"error": {"code": "Not a code", "message": "x", "details": {}}}),
    ]:
        with pytest.raises(jsonschema.ValidationError):
            check(shape, document)


CHANGE = {
    "id": 7,
    "type": "state.message",
    "scope": "user:pat",
    "path": f"messages/{ID}",
    "version": 2,
    "action": "claimed",
    "actor": "cli:pat",
    "at": NOON,
}
FACT = {
    "fact": "shown",
    "at": NOON,
    "actor": "hook:a",
    "occurrence": 1,
    "session": "one",
    "door": "hook",
    "outcome": None,
}
FACTS = {
    "id": ID,
    "scope": "user:pat",
    "version": 1,
    "status": "open",
    "occurrence": 1,
    "erased": False,
    "facts": [FACT],
}


@pytest.mark.parametrize(
    "shape, document",
    [
        ("News", {"items": [{"type": "gap", "after": 0, "through": 6}, CHANGE], "position": 7, "more": True, "end": 9}),
        ("Change", CHANGE | {"type": "state.redaction", "path": None, "version": None, "action": "redacted"}),
        ("Checkpoint", {"name": "indexer", "position": 0, "at": None, "actor": None}),
        ("ReceiptFacts", FACTS),
        ("ReceiptFacts", FACTS | {"erased": True, "status": None, "occurrence": None}),
        ("Fact", FACT | {"fact": "finished", "session": None, "door": None, "outcome": "done"}),
    ],
)
def test_answers_about_what_changed(check, shape, document):
    """They are described: no key may be missing, and none be added, such as one with content."""
    check(shape, document)
    broken = [document | {"content": "secret"}, *({k: v for k, v in document.items() if k != key} for key in document)]
    for each in broken:
        with pytest.raises(jsonschema.ValidationError):
            check(shape, each)
