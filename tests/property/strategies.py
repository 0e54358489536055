"""One strategy for each noun."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import get_args

import attrs
from hypothesis import strategies as st

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import commands, events
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.lifecycle import MOVES, stage
from fencepost.mailbox.message import Context, Delivery, Letter, Message
from fencepost.mailbox.records import Action, Record
from fencepost.mailbox.turns import Projection, ProjectionKind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)

#: Any instant that the product takes.
moments = st.integers(0, 253_402_300_799_999_999).map(lambda micros: EPOCH + timedelta(microseconds=micros))
#: A few instants close together, so that they often are the same.
near_moments = st.builds(
    lambda minutes, ticks: NOON + timedelta(minutes=minutes, microseconds=ticks),
    st.sampled_from((-60, -30, -1, 0, 1, 30, 60)),
    st.sampled_from((0, 0, 0, -1, 1)),
)
#: Text with anything that may be carried: bidi marks, escapes, astral characters, but no NUL and no surrogates.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
said = texts.filter(lambda text: not text.isspace())
_name_characters = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zs", "Zl", "Zp"), exclude_characters="/\\"
)
names = st.text(_name_characters, min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
_parts = st.builds("{}:{}".format, st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), names)
scopes = st.lists(_parts, min_size=1, max_size=3).map("/".join)
actors = st.builds("/".join, st.tuples(_parts) | st.tuples(_parts, names))
paths = (
    st.lists(st.text("abcdefgh.-_é", min_size=1, max_size=8), min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda path: not {".", ".."} & set(path.split("/")))
)
ids = st.integers(0, 2**128 - 1).map(lambda number: str(uuid.UUID(int=number)))
counts = st.integers(1, 2**53 - 1)
tokens = st.sampled_from(("token 1", "token 2", "token 3"))
sessions = st.sampled_from(("ada", "ben", "cyd"))
#: Whatever JSON may hold where one thing was expected.
anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**62, 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.text(st.sampled_from("\0\ud800\u200b\u202e \n/.:TZ0159-+"), max_size=20)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)

contexts = st.builds(Context, scopes, paths, counts, st.none() | said)
sessions_or_none = st.none() | sessions


few_scopes = st.sampled_from(("user:me", "user:me/proj:app"))
few_counts = st.integers(1, 3)
few_texts = st.sampled_from(("Look at the build.", "\u202e\x1b[2J\n\U0001f600"))


def _turn(place):
    return st.none() if place is None else st.none() | counts


@st.composite
def letters(draw, scope=few_scopes, session=sessions_or_none):
    """What was sent, in few words, so that many can be drawn."""
    conversation, about = draw(session), draw(session)
    return Letter(
        id=draw(ids),
        scope=draw(scope),
        conversation=conversation,
        turn=draw(_turn(conversation)),
        source=draw(session),
        about=about,
        about_turn=draw(_turn(about)),
        actor="host:test",
        body=draw(few_texts),
        created_at=draw(near_moments),
        delivery=draw(st.sampled_from(Delivery)),
        actionable=draw(st.booleans()),
    )


few_letters = letters()
#: What was sent, with anything in it that may be.
any_letters = st.builds(
    attrs.evolve,
    letters(scopes, st.none() | names),
    actor=actors,
    body=said,
    created_at=moments,
    context=st.none() | contexts,
)
idempotencies = st.builds(events.Idempotency, few_texts, st.sampled_from(("ab" * 32, "cd" * 32)))


json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
_objects = st.dictionaries(texts, json_data, max_size=2)
_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": texts}) | _objects.map(lambda more: {"data": more})
#: A chat message with the keys that are kept of one.
chat_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "tool"))},
    optional={
        "content": st.none() | texts | st.lists(_blocks, max_size=2),
        "reasoning": st.none() | texts,
        "tool_calls": st.none()
        | st.lists(st.fixed_dictionaries({"id": texts, "name": texts, "arguments": _objects}), max_size=2),
        "tool_call_id": st.none() | texts,
        "extra": _objects,
    },
)
projections = st.builds(
    Projection, st.integers(1, 6), st.sampled_from([kind.value for kind in ProjectionKind]), texts, st.integers(1, 3)
)


def event_of(kind, moment=near_moments, session=sessions, letter=few_letters, said=few_texts):
    """An event of a kind."""
    few_sessions = st.lists(session, max_size=3).map(tuple)
    passed = st.lists(st.builds(events.Passed, session, said), max_size=2).map(tuple)
    return {
        events.Sent: st.builds(events.Sent, letter, moment, st.none() | idempotencies),
        events.Acknowledged: st.builds(events.Acknowledged, session, moment),
        events.Claimed: st.builds(events.Claimed, session, moment, tokens, moment),
        events.Renewed: st.builds(events.Renewed, moment),
        events.Released: st.builds(events.Released),
        events.Completed: st.builds(events.Completed, said),
        events.Snoozed: st.builds(events.Snoozed, moment, said),
        events.Cancelled: st.builds(events.Cancelled, st.none() | said),
        events.Reserved: st.builds(events.Reserved, session, tokens, moment),
        events.Accepted: st.builds(events.Accepted),
        events.Declined: st.builds(events.Declined),
        events.Linked: st.builds(events.Linked, session, session),
        events.Written: st.builds(events.Written, st.just("") | said),
        events.Deleted: st.builds(events.Deleted),
        events.Shown: st.builds(events.Shown, st.integers(1, 2**63 - 1), session, session),
        events.CheckpointMoved: st.builds(events.CheckpointMoved, st.integers(0, 2**63 - 1)),
        events.TurnAppended: st.builds(events.TurnAppended, st.lists(chat_messages, max_size=3).map(tuple)),
        events.ProjectionsAppended: st.builds(events.ProjectionsAppended, st.lists(projections, max_size=3).map(tuple)),
        events.AnnotationsRedacted: st.builds(
            events.AnnotationsRedacted,
            st.lists(st.builds(events.Annotated, paths, names, st.none() | counts), max_size=3).map(tuple),
        ),
        events.TurnsRedacted: st.builds(
            events.TurnsRedacted, st.lists(counts, max_size=3).map(tuple), st.none() | said
        ),
        events.AgentBound: st.builds(events.AgentBound, session, said),
        events.AgentHeld: st.builds(events.AgentHeld, said, said),
        events.AgentReleased: st.builds(events.AgentReleased),
        events.AgentUnbound: st.builds(events.AgentUnbound),
        events.RoomFound: st.builds(events.RoomFound, said, session),
        events.DeliverySaved: st.builds(
            events.DeliverySaved,
            ids,
            said,
            said,
            st.integers(0, 2**53),
            st.lists(st.builds(events.Read, session, said, few_sessions, passed), max_size=2).map(tuple),
            few_sessions,
        ),
        events.DeliverySubmitted: st.builds(events.DeliverySubmitted, counts),
        events.DeliveryConfirmed: st.builds(events.DeliveryConfirmed, said),
        events.DeliveryCheckpointed: st.builds(events.DeliveryCheckpointed),
        events.DeliveryAcknowledged: st.builds(events.DeliveryAcknowledged),
        events.RoomOpened: st.builds(events.RoomOpened, said, moment),
        events.RoomRead: st.builds(events.RoomRead, said, few_sessions, passed),
        events.RoomResynced: st.builds(events.RoomResynced, said, said),
        events.RoomClosed: st.builds(events.RoomClosed, said),
    }[kind]


MESSAGE_EVENTS = tuple({kind: None for moves in MOVES.values() for kind in moves})
#: Any event, with any time and any name in it.
OTHER_EVENTS = (
    *(events.Linked, events.Written, events.Deleted, events.Shown, events.CheckpointMoved),
    *(events.TurnAppended, events.ProjectionsAppended, events.TurnsRedacted, events.AnnotationsRedacted),
    *get_args(events.AgentEvent),
    *get_args(events.RoomEvent),
)
any_events = st.sampled_from((*MESSAGE_EVENTS, *OTHER_EVENTS)).flatmap(
    lambda kind: event_of(kind, moments, names, any_letters, said)
)
#: Any event of a message, with times and names that are often the same.
message_events = st.sampled_from(MESSAGE_EVENTS).flatmap(event_of)


#: What a memory document may fold to.
records = st.builds(Record, st.sampled_from(Action), st.just("") | texts, moments, moments, actors, st.booleans())


@st.composite
def histories(draw, letter=few_letters, max_size=8):
    """Events of one message, each of which the table allows where it stands."""
    past = [draw(event_of(events.Sent, letter=letter))]
    message = evolve(None, past[0])
    for _ in range(draw(st.integers(0, max_size - 1))):
        allowed = tuple(MOVES[stage(message)])
        if not allowed:
            break
        past.append(draw(st.sampled_from(allowed).flatmap(event_of)))
        message = evolve(message, past[-1])
    return past


def _fold(past) -> Message:
    message = None
    for event in past:
        message = evolve(message, event)
    return message


def _reopened(past):
    """The history without its end, if it has one."""
    return [event for event in past if not isinstance(event, events.Completed | events.Cancelled)]


@st.composite
def _held(draw, kind):
    message = draw(opened)
    if kind not in MOVES[stage(message)]:
        message = evolve(message, draw(event_of(events.Claimed)))
    return evolve(message, draw(event_of(kind)))


#: A message as its history may leave it.
messages = histories().map(_fold)
#: One with anything in it.
any_messages = histories(any_letters, 4).map(_fold)
#: One that is neither done nor cancelled.
opened = histories().map(_reopened).map(_fold)
closed = messages.filter(lambda message: not MOVES[stage(message)])
#: One whose last event is a claim, running or not; or a reservation.
leased = _held(events.Claimed)
reserved = _held(events.Reserved)
audiences = st.frozensets(sessions, min_size=1)

_LEASE = timedelta(minutes=30)


def command_of(kind, occurrence=few_counts, now=near_moments):
    """Any command of a kind."""
    who = (sessions, now, occurrence)
    return {
        commands.Ack: st.builds(commands.Ack, *who, audiences),
        commands.Claim: st.builds(commands.Claim, *who, audiences, tokens, st.just(_LEASE)),
        commands.Renew: st.builds(commands.Renew, *who, tokens, st.just(_LEASE)),
        commands.Release: st.builds(commands.Release, *who, tokens),
        commands.Complete: st.builds(commands.Complete, *who, tokens, st.none() | few_texts),
        commands.Snooze: st.builds(commands.Snooze, *who, tokens, few_texts, near_moments),
        commands.Cancel: st.builds(commands.Cancel, *who, audiences, st.none() | few_texts),
        commands.Reserve: st.builds(commands.Reserve, *who, audiences, tokens, st.just(timedelta(minutes=1))),
        commands.Accept: st.builds(commands.Accept, *who, tokens),
        commands.Decline: st.builds(commands.Decline, *who, tokens),
    }[kind]


new_events = st.builds(
    NewEvent,
    scope=scopes,
    stream=paths,
    type=st.from_regex(r"[a-z.]{1,20}", fullmatch=True),
    data=st.sampled_from(
        (b"{}", b"null", b'"x"', b'{"a":[1,"\\u0000"]}', '"é\U0001f600"'.encode(), b'"' + b"y" * 600 + b'"')
    ),
    key=st.none() | said,
)
batches = st.builds(Batch, at=moments, actor=actors, events=st.lists(new_events, min_size=1, max_size=4).map(tuple))
