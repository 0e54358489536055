"""
Reading a journal, by whoever has its files: a writer, a reader beside it, an auditor.

Nothing here needs a lock.  What is durable does not change, but for the slots
that a later frame erases, and that frame is on the disk before the first of
them is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

import attrs

from fencepost.journal.erasing import planned
from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Checkpoint, Commit
from fencepost.journal.frame import commit_at, header_at
from fencepost.journal.recovery import BEGINNING
from fencepost.journal.scan import Tail, erased_by, is_blank, scan
from fencepost.journal.segments import Segments

#: Read this much at first; enough for all that others write between two looks.
_CHUNK_BYTES: Final = 256 << 10
_EVERYTHING: Final = 2**62


def read_commits(
    segments: Segments, after: Checkpoint, *, through: int, erased: frozenset[int] = frozenset()
) -> Iterator[Commit]:
    """
    The batches behind a place, in order.

    Args:
        segments: Where they stand.
        after: The place to begin at.
        through: The last event wanted.
        erased: Sequence numbers known to be erased, though their slots may not be overwritten yet.

    Raises:
        JournalCorrupt: At the first byte that is not as it was written, after everything intact before it.
    """
    place = after
    size: int | None = _CHUNK_BYTES
    while place.seq < through:
        buffer = segments.read(place.segment, place.offset, size)
        seq, digest, offset = place.seq, place.digest, 0
        while (commit := commit_at(buffer, offset, place.segment, erased, place.offset)) is not None:
            events, prev, its_own, _, _, stop, _ = commit
            if prev != digest or events[0].seq != seq + 1:
                break
            yield commit
            seq, digest, offset = events[-1].seq, its_own, stop - place.offset
            if seq >= through:
                return
        place = Checkpoint(seq, digest, place.segment, place.offset + offset)
        if size is not None and len(buffer) == size:
            # The last frame of the chunk was cut short; one that is longer than a chunk needs the whole rest.
            size = _CHUNK_BYTES if offset else None
        else:
            place, erased = yield from _careful(segments, place, erased, through)
            size = _CHUNK_BYTES


def _careful(
    segments: Segments, place: Checkpoint, erased: frozenset[int], through: int
) -> Generator[Commit, None, tuple[Checkpoint, frozenset[int]]]:
    """
    What stands where no plain good frame does: the end of a segment, an erased slot, or damage.

    Returns:
        The place behind it, and everything that is now known to be erased.
    """
    buffer = segments.read(place.segment)
    following = [first for first in segments.firsts() if first > place.segment]
    if is_blank(buffer, place.offset):
        if following and following[0] == place.seq + 1:
            return attrs.evolve(place, segment=following[0], offset=0), erased
        why = f"nothing stands behind sequence {place.seq}, which was on the disk"
        raise JournalCorrupt(file=segments.path(place.segment), offset=place.offset, why=why)
    erased |= erased_since(segments, place.segment)
    found = scan(buffer, place, more_follows=bool(following), erased=erased)
    for commit in found.commits:
        yield commit
        if commit.seq >= through:
            return commit.end, erased  # what stands behind it may not be durable
    if not found.commits:
        why = found.why if found.tail is not Tail.CLEAN else "it is not what was written"
        raise JournalCorrupt(file=segments.path(place.segment), offset=place.offset, why=why)
    return found.end, erased


def read_durable(segments: Segments, after: Checkpoint | None, durable: Callable[[], int]) -> Iterator[Commit]:
    """
    The durable batches behind a place.  If the end is damaged, what is intact before the damage comes first.

    Args:
        segments: Where they stand.
        after: The place; the beginning where None.
        durable: Finds the last durable event; it may raise `JournalCorrupt`.

    Raises:
        JournalCorrupt: After everything intact.
    """
    damage = None
    try:
        through = durable()
    except JournalCorrupt as error:
        damage, through = error, _EVERYTHING
    erased = planned(segments, lambda: through)
    try:
        yield from read_commits(segments, after or BEGINNING, through=through, erased=erased)
    except JournalCorrupt as error:
        raise damage or error from None


def erased_since(segments: Segments, segment: int) -> frozenset[int]:
    """What whole frames of that segment and the later ones erase; sealed ones are looked through once."""
    firsts = [first for first in segments.firsts() if first >= segment]
    found: set[int] = set()
    for first in firsts:
        known = segments.erasures.get(first)
        if known is None:
            known = erased_by(segments.read(first))
            if first != firsts[-1]:
                segments.erasures[first] = known
        found |= known
    return frozenset(found)


def read_commit(segments: Segments, segment: int, offset: int, durable: Callable[[], int]) -> Commit:
    """
    The batch at a place.

    Args:
        segments: Where it stands.
        segment: The first sequence number of its segment.
        offset: The byte at which it begins.
        durable: Finds the last durable event, which tells whether an unfinished erasure binds already.

    Raises:
        JournalCorrupt: It is not there.
    """
    buffer = segments.read(segment, offset, 8 << 10)
    header = header_at(buffer, 0)
    if header is None or header.end > len(buffer):
        buffer = segments.read(segment, offset, None if header is None else header.end)
        header = header_at(buffer, 0)
    commit = commit_at(buffer, 0, segment, planned(segments, durable), base=offset)
    if commit is None and header is not None:
        commit = commit_at(buffer, 0, segment, erased_since(segments, segment), base=offset)
    if commit is None:
        raise JournalCorrupt(file=segments.path(segment), offset=offset, why="the frame that stood here is not whole")
    return commit
