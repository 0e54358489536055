"""
Reading a segment, and telling torn from corrupt.

*Torn* is what a crash leaves of a write that nobody was told about.  *Corrupt*
is damage to something that was acknowledged, or damage that no crash makes.
A torn tail may be cut; corruption never is.

Two frames that were not synced may reach the disk in either order, so "a good
frame follows" does not prove that the bad one was acknowledged.  What proves it
is a witness: a later frame, or the index, that knew the sequence number to be
on the disk already.

Rules for this file: bytes in, values out; only `fencepost.journal.recovery`
acts on a verdict.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Final

import attrs

from fencepost.journal.event import Checkpoint, Commit
from fencepost.journal.frame import commit_at, has_zero_piece, header_at, headers


class Tail(enum.Enum):
    """What stands behind the last good frame."""

    CLEAN = "clean"
    TORN = "torn"
    CORRUPT = "corrupt"


@attrs.frozen(slots=False)
class Scan:
    """
    What a segment holds from some place on.

    Attributes:
        commits: The good batches, in order.
        end: The place behind the last good one.
        tail: What stands there.
        why: In words, where the tail is not clean.
    """

    commits: tuple[Commit, ...]
    end: Checkpoint
    tail: Tail
    why: str = ""


_ZERO: Final = b"\0"
#: How a header says that it erases something, as nothing within a text of JSON can.
_ERASES: Final = b'"erases":['


def is_blank(buffer: bytes, begin: int) -> bool:
    """Do only zeros remain, or nothing?"""
    return len(buffer) <= begin or buffer.count(_ZERO, begin) == len(buffer) - begin


def erased_by(buffer: bytes) -> frozenset[int]:
    """The sequence numbers that whole, self-proving frames of a segment erase."""
    found: set[int] = set()
    place = buffer.find(_ERASES)
    while place >= 0:
        begin = buffer.rfind(b"\n", 0, place) + 1  # no frame has another line break than the one that ends it
        header = header_at(buffer, begin)
        if header is not None and header.erases and commit_at(buffer, begin, 0) is not None:
            found.update(header.erases)
        place = buffer.find(_ERASES, place + 1)
    return frozenset(found)


def scan(
    buffer: bytes,
    start: Checkpoint,
    *,
    witness: int = 0,
    more_follows: bool = False,
    erased: Collection[int] = (),
) -> Scan:
    """
    Read a segment from a place on.

    Args:
        buffer: The whole segment.
        start: The place to begin at, in this segment.
        witness: A sequence number known from elsewhere to have been on the disk.
        more_follows: A later segment holds data, so this one was sealed and whole.
        erased: Sequence numbers whose slots a frame of the journal erases.

    Returns:
        The good batches, and the verdict on what stands behind them.
    """
    commits: list[Commit] = []
    end = start
    while True:
        if is_blank(buffer, end.offset) if buffer[end.offset : end.offset + 1] in (b"", _ZERO) else False:
            lost = witness > end.seq
            why = f"sequence {witness} was on the disk, and nothing stands behind {end.seq}" if lost else ""
            return Scan(tuple(commits), end, Tail.CORRUPT if lost else Tail.CLEAN, why)
        commit = commit_at(buffer, end.offset, start.segment, erased)
        header = header_at(buffer, end.offset) if commit is None else None
        follows = (commit.prev, commit.events[0].seq) if commit else header and (header.fields["prev"], header.seq)
        if follows and follows != (end.digest, end.seq + 1):
            why = f"the chain is broken: expected sequence {end.seq + 1} behind {end.digest[:12]}"
            return Scan(tuple(commits), end, Tail.CORRUPT, why)
        if commit is None:
            break
        commits.append(commit)
        end = commit.end
    tail, why = _judge(buffer, end, witness, more_follows=more_follows)
    return Scan(tuple(commits), end, tail, why)


def _judge(buffer: bytes, end: Checkpoint, witness: int, *, more_follows: bool) -> tuple[Tail, str]:
    """What is it that stands at `end` and is no good frame?"""
    begin, seq = end.offset, end.seq + 1
    if more_follows:
        return Tail.CORRUPT, f"sequence {seq} is damaged in a sealed segment"
    if witness >= seq:
        return Tail.CORRUPT, f"sequence {seq} is damaged, and the index knew it to be on the disk"
    if any(header.durable >= seq for header in headers(buffer, begin)):
        return Tail.CORRUPT, f"sequence {seq} is damaged, and a later frame knew it to be on the disk"
    header = header_at(buffer, begin)
    if header is not None:
        whole = min(header.end, len(buffer))
        torn = len(buffer) < header.end or has_zero_piece(buffer, begin, whole)
    else:
        last = len(buffer.rstrip(_ZERO))
        torn = has_zero_piece(buffer, begin, last) or buffer[last - 1 : last] != b"\n"
    if torn:
        return Tail.TORN, f"sequence {seq} was being written"
    return Tail.CORRUPT, f"sequence {seq} is damaged, and no interrupted write leaves such bytes"
