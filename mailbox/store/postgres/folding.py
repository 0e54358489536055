"""
What a batch adds to each table: documents are folded in memory and written once.

It is the same fold as that of the SQLite index.  A document is known by the
sequence number of its first event.

Rules for this file: no I/O.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from fencepost.journal.event import Event
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, matching
from fencepost.mailbox.events import AnnotationsRedacted, Linked, Written
from fencepost.mailbox.message import Letter, Message
from fencepost.mailbox.records import Record
from fencepost.mailbox.store.documents import Content, Series, Unreadable, after, body, kept
from fencepost.mailbox.store.postgres.asking import Ask, Row
from fencepost.mailbox.store.texts import NOTED, SAID, said_by
from fencepost.mailbox.times import micros
from fencepost.mailbox.turns import conversation_of
from fencepost.mailbox.views import place

#: How many characters a piece has; a shorter term cannot be asked for by pieces.
PIECE: Final = 3
_WRITTEN: Final = codec.EVENT_NAMES[Written]

_EVENT: Final = "INSERT INTO {s}.event VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::bytea, %s)"
_DOCUMENT: Final = (
    "INSERT INTO {s}.document VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE"
    " SET version = excluded.version, body = excluded.body, why = excluded.why, conversation = excluded.conversation,"
    " standing = excluded.standing, due = excluded.due, created = excluded.created, ready = excluded.ready"
)
_LINK: Final = "INSERT INTO {s}.link VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_SENDKEY: Final = "INSERT INTO {s}.sendkey VALUES (%s, %s) ON CONFLICT DO NOTHING"
_REFERENCE: Final = "INSERT INTO {s}.reference VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_SEEN: Final = "INSERT INTO {s}.seen VALUES (%s, %s) ON CONFLICT DO NOTHING"
_ABOUT: Final = "INSERT INTO {s}.about VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_ABOUT_AT: Final = (
    "INSERT INTO {s}.about SELECT %s, %s::bigint, id FROM {s}.document WHERE scope = %s AND path = %s"
    " ON CONFLICT DO NOTHING"
)
_NO_ENTRY: Final = "DELETE FROM {s}.entry WHERE scope = %s AND path = %s"
_ENTRY: Final = (
    "INSERT INTO {s}.entry VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (scope, path) DO UPDATE SET"
    " version = excluded.version, created = excluded.created, updated = excluded.updated, redacted = excluded.redacted"
)
_ACT: Final = "INSERT INTO {s}.act VALUES (%s, %s, %s, %s, %s, %s, %s)"
_TEXT: Final = {
    name: "INSERT INTO {s}." + name + " VALUES (%s, %s, %s, %s, %s, %s, %s, %s::integer[])" for name in (SAID, NOTED)
}


@attrs.frozen
class Known:
    """A document as a transaction has found it: its id, its version, and what it holds."""

    id: int
    version: int
    content: Content


def known(row: Row) -> tuple[Stream, Known]:
    """A document from its row: id, scope, path, version, body and why there is none."""
    number, scope, path, version, raw, why = row
    return (scope, path), Known(number, version, kept(raw, why))


def pieces(folded: str) -> list[int]:
    """A number for each piece of a folded text.  Two pieces may have one, so these only tell where to look."""
    found = {folded[at : at + PIECE] for at in range(len(folded) - PIECE + 1)}
    return sorted({_number(piece) for piece in found})


def _number(piece: str) -> int:
    number = zlib.crc32(piece.encode())
    return number - (1 << 32) if number >> 31 else number


class Folding:
    """
    What some events add.

    Args:
        documents: As they stand, those that the events are about.
        peaks: The latest time of all acts of a scope.
    """

    def __init__(self, documents: Mapping[Stream, Known], peaks: Mapping[str, int]) -> None:
        self._ids = {stream: each.id for stream, each in documents.items()}
        self._contents: dict[Stream, Content] = {stream: each.content for stream, each in documents.items()}
        self._versions: dict[Stream, int] = {}
        self._peaks = dict(peaks)
        self._entries: dict[Stream, tuple[int, Record | None]] = {}
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    def record(self, event: Event, batch: int, *, erasing: bool) -> None:
        """An event to be kept."""
        seq, at, actor, scope, stream, version, kind, data, key = event
        self._add(_EVENT, (seq, batch, erasing, at, actor, scope, stream, version, kind, data, key))

    def take(self, event: Event, meaning: object = None, *, again: bool = False) -> None:
        """
        One event more; those of a stream come in order.

        Args:
            event: What is recorded.
            meaning: What it meant to its maker, if that is known.
            again: Its document is folded once more, from the beginning, since something was erased; what is about turns
                stays from the first time.
        """
        stream = (event.scope, event.stream)
        before = None if event.version == 1 else self._contents[stream]
        if before is None:
            self._ids[stream] = event.seq
        content = after(before, event, meaning)
        self._contents[stream] = content
        self._versions[stream] = event.version
        self._note(before, content, event, again=again)
        if isinstance(content, Record):
            if not again:  # what was done when is told by the name of an event
                self._act(stream, event, content)
            self._entries[stream] = (event.version, content)
        elif isinstance(content, Unreadable):
            self._entries[stream] = (event.version, None)
        if not again:
            self._text(event)

    def _add(self, statement: str, row: tuple[Any, ...]) -> None:
        self._rows.setdefault(statement, []).append(row)

    def _note(self, before: Content | None, content: Content, event: Event, *, again: bool) -> None:
        """What is remembered beside the documents."""
        stream = (event.scope, event.stream)
        number = self._ids[stream]
        sessions: tuple[str | None, ...] = ()
        if isinstance(content, Message):
            known = before if isinstance(before, Message) else None
            if content.reading is not None and (known is None or known.reading is not content.reading):
                sessions = (content.reading.by,)
            if known is None or known.letter is not content.letter:
                sessions = (*sessions, content.letter.source)
                self._letter(content.letter, number, first=event.version == 1 and not again)
        elif isinstance(content, AnnotationsRedacted) and not again:
            for entry in content.entries:
                self._add(_ABOUT_AT, (entry.about, entry.about_turn or 0, stream[0], entry.path))
        elif isinstance(content, Series):
            sessions = (conversation_of(stream[0]),) if event.version == 1 else ()
        elif isinstance(content, Linked):
            sessions = (content.session,)
            self._add(_LINK, (content.session, stream[0], content.parent, number))
        for session in sessions:
            if session is not None:
                self._add(_SEEN, (session, number))
        if event.key is not None and not again:
            self._add(_SENDKEY, (event.key, number))

    def _letter(self, letter: Letter, number: int, *, first: bool) -> None:
        if letter.context is not None:
            self._add(_REFERENCE, (letter.context.scope, letter.context.path, number))
        if first and letter.about is not None:
            self._add(_ABOUT, (letter.about, letter.about_turn or 0, number))

    def _act(self, stream: Stream, event: Event, record: Record) -> None:
        at = micros(record.updated_at)
        peak = self._peaks[event.scope] = max(at, self._peaks.get(event.scope, at))
        created = record.created_at.isoformat()
        self._add(_ACT, (event.seq, self._ids[stream], event.scope, at, peak, record.action.value, created))

    def _text(self, event: Event) -> None:
        text = said_by(event)
        if text is None:
            return
        at = micros(datetime.fromisoformat(event.at))
        row = (event.seq, event.scope, event.stream, event.version, at, event.actor, text)
        self._add(_TEXT[NOTED if event.type == _WRITTEN else SAID], (*row, pieces(matching.fold(text))))

    def statements(self) -> Iterator[Ask]:
        """What writes it all."""
        for stream, version in self._versions.items():
            self._add(_DOCUMENT, self._document(stream, version))
        for stream, (version, record) in self._entries.items():
            if record is None or not record.live:
                self._add(_NO_ENTRY, stream)
            else:
                times = (record.created_at.isoformat(), record.updated_at.isoformat())
                self._add(_ENTRY, (*stream, version, *times, record.redacted))
        for statement, rows in self._rows.items():
            unique: Iterable[tuple[Any, ...]] = dict.fromkeys(rows) if statement == _SEEN else rows
            yield Ask(statement, many=tuple(unique))

    def _document(self, stream: Stream, version: int) -> tuple[Any, ...]:
        content = self._contents[stream]
        raw = body(content)
        why = content.why if isinstance(content, Unreadable) else None
        head = (self._ids[stream], *stream, version, None if raw is None else raw.decode(), why)
        if not isinstance(content, Message):
            return (*head, None, None, None, None, None)
        there = place(content)
        conversation = content.letter.conversation or ""
        return (*head, conversation, int(there.standing), there.due, there.created, there.ready)
