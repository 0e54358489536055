"""
What a batch adds to each table: documents are folded in memory and written once.

It is the same fold as that of the SQLite index.  A document is known by the
sequence number of its first event.

Rules for this file: no I/O.
"""

from __future__ import annotations

import zlib
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import attrs
import orjson

from fencepost.journal.event import Event
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, matching
from fencepost.mailbox.events import AnnotationsRedacted, Linked, Written
from fencepost.mailbox.message import Letter, Message
from fencepost.mailbox.records import Record
from fencepost.mailbox.store.documents import Content, Series, Unreadable, after, body, kept
from fencepost.mailbox.store.postgres.asking import Row
from fencepost.mailbox.store.texts import NOTED, SAID, said_by
from fencepost.mailbox.times import micros
from fencepost.mailbox.turns import conversation_of
from fencepost.mailbox.views import place

#: How many characters a piece has; a shorter term cannot be asked for by pieces.
PIECE: Final = 3
_WRITTEN: Final = codec.EVENT_NAMES[Written]

#: A row as `keep` takes it: the names of the columns, and what stands in them.
Kept: TypeAlias = dict[str, Any]
#: So many characters are handed over at once, and one more row: what a jsonb holds has a bound.
_PART_CHARS_MAX: Final = 8 << 20


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

    The number of an event that has none yet is below zero: -1 is the first that will be taken.

    Args:
        documents: As they stand, those that the events are about.
    """

    def __init__(self, documents: Mapping[Stream, Known]) -> None:
        self._ids = {stream: each.id for stream, each in documents.items()}
        self._contents: dict[Stream, Content] = {stream: each.content for stream, each in documents.items()}
        self._versions: dict[Stream, int] = {}
        self._entries: dict[Stream, tuple[int, Record | None]] = {}
        self._rows: dict[str, list[Kept]] = {}

    def record(self, event: Event, batch: int, *, erasing: bool) -> None:
        """An event to be kept."""
        row = event._asdict()
        row["data"] = None if event.data is None else b2a_base64(event.data, newline=False).decode()
        self._add("event", {**row, "batch": batch, "erasing": erasing})

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

    def _add(self, name: str, row: Kept) -> None:
        self._rows.setdefault(name, []).append(row)

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
                at = {"conversation": entry.about, "turn": entry.about_turn or 0}
                self._add("about_at", {**at, "scope": stream[0], "path": entry.path})
        elif isinstance(content, Series):
            sessions = (conversation_of(stream[0]),) if event.version == 1 else ()
        elif isinstance(content, Linked):
            sessions = (content.session,)
            link = {"session": content.session, "scope": stream[0], "parent": content.parent}
            self._add("link", {**link, "document": number})
        for session in sessions:
            if session is not None:
                self._add("seen", {"session": session, "document": number})
        if event.key is not None and not again:
            self._add("sendkey", {"digest": event.key, "document": number})

    def _letter(self, letter: Letter, number: int, *, first: bool) -> None:
        if letter.context is not None:
            there = {"scope": letter.context.scope, "path": letter.context.path}
            self._add("reference", {**there, "document": number})
        if first and letter.about is not None:
            about = {"conversation": letter.about, "turn": letter.about_turn or 0}
            self._add("about", {**about, "document": number})

    def _act(self, stream: Stream, event: Event, record: Record) -> None:
        row = {"seq": event.seq, "document": self._ids[stream], "scope": event.scope, "at": micros(record.updated_at)}
        self._add("act", {**row, "action": record.action.value, "created": record.created_at.isoformat()})

    def _text(self, event: Event) -> None:
        text = said_by(event)
        if text is None:
            return
        row = {
            "seq": event.seq,
            "scope": event.scope,
            "stream": event.stream,
            "version": event.version,
            "at": micros(datetime.fromisoformat(event.at)),
            "actor": event.actor,
            "text": text,
            "pieces": numbers(pieces(matching.fold(text))),
        }
        self._add(NOTED if event.type == _WRITTEN else SAID, row)

    def rows(self) -> dict[str, list[Kept]]:
        """Table -> what is to be written there."""
        for stream, version in self._versions.items():
            self._add("document", self._document(stream, version))
        for (scope, path), (version, record) in self._entries.items():
            if record is None or not record.live:
                self._add("no_entry", {"scope": scope, "path": path})
            else:
                times = {"created": record.created_at.isoformat(), "updated": record.updated_at.isoformat()}
                row = {"scope": scope, "path": path, "version": version, "redacted": record.redacted}
                self._add("entry", {**row, **times})
        return self._rows

    def _document(self, stream: Stream, version: int) -> Kept:
        content = self._contents[stream]
        raw = body(content)
        row = {
            "id": self._ids[stream],
            "scope": stream[0],
            "path": stream[1],
            "version": version,
            "body": None if raw is None else raw.decode(),
            "why": content.why if isinstance(content, Unreadable) else None,
        }
        if not isinstance(content, Message):
            return row
        there = place(content)
        listed = {"standing": int(there.standing), "due": there.due, "created": there.created, "ready": there.ready}
        return {**row, "conversation": content.letter.conversation or "", **listed}


def numbers(some: Iterable[int]) -> str:
    """Numbers as an array in SQL."""
    return f"{{{','.join(map(str, some))}}}"


def parts(rows: Mapping[str, Sequence[Kept]]) -> Iterator[str]:
    """Rows as JSON, in pieces that are no larger than needed."""
    part: dict[str, list[Kept]] = {}
    chars = 0
    for name, some in rows.items():
        for row in some:
            more = sum(len(value) for value in row.values() if isinstance(value, str))
            if part and chars + more > _PART_CHARS_MAX:
                yield as_json(part)
                part, chars = {}, 0
            part.setdefault(name, []).append(row)
            chars += more
    if part:
        yield as_json(part)


def as_json(rows: Mapping[str, Sequence[Kept]]) -> str:
    """Rows as JSON."""
    return orjson.dumps(rows).decode()
