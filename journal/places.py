"""
Finding an event by its number: the segment by its name, and the frame by halving.

Rules for this file: it only reads, and what it costs does not depend on how
much is stored.
"""

from __future__ import annotations

import re
from typing import Final

from fencepost.journal.event import Checkpoint
from fencepost.journal.frame import Header, header_at
from fencepost.journal.recovery import BEGINNING
from fencepost.journal.segments import Segments

#: A first look at a place; longer than most frames.
_LOOK_BYTES: Final = 8 << 10
#: A stretch this short is walked through frame by frame.
_WALK_BYTES: Final = 64 << 10
#: How a frame begins; none has another line break than the one that ends it.
_BEGIN: Final = re.compile(rb"\n(?=[0-9a-f]{64} [0-9]{8} [0-9]{9} )")


def place_before(segments: Segments, seq: int) -> Checkpoint:
    """
    A place to read from so that the first batch is the one with the event behind `seq`.

    Where there is damage on the way, it is the place before the damage: whoever reads on from there is told of it.
    """
    earlier = [first for first in segments.firsts() if first <= seq + 1]
    while earlier and seq > 0:
        found = _within(segments, earlier.pop(), seq + 1)
        if found is not None:
            return found
    return BEGINNING


def _within(segments: Segments, first: int, wanted: int) -> Checkpoint | None:
    """The place before the batch with that event in a segment, or the segment's end; None where no frame is in it."""
    size = segments.size(first)
    low, high = header_in(segments, first, 0, size), size
    if low is None:
        return None
    while high - low.offset > _WALK_BYTES:
        half = (low.offset + high) // 2
        middle = _next(segments, first, half, high, size)
        if middle is None or middle.seq > wanted:
            high = half
        else:
            low = middle
    while low.last < wanted:
        following = header_in(segments, first, low.end, size)
        if following is None:
            return Checkpoint(low.last, low.digest, first, low.end)
        low = following
    return Checkpoint(low.seq - 1, low.fields["prev"], first, low.offset)


def header_in(segments: Segments, first: int, offset: int, size: int) -> Header | None:
    """The header of the frame that begins at a byte of a segment, if there is one whose header proves itself."""
    wanted = _LOOK_BYTES
    while True:
        buffer = segments.read(first, offset, min(wanted, max(0, size - offset)))
        header = header_at(buffer, 0)
        if header is not None or len(buffer) < wanted:
            break
        if not buffer[:1].strip(b"\0"):
            return None
        wanted *= 8
    if header is None:
        return None
    return Header(header.digest, header.fields, offset, offset + header.payload, offset + header.end)


def _next(segments: Segments, first: int, begin: int, high: int, size: int) -> Header | None:
    """The first frame that begins between two bytes of a segment."""
    offset, wanted = begin, _LOOK_BYTES
    while offset < high:
        buffer = segments.read(first, offset, min(wanted, high - offset))
        for match in _BEGIN.finditer(buffer):
            header = header_in(segments, first, offset + match.end(), size)
            if header is not None:
                return header
        if not buffer.strip(b"\0"):
            return None  # what was filled up ahead of the end
        if len(buffer) < wanted:
            return None
        offset += max(1, len(buffer) - 128)  # a beginning may have been cut in two
        wanted *= 2
    return None
