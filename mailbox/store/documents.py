"""
Documents: what a stream of the journal folds to.

Rules for this file: pure.  An event in a form that is not known makes its
document unreadable from there on: it is reported, and never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias, cast, get_args

import attrs

from fencepost.journal import event as recorded
from fencepost.journal.errors import JournalConflict
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, confirmation, records, rooms
from fencepost.mailbox.addresses import MESSAGES, is_reserved
from fencepost.mailbox.confirmation import Agent
from fencepost.mailbox.events import (
    AgentEvent,
    AnnotationsRedacted,
    CheckpointMoved,
    Deleted,
    DocumentEvent,
    Event,
    Linked,
    ProjectionsAppended,
    Redacted,
    Rewritten,
    RoomEvent,
    Shown,
    TalkEvent,
    TurnAppended,
    TurnsRedacted,
    Written,
)
from fencepost.mailbox.evolve import Impossible, evolve
from fencepost.mailbox.message import Message
from fencepost.mailbox.records import Record
from fencepost.mailbox.rooms import Place
from fencepost.mailbox.store.checkpoints import Reached
from fencepost.mailbox.store.showing import ShownTo
from fencepost.mailbox.turns import PROJECTIONS, TURNS


@attrs.frozen
class Unreadable:
    """The content of a document in a form that this version does not know."""

    why: str


@attrs.frozen
class Erased:
    """
    The content of a document that was erased: of its events the journal holds all but what they said.

    What is added to it later says nothing that could be understood, unless it is a content of its own.
    """


@attrs.frozen
class Series:
    """
    A stream whose events stand each for itself, such as the turns of a conversation.

    It folds to nothing but its version; what one of them says, and whether it can be read, is asked of that one alone.
    """


RedactionEvent: TypeAlias = Redacted | TurnsRedacted | AnnotationsRedacted
Content: TypeAlias = (
    Message | Linked | Record | RedactionEvent | ShownTo | Reached | Agent | Place | Series | Erased | Unreadable
)
#: The streams of that kind.
_SERIES: Final = {TURNS: Series(), PROJECTIONS: Series()}
_SERIES_BODY: Final = b'{"series":true}'
_REWRITTEN: Final = codec.EVENT_NAMES[Rewritten]
_DELETED: Final = codec.EVENT_NAMES[Deleted]
#: What the name of an event alone says, where its data were erased.  The events of a message say too little by name.
_NAMED: Final[dict[str, DocumentEvent]] = {
    codec.EVENT_NAMES[Written]: Written(""),
    codec.EVENT_NAMES[Deleted]: Deleted(),
}


@attrs.frozen(slots=False)
class Document:
    """
    A document as of one version.

    Attributes:
        version: The number of events in its stream.
        content: What they fold to.
    """

    scope: str
    path: str
    version: int
    content: Content

    @property
    def why(self) -> str | None:
        """Why the content cannot be read; None where it can."""
        return self.content.why if isinstance(self.content, Unreadable) else None


def after(content: Content | None, event: recorded.Event, meaning: object = None) -> Content:
    """
    The content of a document after one more event of its stream.

    Args:
        content: The content before; None before the first event.
        event: What was recorded.
        meaning: What it meant to its maker, which saves decoding it.
    """
    if event.stream in _SERIES:
        return _SERIES[event.stream]
    if isinstance(content, Unreadable):
        if event.type != _REWRITTEN:
            return content
        content = None  # whoever writes it whole needs not know what stood there
    if event.data is None and event.type not in _NAMED:
        return Erased()
    try:
        if event.data is None:
            happened: Event = _NAMED[event.type]
        else:
            happened = cast("Event", meaning) if meaning is not None else codec.decode(event.type, event.data)
        return _FOLDS.get(type(happened), _of_message)(content, event, happened)
    except (codec.UnknownForm, Impossible) as error:
        return Unreadable(str(error))


def _of_message(content: Content | None, event: recorded.Event, happened: Any) -> Content:
    """A message after one more event of its life."""
    if content is None or isinstance(content, Message):
        return evolve(content, happened)
    return content if isinstance(content, Erased) else _misplaced(event)


def _rewritten(_: Content | None, event: recorded.Event, happened: Rewritten) -> Content:
    """The message that somebody wrote whole, where it is one and stands where it says."""
    message = codec.message(happened.body)
    if (event.scope, event.stream) != (message.letter.scope, MESSAGES + message.id):
        return Unreadable("it says that it is another message")
    return message


def _whole(content: Content | None, event: recorded.Event, happened: Linked | RedactionEvent) -> Content:
    """What is a content of its own, whatever stood there."""
    return _misplaced(event) if isinstance(content, Record) else happened


def _beside(content: Content | None, event: recorded.Event, happened: Shown | CheckpointMoved) -> Content:
    """What is kept beside the documents after one more event."""
    if isinstance(happened, CheckpointMoved) and (content is None or isinstance(content, Reached | Erased)):
        return Reached(happened.position, event.at, event.actor)
    if isinstance(happened, Shown) and (content is None or isinstance(content, ShownTo)):
        return (content or ShownTo()).after(happened)
    return content if isinstance(content, Erased) else _misplaced(event)


def _agent(content: Content | None, event: recorded.Event, happened: AgentEvent) -> Content:
    """An agent whose program is fed here after one more event."""
    if content is None or isinstance(content, Agent):
        return confirmation.after(content, happened)
    return content if isinstance(content, Erased) else _misplaced(event)


def _room(content: Content | None, event: recorded.Event, happened: RoomEvent) -> Content:
    """How far a room was read after one more event."""
    if content is None or isinstance(content, Place):
        return rooms.after(content, happened)
    return content if isinstance(content, Erased) else _misplaced(event)


def _record(content: Content | None, event: recorded.Event, happened: DocumentEvent) -> Content:
    """A memory document after one more event; mail never becomes one."""
    if is_reserved(event.stream) or not (content is None or isinstance(content, Record)):
        return _misplaced(event)
    at = datetime.fromisoformat(event.at)
    return records.after(content, happened, at, event.actor, erased=event.data is None)


def _elsewhere(_: Content | None, event: recorded.Event, __: TalkEvent) -> Content:
    """What belongs into a stream of its own kind, and does not stand there."""
    return _misplaced(event)


def _misplaced(event: recorded.Event) -> Unreadable:
    return Unreadable(f"an event {event.type!r} in the stream of another kind of document")


#: Event -> the content after it; every other one is a step in the life of a message.
_FOLDS: Final[Mapping[type[Event], Callable[[Content | None, recorded.Event, Any], Content]]] = {
    Written: _record,
    Deleted: _record,
    Rewritten: _rewritten,
    Linked: _whole,
    Redacted: _whole,
    TurnsRedacted: _whole,
    AnnotationsRedacted: _whole,
    TurnAppended: _elsewhere,
    ProjectionsAppended: _elsewhere,
    Shown: _beside,
    CheckpointMoved: _beside,
    **dict.fromkeys(get_args(AgentEvent), _agent),
    **dict.fromkeys(get_args(RoomEvent), _room),
}


def fold(document: Document | None, event: recorded.Event) -> Document:
    """The document after one more event of its stream."""
    before = None if document is None else document.content
    return Document(event.scope, event.stream, event.version, after(before, event))


def check_not_erased(
    batch: recorded.Batch, expect: Mapping[Stream, int], content: Callable[[Stream], Content | None]
) -> None:
    """
    Refuse a batch that follows on what was erased, which no version tells.

    A message that was erased takes no step, and nobody is shown it.  A document that was erased may be written or
    deleted, and is not moved.

    Args:
        batch: What is to be appended.
        expect: The version that each stream must be at.
        content: Gives what stands in a stream.

    Raises:
        JournalConflict: Whoever decided on it has to look again.
    """
    moved = {(each.scope, each.stream) for each in batch.events if each.type == _DELETED and len(batch.events) > 1}
    for stream, version in expect.items():
        if version and not batch.erases and (stream[1].startswith(MESSAGES) or stream in moved):
            found = content(stream)
            if isinstance(found, Erased) or (isinstance(found, Record) and found.redacted):
                raise erased_meanwhile(stream[0])


def erased_meanwhile(scope: str) -> JournalConflict:
    """Something was erased, and whoever decided on it has to look again."""
    return JournalConflict(scope=scope, stream="what was erased", expected_version=0, actual_version=1)


def body(content: Content) -> bytes | None:
    """The content as JSON on one line, as indexes keep it; None where it cannot be read or was erased."""
    match content:
        case Message():
            return codec.compact(content)
        case Linked():
            return codec.link_body(content)
        case Record():
            return codec.record_body(content)
        case Redacted() | TurnsRedacted() | AnnotationsRedacted():
            return codec.redaction_body(content)
        case ShownTo() | Reached():
            return content.body()
        case Agent():
            return codec.agent_body(content)
        case Place():
            return codec.place_body(content)
        case Series():
            return _SERIES_BODY
        case Erased() | Unreadable():
            return None


def content_of(raw: str) -> Content:
    """The content of a document from what `body` made of it."""
    if raw.startswith('{"format"'):
        return codec.kept(raw)
    if raw.startswith('{"action"'):
        return codec.record(raw)
    if raw.startswith('{"shown"'):
        return ShownTo.of(raw)
    if raw.startswith('{"position"'):
        return Reached.of(raw)
    if raw.startswith('{"stage"'):
        return codec.agent(raw)
    if raw.startswith('{"token"'):
        return codec.place(raw)
    if raw.startswith('{"series"'):
        return Series()
    return codec.link(raw) if raw.startswith('{"session"') else codec.redaction(raw)


def kept(body: str | None, why: str | None) -> Content:
    """The content of a document from what an index keeps of it: its body, or why there is none."""
    if body is not None:
        return content_of(body)
    return Erased() if why is None else Unreadable(why)
