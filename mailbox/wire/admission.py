"""
What a client may add: only what the commands of the mailbox could have made.

A client of a state process decides what happens, as every process does that
uses a store; the state process does not take its word for the rest.  An event
must be of a kind that is known here, well formed in every part, in the stream
where it belongs, and must follow on what stands there.  Who did it is the
client, whatever it claims.  So no client can plant what nobody can read.

Rules for this file: pure but for asking the store what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from fencepost.journal.errors import EventRefused, JournalConflict, MalformedRequest
from fencepost.journal.event import Batch, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import chat, codec, events, shapes, times
from fencepost.mailbox.addresses import (
    CHECKPOINTS,
    CHECKPOINTS_SCOPE,
    MESSAGES,
    REDACTIONS,
    SHOWN,
    document_path,
    link_path,
)
from fencepost.mailbox.message import Context, Letter
from fencepost.mailbox.store.documents import Content, Erased, Unreadable, after
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.turns import PROJECTIONS, TURNS, Projection, ProjectionKind, by_turn, conversation_of


def admitted(store: Store, batch: Batch, expect: Mapping[Stream, int], actor: str) -> Batch:
    """
    The batch as it is recorded.

    Args:
        store: Where it shall be appended.
        batch: What the client wants to append.
        expect: The versions that it expects; it must say so of each stream that it adds to.
        actor: Who does it, as the token says.

    Raises:
        EventRefused: One of the events is none that a client can have made.
        BadInput: Something else is not well formed.
        JournalConflict: A stream is not at the version expected.
    """
    if not batch.events:
        raise MalformedRequest(field="events", why="there are none")
    contents: dict[Stream, tuple[int, Content | None]] = {}
    recorded: list[NewEvent] = []
    for event in batch.events:
        stream = (event.scope, event.stream)
        if stream not in expect and event.stream != REDACTIONS:  # where nothing follows on what was there
            raise MalformedRequest(field="expect", why="the version of a stream that is added to is missing")
        if stream not in contents:
            contents[stream] = _found(store, stream, expect.get(stream))
        happened = _meaning(event, actor)
        new = NewEvent(*stream, *codec.encode(happened), event.key, happened)
        version, before = contents[stream]
        at = times.show(batch.at)
        content = after(before, Event(0, at, actor, *stream, version + 1, new.type, new.data), happened)
        if isinstance(content, Unreadable):
            raise _refused(event, content.why)
        if isinstance(content, Erased):
            raise _refused(event, "what stood there was erased")
        contents[stream] = (version + 1, content)
        recorded.append(new)
    _check_erasure(store, batch, recorded)
    return Batch(batch.at, actor, tuple(recorded), batch.erases)


def _refused(event: NewEvent, why: str) -> EventRefused:
    return EventRefused(stream=event.stream, type=event.type, why=why)


def _found(store: Store, stream: Stream, expected: int | None) -> tuple[int, Content | None]:
    document = store.find(stream)
    version = 0 if document is None else document.version
    if expected is not None and version != expected:
        raise JournalConflict(scope=stream[0], stream=stream[1], expected_version=expected, actual_version=version)
    return version, None if document is None else document.content


def _meaning(event: NewEvent, actor: str) -> events.Event:
    """What an event says, if a client may say it there."""
    try:
        happened = codec.decode(event.type, event.data)
    except codec.UnknownForm as error:
        raise _refused(event, str(error)) from error
    if type(happened) not in _RULES:
        raise _refused(event, "the store alone adds such events")
    if not is_well_formed((event.scope, event.stream), happened):
        raise _refused(event, "it belongs elsewhere, or says what no command does")
    sent_once = happened.idempotency if isinstance(happened, events.Sent) else None
    if event.key != (None if sent_once is None else sent_once.key):
        raise _refused(event, "the idempotency key is another")
    if isinstance(happened, events.Sent):
        return attrs.evolve(happened, letter=attrs.evolve(happened.letter, actor=actor))
    return happened


def is_well_formed(stream: Stream, happened: events.Event) -> bool:
    """
    Does an event of a client belong into a stream, and say what a command can say?

    Raises:
        BadInput: A part of it is not well formed.
    """
    return _RULES[type(happened)](stream, happened)


def _check_erasure(store: Store, batch: Batch, recorded: list[NewEvent]) -> None:
    """A batch erases nothing but the turns that it says were erased, and projections beside them."""
    acts = [event.meaning for event in recorded if isinstance(event.meaning, events.TurnsRedacted)]
    if not acts and not batch.erases:
        return
    if len(acts) != 1 or len(recorded) != 1:
        raise MalformedRequest(field="erases", why="only turns of one conversation are erased by a batch, and alone")
    scope = recorded[0].scope
    turns = {event.version: event.seq for event in store.events((scope, TURNS))}
    named = {turns.get(turn, 0) for turn in acts[0].turns}
    beside = {event.seq for event in store.events((scope, PROJECTIONS))}
    if 0 in named or not named <= set(batch.erases) <= named | beside:
        raise MalformedRequest(field="erases", why="it is not what the record of the erasure says")


# --- where an event belongs, and what is well formed -------------------------------------------------


def _is_id(name: str) -> bool:
    return shapes.is_message_id(name) and name == name.lower()


def _is_beside(begin: str, stream: Stream) -> bool:
    return stream[1].startswith(begin) and _is_id(stream[1].removeprefix(begin))


def _sent(stream: Stream, happened: events.Sent) -> bool:
    letter = happened.letter
    _check_letter(letter)
    times.utc(happened.due_at, "due_at")
    if happened.idempotency is not None:
        shapes.said(happened.idempotency.key, "idempotency_key", shapes.PATH_BYTES_MAX)
        shapes.text(happened.idempotency.fingerprint, "fingerprint", shapes.NAME_BYTES_MAX)
    return _is_id(letter.id) and stream == (letter.scope, MESSAGES + letter.id)


def _check_letter(letter: Letter) -> None:
    shapes.said(letter.body, "body", shapes.BODY_BYTES_MAX)
    times.utc(letter.created_at, "created_at")
    if letter.source is not None:
        shapes.name(letter.source, "session")
    for field, name, turn in (
        ("conversation", letter.conversation, letter.turn),
        ("about", letter.about, letter.about_turn),
    ):
        if name is not None:
            shapes.name(name, field)
        if turn is not None:
            shapes.whole_number(turn, "turn", 1)
            if name is None:
                raise MalformedRequest(field="turn", why=f"it is a turn of no {field}")
    if letter.context is not None:
        _check_context(letter.context)


def _check_context(context: Context) -> None:
    shapes.scope(context.scope)
    document_path(context.path)
    shapes.whole_number(context.version, "context_version", 1)
    if context.change_id is not None:
        shapes.said(context.change_id, "change_id", shapes.PATH_BYTES_MAX)


#: How each part of a step in the life of a message is checked, by its name.
_PARTS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "by": shapes.name,
    "at": times.utc,
    "until": times.utc,
    "due_at": times.utc,
    "token": lambda value, field: shapes.text(value, field, shapes.PATH_BYTES_MAX),
    "outcome": lambda value, field: value is None or shapes.said(value, field, shapes.OUTCOME_BYTES_MAX),
}


def _step(stream: Stream, happened: Any) -> bool:
    for part in attrs.fields(type(happened)):
        _PARTS[part.name](getattr(happened, part.name), part.name)
    return _is_beside(MESSAGES, stream)


def _shown(stream: Stream, happened: events.Shown) -> bool:
    shapes.whole_number(happened.occurrence, "occurrence", 1)
    shapes.name(happened.session, "session")
    shapes.name(happened.door, "door")
    return _is_beside(SHOWN, stream)


def _linked(stream: Stream, happened: events.Linked) -> bool:
    session, parent = shapes.name(happened.session, "session"), shapes.name(happened.parent, "continues")
    return session != parent and stream[1] == link_path(session, parent)


def _written(stream: Stream, happened: events.Written) -> bool:
    shapes.text(happened.content, "content", shapes.BODY_BYTES_MAX)
    return _deleted(stream, happened)


def _deleted(stream: Stream, _: events.Event) -> bool:
    return document_path(stream[1]) == stream[1]


def _moved(stream: Stream, happened: events.CheckpointMoved) -> bool:
    shapes.whole_number(happened.position, "position", 0)
    begun = stream[0] == CHECKPOINTS_SCOPE and stream[1].startswith(CHECKPOINTS)
    return begun and bool(shapes.name(stream[1].removeprefix(CHECKPOINTS), "checkpoint"))


def _turn(stream: Stream, happened: events.TurnAppended) -> bool:
    return chat.turn(happened.messages) == happened.messages and _is_of_conversation(stream, TURNS)


def _projections(stream: Stream, happened: events.ProjectionsAppended) -> bool:
    for entry in happened.entries:
        _check_projection(entry)
    together = len(list(by_turn(happened.entries))) == 1  # so that those of one turn can be erased alone
    return together and _is_of_conversation(stream, PROJECTIONS)


def _check_projection(entry: Projection) -> None:
    shapes.choice(entry.kind, "kind", ProjectionKind)
    shapes.text(entry.text, "text", shapes.OUTCOME_BYTES_MAX)
    shapes.whole_number(entry.turn, "turn", 1)
    shapes.whole_number(entry.span, "span", 1)


def _turns_redacted(stream: Stream, happened: events.TurnsRedacted) -> bool:
    for turn in happened.turns:
        shapes.whole_number(turn, "turns", 1)
    if happened.reason is not None:
        shapes.said(happened.reason, "reason", shapes.OUTCOME_BYTES_MAX)
    in_order = bool(happened.turns) and list(happened.turns) == sorted(set(happened.turns))
    return in_order and _is_of_conversation(stream, REDACTIONS)


def _is_of_conversation(stream: Stream, name: str) -> bool:
    conversation = conversation_of(stream[0])
    return stream[1] == name and conversation is not None and bool(shapes.name(conversation, "conversation"))


_STEPS: Final = (
    events.Acknowledged,
    events.Claimed,
    events.Renewed,
    events.Released,
    events.Completed,
    events.Snoozed,
    events.Cancelled,
    events.Reserved,
    events.Accepted,
    events.Declined,
)
#: Event -> does it belong into a stream, once each part of it was checked.  What is not here is not for clients.
_RULES: Final[Mapping[type[Any], Callable[[Stream, Any], bool]]] = {
    events.Sent: _sent,
    **dict.fromkeys(_STEPS, _step),
    events.Shown: _shown,
    events.Linked: _linked,
    events.Written: _written,
    events.Deleted: _deleted,
    events.CheckpointMoved: _moved,
    events.TurnAppended: _turn,
    events.ProjectionsAppended: _projections,
    events.TurnsRedacted: _turns_redacted,
}
