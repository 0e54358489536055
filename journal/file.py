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
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fencepost.journal import forks
from fencepost.journal.disk import Disk, failure
from fencepost.journal.erasing import Eraser
from fencepost.journal.errors import (
    ClosedHandle,
    ForkedHandle,
    JournalConflict,
    JournalCorrupt,
    JournalFull,
    NotAStore,
    ReadOnlyStore,
    SyncFailed,
    TargetOccupied,
)
from fencepost.journal.event import Batch, Checkpoint, Commit, Event
from fencepost.journal.frame import encode, recorded
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock, describe_process, network_filesystem
from fencepost.journal.places import place_before
from fencepost.journal.port import Heads, NoHeads, Stream
from fencepost.journal.reading import read_commit, read_commits, read_durable
from fencepost.journal.recovery import BEGINNING
from fencepost.journal.root import (
    STORE_FILE,
    STORE_LOCK,
    SYNC_LOCK,
    WATERMARK,
    Identity,
    file_mark,
    make_root,
    make_store,
    read_identity,
    write_identity,
)
from fencepost.journal.segments import SEGMENT_BYTES, Segments
from fencepost.journal.sync import Sync
from fencepost.journal.watermark import Mark, Watermark
from fencepost.journal.writer import Writer

#: How often a waiter looks whether the watermark is still the file that stands there.
_FOLLOW_S: Final = 1.0
#: A disk with less room than this is as good as full: a short batch takes as much with all that follows from it.
_ROOM_BYTES: Final = 1 << 20


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
        self._store_file = self._path(STORE_FILE)
        self._pid = os.getpid()
        self._closed = False
        self._mutex = threading.RLock()
        forks.register(self)
        self._heads: Heads = NoHeads()
        self._pending: list[Commit] = []
        self._streams: dict[Stream, list[Event]] = {}
        self._keys: set[str] = set()
        self._known: Checkpoint = BEGINNING
        self._epoch = -1
        self._follow_at = 0.0
        with contextlib.ExitStack() as opened:
            try:
                make_root(self.root, self._disk)
                self._lock = FileLock(self._path(STORE_LOCK))
                opened.callback(self._lock.close)
                self._sync_lock = FileLock(self._path(SYNC_LOCK), exact=False)
                opened.callback(self._sync_lock.close)
                if not os.path.exists(self._store_file):
                    with self._lock.held(lock_wait_ms, lambda: "a process that is making the store"):
                        make_store(self.root, self._disk)
                self.identity: Identity = read_identity(self.root)
                self._watermark = Watermark(self._path(WATERMARK), self.identity.id)
            except OSError as error:
                raise failure(error, self.root) from error
            opened.pop_all()
        if (network := network_filesystem(self.root)) is not None:
            warnings.warn(
                f"{self.root} is on a network file system ({network}): its locks may not keep other machines out",
                RuntimeWarning,
                stacklevel=2,
            )
        self.segments = Segments(self.root, self._disk, write=True)
        self._sync = Sync(self._sync_lock, self._watermark, self.segments, self._disk)
        self._writer = Writer(self.root, self.segments, self._watermark, self._sync, self._disk, segment_bytes)
        self._eraser = Eraser(self.root, self.segments, self._watermark, self._sync, self._disk)

    def renew_in_child(self) -> None:
        """In a forked child: a thread of the parent may have held the mutex."""
        self._mutex = threading.RLock()

    # --- the port ---------------------------------------------------------------------------------

    def attach(self, heads: Heads) -> None:
        """Let the journal ask `heads` for versions; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            self._heads = heads
            self._forget(heads.checkpoint())

    def append(
        self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True, looked: int | None = None
    ) -> Commit:
        """Append a batch whole, and return once it is durable; see `fencepost.journal.port.Journal`."""
        with self.locked():
            commit = self._append_locked(batch, expect, looked)
            place, epoch = self._known, self._watermark.epoch
        if settle or batch.erases:
            self._sync.settle(place, epoch)
        return commit

    def check(self) -> None:
        """Could a batch be appended now?  See `fencepost.journal.port.Journal`."""
        with self.locked():
            self._learn(self._stock())
            found = os.statvfs(self.root)
        if found.f_flag & os.ST_RDONLY:
            raise ReadOnlyStore(path=self.root)
        if found.f_bavail * found.f_frsize < _ROOM_BYTES:
            raise JournalFull(path=self.root)

    def refresh(self) -> int:
        """Learn what others have appended; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        mark = self._glance()
        if mark is not None:
            with contextlib.suppress(JournalCorrupt), self._mutex:
                self._learn(mark)
                return self._known.seq
            # What is not durable can be taken back while it is being read: look again with everybody kept out.
        with self.locked():
            self._learn(self._stock())
            return self._known.seq

    def generation(self) -> int:
        """A number that changes when something was erased; see `fencepost.journal.port.Journal`."""
        return self.identity.generation

    def epoch(self) -> int:
        """A number that changes when something was taken back; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        return self._watermark.epoch

    def pending(self) -> Sequence[Commit]:
        """The batches behind the heads' checkpoint; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            return tuple(self._pending)

    def pending_of(self, stream: Stream) -> Sequence[Event]:
        """The events among them of one stream; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            return tuple(self._streams.get(stream, ()))

    def owed(self) -> Sequence[Commit]:
        """The durable ones of them; see `fencepost.journal.port.Journal`."""
        while True:
            self.refresh()
            with self._mutex:
                durable = self._watermark.durable
                if self._watermark.epoch == self._epoch:  # after `durable`: taking back begins with the epoch
                    return tuple(commit for commit in self._pending if commit.seq <= durable)

    def trim(self) -> None:
        """Forget the pending batches that the heads have taken in; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            seq = self._heads.checkpoint().seq
            if self._pending and self._pending[0].end.seq <= seq:
                self._pending = [commit for commit in self._pending if commit.seq > seq]
                self._streams.clear()
                self._keys.clear()
                for commit in self._pending:
                    self._note(commit)

    def settle(self, epoch: int) -> bool:
        """Wait until everything that was shown is durable; see `fencepost.journal.port.Journal`."""
        self.refresh()
        with self._mutex:
            place = self._known
        if self._watermark.durable < place.seq and self._watermark.epoch == epoch:
            with contextlib.suppress(SyncFailed):
                self._sync.settle(place, epoch)
        return self._watermark.durable >= place.seq and self._watermark.epoch == epoch

    def durable(self) -> int:
        """The sequence number of the last durable event; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        if self._glance() is None:
            with self.locked():
                self._stock()
        return self._watermark.durable

    def news(self) -> int:
        """A number that changes when something has become durable; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        if (now := time.monotonic()) > self._follow_at:
            self._follow_at = now + _FOLLOW_S
            with contextlib.suppress(OSError, ValueError):  # at a glance; whoever appends will say what is wrong
                self._watermark.follow()
        return self._watermark.durable

    def read(self, after: Checkpoint | None = None) -> Iterator[Commit]:
        """The durable batches behind a place; see `fencepost.journal.port.Journal`."""
        yield from read_durable(self.segments, after, self.durable)

    def place_before(self, seq: int) -> Checkpoint:
        """Where to read from; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        return place_before(self.segments, seq)

    def kept_from(self) -> int:
        """The first event in no archive; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        return self.segments.kept()

    def commit_at(self, segment: int, offset: int) -> Commit:
        """The batch at a place; see `fencepost.journal.port.Journal`."""
        self._check_handle()
        return read_commit(self.segments, segment, offset, self.durable)

    def key_digest(self, scope: str, key: str) -> str:
        """The keyed digest of an idempotency key; see `fencepost.journal.port.Journal`."""
        return self.identity.digest(scope, key)

    def secret(self) -> bytes:
        """See `fencepost.journal.port.Journal`."""
        return self.identity.key

    def adopt(self, secret: bytes) -> None:
        """See `fencepost.journal.port.Journal`."""
        with self.locked():
            if self._stock().seq:
                raise TargetOccupied(path=self.root, why="a store with a history of its own")
            here = self.identity
            write_identity(self.root, self._disk, store_id=here.id, generation=here.generation, key=secret)
            self.reload_identity()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """
        Keep every other writer out for the length of a block.

        Raises:
            JournalBusy: Another process did not let go in time.
            JournalError: The block met an error of the operating system.
        """
        self._check_handle()
        try:
            self._lock.acquire(self._lock_wait_ms, self._holder)
            try:
                with self._mutex:
                    self._check_handle()
                    self._watermark.follow()
                    self._watermark.holder = self._pid
                    yield
            finally:
                self._lock.release()
        except OSError as error:
            raise failure(error, self.root) from error

    def reload_identity(self) -> None:
        """
        Read `store.json` again, after another process has replaced it: an import, or a new generation of the index.

        Raises:
            NotAStore: It has become another store.
        """
        identity = read_identity(self.root)
        if identity.id != self.identity.id:
            raise NotAStore(path=self.root, why="it has become another store: open it again")
        if identity.generation != self.identity.generation:
            self._epoch = -1  # what is pending may hold something that has been erased: it is learned anew
        self.identity = identity

    def close(self) -> None:
        """Let go of everything; see `fencepost.journal.port.Journal`."""
        with self._mutex:
            already, self._closed = self._closed, True
        if not already:
            self._lock.close()
            self._sync_lock.close()
            self.segments.close()
            self._watermark.close()

    # --- appending, under the lock --------------------------------------------------------------------

    def _append_locked(self, batch: Batch, expect: Mapping[Stream, int], looked: int | None) -> Commit:
        generation = self.identity.generation if looked is None else looked
        mark = self._stock()
        self._learn(mark)
        versions = self._check_versions(batch, expect, stale=generation != self.identity.generation)
        macs = self._fresh_keys(batch)
        salts = [self._salt() for _ in batch.events]
        durable = self._watermark.durable
        frame = encode(batch, mark.seq + 1, mark.digest, durable, versions, salts, macs)
        if batch.erases:
            self._eraser.plan(mark, batch.erases)
        segment, offset = self._writer.write(mark, frame, len(batch.events))
        commit = recorded(batch, self._known, frame, segment, offset, versions, macs)
        self._add(commit)
        if batch.erases:
            self._learn(self._stock())  # which carries it out
        return commit

    def _check_versions(self, batch: Batch, expect: Mapping[Stream, int], *, stale: bool) -> list[int]:
        at: dict[Stream, int] = {}
        for stream, expected in expect.items():
            actual = self._version(stream)
            if actual != expected or (stale and expected):  # what was decided on may have been erased
                raise JournalConflict(
                    scope=stream[0], stream=stream[1], expected_version=expected, actual_version=actual
                )
            at[stream] = actual
        versions = []
        for event in batch.events:
            stream = (event.scope, event.stream)
            before = at.get(stream)
            at[stream] = version = (self._version(stream) if before is None else before) + 1
            versions.append(version)
        return versions

    def _fresh_keys(self, batch: Batch) -> list[str | None]:
        """The digest of each event's idempotency key, which no other event may carry."""
        digests: list[str | None] = []
        for event in batch.events:
            digest = event.digest if event.key is None else self.key_digest(event.scope, event.key)
            if digest is not None and (digest in digests or digest in self._keys or self._heads.knows_key(digest)):
                raise JournalConflict(
                    scope=event.scope, stream="an idempotency key", expected_version=0, actual_version=1
                )
            digests.append(digest)
        return digests

    def _version(self, stream: Stream) -> int:
        pending = self._streams.get(stream)
        return pending[-1].version if pending else self._heads.version(stream)

    def _stock(self) -> Mark:
        """Where the journal ends, seen with own eyes; under the lock."""
        if file_mark(self._store_file) != self.identity.file:
            self.reload_identity()
        mark = self._writer.stock(self.identity.file, self._heads.checkpoint)
        if self._watermark.erasing:
            try:
                mark = self._eraser.finish(mark)
            finally:
                self.reload_identity()
        return mark

    def _glance(self) -> Mark | None:
        """Where the journal ends, as far as a look at the watermark tells; without any lock."""
        watermark = self._watermark
        mark = watermark.mark
        if mark is None or mark.store != self.identity.file or watermark.poisoned or watermark.erasing:
            return None
        return mark

    # --- what this handle knows ------------------------------------------------------------------------

    def _learn(self, mark: Mark) -> None:
        """Read what stands between what is known and the mark."""
        if self._epoch != self._watermark.epoch:
            self._epoch = self._watermark.epoch
            self._forget(self._heads.checkpoint())
        if self._known.seq < mark.seq:
            for commit in read_commits(self.segments, self._known, through=mark.seq):
                self._add(commit)

    def _forget(self, place: Checkpoint) -> None:
        self._pending.clear()
        self._streams.clear()
        self._keys.clear()
        self._known = place

    def _add(self, commit: Commit) -> None:
        self._pending.append(commit)
        self._note(commit)
        self._known = commit.end

    def _note(self, commit: Commit) -> None:
        for event in commit.events:
            self._streams.setdefault((event.scope, event.stream), []).append(event)
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
