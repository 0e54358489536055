"""
Opening a store: in a folder, in memory, or only to be read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Iterator
from typing import Final

from fencepost.journal import forks
from fencepost.journal.disk import Disk
from fencepost.journal.erasing import plan_path
from fencepost.journal.errors import JournalCorrupt, JournalUnavailable
from fencepost.journal.file import FileJournal
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.reader import FileReader
from fencepost.journal.root import write_identity
from fencepost.journal.segments import SEGMENT_BYTES
from fencepost.mailbox.store.filling import fill, folded
from fencepost.mailbox.store.index import Index, file_name, file_of
from fencepost.mailbox.store.over_journal import JournalStore
from fencepost.mailbox.store.troubles import Unusable, translating

_INDEX_LOCK: Final = ".index.lock"
#: For how long to wait for another process that makes the index anew: long enough for a million messages.
_INDEX_WAIT_MS: Final = 60_000


def memory_store() -> JournalStore:
    """A store that lasts as long as the object."""
    journal = MemoryJournal()
    return JournalStore(journal, Index.in_memory("memory"))


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
    with contextlib.ExitStack() as opened:
        opened.callback(journal.close)
        index, damage = keeper.open()
        opened.callback(index.close)
        store = JournalStore(journal, index, keeper.renew, damage, keeper.open)
        opened.pop_all()
    return store


def reading_store(root: str | os.PathLike[str]) -> JournalStore:
    """
    The store of a folder that is only read, such as a read-only copy; folded in memory, so opening reads all of it.

    Raises:
        NotAStore: It is no store.
        NewerStore: A newer fencepost made it.
    """
    reader = FileReader(root)
    index, damage = folded(reader, reader.identity.id)
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
        index = _IndexKeeper(journal, LOCK_WAIT_MS_DEFAULT, Disk()).renew(journal.identity.generation)
        with contextlib.closing(index):
            return journal.identity.generation, index.checkpoint().seq


@contextlib.contextmanager
def open_index_to_read(reader: FileReader) -> Iterator[sqlite3.Connection | None]:
    """
    The index of a store for questions of an auditor; None where there is none.

    While an erasure is not finished there is none either: the one that stands there will not outlive it.
    SQLite reads a write-ahead log only where it may write beside it, so an index on a read-only file system is copied
    to a temporary folder first.
    """
    path = os.path.join(reader.root, file_name(reader.identity.generation))
    if not os.path.exists(path) or os.path.exists(plan_path(reader.segments.folder)):
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
            db = sqlite3.connect(
                f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw", uri=True, isolation_level=None
            )
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

    def open(self) -> tuple[Index, JournalCorrupt | None]:
        """The index, and what it proves to be wrong with the journal."""
        identity = self._journal.identity
        if file_of(self._path(identity.generation)) in forks.inherited:
            return self._in_memory()
        try:
            index = Index.open(self._path(identity.generation), identity.id, identity.generation)
        except Unusable:
            return self.renew(identity.generation), None
        with contextlib.ExitStack() as opened:
            opened.callback(index.close)
            try:
                with translating(index.path):
                    damage = self._disagreement(index)
            except Unusable:
                return self.renew(identity.generation), None
            opened.pop_all()
        return index, damage

    def _path(self, generation: int) -> str:
        return os.path.join(self._journal.root, file_name(generation))

    def _disagreement(self, index: Index) -> JournalCorrupt | None:
        """An index that knows of a frame which the journal does not hold is evidence of a loss, and never stale."""
        known = index.segments()  # before looking: what is begun meanwhile is not missing
        there = set(self._journal.segments.firsts())
        for first in known:
            if first not in there:
                return JournalCorrupt(file=self._journal.segments.path(first), offset=0, why="the segment is gone")
        seq, digest, segment, last = index.last_batch()
        if seq == 0:
            return None
        with contextlib.suppress(JournalCorrupt):
            found = self._journal.commit_at(segment, last)
            if (found.digest, found.seq) == (digest, seq):
                return None
        why = f"the index knew another frame to end at sequence {seq}: the journal was cut or replaced"
        return JournalCorrupt(file=self._journal.segments.path(segment), offset=last, why=why)

    def renew(self, known: int) -> Index:
        """
        Make the index anew from the journal, as the next generation, or open the one that somebody else has just made.

        Of a damaged journal nothing is written down: what is intact is folded in memory.

        Args:
            known: The generation that cannot be used.
        """
        lock = FileLock(os.path.join(self._journal.root, _INDEX_LOCK))
        try:
            with lock.held(max(self._lock_wait_ms, _INDEX_WAIT_MS), lambda: "a process that is making the index anew"):
                while True:
                    with contextlib.suppress(JournalCorrupt):
                        self._journal.durable()  # an erasure that is under way has to be over
                    self._journal.reload_identity()
                    index = self._made_by_others(known) or self._make_next()
                    if index is not None:
                        return index
        finally:
            lock.close()

    def _made_by_others(self, known: int) -> Index | None:
        identity = self._journal.identity
        with contextlib.suppress(Unusable):
            if identity.generation != known:
                return Index.open(self._path(identity.generation), identity.id, identity.generation)
        return None

    def _make_next(self) -> Index | None:
        """A new index; None where something was erased while it was being made."""
        identity = self._journal.identity
        generation = identity.generation + 1
        self._remove(generation)
        with contextlib.ExitStack() as unfinished:
            unfinished.callback(self._remove, generation)
            try:
                index = Index.create(self._path(generation), identity.id, generation)
            except Unusable:  # it was taken away at once
                return None
            unfinished.callback(index.close)
            try:
                fill(index, self._journal)
            except JournalCorrupt:
                return self._in_memory()[0]
            with self._journal.locked():
                self._journal.reload_identity()
                if self._journal.identity.generation != identity.generation:
                    return None
                write_identity(
                    self._journal.root, self._disk, store_id=identity.id, generation=generation, key=identity.key
                )
            unfinished.pop_all()
        self._journal.reload_identity()
        self._remove(identity.generation)
        return index

    def _remove(self, generation: int) -> None:
        """Remove the files of a generation.  A process that has them open goes on with what it has."""
        path = self._path(generation)
        for left_over in (path, path + "-wal", path + "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left_over)

    def _in_memory(self) -> tuple[Index, JournalCorrupt | None]:
        return folded(self._journal, self._journal.identity.id)
