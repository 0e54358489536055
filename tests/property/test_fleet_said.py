"""What an event of a room says: of every form that there is, and of everything that is none."""

import json
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.mailbox.fleet.said import CONTROL, Kind, Media, Said, encrypts, interpret, joins, leaves

ROOM, EVENT, BOB, AGENT = "!room", "$event", "@bob:test.local", "@agent1:test.local"

#: With what no text may have among it: NUL, and halves of pairs.
hostile = st.text(st.characters(codec=None) | st.sampled_from("\0\ud800\udfff"), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | hostile
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3), max_leaves=6
)
KEYS = ("body", "msgtype", "url", "info", "filename", "membership", "redacts", "reason", "replacement_room", CONTROL)
TYPES = (
    *("m.room.message", "m.room.redaction", "m.room.member", "m.room.tombstone", "m.room.encrypted", "m.reaction"),
    *("m.sticker", "m.room.encryption", "org.example"),
)
MSGTYPES = ("m.text", "m.notice", "m.emote", "m.image", "m.file", "m.audio", "m.video", "org.example")


def loose(value):
    """The value, or anything."""
    return value | anything


relations = st.fixed_dictionaries(
    {},
    optional={
        "rel_type": loose(st.sampled_from(("m.replace", "m.thread", "m.annotation"))),
        "event_id": loose(st.just("$other")),
        "key": anything,
        "is_falling_back": anything,
        "m.in_reply_to": loose(st.fixed_dictionaries({"event_id": anything})),
    },
)
words = {
    **dict.fromkeys(KEYS, anything),
    "msgtype": loose(st.sampled_from(MSGTYPES)),
    "body": loose(st.just("> <@bob:test.local> before\n\nbehind")),
    "info": loose(st.fixed_dictionaries({}, optional={"mimetype": anything, "size": anything})),
    "m.mentions": loose(st.fixed_dictionaries({"user_ids": loose(st.lists(anything, max_size=3))})),
    "m.relates_to": loose(relations),
}
contents = st.fixed_dictionaries({}, optional=words)
events = st.fixed_dictionaries(
    {
        "event_id": loose(st.just(EVENT)),
        "sender": loose(st.just(BOB)),
        "origin_server_ts": loose(st.integers(0, 2**53)),
        "type": loose(st.sampled_from(TYPES)),
        "content": loose(st.fixed_dictionaries({}, optional=words | {"m.new_content": loose(contents)})),
    },
    optional={
        "state_key": loose(st.just("")),
        "redacts": anything,
        "unsigned": loose(st.fixed_dictionaries({}, optional={"redacted_because": anything, "prev_content": anything})),
    },
)


def strings(value):
    """Every text in a value."""
    match value:
        case Kind() | None | int() | datetime():
            return
        case str():
            yield value
        case Said() | Media():
            for each in attrs.astuple(value, recurse=False):
                yield from strings(each)
        case _:
            for each in value:
                yield from strings(each)


def size(value):
    return len(json.dumps(value))


@given(anything | events)
def test_anything_is_something_that_was_said_or_nothing(event):
    """Whatever stands in any field: no error, every text fit to be kept, and none longer than the event."""
    said = interpret(ROOM, event)
    joins(event, BOB)
    leaves(event, BOB)
    encrypts(event)

    assert said is None or isinstance(said, Said)
    for text in () if said is None else strings(said):
        assert text == text.encode().decode()
        assert "\0" not in text
        assert text == ROOM or len(text) <= size(event)


def event(content, kind="m.room.message", **more):
    fields = {"type": kind, "content": content, "event_id": EVENT, "sender": BOB, "room_id": ROOM}
    return fields | {"origin_server_ts": 1796050110647, "unsigned": {"age": 1, "membership": "join"}} | more


def text(body, **more):
    return {"body": body, "msgtype": "m.text"} | more


def relation(**fields):
    return {"m.relates_to": fields}


def mentions(*users):
    return {"m.mentions": {"user_ids": list(users)}}


REPLY = relation(**{"m.in_reply_to": {"event_id": "$before"}})
QUOTING = "> <@bob:test.local> agent1: please run the tests\n\non it"
IMAGE = {"msgtype": "m.image", "url": "mxc://test.local/abc", "info": {"mimetype": "image/png", "size": 3}}
CASES = {
    "a text": (event(text("hello")), {"kind": Kind.MESSAGE, "body": "hello"}),
    "an emote": (event(text("waves", msgtype="m.emote")), {"kind": Kind.MESSAGE, "body": "waves"}),
    "a kind of its own": (event(text("x", msgtype="org.example")), {"kind": Kind.MESSAGE, "body": "x"}),
    "without words": (event({"msgtype": "m.text"}), {"kind": Kind.OTHER}),
    "a mention": (event(text("x", **mentions(AGENT))), {"kind": Kind.MESSAGE, "body": "x", "mentions": {AGENT}}),
    "a mention that is a text": (
        event(text("x", **{"m.mentions": {"user_ids": AGENT}})),
        {"kind": Kind.MESSAGE, "body": "x"},
    ),
    "a name in the words": (event(text(f"{AGENT}: x")), {"kind": Kind.MESSAGE, "body": f"{AGENT}: x"}),
    "a notice": (event(text("x", msgtype="m.notice")), {"kind": Kind.NOTICE, "body": "x"}),
    "an edit": (
        event(
            text(" * new", **{"m.mentions": {}, "m.new_content": text("new", **mentions(AGENT))})
            | relation(rel_type="m.replace", event_id="$before")
        ),
        {"kind": Kind.EDIT, "body": "new", "target": "$before"},
    ),
    "an edit that mentions anew": (
        event(
            text(" * new", **mentions(AGENT), **{"m.new_content": text("new")})
            | relation(rel_type="m.replace", event_id="$before")
        ),
        {"kind": Kind.EDIT, "body": "new", "target": "$before", "mentions": {AGENT}},
    ),
    "a notice that is rewritten": (
        event(
            text(" * 51 %", msgtype="m.notice", **{"m.new_content": text("51 %", msgtype="m.notice")})
            | relation(rel_type="m.replace", event_id="$before")
        ),
        {"kind": Kind.NOTICE, "body": "51 %", "target": "$before"},
    ),
    "a reply": (event(text("x") | REPLY), {"kind": Kind.MESSAGE, "body": "x", "reply_to": "$before"}),
    "a reply that quotes": (
        event(text(QUOTING) | REPLY),
        {"kind": Kind.MESSAGE, "body": "on it", "reply_to": "$before"},
    ),
    "a reply that quotes of itself": (
        event(text("> a\n\nb") | REPLY),
        {"kind": Kind.MESSAGE, "body": "> a\n\nb", "reply_to": "$before"},
    ),
    "a quotation that is no reply": (event(text(QUOTING)), {"kind": Kind.MESSAGE, "body": QUOTING}),
    "in a thread": (
        event(
            text("x")
            | relation(
                rel_type="m.thread",
                event_id="$root",
                is_falling_back=True,
                **{"m.in_reply_to": {"event_id": "$before"}},
            )
        ),
        {"kind": Kind.MESSAGE, "body": "x", "thread": "$root"},
    ),
    "a reply in a thread": (
        event(text("x") | relation(rel_type="m.thread", event_id="$root", **{"m.in_reply_to": {"event_id": "$b"}})),
        {"kind": Kind.MESSAGE, "body": "x", "thread": "$root", "reply_to": "$b"},
    ),
    "a reaction": (
        event(relation(rel_type="m.annotation", event_id="$before", key="👍"), "m.reaction"),
        {"kind": Kind.REACTION, "body": "👍", "target": "$before"},
    ),
    "a redaction": (
        event({"reason": "typo", "redacts": "$before"}, "m.room.redaction", redacts="$other"),
        {"kind": Kind.REDACTION, "body": "typo", "target": "$before"},
    ),
    "a redaction of before": (
        event({}, "m.room.redaction", redacts="$before"),
        {"kind": Kind.REDACTION, "target": "$before"},
    ),
    "what was redacted": (
        event({}, unsigned={"redacted_because": {"type": "m.room.redaction"}}),
        {"kind": Kind.REDACTED},
    ),
    "a picture": (
        event(IMAGE | {"body": "a.png"}),
        {"kind": Kind.MEDIA, "media": Media("mxc://test.local/abc", "a.png", "image/png", 3)},
    ),
    "a picture with a caption": (
        event(IMAGE | {"body": "see", "filename": "a.png"}),
        {"kind": Kind.MEDIA, "body": "see", "media": Media("mxc://test.local/abc", "a.png", "image/png", 3)},
    ),
    "a sticker": (
        event({"body": "cat", "url": "mxc://test.local/abc"}, "m.sticker"),
        {"kind": Kind.MEDIA, "media": Media("mxc://test.local/abc", "cat", None, None)},
    ),
    "encrypted": (event({"ciphertext": "x"}, "m.room.encrypted"), {"kind": Kind.ENCRYPTED}),
    "coming in": (
        event({"membership": "join"}, "m.room.member", state_key=BOB),
        {"kind": Kind.MEMBERSHIP, "membership": (BOB, "join")},
    ),
    "a membership that changes nothing": (event({"membership": "join"}, "m.room.member"), {"kind": Kind.OTHER}),
    "moving": (
        event({"body": "away", "replacement_room": "!new"}, "m.room.tombstone", state_key=""),
        {"kind": Kind.UPGRADE, "body": "away", "target": "!new"},
    ),
    "control": (event(text("x", **{CONTROL: {"v": 1}})), {"kind": Kind.CONTROL}),
    "another state": (event({"name": "lab"}, "m.room.name", state_key=""), {"kind": Kind.OTHER}),
    "a message that is a state": (event(text("x"), state_key=""), {"kind": Kind.OTHER}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_form_is_told_apart(case):
    """Each with what it says, and nothing that it does not."""
    given_event, expected = CASES[case]
    at = datetime(2026, 11, 30, 14, 48, 30, 647000, UTC)

    said = interpret(ROOM, given_event)

    fields = expected | {"mentions": frozenset(expected.get("mentions", ()))}
    assert Said(ROOM, EVENT, BOB, at, **fields) == said


def test_who_changes_their_name_was_in_before():
    """Only coming in is coming in."""
    came = event({"membership": "join"}, "m.room.member", state_key=BOB)
    renamed = came | {"unsigned": {"prev_content": {"membership": "join"}}}

    assert (True, False, False) == (joins(came, BOB), joins(renamed, BOB), joins(came, AGENT))


def test_who_is_banned_no_more_was_out_before():
    """Only going, or having to, is going."""
    before = {"unsigned": {"prev_content": {"membership": "join"}}}
    for membership in ("leave", "ban"):
        went = event({"membership": membership}, "m.room.member", state_key=BOB)
        assert (True, False) == (leaves(went | before, BOB), leaves(went | before, AGENT))
        assert not leaves(went | {"unsigned": {"prev_content": {"membership": "ban"}}}, BOB)
