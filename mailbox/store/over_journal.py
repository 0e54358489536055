"""
Documents over a journal, with the SQLite index as its projection.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, TypeVar

from fencepost.journal.disk import Disk
from fencepost.journal.errors import JournalCorrupt, JournalError, JournalUnavailable
from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.file import FileJournal
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock, describe_process
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.port import Journal, Stream
from fencepost.journal.root import JOURNAL, write_identity
from fencepost.mailbox.store import inbox
from fencepost.mailbox.store.documents import Document, fold
from fencepost.mailbox.store.index import Index, Unusable, file_name
from fencepost.mailbox.store.port import Query, Unsupported
from fencepost.mailbox.times import EPOCH, micros

#: The index is fed once so many batches wait for it: one SQLite transaction for each would double the cost of a send.
PENDING_MAX: Final = 64
#: Batches fed in one transaction when there are many.
_FEED_CHUNK: Final = 2_000
_INDEX_LOCK: Final = ".index.lock"
T = TypeVar("T")


class JournalStore:
    """
    A store over a journal and an index.  Threads may share it.

    Args:
        journal: Where events are kept.
        index: What is folded from them.
        renew: Makes the index anew, for a file that turned out damaged; None where there is no file.
        damage: What is known to be wrong with the journal.

    Attributes:
        damage: What is wrong with the journal, if anything.  What is intact is shown, and writing is refused.
    """

    def __init__(
        self,
        journal: Journal,
        index: Index,
        renew: Callable[[], Index] | None = None,
        damage: JournalCorrupt | None = None,
    ) -> None:
        self._journal = journal
        self._index = index
        self._renew = renew
        self.damage = damage
        self._mutex = threading.RLock()
        journal.attach(index)
        self.feed()

    # --- documents ---------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> Document | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._refresh()
        pending = [event for event in self._pending_events() if (event.scope, event.stream) == stream]
        document = self._ask(lambda: self._index.document(stream))
        for event in pending:
            if event.version > (0 if document is None else document.version):
                document = fold(document, event)
        return document

    def _pending_events(self) -> Iterator[Event]:
        for commit in self._journal.pending():
            yield from commit.events

    def append(self, batch: Batch, expect: Mapping[Stream, int]) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        if self.damage is not None:
            raise self.damage
        self._journal.append(batch, expect)
        if len(self._journal.pending()) >= PENDING_MAX:
            try:
                self.feed()
            except (sqlite3.Error, JournalError):
                pass  # what was appended is durable, and the next call feeds the index

    def settle(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        seq = self._refresh()
        if self.damage is None:
            self._journal.settle(seq)

    def events(self, stream: Stream) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()
        found = []
        for version, segment, offset in self._ask(lambda: self._index.versions(stream)):
            for event in self._journal.commit_at(segment, offset).events:
                if (event.scope, event.stream, event.version) == (*stream, version):
                    found.append(event)
        return found

    # --- listings ------------------------------------------------------------------------------------------

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()

        def ask() -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
            with self._index.reading() as db:
                conversations = inbox.audience(db, query.session, query.scopes)
                items = inbox.select(
                    db, query.listing.value, query.scopes, conversations, micros(query.now), query.limit
                )
                return items, [Unsupported(*row) for row in inbox.unsupported(db, query.scopes, query.limit)]

        return self._ask(ask)

    def next_change(self, query: Query) -> datetime | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()
        with self._index.reading() as db:
            conversations = inbox.audience(db, query.session, query.scopes)
            found = inbox.next_change(db, query.scopes, conversations, micros(query.now))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()
        with self._index.reading() as db:
            return inbox.audience(db, session, scopes)

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._refresh()
        digest = self._journal.key_digest(scope, key)
        for event in self._pending_events():
            if event.key == digest:
                return event.scope, event.stream
        return self._ask(lambda: self._index.sent_under(digest))

    def has_seen(self, session: str) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        self.feed()
        return self._ask(lambda: self._index.has_seen(session))

    def change_mark(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._journal.durable() if self.damage is None else 0

    # --- the index ---------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Finish what the journal still owes the index: everything durable."""
        with self._mutex:
            self._refresh()
            if self.damage is not None:
                return
            durable = self._journal.durable()
            ready = [commit for commit in self._journal.pending() if commit.end.seq <= durable]
            if ready:
                self._ask(lambda: self._index.take_in(ready))
                self._journal.trim()

    def _refresh(self) -> int:
        """Learn what others have appended; a damaged journal teaches nothing, and is remembered as such."""
        if self.damage is None:
            try:
                return self._journal.refresh()
            except JournalCorrupt as error:
                self.damage = error
        return self._index.checkpoint().seq

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask the index; one that turns out damaged is made anew, once."""
        try:
            return question()
        except sqlite3.OperationalError as error:
            raise JournalUnavailable(path=self._index.path, why=str(error)) from error
        except sqlite3.DatabaseError:
            if self._renew is None:
                raise
            with self._mutex:
                self._index.close()
                self._index = self._renew()
                self._journal.attach(self._index)
            return question()

    def close(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        with self._mutex:
            try:
                self.feed()
            except (sqlite3.Error, JournalError):
                pass  # nothing is lost: the next opener feeds the index
            self._journal.close()
            self._index.close()


def memory_store() -> JournalStore:
    """A store that lasts as long as the object."""
    return JournalStore(MemoryJournal(), Index.in_memory("memory"))


def file_store(
    root: str | os.PathLike[str], *, lock_wait_ms: int = LOCK_WAIT_MS_DEFAULT, disk: Disk | None = None
) -> JournalStore:
    """
    The store of a folder, made if it is not there.

    Raises:
        JournalError: It is not a store, is newer than this program, or cannot be opened.
    """
    journal = FileJournal(root, lock_wait_ms=lock_wait_ms, disk=disk)
    keeper = _IndexKeeper(journal, lock_wait_ms, disk or Disk())
    try:
        index = keeper.open()
        return JournalStore(journal, index, keeper.renew, keeper.disagreement(index))
    except BaseException:
        journal.close()
        raise


class _IndexKeeper:
    """Opens the index of a file journal, and makes a new one where there is none that can be used."""

    def __init__(self, journal: FileJournal, lock_wait_ms: int, disk: Disk) -> None:
        self._journal = journal
        self._lock_wait_ms = lock_wait_ms
        self._disk = disk

    def open(self) -> Index:
        identity = self._journal.identity
        try:
            return Index(self._path(identity.generation), identity.id)
        except Unusable:
            return self.renew()

    def _path(self, generation: int) -> str:
        return os.path.join(self._journal.root, file_name(generation))

    def disagreement(self, index: Index) -> JournalCorrupt | None:
        """An index that knows of a frame which the journal does not hold is evidence of a loss, and never stale."""
        segment, last, digest = index.last_frame()
        seq = index.checkpoint().seq
        if seq == 0:
            return None
        try:
            found = self._journal.commit_at(segment, last)
        except (JournalCorrupt, OSError):
            found = None
        if found is not None and (found.digest, found.end.seq) == (digest, seq):
            return None
        why = f"the index knew another frame to end at sequence {seq}: the journal was cut or replaced"
        return JournalCorrupt(file=os.path.join(self._journal.root, JOURNAL), offset=last, why=why)

    def renew(self) -> Index:
        """Make the index anew from the journal, as the next generation."""
        lock = FileLock(os.path.join(self._journal.root, _INDEX_LOCK))
        try:
            with lock.held(self._lock_wait_ms, lambda: "a process that is making the index anew"):
                before = self._journal.identity
                self._journal.reload_identity()
                identity = self._journal.identity
                if identity.generation != before.generation:  # somebody else has just done it
                    return Index(self._path(identity.generation), identity.id)
                generation = identity.generation + 1
                path = self._path(generation)
                for left_over in (path, path + "-wal", path + "-shm"):
                    if os.path.exists(left_over):
                        os.unlink(left_over)
                Index.create(path, identity.id)
                index = Index(path, identity.id)
                self._fill(index)
                with self._journal.locked():
                    write_identity(
                        self._journal.root, self._disk, id=identity.id, generation=generation, key=identity.key
                    )
                self._journal.reload_identity()
                return index
        finally:
            lock.close()

    def _fill(self, index: Index) -> None:
        """Feed all of the journal; where it is damaged, what stands before the damage."""
        commits = self._intact()
        while chunk := list(islice(commits, _FEED_CHUNK)):
            index.take_in(chunk)

    def _intact(self) -> Iterator[Commit]:
        try:
            yield from self._journal.read()
        except JournalCorrupt:
            return
