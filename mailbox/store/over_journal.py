"""
Documents over a journal, with the SQLite index as its projection.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import Final, TypeVar

from fencepost.journal import forks
from fencepost.journal.errors import (
    JournalConflict,
    JournalCorrupt,
    JournalError,
    JournalUnavailable,
    TargetOccupied,
)
from fencepost.journal.event import Batch, Commit, Event, NewEvent
from fencepost.journal.port import Journal, Stream
from fencepost.journal.segments import segment_name
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import MESSAGES, REDACTIONS, SHOWN, is_reserved
from fencepost.mailbox.errors import InvalidName
from fencepost.mailbox.events import AnnotationsRedacted, Redacted, Written
from fencepost.mailbox.records import Entry, Record, Version
from fencepost.mailbox.store import entries, filed, inbox, notes, texts
from fencepost.mailbox.store.documents import Content, Document, after, check_not_erased, fold
from fencepost.mailbox.store.entries import Act
from fencepost.mailbox.store.feed import Feed
from fencepost.mailbox.store.filling import folded
from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.port import Filed, Query, Redaction, Unsupported
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.store.troubles import Unusable, translated
from fencepost.mailbox.times import EPOCH, micros

#: The index is fed once so many events wait for it.  One SQLite transaction for each would double the cost of a send;
#: 256 cost two thirds of what 64 do, and more gain nothing.
PENDING_MAX: Final = 256
#: So many documents are kept in mind as they stood: what is claimed is mostly completed next.
_LATEST_MAX: Final = 1_024
#: And once nothing has been appended for so long, if fewer wait.
IDLE_S: Final = 0.25
#: Others added to what is to be erased so many times in a row before a redaction gives up.
_ATTEMPTS_MAX: Final = 64
#: How much longer to wait before each of them.
_PAUSE_S: Final = 0.000_1
#: So many batches are looked for at once when a history of mail is asked for.
_MAIL_CHUNK: Final = 500
#: Behind every place of a journal.
_NOWHERE: Final = (2**63 - 1, 0)
T = TypeVar("T")


class JournalStore(Feed):
    """
    A store over a journal and an index.  Threads may share it.

    Args:
        journal: Where events are kept.
        index: What is folded from them.
        renew: Makes the index anew, for a file of that generation that turned out damaged; None where there is none.
        damage: What is known to be wrong with the journal.
        follow: Gives the index of the journal's present generation, and what it proves to be wrong; where None, the
            journal is folded in memory.

    Attributes:
        damage: What is wrong with the journal, if anything.  What is intact is shown, and writing is refused.
    """

    def __init__(
        self,
        journal: Journal,
        index: Index,
        renew: Callable[[int], Index] | None = None,
        damage: JournalCorrupt | None = None,
        follow: Callable[[], tuple[Index, JournalCorrupt | None]] | None = None,
    ) -> None:
        self._journal = journal
        self._index = index
        self._renew = renew
        self._newest = follow or (lambda: folded(journal, "memory"))
        self.damage = damage
        self._mutex = threading.RLock()
        self._timer: threading.Timer | None = None
        self._appended = 0.0
        self._latest: dict[Stream, Document] = {}  # as found or appended since the index was last fed
        self._remembered_of = (-1, -1)
        forks.register(self)
        self._ask(lambda: journal.attach(self._index))
        self._fed = self._ask(lambda: self._index.checkpoint().seq)  # the last event that was fed, as far as is known
        self.feed()

    def renew_in_child(self) -> None:
        """In a forked child: a thread of the parent may have held the mutex."""
        self._mutex = threading.RLock()

    def actor(self, said: str) -> str:
        """See `fencepost.mailbox.store.port.Store`; whoever has the store at hand is believed."""
        return said

    # --- documents ---------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> Document | None:
        """See `fencepost.mailbox.store.port.Store`."""
        with self._mutex:
            epoch = self._journal.epoch()
            self._refresh()
            known = self._remembered(epoch)
            document = known.get(stream)
            pending = self._journal.pending_of(stream)
            if document is None and not (pending and pending[0].version == 1):
                document = self._ask(lambda: self._index.document(stream))
            for event in pending:
                if event.version > (0 if document is None else document.version):
                    document = fold(document, event)
            if document is not None and self._journal.epoch() == epoch:
                known[stream] = document
            return document

    def _content(self, stream: Stream) -> Content | None:
        document = self.find(stream)
        return None if document is None else document.content

    def _remembered(self, epoch: int) -> dict[Stream, Document]:
        """The documents kept in mind; none of them are where something was taken back or erased since."""
        of = (epoch, self._index.generation)
        if of != self._remembered_of or len(self._latest) >= _LATEST_MAX:
            self._latest.clear()
            self._remembered_of = of
        return self._latest

    def _keep_in_mind(self, commit: Commit) -> None:
        """Fold what was appended onto what is kept in mind, while its meaning is at hand."""
        with self._mutex:
            known = self._remembered(self._journal.epoch())
            for event, meaning in zip(commit.events, commit.meanings or repeat(None), strict=False):
                stream = (event.scope, event.stream)
                before = known.get(stream)
                if before is not None and before.version == event.version - 1:
                    known[stream] = Document(*stream, event.version, after(before.content, event, meaning))

    def _event(self, stream: Stream, version: int, segment: int, offset: int) -> Event:
        """One event of a document, which must stand where the index saw it."""
        return _event_of(self._journal.commit_at(segment, offset), stream, version)

    def append(self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        if self.damage is not None:
            raise self.damage
        looked = self._journal.generation()  # what is erased from now on refuses the batch
        check_not_erased(batch, expect, self._content)
        commit = self._ask(lambda: self._journal.append(batch, expect, settle=settle, looked=looked))
        self._keep_in_mind(commit)
        self._appended = time.monotonic()
        if commit.seq - self._fed >= PENDING_MAX:
            self._feed_if_possible()
        elif self._timer is None:
            self._look_again(IDLE_S)

    def _look_again(self, after_s: float) -> None:
        self._timer = threading.Timer(after_s, self._idle)
        self._timer.daemon = True
        self._timer.start()

    def redact(self, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None = None) -> Redaction:
        """See `fencepost.mailbox.store.port.Store`."""
        if path == REDACTIONS:
            raise InvalidName(field="path", value=path, rule="what was erased stays on record")
        for attempt in range(_ATTEMPTS_MAX):
            targets = self._targets(scope, path)
            referring = tuple(self._referring(scope, path))
            if not targets:
                return Redaction(scope, path, 0, referring)
            count = sum(not each.startswith("/") for each in targets)  # the rest is no document
            act = Redacted(path, count, reason)
            erases = tuple(sorted(event.seq for events in targets.values() for event in events))
            # What annotations are about would go with what they say.
            noted = self._selected(lambda db: notes.annotating(db, scope, path))
            acts = (AnnotationsRedacted(tuple(noted)), act) if noted else (act,)
            new = tuple(NewEvent(scope, REDACTIONS, *codec.encode(each), meaning=each) for each in acts)
            expect = {(scope, each): events[-1].version if events else 0 for each, events in targets.items()}
            try:
                self.append(Batch(at, actor, new, erases), expect)
            except JournalConflict:  # something was added to them
                time.sleep(attempt * _PAUSE_S)
                continue
            self._feed_if_possible()
            if path is None and self._paths(scope) != targets.keys():
                continue  # somebody began another stream meanwhile
            return Redaction(scope, path, count, referring)
        raise JournalUnavailable(path=scope, why="others add to what is to be erased again and again")

    def _targets(self, scope: str, path: str | None) -> dict[str, list[Event]]:
        """The events to be erased, by stream: all of a document, or all of a scope but the record of such acts."""
        if path is not None:
            events = self.events((scope, path))
            shown = SHOWN + path.removeprefix(MESSAGES)  # goes with its message, and must not begin meanwhile
            beside = {shown: self.events((scope, shown))} if events and path.startswith(MESSAGES) else {}
            return {path: events, **beside} if events else {}
        self.feed()
        found: dict[str, list[Event]] = {}
        for place in sorted({place[2:] for place in self._ask(lambda: self._index.places(scope))}):
            for event in self._journal.commit_at(*place).events:  # a batch may hold many of them
                if event.scope == scope and event.stream != REDACTIONS:
                    found.setdefault(event.stream, []).append(event)
        return found

    def _paths(self, scope: str) -> set[str]:
        self.feed()
        return {place[0] for place in self._ask(lambda: self._index.places(scope))} - {REDACTIONS}

    def _referring(self, scope: str, path: str | None) -> list[Stream]:
        self.feed()
        return self._ask(lambda: self._index.referring(scope, path))

    def _idle(self) -> None:
        """Nobody has appended enough for a batch: feed what there is, so that other processes' readers find it fed."""
        rest_s = self._appended + IDLE_S - time.monotonic()
        if rest_s > 0:
            self._look_again(rest_s)  # feeding in two threads would only make the busy one wait
        else:
            self._timer = None
            self._feed_if_possible()

    def _feed_if_possible(self) -> None:
        """Feed the index if nothing is in the way.  If something is, the next call does: it is all durable already."""
        with contextlib.suppress(sqlite3.Error, JournalError):
            self.feed()

    def epoch(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._journal.epoch()

    def settle(self, epoch: int) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        return self.damage is not None or self._journal.settle(epoch)

    def events(self, stream: Stream) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._refresh()
        pending = self._journal.pending_of(stream)
        known = [self._event(stream, *place) for place in self._ask(lambda: self._index.versions(stream))]
        return known + [event for event in pending if event.version > len(known)]

    def events_from(self, stream: Stream, after: int, limit: int) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._refresh()
        pending = self._journal.pending_of(stream)
        places = self._ask(lambda: self._index.versions(stream, after, limit))
        known = [self._event(stream, *place) for place in places]
        last = places[-1][0] if places else after
        return (known + [event for event in pending if event.version > last])[:limit]

    # --- listings ------------------------------------------------------------------------------------------

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""

        def listed(db: sqlite3.Connection) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
            conversations = inbox.audience(db, query.session, query.links)
            items = inbox.select(
                db, query.listing.value, query.scopes, conversations, micros(query.now), query.limit, query.long
            )
            return items, [Unsupported(*row) for row in inbox.unsupported(db, query.scopes, query.limit)]

        return self._selected(listed)

    def entries(
        self, scope: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""

        def listed(db: sqlite3.Connection) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
            found = entries.listed(db, scope, prefix, after, limit)
            return found, [Unsupported(*row) for row in entries.unsupported(db, scope, prefix, limit)]

        return self._selected(listed)

    def versions(self, stream: Stream, before: int, limit: int) -> Sequence[Version]:
        """See `fencepost.mailbox.store.port.Store`."""
        acts = self._selected(lambda db: entries.versions(db, stream, before, limit))
        return list(self._told(stream[0], acts))

    def history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[tuple[int, Version]]:
        """See `fencepost.mailbox.store.port.Store`."""
        earliest = None if since is None else micros(since)
        acts = self._selected(lambda db: entries.history(db, scope, earliest, before, limit))
        return [(act.seq, version) for act, version in zip(acts, self._told(scope, acts), strict=True)]

    def record_at(self, stream: Stream, version: int) -> Record | None:
        """See `fencepost.mailbox.store.port.Store`."""
        acts = self._selected(lambda db: entries.versions(db, stream, version + 1, 1))
        if not acts or acts[0].version != version:
            return None
        (found,) = self._told(stream[0], acts)
        return Record(found.action, found.content, acts[0].created, found.created_at, found.actor, found.redacted)

    def _told(self, scope: str, acts: Sequence[Act]) -> Iterator[Version]:
        """Versions with what the journal knows of them; a batch that holds several in a row is read once."""
        commit: Commit | None = None
        for act in acts:
            if commit is None or (commit.segment, commit.offset) != (act.segment, act.offset):
                commit = self._journal.commit_at(act.segment, act.offset)
            event = _event_of(commit, (scope, act.path), act.version)
            happened = None if event.data is None else codec.decode(event.type, event.data)
            content = happened.content if isinstance(happened, Written) else ""
            at = datetime.fromisoformat(event.at)
            yield Version(act.path, act.version, act.action, content, event.actor, at, event.data is None)

    def annotations(self, conversation: str, turn: int | None) -> Sequence[Document]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._selected(lambda db: notes.about(db, conversation, turn))

    def search(self, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._searched(lambda db: texts.find(db, name, terms, sight, limit))

    def search_turns(self, terms: Sequence[str], sight: Sight, limit: int) -> Sequence[Text]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._searched(lambda db: texts.find_turns(db, terms, sight, limit))

    def _searched(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer to a question to the texts, once everything durable is among them."""
        self.feed()

        def ask() -> T:
            texts.catch_up(self._index.reading, self._index.writing, self._journal)
            with self._index.reading() as db:
                return question(db)

        return self._ask(ask)

    def next_change(self, query: Query) -> datetime | None:
        """See `fencepost.mailbox.store.port.Store`."""

        def changes(db: sqlite3.Connection) -> int | None:
            conversations = inbox.audience(db, query.session, query.links)
            return inbox.next_change(db, query.scopes, conversations, micros(query.now))

        found = self._selected(changes)
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._selected(lambda db: inbox.audience(db, session, scopes))

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._refresh()
        digest = self._journal.key_digest(scope, key)
        for commit in self._journal.pending():
            for event in commit.events:
                if event.key == digest:
                    return event.scope, event.stream
        return self._ask(lambda: self._index.sent_under(digest))

    def has_seen(self, session: str) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()
        return self._ask(lambda: self._index.has_seen(session))

    # --- the whole of it -----------------------------------------------------------------------------------

    def secret(self) -> bytes:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._journal.secret()

    def restore(self, batches: Sequence[Batch], behind: int, secret: bytes) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        if behind == 0 and secret != self._journal.secret():
            self._journal.adopt(secret)
        for batch in batches:
            if self._refresh() != behind:
                raise TargetOccupied(path="the store", why="it has a history of its own")
            self.append(batch, {}, settle=False)
            behind += len(batch.events)
        if not self.settle(self.epoch()):
            raise JournalUnavailable(path="the store", why="what was recorded has been taken back")
        return behind

    # --- for whoever serves it -----------------------------------------------------------------------------

    def check(self) -> None:
        """See `fencepost.mailbox.store.port.Served`."""
        if self.damage is None:
            self._refresh()
        if self.damage is not None:
            raise self.damage
        self._journal.check()

    def scopes(self) -> Sequence[str]:
        """See `fencepost.mailbox.store.port.Served`."""
        return self._selected(lambda db: list(filed.scopes(db)))

    def mail(self, scope: str, prefix: str, after: str | None, limit: int) -> Sequence[Filed]:
        """See `fencepost.mailbox.store.port.Served`."""
        lines = self._selected(lambda db: filed.listed(db, scope, prefix, after, limit))
        ends = {(line.path, version): place for line in lines for version, place in line.ends()}
        times = self._times(scope, ends)
        return [
            Filed(line.path, line.version, times[line.path, 1], times[line.path, line.version], line.erased, line.why)
            for line in lines
        ]

    def _times(self, scope: str, wanted: Mapping[tuple[str, int], tuple[int, int]]) -> dict[tuple[str, int], datetime]:
        """When events were recorded, by path and version; a batch that holds many of them is read once."""
        found: dict[tuple[str, int], datetime] = {}
        for place in sorted(set(wanted.values())):
            for event in self._journal.commit_at(*place).events:
                if event.scope == scope and wanted.get((event.stream, event.version)) == place:
                    found[event.stream, event.version] = datetime.fromisoformat(event.at)
        return found

    def mail_history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[Event]:
        """See `fencepost.mailbox.store.port.Served`."""
        found: list[Event] = []
        place = self._behind(before)
        while len(found) < limit:
            places = self._mail_places(scope, place)
            for each in places:
                found += self._mail_in(each, scope, since, before)
                if len(found) >= limit:
                    break
            if len(places) < _MAIL_CHUNK:
                break
            place = places[-1]
        return found[:limit]

    def _mail_places(self, scope: str, before: tuple[int, int]) -> Sequence[tuple[int, int]]:
        return self._selected(lambda db: filed.places(db, scope, before, _MAIL_CHUNK))

    def _behind(self, before: int) -> tuple[int, int]:
        """A place behind that of every batch with an event before a number."""
        if before > self._journal.durable():
            return _NOWHERE
        place = self._journal.place_before(before)
        return place.segment, place.offset + 1

    def _mail_in(self, place: tuple[int, int], scope: str, since: datetime | None, before: int) -> Iterator[Event]:
        """The events of messages and links in a batch, the last first."""
        for event in reversed(self._journal.commit_at(*place).events):
            told = event.scope == scope and is_reserved(event.stream) and event.seq < before
            if told and (since is None or datetime.fromisoformat(event.at) >= since):
                yield event

    # --- the index ---------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Finish what the journal still owes the index: everything durable."""
        with self._mutex:
            self._refresh()
            if self.damage is not None:
                return
            owed = self._journal.owed()
            if owed:
                self._ask(lambda: self._index.take_in(owed))
                self._ask(self._journal.trim)
                self._fed = owed[-1].seq
                self._latest.clear()  # what others have appended is in the index now, and in no pending event

    def _refresh(self) -> int:
        """Learn what others have appended; a damaged journal teaches nothing, and is remembered as such."""
        if self.damage is None:
            try:
                seq = self._ask(self._journal.refresh)
                return self._ask(self._journal.refresh) if self._follow() else seq
            except JournalCorrupt as error:
                self.damage = error
        self._follow()
        return self._index.checkpoint().seq

    def _selected(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """What the index answers, once everything durable is in it."""
        self.feed()

        def ask() -> T:
            with self._index.reading() as db:
                return question(db)

        return self._ask(ask)

    def _follow(self) -> bool:
        """Go on with another index if what this one holds may have been erased; is it another one?"""
        if self._journal.generation() == self._index.generation:
            return False
        with self._mutex:
            if self._journal.generation() != self._index.generation:
                # The old one is closed when the last thread that asks it has its answer.
                self._index, damage = self._newest()
                self.damage = self.damage or damage
                self._journal.attach(self._index)
        return True

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask the index; one that turns out damaged is made anew, once."""
        try:
            return question()
        except sqlite3.DatabaseError as error:
            reason = translated(error, self._index.path)
            if not isinstance(reason, Unusable):
                raise reason from error
            if self._renew is None:
                raise JournalUnavailable(path=self._index.path, why=str(error)) from error
        with self._mutex:
            self._index.close()
            self._index = self._renew(self._index.generation)
            self._journal.attach(self._index)
        return question()

    def close(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        with self._mutex:
            if self._timer is not None:
                self._timer.cancel()
            try:
                self._feed_if_possible()
            finally:
                self._journal.close()
                self._index.close()


def _event_of(commit: Commit, stream: Stream, version: int) -> Event:
    """The event of a batch that an index knows to be there."""
    for event in commit.events:
        if (event.scope, event.stream, event.version) == (*stream, version):
            return event
    why = f"another frame stands where version {version} of {stream[1]} stood"
    raise JournalCorrupt(file=segment_name(commit.segment), offset=commit.offset, why=why)
