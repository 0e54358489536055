"""
One sync for all who wait.

Whoever finds the sync lock free syncs for everybody and moves the watermark;
the others watch it.  Nobody queues for the lock: a queue would sync once for
each of its members.

A failed sync is never tried again, because the kernel may have marked the
pages clean.  It poisons the watermark, which stops every process, and the next
append starts from the last durable frame.
"""

from __future__ import annotations

import time
from typing import Final

from fencepost.journal.disk import Disk
from fencepost.journal.errors import SyncFailed
from fencepost.journal.event import Checkpoint
from fencepost.journal.lock import FileLock
from fencepost.journal.segments import Segments
from fencepost.journal.watermark import Watermark

#: How often a follower looks at the watermark: well below the time that a sync takes.
_LOOK_S: Final = 0.000_05


class Sync:
    """The durable end of one store, for one process."""

    def __init__(self, lock: FileLock, watermark: Watermark, segments: Segments, disk: Disk) -> None:
        self._lock = lock
        self._watermark = watermark
        self._segments = segments
        self._disk = disk

    def settle(self, place: Checkpoint) -> None:
        """
        Return once everything before a place that was written is durable.

        Raises:
            SyncFailed: A sync failed, here or in another process, so that is not known.
        """
        watermark = self._watermark
        epoch = watermark.epoch
        while watermark.durable < place.seq:
            if watermark.poisoned or watermark.epoch != epoch:
                raise SyncFailed(path=self._segments.folder, why="a sync failed in this or another process")
            if not self._lock.try_acquire():
                time.sleep(_LOOK_S)
                continue
            try:
                if watermark.durable < place.seq and not watermark.poisoned:
                    mark = watermark.mark  # none where an appender is writing it just now, or died doing so
                    newest = place if mark is None else mark
                    self.make_durable(newest.segment, newest.seq)
            finally:
                self._lock.release()

    def make_durable(self, segment: int, seq: int) -> None:
        """
        Sync a segment, which makes everything up to the event durable; under the sync lock.

        Raises:
            SyncFailed: The disk did not confirm it.
        """
        try:
            self._disk.sync_data(self._segments.fd(segment))
        except OSError as error:
            self._watermark.poisoned = True
            why = error.strerror or str(error)
            raise SyncFailed(path=self._segments.path(segment), why=why) from error
        self._watermark.durable = seq
