"""
One sync for all who wait.

Whoever finds the sync lock free syncs for everybody and moves the watermark;
the others sleep until it should have ended, and look.  Nobody queues for the
lock: a queue would sync once for each of its members.

A failed sync is never tried again, because the kernel may have marked the
pages clean.  It poisons the watermark, which stops every process, and the next
append starts from the last durable frame.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from fencepost.journal.disk import Disk
from fencepost.journal.errors import SyncFailed
from fencepost.journal.event import Checkpoint
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT, FileLock
from fencepost.journal.segments import Segments
from fencepost.journal.watermark import Mark, Watermark

#: How long a follower sleeps at least before it looks again; below the time that a sync takes.
_LOOK_S: Final = 0.000_05
#: And at most: so short that nobody waits noticeably for a sync that ends before it should.
_LOOK_MOST_S: Final = 0.005
#: No disk takes longer to sync; a process that was stopped while it syncs may.
WAIT_S: Final = 60


class Sync:
    """The durable end of one store, for one process."""

    def __init__(self, lock: FileLock, watermark: Watermark, segments: Segments, disk: Disk) -> None:
        self._lock = lock
        self._watermark = watermark
        self._segments = segments
        self._disk = disk
        self._took_ns = 0  # the last sync of this process

    def settle(self, place: Checkpoint, epoch: int) -> None:
        """
        Return once everything before a place that was written is durable.

        Args:
            place: The place.
            epoch: The epoch in which it was written.  In a later one it may have been taken back.

        Raises:
            SyncFailed: A sync failed, here or in another process, so that is not known.
        """
        watermark = self._watermark
        pause_s = _LOOK_S
        give_up = time.monotonic() + WAIT_S
        while watermark.durable < place.seq or watermark.epoch != epoch:  # in this order: taking back begins with epoch
            self._check(epoch)
            if not self._lock.try_acquire():
                if time.monotonic() > give_up:
                    why = f"another process has been syncing for {WAIT_S} s"
                    raise SyncFailed(path=self._segments.folder, why=why)
                left_s = (watermark.sync_ends - time.monotonic_ns()) / 1e9
                time.sleep(min(max(left_s, pause_s), _LOOK_MOST_S))
                pause_s *= 1.5  # it takes longer than the last one
                continue
            try:
                self._check(epoch)  # nothing is taken back while the sync lock is held
                if watermark.durable < place.seq:
                    newest: Checkpoint | Mark | None = place
                    if (watermark.segment, watermark.seq) != (place.segment, place.seq):
                        newest = watermark.mark  # none where an appender is writing it, or died doing so
                    newest = place if newest is None else newest
                    self.make_durable(newest.segment, newest.seq)
            finally:
                self._lock.release()

    def _check(self, epoch: int) -> None:
        if self._watermark.poisoned or self._watermark.epoch != epoch:
            raise SyncFailed(path=self._segments.folder, why="a sync failed in this or another process")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep everybody from syncing for the length of a block."""
        with self._lock.held(LOCK_WAIT_MS_DEFAULT, lambda: "a process that is syncing"):
            yield

    def make_durable(self, segment: int, seq: int) -> None:
        """
        Sync a segment, which makes everything up to the event durable; under the sync lock.

        Raises:
            SyncFailed: The disk did not confirm it.
        """
        began = time.monotonic_ns()
        self._watermark.sync_ends = began + self._took_ns
        try:
            self._disk.sync_data(self._segments.fd(segment))
        except OSError as error:
            self._watermark.poisoned = True
            why = error.strerror or str(error)
            raise SyncFailed(path=self._segments.path(segment), why=why) from error
        self._watermark.durable = seq
        self._took_ns = time.monotonic_ns() - began
