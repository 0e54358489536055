"""
The envelope: what the journal knows of an event, which is everything but what it means.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import attrs


@attrs.frozen(slots=False)
class NewEvent:
    """
    An event to be appended.

    Attributes:
        scope: Where its stream is kept.
        stream: The stream within the scope.  Its version is the number of its events.
        type: A chosen name that says how to read `data`.
        data: JSON, opaque to the journal.
        key: An idempotency key, recorded as a keyed digest that outlives the data.
        meaning: What `data` says, for whoever made it and folds it later in the same process; never recorded.
        digest: Instead of `key` its keyed digest, in hex, of an event that another journal with the same secret has
            recorded.
    """

    scope: str
    stream: str
    type: str
    data: bytes
    key: str | None = None
    meaning: object = attrs.field(default=None, eq=False, repr=False)
    digest: str | None = None


@attrs.frozen(slots=False)
class Batch:
    """
    The unit of atomicity: all of its events are appended, or none.

    Attributes:
        at: When, as the caller's clock had it; aware, UTC.
        actor: Who, as the transport knows it.
        events: At least one.
        erases: Sequence numbers of earlier events whose data this batch erases; never of a batch that erases itself.
    """

    at: datetime
    actor: str
    events: tuple[NewEvent, ...]
    erases: tuple[int, ...] = ()


class Event(NamedTuple):
    """
    An event as it was recorded; a named tuple, because reading a journal makes millions of them.

    Attributes:
        seq: Its place in the order of all events; grows by one.
        at: When, in ISO-8601 with `Z`, as the caller's clock had it.  Order is by `seq`, never by `at`.
        version: Its place in its stream, from 1.
        data: JSON as it was given, or None where it was erased.
        key: The keyed digest of its idempotency key, in hex.
    """

    seq: int
    at: str
    actor: str
    scope: str
    stream: str
    version: int
    type: str
    data: bytes | None
    key: str | None = None


@attrs.frozen(slots=False)
class Checkpoint:
    """
    A place between two batches.

    Attributes:
        seq: The last event before it; 0 at the beginning.
        digest: The digest of the batch before it, in hex.
        segment: The first sequence number of the segment that the next batch is looked for in.
        offset: The byte in that segment at which the next batch begins.
    """

    seq: int
    digest: str
    segment: int
    offset: int


class Commit(NamedTuple):
    """
    A batch as it was recorded; a named tuple like its events.

    Attributes:
        events: Its events, in order.
        prev: The digest of the batch before it, in hex.
        digest: Its own digest, which the next batch names.
        segment: The segment it stands in, by first sequence number.
        offset: The byte of that segment at which it begins.
        stop: The byte right behind it.
        meanings: What each event meant to its maker, if that was here; None for a batch that was read.
    """

    events: tuple[Event, ...]
    prev: str
    digest: str
    segment: int
    offset: int
    stop: int
    meanings: tuple[object, ...] | None = None

    def __eq__(self, other: object) -> bool:
        """Is it the same record, whoever has it in mind?"""
        return isinstance(other, Commit) and self[:6] == other[:6]

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def seq(self) -> int:
        """The sequence number of its last event."""
        return self.events[-1].seq

    @property
    def end(self) -> Checkpoint:
        """The place right behind it."""
        return Checkpoint(self.events[-1].seq, self.digest, self.segment, self.stop)
