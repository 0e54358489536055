"""JSON at the edge: everything comes back as it was, old bytes stay readable, and a strange form is reported."""

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some

from fencepost.mailbox import codec, events, records
from fencepost.mailbox.events import (
    Accepted,
    Acknowledged,
    AgentBound,
    AgentHeld,
    AgentReleased,
    AgentUnbound,
    Annotated,
    AnnotationsRedacted,
    Cancelled,
    CheckpointMoved,
    Claimed,
    Completed,
    Declined,
    Deleted,
    DeliveryAcknowledged,
    DeliveryCheckpointed,
    DeliveryConfirmed,
    DeliverySaved,
    DeliverySubmitted,
    Idempotency,
    Linked,
    Passed,
    ProjectionsAppended,
    Read,
    Redacted,
    Released,
    Renewed,
    Reserved,
    Rewritten,
    RoomClosed,
    RoomFound,
    RoomOpened,
    RoomRead,
    RoomResynced,
    Sent,
    Shown,
    Snoozed,
    TurnAppended,
    TurnsRedacted,
    Written,
)
from fencepost.mailbox.message import Context, Delivery, Lease, Letter, Message, Reading, Reservation, Status
from fencepost.mailbox.times import show
from fencepost.mailbox.turns import Projection

SCHEMA = json.loads(files("fencepost.contracts").joinpath("state-v1.schema.json").read_bytes())
GOLDEN = Path(__file__).with_name("golden")

_UUID = "01234567-89ab-4cde-8f01-23456789abcd"
_NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
_LATER = datetime(2026, 11, 30, 12, 30, 0, 250_000, tzinfo=UTC)
_PLAIN = Letter(
    id=_UUID,
    scope="user:me/proj:app",
    conversation=None,
    turn=None,
    source=None,
    about=None,
    about_turn=None,
    actor="cli:me",
    body="Look at the build.",
    created_at=_NOON,
    delivery=Delivery.NEXT_ACTIVITY,
    actionable=False,
)
_FULL = Letter(
    id=_UUID,
    scope="user:me",
    conversation="s-42",
    turn=7,
    source="s-41",
    about="s-40",
    about_turn=3,
    actor="host:scheduler/nightly",
    body='Zwölf "Boxkämpfer"\n\u202e\U0001f600 \x1b[2J\\',
    created_at=_LATER,
    delivery=Delivery.WAKE,
    actionable=True,
    context=Context("user:me", "notes/plan.md", 4, "change-9"),
)
_TURN = (
    {"role": "user", "content": 'Zwölf "Boxkämpfer"\u202e\U0001f600\n'},
    {
        "role": "assistant",
        "content": None,
        "reasoning": "Look first.",
        "tool_calls": [{"id": "call-1", "name": "read", "arguments": {"path": "src/main.py", "lines": [1, 2.5]}}],
    },
    {
        "role": "tool",
        "content": [{"type": "text", "text": "print()"}],
        "tool_call_id": "call-1",
        "extra": {"ms": 7},
    },
)
#: One of each event, and of each variant of its shape.  A file in golden/ holds the bytes of each.
EVENTS = {
    "message.sent": Sent(_PLAIN, _NOON),
    "message.sent-full": Sent(_FULL, _LATER, Idempotency("nightly 2026-11-30", "ab" * 32)),
    "message.sent-context": Sent(
        Letter(**{**_PLAIN.__dict__, "context": Context("user:me", "notes/plan.md", 1)}), _NOON
    ),
    "message.acknowledged": Acknowledged("s-42", _NOON),
    "message.claimed": Claimed("s-42", _NOON, "token 1", _LATER),
    "message.renewed": Renewed(_LATER),
    "message.released": Released(),
    "message.completed": Completed("Fixed.\n"),
    "message.snoozed": Snoozed(_LATER, "Still no fix."),
    "message.cancelled": Cancelled(),
    "message.cancelled-outcome": Cancelled("Not needed."),
    "message.reserved": Reserved("s-42", "token 2", _LATER),
    "message.accepted": Accepted(),
    "message.declined": Declined(),
    "session.linked": Linked("s-42", "s-41"),
    "document.written": Written('# Plan\n\nZwölf "Boxkämpfer"\u202e\U0001f600\n'),
    "document.written-empty": Written(""),
    "document.deleted": Deleted(),
    "message.rewritten": Rewritten('{"format": 2, "text": "Zwölf\\u202e"}\n'),
    "redaction.recorded": Redacted(f"messages/{_UUID}", 1, "It held a password."),
    "redaction.recorded-scope": Redacted(None, 17),
    "message.shown": Shown(2, "s-42", "hook"),
    "checkpoint.moved": CheckpointMoved(1234),
    "turn.appended": TurnAppended(_TURN),
    "turn.appended-empty": TurnAppended(()),
    "projections.appended": ProjectionsAppended(
        (Projection(3, "digest", "They looked.", 3), Projection(3, "log", "Read."))
    ),
    "annotations.redacted": AnnotationsRedacted(
        (Annotated(f"messages/{_UUID}", "s-40", 3), Annotated("messages/x", "s-41", None))
    ),
    "turns.redacted": TurnsRedacted((1, 3), "It held a password."),
    "turns.redacted-plain": TurnsRedacted((2,)),
    "agent.bound": AgentBound("s-42", "/home/pat/sessions/s-42.jsonl"),
    "agent.held": AgentHeld("box:/srv/fleet-state/chef 6f1d", "codex"),
    "agent.released": AgentReleased(),
    "agent.unbound": AgentUnbound(),
    "room.found": RoomFound("#kitchen:example.org", "!room"),
    "delivery.saved": DeliverySaved(
        _UUID,
        'Zwölf "Boxkämpfer"\u202e\n',
        "/home/pat/sessions/s-42.jsonl",
        4_096,
        (Read("!room", "t13-8_0", ("$one", "$two"), (Passed("$three", "muted"),)),),
    ),
    "delivery.saved-mail": DeliverySaved(_UUID, "Look.", "/home/pat/sessions/s-42.jsonl", 0, (), (f"{_UUID}/2",)),
    "delivery.submitted": DeliverySubmitted(2),
    "delivery.confirmed": DeliveryConfirmed("item-7"),
    "delivery.checkpointed": DeliveryCheckpointed(),
    "delivery.acknowledged": DeliveryAcknowledged(),
    "room.opened": RoomOpened("s12_4_0", _NOON),
    "room.read": RoomRead("t13-8_0", ("$one", "$two"), (Passed("$three", "muted"),)),
    "room.read-passed": RoomRead("t14-9_0", (), (Passed("$four", "own"),)),
    "room.resynced": RoomResynced("s12_9_0", "its last event is gone"),
    "room.closed": RoomClosed("banned"),
}
#: Documents, in their canonical bytes.
DOCUMENTS = {
    "document": Message(_PLAIN, _NOON),
    "document-full": Message(
        _FULL,
        _LATER,
        3,
        Status.OPEN,
        Reading("s-42", _NOON),
        Lease("s-42", "token 1", _LATER),
        "Still no fix.",
        Reservation("s-43", "token 2", _LATER),
    ),
    "document-done": Message(
        _PLAIN, _NOON, 2, Status.DONE, Reading("s-42", _NOON), Lease("s-42", "token 1", _LATER), "Fixed.", None, True
    ),
}


def golden(name):
    return (GOLDEN / f"{name}.json").read_bytes()


def valid(shape, raw):
    """Check JSON against a definition of the published schema."""
    validator = jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{shape}", "$defs": SCHEMA["$defs"]},
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )
    validator.validate(json.loads(raw))


# --- old bytes ------------------------------------------------------------------------------------------------


def test_every_event_has_its_golden_bytes():
    """No event can be added without bytes to remember it by, and no file is left over."""
    assert {path.stem for path in GOLDEN.glob("*.json")} == EVENTS.keys() | DOCUMENTS.keys()
    assert set(codec.EVENT_NAMES) == {type(event) for event in EVENTS.values()} == set(get_args(events.Event))


@pytest.mark.parametrize("name", EVENTS)
def test_golden_bytes_are_read(name):
    """What was ever written stays readable, and means the same."""
    assert EVENTS[name] == codec.decode(name.partition("-")[0], golden(name))


@pytest.mark.parametrize("name", EVENTS)
def test_golden_bytes_are_written(name):
    """The same event is written with the same bytes, so equal histories have equal digests."""
    assert (name.partition("-")[0], golden(name)) == codec.encode(EVENTS[name])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_golden_documents(name):
    """A document is read and written with the same bytes."""
    assert DOCUMENTS[name] == codec.message(golden(name))
    assert golden(name) == codec.document(DOCUMENTS[name])


# --- round trips ----------------------------------------------------------------------------------------------


@given(some.any_events)
def test_events_come_back_as_they_were(event):
    """Whatever is in it."""
    assert event == codec.decode(*codec.encode(event))


@given(some.any_events)
def test_events_fit_the_published_schema(event):
    """Whoever reads the journal without this package finds what the schema promises."""
    valid(*codec.encode(event))


@given(some.any_messages)
def test_documents_come_back_as_they_were(message):
    """In the compact form and in the canonical one."""
    assert message == codec.message(codec.compact(message)) == codec.message(codec.document(message))


@given(some.any_messages)
def test_documents_fit_the_published_schema(message):
    """Exactly the keys of the definition, in its order, and `context` only where there is a reference."""
    raw = codec.document(message)
    valid("Mailbox", raw)
    keys = list(json.loads(raw))

    required = SCHEMA["$defs"]["MailboxFields"]["required"]
    assert required + ["context"] * (message.letter.context is not None) == keys


@given(some.any_messages)
def test_document_bytes_are_canonical(message):
    """Two spaces of indent, a final newline, UTF-8 as it is, and times in UTC with Z."""
    raw = codec.document(message)
    flat = json.loads(raw)

    assert json.dumps(flat, indent=2, ensure_ascii=False) + "\n" == raw.decode()
    assert all(flat[key].endswith("Z") for key in ("created_at", "due_at"))


@given(st.builds(Linked, some.names, some.names))
def test_links_come_back_as_they_were(link):
    """Their document fits the schema too."""
    valid("Link", codec.link_body(link))
    assert link == codec.link(codec.link_body(link))


@given(some.records)
def test_records_come_back_as_they_were(record):
    """What an index keeps of a memory document is all of it."""
    assert record == codec.record(codec.record_body(record))


@given(some.paths, st.integers(1, 9), some.records)
def test_memory_shapes_fit_the_published_schema(path, number, record):
    """A document, its line in a listing and its versions have the keys that were promised, in this order."""
    whole = records.document("user:me", path, number, record)
    line = records.Entry(path, number, record.created_at, record.updated_at, record.redacted)
    for shape, value in {
        "MemoryDocument": whole,
        "MemoryEntry": line,
        "MemoryVersion": records.version(path, number, record),
    }.items():
        raw = json.dumps(codec.shape(value), default=show)
        valid(shape, raw)
        assert SCHEMA["$defs"][shape]["required"] == list(json.loads(raw))


# --- strange forms --------------------------------------------------------------------------------------------


@given(some.any_events, st.integers().filter(lambda schema: schema != 1) | st.none() | st.text())
def test_another_schema_number_is_unknown(event, schema):
    """A shape from the future is reported, never guessed at."""
    name, raw = codec.encode(event)
    changed = json.dumps(json.loads(raw) | {"schema": schema}).encode()

    with pytest.raises(codec.UnknownForm):
        codec.decode(name, changed)


@given(some.any_events, st.text())
def test_another_name_is_unknown(event, name):
    """Whatever its data look like."""
    with pytest.raises(codec.UnknownForm):
        codec.decode(f"other.{name}", codec.encode(event)[1])


@given(some.any_events, st.data())
def test_a_missing_field_is_unknown(event, data):
    """An event with a hole in it is not filled up."""
    name, raw = codec.encode(event)
    fields = json.loads(raw)
    optional = {"idempotency"} | ({"outcome"} if isinstance(event, Cancelled) else set())
    missing = data.draw(st.sampled_from(sorted(fields.keys() - optional)))
    del fields[missing]

    with pytest.raises(codec.UnknownForm):
        codec.decode(name, json.dumps(fields).encode())


@given(some.any_events)
def test_an_unknown_field_is_unknown(event):
    """What this version does not understand it does not drop."""
    name, raw = codec.encode(event)

    with pytest.raises(codec.UnknownForm):
        codec.decode(name, json.dumps(json.loads(raw) | {"more": 1}).encode())


@given(st.sampled_from(sorted(codec.EVENT_NAMES.values())), some.json_data)
def test_other_json_is_unknown(name, value):
    """A list, a number, or an object of another kind is no event."""
    with pytest.raises(codec.UnknownForm):
        codec.decode(name, json.dumps(value).encode())


@given(some.messages, st.integers().filter(lambda number: number != 1) | st.text() | st.none())
def test_another_document_format_is_unknown(message, number):
    """It is never read as if it were format 1."""
    flat = json.loads(codec.compact(message)) | {"format": number}

    with pytest.raises(codec.UnknownForm):
        codec.message(json.dumps(flat))


@given(st.binary(max_size=40) | some.json_data.map(json.dumps))
def test_no_bytes_are_mistaken_for_a_document(raw):
    """Bytes that are no format-1 body are unknown, and nothing else happens."""
    with pytest.raises(codec.UnknownForm):
        codec.message(raw)


@given(some.messages, st.data())
def test_a_document_without_one_of_its_keys_is_unknown(message, data):
    """Exactly these keys."""
    flat = json.loads(codec.compact(message))
    del flat[data.draw(st.sampled_from(SCHEMA["$defs"]["MailboxFields"]["required"]))]

    with pytest.raises(codec.UnknownForm):
        codec.message(json.dumps(flat))
