"""
What happened: replay, differences, and the life of one message or document.

Everything here is computed from the journal alone, through the same `fold` and
the same `decide` that made it.  Nothing is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import attrs
import orjson

from fencepost.journal.audit import Head, Report, verify
from fencepost.journal.event import Commit, Event
from fencepost.journal.port import Stream
from fencepost.journal.reader import FileReader
from fencepost.mailbox import commands, errors
from fencepost.mailbox.addresses import MESSAGES
from fencepost.mailbox.decide import decide
from fencepost.mailbox.lifecycle import is_running
from fencepost.mailbox.message import Message, Status
from fencepost.mailbox.records import Record
from fencepost.mailbox.store import entries
from fencepost.mailbox.store.documents import Content, Document, Erased, after, body, fold
from fencepost.mailbox.store.index import LAYOUT, is_kept
from fencepost.mailbox.times import parse, show

_RENEWAL: Final = timedelta(minutes=30)


def until(commits: Iterable[Commit], stop: int | datetime | None) -> Iterator[Event]:
    """
    The events up to a point, in order.

    Args:
        commits: The batches, in order.
        stop: The last sequence number wanted; or a time, and then the first event with a later one ends it, because
            events are ordered by sequence and clocks go back; or None for all.
    """
    if stop is None:
        return chain.from_iterable(map(attrgetter("events"), commits))
    return _until(commits, stop)


def _until(commits: Iterable[Commit], stop: int | datetime) -> Iterator[Event]:
    for commit in commits:
        for event in commit.events:
            if event.seq > stop if isinstance(stop, int) else parse(event.at, "at") > stop:
                return
            yield event
            if event.seq == stop:
                return  # what stands behind it is not asked for, and may be damaged


def replay(commits: Iterable[Commit], stop: int | datetime | None = None) -> dict[Stream, Document]:
    """Every document as it stood at a point; see `until`."""
    versions: dict[Stream, int] = {}
    contents: dict[Stream, Content] = {}
    for event in until(commits, stop):
        stream = (event.scope, event.stream)
        contents[stream] = after(contents.get(stream), event)
        versions[stream] = event.version
    return {stream: Document(*stream, versions[stream], content) for stream, content in contents.items()}


def as_json(document: Document | None) -> dict[str, Any] | None:
    """A document's body as JSON; None where there is none that can be read."""
    raw = None if document is None else body(document.content)
    return None if raw is None else orjson.loads(raw)


@attrs.frozen
class Change:
    """One field of a document that differs between two points; None where it was not there."""

    stream: Stream
    field: str
    before: Any
    after: Any


def differences(before: Document | None, later: Document | None) -> list[Change]:
    """The fields in which two states of a document differ."""
    known = later or before
    if known is None:
        return []
    old, new = as_json(before) or {}, as_json(later) or {}
    fields = list(dict.fromkeys([*old, *new]))
    return [
        Change((known.scope, known.path), field, old.get(field), new.get(field))
        for field in fields
        if old.get(field) != new.get(field)
    ]


def compare(earlier: dict[Stream, Document], later: dict[Stream, Document]) -> list[Change]:
    """Everything that differs between two replays, by document."""
    return [
        change
        for stream in sorted(earlier.keys() | later.keys())
        for change in differences(earlier.get(stream), later.get(stream))
    ]


# --- one message's life -------------------------------------------------------------------------------


@attrs.frozen
class Step:
    """
    One event of a message, or something that the passing of time did to it.

    Attributes:
        event: What was recorded; None for a due time that came or a lease that ran out, which are not events.
        at: When.
        changes: The fields that it changed.
        note: In words; `erased` where nothing but the envelope of the event is left.
    """

    event: Event | None
    at: datetime
    changes: tuple[Change, ...]
    note: str


@attrs.frozen
class Fence:
    """A fence that somebody was once given, and what using it at the time of asking would bring."""

    session: str
    occurrence: int
    token: str
    answer: str


@attrs.frozen
class Life:
    """A message's life as of some time: its steps, what stands at the end, and what its fences are worth."""

    document: Document
    steps: tuple[Step, ...]
    fences: tuple[Fence, ...]


def explain(commits: Iterable[Commit], message_id: str, now: datetime, *, stop: datetime | None = None) -> Life:
    """
    One message's life, event by event.

    Args:
        commits: All batches, in order.
        message_id: Which message.
        now: The time at which its fences are tried.
        stop: Leave out what happened later; see `until`.

    Raises:
        UnknownMessage: There is none of that id.
    """
    life = _life(until(commits, stop), MESSAGES + message_id, None, now)
    if life is None:
        raise errors.UnknownMessage(message_id=message_id, searched="the journal")
    return life


def explain_document(
    commits: Iterable[Commit], path: str, now: datetime, *, scope: str | None = None, stop: datetime | None = None
) -> Life:
    """
    The life of what stands under a path, event by event.

    Args:
        commits: All batches, in order.
        path: Which document.
        now: The time at which it is looked at.
        scope: In which scope; it may be left out where no other scope has the path.
        stop: Leave out what happened later; see `until`.

    Raises:
        UnknownDocument: There has never been one.
        Usage: Several scopes have it.
    """
    life = _life(until(commits, stop), path, scope, now)
    if life is None:
        raise errors.UnknownDocument(scope=scope or "the journal", path=path)
    return life


def _life(events: Iterable[Event], path: str, scope: str | None, now: datetime) -> Life | None:
    steps: list[Step] = []
    fences: dict[tuple[str, int, str], None] = {}
    document: Document | None = None
    told: set[tuple[datetime, str]] = set()
    for event in events:
        if event.stream != path or scope not in (None, event.scope):
            continue
        if document is not None and document.scope != event.scope:
            raise errors.Usage(why=f"{path} stands in {document.scope} and in {event.scope}: name one with --scope")
        at = parse(event.at, "at")
        steps += _passing(document, at, told)
        before, document = document, fold(document, event)
        # What an erased event changed is gone with it, and so is whatever stood there before.
        changes = () if event.data is None else tuple(differences(before, document))
        steps.append(Step(event, at, changes, "erased" if event.data is None else ""))
        lease = document.content.lease if isinstance(document.content, Message) else None
        if lease is not None and isinstance(document.content, Message):
            fences[lease.owner, document.content.occurrence, lease.token] = None
    if document is None:
        return None
    steps += _passing(document, now, told)
    worth = tuple(Fence(*given, _worth(document, *given, now)) for given in fences)
    return Life(document, tuple(steps), worth)


def _passing(document: Document | None, at: datetime, told: set[tuple[datetime, str]]) -> Iterator[Step]:
    """What time did to a message between its last event and the next, each thing once."""
    message = None if document is None else document.content
    if not isinstance(message, Message) or message.status is not Status.OPEN:
        return
    lease = message.lease
    if lease is not None and not is_running(lease, at):
        passed = (lease.until, f"the lease of session {lease.owner} ran out")
    elif lease is None and message.reading is None and message.letter.created_at < message.due_at <= at:
        passed = (message.due_at, f"occurrence {message.occurrence} came due")
    else:
        return
    if passed not in told:
        told.add(passed)
        when, note = passed
        yield Step(None, when, (), note)


def _worth(document: Document, session: str, occurrence: int, token: str, now: datetime) -> str:
    """What renewing with this fence would be answered, by the code that answers it."""
    if isinstance(document.content, Erased):
        return errors.Erased.code
    if not isinstance(document.content, Message):
        return errors.UnsupportedFormat.code
    try:
        decide(commands.Renew(session, now, occurrence, token, _RENEWAL), document.content)
    except errors.Refused as refusal:
        return refusal.code
    return f"runs until {show(document.content.lease.until)}" if document.content.lease else "runs"


# --- the whole store ----------------------------------------------------------------------------------


@attrs.frozen
class Verdict:
    """
    What is proven of a store.

    Attributes:
        report: What is proven of the journal.
        documents: How many documents the journal folds to, as far as the index has been fed.
        differing: Documents whose fold is not what the index holds.
        only_in_index: How many more documents the index holds than the journal.
        index_seq: Up to where the index has been fed; None where there is no index, which is no damage.
    """

    report: Report
    documents: int
    differing: tuple[Stream, ...]
    index_seq: int | None
    only_in_index: int = 0

    @property
    def good(self) -> bool:
        """Nothing is damaged, nothing differs, and the expected head was found if one was asked for."""
        same = not self.differing and self.only_in_index == 0
        return self.report.damage is None and same and self.report.expected_found is not False


class _AgainstIndex:
    """Folds the journal beside the index; a document is dropped as soon as it is what the index holds."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.seq, layout = db.execute("SELECT seq, layout FROM fed").fetchone()
        self._lists = layout == LAYOUT  # an older index, which the next writer makes anew, may list in another way
        self._folding: dict[Stream, tuple[int, Content]] = {}  # up to which version the index holds it, and as far
        self.same = 0

    def take(self, commit: Commit) -> None:
        if commit.seq > self.seq:
            return
        for event in commit.events:
            stream = (event.scope, event.stream)
            if event.version == 1:
                row = self._db.execute("SELECT version FROM document WHERE scope = ? AND path = ?", stream).fetchone()
                last, content = 0 if row is None else row[0], after(None, event)
            elif stream in self._folding:
                last, content = self._folding[stream]
                content = after(content, event)
            else:
                self.same -= 1  # the index holds an older version: it differs after all
                last, content = event.version - 1, after(None, event)
            if last == event.version and self._is_same(stream, last, content):
                self._folding.pop(stream, None)
                self.same += 1
            else:
                self._folding[stream] = (last, content)

    def _is_same(self, stream: Stream, version: int, content: Content) -> bool:
        if self._lists:
            listed = not isinstance(content, Record) or entries.is_kept(self._db, stream, version, content)
            return listed and is_kept(self._db, stream, content)
        kept, why = self._db.execute("SELECT body, why FROM document WHERE scope = ? AND path = ?", stream).fetchone()
        raw = body(content)
        if raw is not None:
            return bool(kept == raw.decode())
        return kept is None and why == getattr(content, "why", None)

    def only_here(self) -> int:
        """How many documents the index holds that the journal did not mention."""
        count = self._db.execute("SELECT count(*) FROM document WHERE version > 0").fetchone()[0]
        held = sum(last > 0 for last, _ in self._folding.values())
        return max(0, int(count) - self.same - held)

    def differing(self) -> tuple[Stream, ...]:
        return tuple(sorted(self._folding))


def check(
    reader: FileReader, db: sqlite3.Connection | None, *, expect: Head | None = None, each: Any = None
) -> Verdict:
    """
    Prove the journal, and that folding it gives what the index holds.

    Args:
        reader: The journal.
        db: Its index, opened for reading; None where there is none.
        expect: A head that was noted before.
        each: Called with every batch, in order.
    """
    beside = None if db is None else _AgainstIndex(db)

    def take(commit: Commit) -> None:
        if beside is not None:
            beside.take(commit)
        if each is not None:
            each(commit)

    report = verify(reader, expect=expect, each=take)
    if beside is None:
        return Verdict(report, 0, (), None)
    if report.damage is not None:
        return Verdict(report, beside.same, (), beside.seq)
    differing = beside.differing()
    return Verdict(report, beside.same + len(differing), differing, beside.seq, beside.only_here())
