"""
Messages and links as documents, for programs that know nothing else.

Such a program reads a message as its format-1 body and writes it whole.  Where
one event explains what it has written, that event is recorded; otherwise the
whole body is, as it came, be it a message or not.  Either way it is on record
that it came over the wire.  What cannot be read here is shown as it was
written, so that whoever wrote it finds it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from fencepost.journal.errors import BadInput
from fencepost.journal.event import Batch, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, events, shapes
from fencepost.mailbox.addresses import LINKS, MESSAGES
from fencepost.mailbox.caller import Caller
from fencepost.mailbox.codec import VIA_WIRE
from fencepost.mailbox.errors import Erased as MessageErased
from fencepost.mailbox.errors import MemoryConflict, UnsupportedDocument
from fencepost.mailbox.events import Linked, Rewritten
from fencepost.mailbox.infer import infer
from fencepost.mailbox.message import Message
from fencepost.mailbox.records import Action, MemoryDocument, Version
from fencepost.mailbox.store.documents import Content, Erased, Unreadable, after
from fencepost.mailbox.wire.admission import is_well_formed

#: Longest text that is written as a message: a body of the largest kind with everything in it escaped.
CONTENT_BYTES_MAX: Final = 64 << 20
_REWRITTEN: Final = codec.EVENT_NAMES[Rewritten]


class Letters(Caller):
    """The messages and links of one scope, for one caller; see `fencepost.mailbox.caller.Caller`."""

    @property
    def _scope(self) -> str:
        return next(iter(self.mounts)).scope

    def read(self, path: str) -> MemoryDocument | None:
        """
        The document at a path; None where there is none.

        Raises:
            UnsupportedDocument: It has an event that this version does not know.
            BadInput: The path is not well formed.
        """
        stream = (self._scope, shapes.path(path))

        def attempt() -> tuple[MemoryDocument | None] | None:
            with self._told_when_durable() as told:
                recorded = self.store.events(stream)
                found = _document(recorded, _folded(recorded)) if recorded else None
            return (found,) if told.stands else None

        return self._until_it_stands(attempt)[0]

    def versions(self, path: str, before: int, limit: int) -> list[Version]:
        """
        Its versions that are older than one, newest first.

        Raises:
            BadInput, UnsupportedDocument: As for `read`.
        """
        stream = (self._scope, shapes.path(path))

        def attempt() -> list[Version] | None:
            with self._told_when_durable() as told:
                recorded = self.store.events(stream)
                contents = _folded(recorded)
                shown = [_version(*each) for each in zip(recorded, contents, strict=True) if each[0].version < before]
            return shown[::-1][:limit] if told.stands else None

        return self._until_it_stands(attempt)

    def told(self, recorded: Sequence[Event]) -> list[Version]:
        """The versions that some events made, in their order; one that cannot be read is shown as it was recorded."""
        contents: dict[Stream, list[Content]] = {}
        for event in recorded:
            stream = (event.scope, event.stream)
            if len(contents.get(stream, ())) < event.version:
                before = [event] if event.version == 1 else self.store.events(stream)
                contents[stream] = _folded(before)
        return [_version(event, contents[event.scope, event.stream][event.version - 1]) for event in recorded]

    def write(self, path: str, content: str, expected_version: int | None) -> MemoryDocument:
        """
        Write a message or link whole.

        Args:
            path: Where.
            content: A format-1 body, or whatever; of a link the path says all there is to say.
            expected_version: Only if it is at this version; 0: only if there is none.

        Raises:
            MemoryConflict: It is at another version.
            Erased: What the message said was erased, and it says nothing more.
            BadInput: Something is not well formed.
            JournalError: It could not be stored, or (`SyncFailed`) that is not known.
        """
        stream = (self._scope, shapes.path(path))
        shapes.text(content, "content", CONTENT_BYTES_MAX)
        if expected_version is not None:
            shapes.whole_number(expected_version, "expected_version", 0)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_write(stream, content, expected_version, now))

    def _try_write(self, stream: Stream, content: str, expected: int | None, now: datetime) -> MemoryDocument | None:
        with self._told_when_durable() as told:
            recorded = self.store.events(stream)
            if expected is not None and expected != len(recorded):
                reason, actual = "version_mismatch", len(recorded)
                raise MemoryConflict(
                    scope=stream[0], path=stream[1], reason=reason, expected_version=expected, actual_version=actual
                )
            contents = _folded(recorded)
            if contents and isinstance(contents[-1], Erased) and stream[1].startswith(MESSAGES):
                raise MessageErased(message_id=stream[1].removeprefix(MESSAGES))  # its version is what it was
            event = _happened(stream, contents[-1] if contents else None, content, self._actor)
            name, data = codec.encode(event, VIA_WIRE)
            told.stands = True
            new = NewEvent(*stream, name, data, meaning=event)
            self.store.append(Batch(now, self._actor, (new,)), {stream: len(recorded)})
        at = now.isoformat()[:-6] + "Z"
        last = Event(0, at, self._actor, *stream, len(recorded) + 1, name, data)
        before = contents[-1] if contents else None
        return _document([*recorded, last], [*contents, after(before, last, event)])


def _happened(stream: Stream, before: Content | None, content: str, actor: str) -> events.Event:
    """The event that explains what somebody wrote, or the whole of it."""
    scope, path = stream
    if path.startswith(LINKS):
        session, _, parent = path.removeprefix(LINKS).partition("/")
        return Linked(shapes.name(session, "session"), shapes.name(parent, "continues"))
    try:
        message = codec.message(content)
    except codec.UnknownForm:
        return Rewritten(content)
    if (scope, path) != (message.letter.scope, MESSAGES + message.id):
        return Rewritten(content)
    standing = before if isinstance(before, Message) else None
    whole = _with_what_stands(message, standing, actor)
    explained = infer(standing, whole) if before is standing else None
    if explained is not None and _is_plain(stream, explained):
        return explained
    return Rewritten(content if whole == message else codec.document(whole).decode())


def _with_what_stands(message: Message, before: Message | None, actor: str) -> Message:
    """The message from its sender, and with the reference that it had: a program that knows of none leaves it out."""
    sender, context = _sender(message.letter.actor, actor), message.letter.context
    if before is not None:
        sender, context = before.letter.actor, context or before.letter.context
    return attrs.evolve(message, letter=attrs.evolve(message.letter, actor=sender, context=context))


def _sender(said: str, actor: str) -> str:
    """Who sends what the actor writes: nobody sends as somebody else."""
    client = actor.partition("/")[0]
    return said if said == client or said.startswith(f"{client}/") else actor


def _is_plain(stream: Stream, event: events.Event) -> bool:
    """Could it have happened here?  What could not is kept as it came."""
    try:
        return is_well_formed(stream, event)
    except BadInput:
        return False


def _folded(recorded: Sequence[Event]) -> list[Content]:
    """The content after each of the events of a document."""
    contents: list[Content] = []
    for event in recorded:
        contents.append(after(contents[-1] if contents else None, event))
    return contents


def _document(recorded: Sequence[Event], contents: Sequence[Content]) -> MemoryDocument:
    first, last, content = recorded[0], recorded[-1], contents[-1]
    if isinstance(content, Unreadable) and last.type != _REWRITTEN:
        raise UnsupportedDocument(scope=last.scope, path=last.stream, why=content.why)
    made, told = (datetime.fromisoformat(each.at) for each in (first, last))
    return MemoryDocument(
        last.scope,
        last.stream,
        _text(last, content),
        last.version,
        made,
        told,
        last.actor,
        _is_erased(last, content),
    )


def _version(event: Event, content: Content) -> Version:
    action = Action.CREATED if event.version == 1 else Action.MODIFIED
    at = datetime.fromisoformat(event.at)
    erased = _is_erased(event, content)
    return Version(event.stream, event.version, action, _text(event, content), event.actor, at, erased)


def _is_erased(event: Event, content: Content) -> bool:
    return event.data is None or isinstance(content, Erased)


def _text(event: Event, content: Content) -> str:
    """The document after an event."""
    if isinstance(content, Message):
        return codec.document(content).decode()
    if isinstance(content, Linked):
        return codec.link_body(content).decode()
    if _is_erased(event, content) or event.data is None:
        return ""
    happened = codec.decode(event.type, event.data) if event.type == _REWRITTEN else None
    return happened.body if isinstance(happened, Rewritten) else event.data.decode()
