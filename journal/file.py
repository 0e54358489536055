"""
The journal in files.

Appending holds the store's lock: look at the end, check the versions, write
one frame.  Syncing does not: one process syncs for all who wait.  A frame is
its own redo plan.  Whatever else follows from it (an index, a feed) is done
later by whoever comes by, from the frame alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fencepost.journal.disk import Disk, failure
from fencepost.journal.errors import (
    ClosedHandle,
    ForkedHandle,
    JournalConflict,
    NotAStore,
)
from fencepost.journal.event import Batch, Checkpoint, Commit, NewEvent
from fencepost.journal.frame import encode, recorded
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock, describe_process
from fencepost.journal.port import Heads, Stream
from fencepost.journal.reading import read_commit, read_commits
from fencepost.journal.recovery import BEGINNING, cut, end_at, find_end
from fencepost.journal.root import (
    STORE_LOCK,
    SYNC_LOCK,
    WATERMARK,
    Identity,
    file_mark,
    make_root,
    make_store,
    read_identity,
)
from fencepost.journal.segments import SEGMENT_BYTES, Segments
from fencepost.journal.sync import Sync
from fencepost.journal.watermark import Mark, Watermark


def _salt() -> str:
    return secrets.token_hex(16)


class FileJournal:
    """
    A journal in a folder.  Threads may share a handle; a forked child may not.

    Args:
        root: The store's folder; made if it is not there.
        lock_wait_ms: For how long to wait for another writer.
        segment_bytes: When to begin the next segment.
        disk: The calls that touch the disk.
        salt: Gives 32 random hex digits.

    Raises:
        NotAStore: The folder holds something else.
        NewerStore: A newer fencepost made it.
        JournalUnavailable: The folder cannot be made or written.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        lock_wait_ms: int = LOCK_WAIT_MS_DEFAULT,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk | None = None,
        salt: Callable[[], str] = _salt,
    ) -> None:
        self.root: Final = os.path.abspath(os.fspath(root))
        self._disk = disk or Disk()
        self._lock_wait_ms = lock_wait_ms
        self._segment_bytes = segment_bytes
        self._salt = salt
        self._pid = os.getpid()
        self._closed = False
        self._mutex = threading.RLock()
        self._heads: Heads = _NoHeads()
        self._pending: list[Commit] = []
        self._versions: dict[Stream, int] = {}
        self._keys: set[str] = set()
        self._known: Checkpoint = BEGINNING
        self._epoch = -1
        try:
            make_root(self.root, self._disk)
            self._lock = FileLock(self._path(STORE_LOCK))
            self._sync_lock = FileLock(self._path(SYNC_LOCK))
            self._watermark = Watermark(self._path(WATERMARK))
            with self._lock.held(lock_wait_ms, self._holder):
                make_store(self.root, self._disk)
        except OSError as error:
            raise failure(error, self.root) from error
        self.identity: Identity = read_identity(self.root)
        self._segments = Segments(self.root, self._disk, write=True)
        self._sync = Sync(self._sync_lock, self._watermark, self._segments, self._disk)

    # --- the port ---------------------------------------------------------------------------------

    def attach(self, heads: Heads) -> None:
        """Let the journal ask `heads` for versions; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            self._heads = heads
            self._forget(heads.checkpoint())

    def append(self, batch: Batch, expect: Mapping[Stream, int]) -> Commit:
        """Append a batch whole, and return once it is durable; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            self._check_handle()
            try:
                with self._lock.held(self._lock_wait_ms, self._holder):
                    self._watermark.holder = self._pid
                    commit = self._append_locked(batch, expect)
            except OSError as error:
                raise failure(error, self.root) from error
        self._sync.settle(commit.end)
        return commit

    def refresh(self) -> int:
        """Learn what others have appended; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            self._check_handle()
            self._learn(self._mark())
            return self._known.seq

    def pending(self) -> Sequence[Commit]:
        """The batches behind the heads' checkpoint; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            return tuple(self._pending)

    def trim(self) -> None:
        """Forget the pending batches that the heads have taken in; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            seq = self._heads.checkpoint().seq
            if self._pending and self._pending[0].end.seq <= seq:
                self._pending = [commit for commit in self._pending if commit.end.seq > seq]
                self._versions.clear()
                self._keys.clear()
                for commit in self._pending:
                    self._note(commit)

    def settle(self, seq: int) -> None:
        """Return once everything up to the event is durable; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        if self._watermark.durable < seq:
            self._sync.settle(self._known)

    def durable(self) -> int:
        """The sequence number of the last durable event; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            self._check_handle()
            self._mark()
            return self._watermark.durable

    def read(self, after: Checkpoint | None = None) -> Iterator[Commit]:
        """The durable batches behind a place; see `fencepost.journal.port.Journal`."""
        yield from read_commits(self._segments, after or BEGINNING, through=self.durable())

    def commit_at(self, segment: int, offset: int) -> Commit:
        """The batch at a place; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        return read_commit(self._segments, segment, offset)

    def key_digest(self, scope: str, key: str) -> str:
        """The keyed digest of an idempotency key; see `fencepost.journal.port.Journal`."""
        return self.identity.digest(scope, key)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other writer out for the length of a block."""
        with self._mutex:
            self._check_handle()
            with self._lock.held(self._lock_wait_ms, self._holder):
                self._watermark.holder = self._pid
                yield

    def reload_identity(self) -> None:
        """
        Read `store.json` again, after another process has replaced it: an import, or a new generation of the index.

        Raises:
            NotAStore: It has become another store.
        """
        identity = read_identity(self.root)
        if identity.id != self.identity.id:
            raise NotAStore(path=self.root, why="it has become another store: open it again")
        self.identity = identity

    def close(self) -> None:
        """Let go of everything; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._segments.close()
                self._watermark.close()
                self._lock.close()
                self._sync_lock.close()

    # --- appending, under the lock --------------------------------------------------------------------

    def _append_locked(self, batch: Batch, expect: Mapping[Stream, int]) -> Commit:
        mark = self._stock()
        self._learn(mark)
        versions = self._check_versions(batch, expect)
        macs = [self._fresh_key(event) for event in batch.events]
        salts = [self._salt() for _ in batch.events]
        durable = self._watermark.durable
        digest, frame = encode(batch, mark.seq + 1, mark.digest, durable, versions, salts, macs)
        if mark.offset and mark.offset + len(frame) > self._segment_bytes:
            mark = self._rotate(mark)
        begin, end = mark.offset, mark.offset + len(frame)
        fd = self._segments.fd(mark.segment)
        try:
            self._segments.allocate(mark.segment, end)
            self._disk.write(fd, frame, begin)
        except OSError:
            self._take_off(mark)
            raise
        seq = mark.seq + len(batch.events)
        commit = recorded(batch, digest, begin, Checkpoint(seq, digest, mark.segment, end), versions, macs)
        self._watermark.write(Mark(mark.store, mark.segment, mark.inode, seq, end, begin, digest))
        self._add(commit)
        return commit

    def _check_versions(self, batch: Batch, expect: Mapping[Stream, int]) -> list[int]:
        at: dict[Stream, int] = {}
        for stream, expected in expect.items():
            actual = self._version(stream)
            if actual != expected:
                raise JournalConflict(
                    scope=stream[0], stream=stream[1], expected_version=expected, actual_version=actual
                )
            at[stream] = actual
        versions = []
        for event in batch.events:
            stream = (event.scope, event.stream)
            at[stream] = at[stream] + 1 if stream in at else self._version(stream) + 1
            versions.append(at[stream])
        return versions

    def _fresh_key(self, event: NewEvent) -> str | None:
        """The digest of the event's idempotency key, which no earlier event may carry."""
        if event.key is None:
            return None
        digest = self.key_digest(event.scope, event.key)
        if digest in self._keys or self._heads.knows_key(digest):
            raise JournalConflict(
                scope=event.scope, stream="an idempotency key", expected_version=0, actual_version=1
            )
        return digest

    def _version(self, stream: Stream) -> int:
        return self._versions.get(stream) or self._heads.version(stream)

    def _take_off(self, mark: Mark) -> None:
        """After a write that failed: leave nothing of it.  If that fails too, the next append finds it torn."""
        try:
            self._disk.truncate(self._segments.fd(mark.segment), mark.offset)
        except OSError:
            pass

    def _rotate(self, mark: Mark) -> Mark:
        """Seal the segment, which syncs it, and only then begin the next."""
        with self._sync_lock.held(self._lock_wait_ms, self._holder):
            self._sync.make_durable(mark.segment, mark.seq)
            self._segments.seal(mark.segment, mark.offset)
            return self._begin_segment(mark.store, mark.seq, mark.digest)

    def _begin_segment(self, store: tuple[int, int], seq: int, digest: str) -> Mark:
        first = seq + 1
        if first not in self._segments.firsts():
            self._segments.create(first)
        mark = Mark(store, first, self._segments.inode(first), seq, 0, 0, digest)
        self._watermark.write(mark)
        return mark

    # --- the end of the journal ----------------------------------------------------------------------

    def _stock(self) -> Mark:
        """Where the journal ends, seen with own eyes; under the lock."""
        store = file_mark(self.root)
        if store != self.identity.file:
            self.reload_identity()
            store = self.identity.file
        mark = self._watermark.mark
        if mark is not None and mark.store == store and not self._watermark.poisoned:
            if self._segments.is_same_file(mark.segment) and self._stands(mark):
                return mark
        else:
            mark = None
        with self._sync_lock.held(self._lock_wait_ms, self._holder):
            return self._recover(mark, store)

    def _stands(self, mark: Mark) -> bool:
        """Is the last frame where the mark says, and nothing behind it?"""
        behind = self._segments.read(mark.segment, mark.offset, 64)
        if behind.count(0) != len(behind):
            return False
        if mark.last == mark.offset:
            return True
        return self._segments.read(mark.segment, mark.last, 64) == mark.digest.encode()

    def _recover(self, mark: Mark | None, store: tuple[int, int]) -> Mark:
        """Find the end by reading, cut off what is torn, and say so in the watermark; under both locks."""
        watermark = self._watermark
        self._segments.close()
        was_here = watermark.mark
        if was_here is not None and was_here.store == store and watermark.poisoned:
            end = end_at(self._segments, watermark.durable)
            cut(self._segments, self._disk, end.place)
            watermark.epoch += 1
            fresh = self._begin_segment(store, end.place.seq, end.place.digest)
            watermark.poisoned = False
            return fresh
        witness = self._heads.checkpoint().seq
        start = None
        if mark is not None and self._segments.is_same_file(mark.segment):
            witness = max(witness, watermark.durable)
            read = self._segments.read(mark.segment, mark.last, 64)
            if mark.last == mark.offset or read == mark.digest.encode():
                start = Checkpoint(mark.seq, mark.digest, mark.segment, mark.offset)
        end = find_end(self._segments, start, witness)
        if end.torn:
            cut(self._segments, self._disk, end.place)
        if not self._segments.firsts():
            self._segments.create(1)
        place = end.place
        inode = self._segments.inode(place.segment)
        last = mark.last if mark is not None and start is not None and place == start else end.last
        fresh = Mark(store, place.segment, inode, place.seq, place.offset, last, place.digest)
        if start is None:
            # What was read may stand in the memory of this machine only.
            self._disk.sync_data(self._segments.fd(place.segment))
            watermark.poisoned = False
            watermark.epoch += 1
            watermark.durable = place.seq
        watermark.write(fresh)
        return fresh

    def _mark(self) -> Mark:
        """Where the journal ends, as far as a look at the watermark tells; by reading where it does not."""
        watermark = self._watermark
        mark = watermark.mark
        if mark is None or mark.store != self.identity.file or watermark.poisoned or self._known.seq > mark.seq:
            try:
                with self._lock.held(self._lock_wait_ms, self._holder):
                    watermark.holder = self._pid
                    mark = self._stock()
            except OSError as error:
                raise failure(error, self.root) from error
        return mark

    # --- what this handle knows ------------------------------------------------------------------------

    def _learn(self, mark: Mark) -> None:
        """Read what stands between what is known and the mark."""
        if self._epoch != self._watermark.epoch:
            self._epoch = self._watermark.epoch
            self._forget(self._heads.checkpoint())
        if self._known.seq < mark.seq:
            for commit in read_commits(self._segments, self._known, through=mark.seq):
                self._add(commit)

    def _forget(self, place: Checkpoint) -> None:
        self._pending.clear()
        self._versions.clear()
        self._keys.clear()
        self._known = place

    def _add(self, commit: Commit) -> None:
        self._pending.append(commit)
        self._note(commit)
        self._known = commit.end

    def _note(self, commit: Commit) -> None:
        for event in commit.events:
            self._versions[event.scope, event.stream] = event.version
            if event.key is not None:
                self._keys.add(event.key)

    # --- small things -------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _holder(self) -> str:
        return describe_process(self._watermark.holder)

    def _check_handle(self) -> None:
        if self._pid != os.getpid():
            raise ForkedHandle(opener=self._pid, user=os.getpid())
        if self._closed:
            raise ClosedHandle(path=self.root)


class _NoHeads:
    """Nobody folds the journal, so it keeps all of itself in mind."""

    def checkpoint(self) -> Checkpoint:
        return BEGINNING

    def version(self, stream: Stream) -> int:
        return 0

    def knows_key(self, digest: str) -> bool:
        return False
