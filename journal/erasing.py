"""
Erasing: what a frame that names slots in `erases` still owes, and how it is paid.

    plan     `journal/erasing` is written and synced: the place at which the frame will stand
    frame    written and synced: from here on the erasure has happened
    indexes  `store.json` gets the next generation and every file of an index goes, whoever has it open
    slots    overwritten in every copy of every segment, and synced
    torn     every torn copy is overwritten with zeros, and what interrupted writes have left goes
    done     the plan is removed

All of it happens under the append lock.  Every step behind the frame can be done again, so whoever
comes by and finds the plan does them all.  A plan whose frame was never appended is removed.  Only
the plan's existence costs anything: a word of the watermark says that there may be one, and after
another start of the machine the folder is looked at.

A torn copy may hold a text that was sent again later, in pieces that nobody can take apart safely.
So a redaction blanks all of them: their names, which tell where and how much was cut, stay.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import orjson

from fencepost.journal.disk import STAGED, Disk, remove_staged, write_whole
from fencepost.journal.errors import ErasureUnfinished, JournalCorrupt, NotErasable
from fencepost.journal.event import Checkpoint
from fencepost.journal.frame import Header, commit_at, erased_slot, header_at, slot_places
from fencepost.journal.places import header_in, place_before
from fencepost.journal.root import INDEX, STORE_FILE, TORN, file_mark, read_identity, write_identity
from fencepost.journal.segments import Segments, archives, segment_name
from fencepost.journal.sync import Sync
from fencepost.journal.watermark import Mark, Watermark

#: In the journal folder, while an erasure is under way.
PLAN: Final = "erasing"


def plan_path(folder: str) -> str:
    """Where the plan of a journal folder is, if there is one."""
    return os.path.join(folder, PLAN)


def planned(segments: Segments, durable: Callable[[], int]) -> frozenset[int]:
    """
    The sequence numbers that an unfinished erasure names: their slots may hold data still, and it is erased.

    Args:
        segments: Where to look.
        durable: Finds the last durable event; a frame behind it binds nobody yet.
    """
    place = _read_plan(segments.folder)
    frame = None if place is None else _find_frame(segments, place)
    return frozenset() if frame is None or frame.last > durable() else frozenset(frame.erases)


def _read_plan(folder: str) -> Checkpoint | None:
    path = plan_path(folder)
    try:
        with open(path, "rb") as handle:
            fields = orjson.loads(handle.read())
        return Checkpoint(fields["seq"], fields["digest"], fields["segment"], fields["offset"])
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise JournalCorrupt(file=path, offset=0, why="it is no plan of an erasure") from error


def _find_frame(segments: Segments, place: Checkpoint) -> Header | None:
    """The frame that a plan was made for: there, or at the beginning of a segment that it began."""
    for segment, offset in ((place.segment, place.offset), (place.seq + 1, 0)):
        with contextlib.suppress(JournalCorrupt):  # no such segment
            buffer = segments.read(segment, offset)
            header = header_at(buffer, 0)
            follows = header is not None and (header.fields["prev"], header.seq) == (place.digest, place.seq + 1)
            if header is not None and follows and header.erases and commit_at(buffer, 0, segment) is not None:
                return header
    return None


class Eraser:
    """Plans and carries out the erasures of one store, for one process; every method needs the append lock."""

    def __init__(self, root: str, segments: Segments, watermark: Watermark, sync: Sync, disk: Disk) -> None:
        self._root = root
        self._segments = segments
        self._watermark = watermark
        self._sync = sync
        self._disk = disk

    def plan(self, mark: Mark, erases: Sequence[int]) -> None:
        """
        Say that the frame which is appended next erases something.

        Args:
            mark: Where the journal ends.
            erases: The sequence numbers; they are looked for first, so that nothing is recorded that cannot be done.

        Raises:
            NotErasable: One of them is not there, or is the record of an erasure.
            JournalCorrupt: Where one of them stood there is damage.
            OSError: There may be a plan or not; whoever appends next removes it.
        """
        for seq in erases:
            if not 0 < seq <= mark.seq:
                raise NotErasable(seq=seq, why="it is not there")
        for _ in self._places(erases):
            pass
        self._watermark.erasing = True  # before all else, so that nobody overlooks the file
        where = {"seq": mark.seq, "digest": mark.digest, "segment": mark.segment, "offset": mark.offset}
        write_whole(self._disk, plan_path(self._segments.folder), orjson.dumps(where) + b"\n")

    def finish(self, mark: Mark) -> Mark:
        """
        Carry out the erasure that was planned, if its frame is there, and forget the plan.

        Args:
            mark: Where the journal ends.

        Returns:
            The same place, with the `store.json` that stands there now.

        Raises:
            ErasureUnfinished: The frame is there, and not everything could be done.
            JournalCorrupt: What should be overwritten cannot be found.
            SyncFailed: Whether the frame will stay is not known.
            OSError: There was nothing to carry out, and the plan could not be removed.
        """
        folder = self._segments.folder
        place = _read_plan(folder)
        frame = None if place is None else _find_frame(self._segments, place)
        if frame is None:
            if place is not None:
                self._forget()
        else:
            if self._watermark.durable < mark.seq:
                with self._sync.held():
                    self._sync.make_durable(mark.segment, mark.seq)
            try:
                self._carry_out(frame.erases)
                mark.store = file_mark(os.path.join(self._root, STORE_FILE))
                self._watermark.write(mark)
                self._forget()
            except OSError as error:
                why = error.strerror or str(error)
                raise ErasureUnfinished(path=error.filename or folder, why=why) from error
        self._watermark.erasing = False
        return mark

    def _forget(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(plan_path(self._segments.folder))
        self._disk.sync_folder(self._segments.folder)

    def _carry_out(self, erases: Iterable[int]) -> None:
        """Every step behind the frame, whether it was done before or not: a sync that failed is worth nothing."""
        self._drop_indexes()
        for first, ranges in self._places(erases):
            for folder in self._folders():
                path = os.path.join(folder, segment_name(first))
                if os.path.exists(path):
                    self._overwrite(path, [(begin, erased_slot(size)) for begin, size in ranges])
        torn = os.path.join(self._segments.folder, TORN)
        if os.path.isdir(torn):
            for name in self._disk.names(torn):
                path = os.path.join(torn, name)
                self._overwrite(path, [(0, bytes(os.path.getsize(path)))])
        for folder in (self._root, torn, *self._folders()):
            if os.path.isdir(folder) and any(name.endswith(STAGED) for name in self._disk.names(folder)):
                remove_staged(self._disk, folder)
                self._disk.sync_folder(folder)

    def _folders(self) -> list[str]:
        """Where segments are; one that is being archived is in two of them."""
        return [self._segments.folder, *archives(self._segments.folder)]

    def _drop_indexes(self) -> None:
        """Another generation for whoever folds the events: those that have the old one open see that it is over."""
        identity = read_identity(self._root)
        key = identity.key
        write_identity(self._root, self._disk, store_id=identity.id, generation=identity.generation + 1, key=key)
        for name in self._disk.names(self._root):
            if name.startswith(INDEX):
                with contextlib.suppress(FileNotFoundError):  # SQLite of another process was quicker
                    self._disk.remove(os.path.join(self._root, name))
        self._disk.sync_folder(self._root)

    def _places(self, erases: Iterable[int]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """The first byte and the size of each of these slots, by segment."""
        firsts = self._segments.firsts()
        wanted: dict[int, set[int]] = {}
        for seq in erases:
            wanted.setdefault(firsts[max(0, bisect_right(firsts, seq) - 1)], set()).add(seq)
        for first, seqs in sorted(wanted.items()):
            yield first, list(self._slots(first, seqs))

    def _slots(self, first: int, seqs: set[int]) -> Iterator[tuple[int, int]]:
        size_bytes = self._segments.size(first)
        header: Header | None = None
        offset = 0
        for wanted in sorted(seqs):
            if header is None or wanted > header.last:
                place = place_before(self._segments, wanted - 1)
                offset = place.offset if place.segment == first else 0
                header = header_in(self._segments, first, offset, size_bytes)
            if header is None or not header.seq <= wanted <= header.last:
                why = f"sequence {wanted} is to be erased and cannot be found"
                raise JournalCorrupt(file=self._segments.path(first), offset=offset, why=why)
            if header.erases:
                raise NotErasable(seq=wanted, why="it erases others")
            yield from ((begin, size) for seq, begin, size in slot_places(header) if seq == wanted)

    def _overwrite(self, path: str, pieces: list[tuple[int, bytes]]) -> None:
        fd = self._disk.open(path)
        try:
            for offset, data in pieces:
                self._disk.write(fd, data, offset)
            self._disk.sync(fd)
        finally:
            with contextlib.suppress(OSError):  # it was synced, or the first error is the one to tell
                self._disk.close(fd)
