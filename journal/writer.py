"""
The open end of the journal, for whoever holds the append lock.

The watermark says where the end is; it is believed as far as the journal itself
agrees.  Otherwise the end is found by reading, and what a crash has left there
is put in order before anything is appended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Final

from fencepost.journal.disk import Disk
from fencepost.journal.erasing import plan_path
from fencepost.journal.event import Checkpoint
from fencepost.journal.recovery import cut, end_at, find_end, make_believable
from fencepost.journal.segments import Segments
from fencepost.journal.sync import Sync
from fencepost.journal.watermark import Mark, Watermark

#: A look at the first bytes of a frame: its digest.
_LOOK_BYTES: Final = 64
#: A frame this short is read whole to look at both of its ends at once.
_SHORT_BYTES: Final = 8 << 10


class Writer:
    """Appends frames to one store, for one process; every method needs the append lock."""

    def __init__(
        self, root: str, segments: Segments, watermark: Watermark, sync: Sync, disk: Disk, segment_bytes: int
    ) -> None:
        self._root = root
        self._segments = segments
        self._watermark = watermark
        self._sync = sync
        self._disk = disk
        self._segment_bytes = segment_bytes

    def stock(self, store: tuple[int, int], known: Callable[[], Checkpoint]) -> Mark:
        """
        Where the journal ends, seen with own eyes.

        Args:
            store: Which `store.json` stands there.
            known: Gives the place that an index proves to have been on the disk.

        Raises:
            JournalCorrupt: It is damaged.
            OSError: It cannot be read, or not put in order.
        """
        mark = self._watermark.mark
        if mark is None or self._watermark.poisoned or not self._stands(mark):
            with self._sync.held():
                return self._recover(mark, store, known().seq)
        if self._watermark.rotating:  # and was interrupted
            with self._sync.held():
                return self._begin(store, mark.seq, mark.digest)
        if mark.store != store:
            mark = Mark(store, mark.segment, mark.inode, mark.seq, mark.offset, mark.last, mark.digest)
            self._watermark.write(mark)
        return mark

    def write(self, mark: Mark, frame: tuple[str, bytes], events: int) -> tuple[int, int]:
        """
        Write a frame behind the mark, in the next segment if this one is full, and move the watermark.

        Args:
            mark: Where the journal ends.
            frame: Its digest and its bytes.
            events: How many events it holds.

        Returns:
            The segment, and the byte of it at which the frame begins.

        Raises:
            OSError: Nothing was written, or nothing that will be read.
        """
        digest, line = frame
        if mark.offset and mark.offset + len(line) > self._segment_bytes:
            mark = self._rotate(mark)
        begin, end = mark.offset, mark.offset + len(line)
        fd = self._segments.fd(mark.segment)
        try:
            self._segments.allocate(mark.segment, end)
            self._disk.write(fd, line, begin)
        except OSError:
            with contextlib.suppress(OSError):  # if this fails too, the next append finds it torn
                self._disk.truncate(fd, begin)
            raise
        self._watermark.write(Mark(mark.store, mark.segment, mark.inode, mark.seq + events, end, begin, digest))
        return mark.segment, begin

    def _stands(self, mark: Mark) -> bool:
        """Is the last frame where the mark says, and nothing behind it?"""
        if not self._segments.is_file(mark.segment, mark.inode) or self._segments.inode(mark.segment) != mark.inode:
            return False
        begin = mark.last
        if mark.offset - begin > _SHORT_BYTES:
            begin = mark.offset
            if not self._last_stands(mark):
                return False
        seen = self._segments.read(mark.segment, begin, mark.offset - begin + _LOOK_BYTES)
        behind = mark.offset - begin
        return (not behind or seen.startswith(mark.digest.encode())) and seen.count(0, behind) == len(seen) - behind

    def _last_stands(self, mark: Mark) -> bool:
        last = self._segments.read(mark.segment, mark.last, _LOOK_BYTES)
        return mark.last == mark.offset or last == mark.digest.encode()

    def _rotate(self, mark: Mark) -> Mark:
        """Seal the segment, which syncs it, and only then begin the next."""
        with self._sync.held():
            self._sync.make_durable(mark.segment, mark.seq)
            try:
                self._segments.seal(mark.segment, mark.offset)
            except OSError:
                self._watermark.poisoned = True  # a sync that failed is not tried again
                raise
            return self._begin(mark.store, mark.seq, mark.digest)

    def _begin(self, store: tuple[int, int], seq: int, digest: str) -> Mark:
        first = seq + 1
        self._watermark.rotating = True
        self._segments.create(first)
        mark = Mark(store, first, self._segments.inode(first), seq, 0, 0, digest)
        self._watermark.write(mark)
        self._watermark.rotating = False
        return mark

    def _recover(self, mark: Mark | None, store: tuple[int, int], witness: int) -> Mark:
        """Put the end in order; under the sync lock too, so that nobody syncs what is taken back."""
        self._segments.close()
        self._watermark.erasing = os.path.exists(plan_path(self._segments.folder))  # the word is of this boot only
        if self._watermark.poisoned:
            return self._take_back(store)
        if self._watermark.belongs:
            witness = max(witness, self._watermark.durable)
        start = None
        if mark is not None and self._segments.is_file(mark.segment, mark.inode) and self._last_stands(mark):
            start = Checkpoint(mark.seq, mark.digest, mark.segment, mark.offset)
        end = find_end(self._segments, start, witness)
        if end.torn:
            cut(self._segments, self._disk, end.place)
        place, last = end.place, end.last
        if not self._segments.firsts():
            self._segments.create(place.segment)
        if start is None:
            make_believable(self._segments, self._disk, self._root, place)
            if not self._watermark.belongs:
                self._watermark.epoch += 1
                self._watermark.poisoned = False
            self._watermark.durable = place.seq
        elif mark is not None and place == start:
            last = mark.last
        inode = self._segments.inode(place.segment)
        found = Mark(store, place.segment, inode, place.seq, place.offset, last, place.digest)
        self._watermark.write(found)
        self._watermark.rotating = False
        return found

    def _take_back(self, store: tuple[int, int]) -> Mark:
        """After a failed sync: believe nothing behind the last durable frame, and begin a new segment there."""
        self._watermark.epoch += 1  # first of all: whoever waits for what is taken back must not be told it is durable
        end = end_at(self._segments, self._watermark.durable)
        cut(self._segments, self._disk, end.place)
        mark = self._begin(store, end.place.seq, end.place.digest)
        self._watermark.poisoned = False
        return mark
