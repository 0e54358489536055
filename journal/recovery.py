"""
Finding the end of the journal, and taking back what was never acknowledged.

This is the only module that cuts a journal, and it cuts nothing but a torn tail
or a tail whose sync failed, both after copying it aside.  Every step can be
interrupted and done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

import attrs

from fencepost.journal.disk import Disk, remove_staged, write_whole
from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Checkpoint
from fencepost.journal.frame import GENESIS, header_at
from fencepost.journal.root import TORN
from fencepost.journal.scan import Scan, Tail, erased_by, is_blank, scan
from fencepost.journal.segments import Segments

BEGINNING = Checkpoint(0, GENESIS, 1, 0)


@attrs.frozen
class End:
    """
    Where the journal ends.

    Attributes:
        place: Behind the last good frame.
        last: The byte at which that frame begins; the segment's first byte where it has none.
        torn: Something that was never acknowledged stands there.
    """

    place: Checkpoint
    last: int
    torn: bool


def corrupt(segments: Segments, scan: Scan) -> JournalCorrupt:
    """The error for a scan that met damage."""
    return JournalCorrupt(file=segments.path(scan.end.segment), offset=scan.end.offset, why=scan.why)


def scan_segment(segments: Segments, start: Checkpoint, *, witness: int = 0, more_follows: bool = False) -> Scan:
    """Read one segment from a place on, with the erasures that it knows of itself."""
    buffer = segments.read(start.segment)
    found = scan(buffer, start, witness=witness, more_follows=more_follows)
    if found.tail is not Tail.CLEAN and (erased := erased_by(buffer)):
        found = scan(buffer, start, witness=witness, more_follows=more_follows, erased=erased)
    return found


def find_end(segments: Segments, start: Checkpoint | None, witness: int) -> End:
    """
    Read the end of the journal.

    Args:
        segments: Where to look.
        start: A place known to be good in the last segment; None to read that segment whole.
        witness: A sequence number known to have been on the disk.

    Raises:
        JournalCorrupt: What stands there is not what a crash leaves.
    """
    firsts = segments.firsts()
    if not firsts:
        if witness > 0:
            raise JournalCorrupt(
                file=segments.path(1), offset=0, why=f"it is gone, and the index knew sequence {witness}"
            )
        return End(BEGINNING, 0, torn=False)
    if start is None or start.segment != firsts[-1]:
        start = _beginning_of(segments, firsts, len(firsts) - 1)
    found = scan_segment(segments, start, witness=witness)
    if found.tail is Tail.CORRUPT:
        raise corrupt(segments, found)
    last = found.commits[-1].offset if found.commits else found.end.offset
    return End(found.end, last, torn=found.tail is Tail.TORN)


def _beginning_of(segments: Segments, firsts: list[int], index: int) -> Checkpoint:
    """The first byte of a segment, and the digest that its first frame must name."""
    first = firsts[index]
    buffer = segments.read(first)
    header = header_at(buffer, 0)
    if header is not None and header.seq == first:
        return Checkpoint(first - 1, header.fields["prev"], first, 0)
    if index == 0:
        if first != 1:
            raise JournalCorrupt(file=segments.path(first), offset=0, why="the segments before it are gone")
        return BEGINNING
    before = scan_segment(segments, _beginning_of(segments, firsts, index - 1), more_follows=not is_blank(buffer, 0))
    if before.tail is not Tail.CLEAN:
        raise corrupt(segments, before)
    if before.end.seq != first - 1:
        why = f"it follows on sequence {before.end.seq}"
        raise JournalCorrupt(file=segments.path(first), offset=0, why=why)
    return Checkpoint(before.end.seq, before.end.digest, first, 0)


def cut(segments: Segments, disk: Disk, place: Checkpoint) -> None:
    """Copy what stands behind a place in the last segment aside, take it off, and make that durable."""
    tail = segments.read(place.segment, place.offset).rstrip(b"\0")
    if tail:
        name = f"{place.segment:016d}-{place.offset}-{hashlib.sha256(tail).hexdigest()[:16]}"
        folder = os.path.join(segments.folder, TORN)
        aside = os.path.join(folder, name)
        if os.path.exists(aside):
            disk.sync_folder(folder)  # an interrupted recovery has copied it already
        else:
            write_whole(disk, aside, tail)
    segments.seal(place.segment, place.offset)


def end_at(segments: Segments, seq: int) -> End:
    """
    The place behind an event of the last segment, which a sync has made durable.

    Raises:
        JournalCorrupt: It is not there.
    """
    firsts = segments.firsts()
    start = _beginning_of(segments, firsts, len(firsts) - 1) if firsts else BEGINNING
    if start.seq == seq:
        return End(start, start.offset, torn=False)
    found = scan_segment(segments, start)
    for commit in found.commits:
        if commit.seq == seq:
            return End(commit.end, commit.offset, torn=False)
    why = f"sequence {seq} was on the disk, and is not there"
    raise JournalCorrupt(file=segments.path(start.segment), offset=found.end.offset, why=why)


def make_believable(segments: Segments, disk: Disk, root: str, end: Checkpoint) -> None:
    """
    Make durable what was only read, and the names that lead to it.

    After a failed sync or a crash, what is read may stand in this machine's memory alone and be marked clean there, so
    the bytes are written again before they are synced.  The names come first from whoever made the files, who may have
    died before syncing the folders.
    """
    if end.offset:
        fd = segments.fd(end.segment)
        disk.write(fd, segments.read(end.segment, 0, end.offset), 0)
        disk.sync_data(fd)
    for folder in (segments.folder, root):
        remove_staged(disk, folder)
        disk.sync_folder(folder)
    while (parent := os.path.dirname(root)) != root:
        root = parent
        with contextlib.suppress(OSError):  # not ours: it was there before, or may not be opened
            disk.sync_folder(root)
