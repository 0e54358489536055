"""
Proving what a journal holds, without knowing what it means.

    from fencepost.journal.audit import fold, verify
    from fencepost.journal.reader import FileReader

    reader = FileReader("/var/lib/agents/mail")
    report = verify(reader, expect=Head(41_822, "9f2c…"))       # noted last quarter
    assert report.damage is None and report.expected_found
    deletions = [event for commit in reader.read() for event in commit.events if event.type == "memory.deleted"]

`verify` proves each frame, the chain between them and the commitment of each
event.  The digest of the last frame stands for all of it: who noted it earlier
can tell later whether that history is still the one that is there, whatever
has been added since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs

from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Commit, Event
from fencepost.journal.frame import GENESIS
from fencepost.journal.port import Stream
from fencepost.journal.reader import FileReader

S = TypeVar("S")


@attrs.frozen
class Head:
    """The end of a journal at some time: its last sequence number, and the digest of the frame that ends with it."""

    seq: int
    digest: str


@attrs.frozen
class Report:
    """
    What was proven.

    Attributes:
        head: The end of what is intact.
        batches, events, erased: How many were read; erased ones are proven by the frame that erased them.
        damage: The first damaged byte, if there is one.
        expected_found: Whether the expected head is part of this history; None where none was asked for.
    """

    head: Head
    batches: int
    events: int
    erased: int
    damage: JournalCorrupt | None
    expected_found: bool | None


def verify(reader: FileReader, *, expect: Head | None = None, each: Callable[[Commit], None] | None = None) -> Report:
    """
    Read and prove a whole journal, archived segments included.

    Args:
        reader: The journal.
        expect: A head that was noted before.
        each: Called with every batch, in order.
    """
    head = Head(0, GENESIS)
    batches = events = erased = 0
    damage: JournalCorrupt | None = None
    found = expect is not None and expect == head
    try:
        for commit in reader.read():
            batches += 1
            events += len(commit.events)
            erased += sum(event.data is None for event in commit.events)
            head = Head(commit.seq, commit.digest)
            found = found or head == expect
            if each is not None:
                each(commit)
    except JournalCorrupt as error:
        damage = error
    return Report(head, batches, events, erased, damage, None if expect is None else found)


def fold(commits: Iterable[Commit], step: Callable[[S | None, Event], S]) -> dict[Stream, S]:
    """
    Fold each stream.

    Args:
        commits: The batches, in order.
        step: The state after an event; None is the state before the first.
    """
    states: dict[Stream, S] = {}
    for commit in commits:
        for event in commit.events:
            stream = (event.scope, event.stream)
            states[stream] = step(states.get(stream), event)
    return states
