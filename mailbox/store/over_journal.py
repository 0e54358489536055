"""
Documents over a journal, with the SQLite index as its projection.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from fencepost.journal.disk import Disk
from fencepost.journal.errors import JournalCorrupt, JournalError, JournalUnavailable
from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.file import FileJournal
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.port import Journal, Stream
from fencepost.journal.reader import FileReader
from fencepost.journal.root import write_identity
from fencepost.journal.segments import SEGMENT_BYTES
from fencepost.mailbox.store import inbox
from fencepost.mailbox.store.documents import Document, fold
from fencepost.mailbox.store.index import Index, Unusable, file_name
from fencepost.mailbox.store.port import Query, Unsupported
from fencepost.mailbox.times import EPOCH, micros

#: The index is fed once so many batches wait for it: one SQLite transaction for each would double the cost of a send.
PENDING_MAX: Final = 64
#: And after so long if fewer wait.
IDLE_S: Final = 0.25
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
        self._timer: threading.Timer | None = None
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
            self._feed_if_possible()
        elif self._timer is None:
            self._timer = threading.Timer(IDLE_S, self._idle)
            self._timer.daemon = True
            self._timer.start()

    def _idle(self) -> None:
        """Nobody has appended enough for a batch: feed what there is, so that other processes' readers find it fed."""
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
        self.feed()
        return [
            event
            for version, segment, offset in self._ask(lambda: self._index.versions(stream))
            for event in self._journal.commit_at(segment, offset).events
            if (event.scope, event.stream, event.version) == (*stream, version)
        ]

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
            owed = self._journal.owed()
            if owed:
                self._ask(lambda: self._index.take_in(owed))
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
            if self._timer is not None:
                self._timer.cancel()
            self._feed_if_possible()
            self._journal.close()
            self._index.close()


def memory_store() -> JournalStore:
    """A store that lasts as long as the object."""
    return JournalStore(MemoryJournal(), Index.in_memory("memory"))


def file_store(
    root: str | os.PathLike[str],
    *,
    lock_wait_ms: int = LOCK_WAIT_MS_DEFAULT,
    segment_bytes: int = SEGMENT_BYTES,
    disk: Disk | None = None,
) -> JournalStore:
    """
    The store of a folder, made if it is not there; the arguments are those of `fencepost.journal.file.FileJournal`.

    Raises:
        JournalError: It is not a store, is newer than this program, or cannot be opened.
    """
    journal = FileJournal(root, lock_wait_ms=lock_wait_ms, segment_bytes=segment_bytes, disk=disk)
    keeper = _IndexKeeper(journal, lock_wait_ms, disk or Disk())
    try:
        index = keeper.open()
        return JournalStore(journal, index, keeper.renew, keeper.disagreement(index))
    except BaseException:
        journal.close()
        raise


def reading_store(root: str | os.PathLike[str]) -> JournalStore:
    """
    The store of a folder that is only read, such as a read-only copy; folded in memory, so opening reads all of it.

    Raises:
        NotAStore: It is no store.
        NewerStore: A newer fencepost made it.
    """
    reader = FileReader(root)
    index = Index.in_memory(reader.identity.id)
    damage = None
    try:
        _fill(index, reader)
    except JournalCorrupt as error:
        damage = error
    return JournalStore(reader, index, damage=damage)


def renew_index(root: str | os.PathLike[str]) -> tuple[int, int]:
    """
    Make the index of a store anew.

    Returns:
        Its generation, and the last event that it knows.

    Raises:
        JournalError: The store cannot be opened or written, or another process is at it.
    """
    journal = FileJournal(root)
    with contextlib.closing(journal):
        index = _IndexKeeper(journal, LOCK_WAIT_MS_DEFAULT, Disk()).renew()
        with contextlib.closing(index):
            return journal.identity.generation, index.checkpoint().seq


@contextlib.contextmanager
def open_index_to_read(reader: FileReader) -> Iterator[sqlite3.Connection | None]:
    """
    The index of a store for questions of an auditor; None where there is none.

    SQLite reads a write-ahead log only where it may write beside it, so an index on a read-only file system is copied
    to a temporary folder first.
    """
    path = os.path.join(reader.root, file_name(reader.identity.generation))
    if not os.path.exists(path):
        yield None
        return
    with contextlib.ExitStack() as after:
        if not os.access(reader.root, os.W_OK):
            folder = after.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-"))
            for suffix in ("", "-wal"):
                if os.path.exists(path + suffix):
                    shutil.copyfile(path + suffix, os.path.join(folder, os.path.basename(path) + suffix))
            path = os.path.join(folder, os.path.basename(path))
        try:
            db = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=rw", uri=True, isolation_level=None)
            after.callback(db.close)
            db.execute("BEGIN")
            db.execute("SELECT seq FROM fed").fetchone()
        except sqlite3.DatabaseError as error:
            raise JournalUnavailable(path=path, why=f"the index is damaged ({error})") from error
        yield db


class _IndexKeeper:
    """Opens the index of a file journal, and makes a new one where there is none that can be used."""

    def __init__(self, journal: FileJournal, lock_wait_ms: int, disk: Disk) -> None:
        self._journal = journal
        self._lock_wait_ms = lock_wait_ms
        self._disk = disk

    def open(self) -> Index:
        identity = self._journal.identity
        try:
            return Index.open(self._path(identity.generation), identity.id)
        except Unusable:
            return self.renew()

    def _path(self, generation: int) -> str:
        return os.path.join(self._journal.root, file_name(generation))

    def disagreement(self, index: Index) -> JournalCorrupt | None:
        """An index that knows of a frame which the journal does not hold is evidence of a loss, and never stale."""
        there = set(self._journal.segments.firsts())
        for first in index.segments():
            if first not in there:
                return JournalCorrupt(file=self._journal.segments.path(first), offset=0, why="the segment is gone")
        segment, last, digest = index.last_frame()
        seq = index.checkpoint().seq
        if seq == 0:
            return None
        with contextlib.suppress(JournalCorrupt):
            found = self._journal.commit_at(segment, last)
            if (found.digest, found.end.seq) == (digest, seq):
                return None
        why = f"the index knew another frame to end at sequence {seq}: the journal was cut or replaced"
        return JournalCorrupt(file=self._journal.segments.path(segment), offset=last, why=why)

    def renew(self) -> Index:
        """
        Make the index anew from the journal, as the next generation.

        Of a damaged journal nothing is written down: what is intact is folded in memory.
        """
        lock = FileLock(os.path.join(self._journal.root, _INDEX_LOCK))
        try:
            with lock.held(self._lock_wait_ms, lambda: "a process that is making the index anew"):
                before = self._journal.identity
                self._journal.reload_identity()
                identity = self._journal.identity
                if identity.generation != before.generation:  # somebody else has just done it
                    return Index.open(self._path(identity.generation), identity.id)
                generation = identity.generation + 1
                self._remove(generation)
                index = Index.create(self._path(generation), identity.id)
                try:
                    _fill(index, self._journal)
                except JournalCorrupt:
                    index.close()
                    self._remove(generation)
                    return self._intact()
                with self._journal.locked():
                    write_identity(
                        self._journal.root, self._disk, store_id=identity.id, generation=generation, key=identity.key
                    )
                self._journal.reload_identity()
                self._remove(identity.generation)
                return index
        finally:
            lock.close()

    def _remove(self, generation: int) -> None:
        """Remove the files of a generation.  A process that has them open goes on with what it has."""
        path = self._path(generation)
        for left_over in (path, path + "-wal", path + "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left_over)

    def _intact(self) -> Index:
        index = Index.in_memory(self._journal.identity.id)
        with contextlib.suppress(JournalCorrupt):
            _fill(index, self._journal)
        return index


def _fill(index: Index, journal: Journal) -> None:
    """
    Feed all of a journal to an empty index.

    Raises:
        JournalCorrupt: After everything before the damage was fed.
    """
    chunk: list[Commit] = []
    try:
        for commit in journal.read():
            chunk.append(commit)
            if len(chunk) == _FEED_CHUNK:
                index.take_in(chunk)
                chunk.clear()
    finally:
        index.take_in(chunk)
