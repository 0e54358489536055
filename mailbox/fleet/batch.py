"""
Which of what is unread an agent gets next.

A batch is the beginning of what is unread in each room, so that nothing is
overtaken within a room.  Each room has its share, and what is left of the batch
goes to whatever was said first.

Rules for this file: pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

import attrs

from fencepost.mailbox.fleet.policy import Verdict
from fencepost.mailbox.fleet.said import Kind, Said


@attrs.frozen
class Judged:
    """Something that was said, and what becomes of it."""

    said: Said
    verdict: Verdict


@attrs.frozen
class Batch:
    """
    What is taken of each room.

    Attributes:
        taken: Room id -> the beginning of what is unread in it, with what is passed over in between.
        left: Room id -> how many that are heard are left there.
    """

    taken: Mapping[str, Sequence[Judged]]
    left: Mapping[str, int]

    def heard(self) -> Iterator[Said]:
        """What the agent gets, room by room, in order."""
        for judged in self.taken.values():
            for each in judged:
                if each.verdict.heard:
                    yield each.said


def wakes(unread: Mapping[str, Sequence[Judged]]) -> bool:
    """Is there anything among it that wakes the agent?"""
    return any(each.verdict is Verdict.WAKES for judged in unread.values() for each in judged)


def settled(judged: Sequence[Judged]) -> list[Judged]:
    """What is unread in a room, without what was redacted before anybody read it."""
    gone = {each.said.target for each in judged if each.said.kind is Kind.REDACTION}
    return [
        attrs.evolve(each, verdict=Verdict.REDACTED) if each.verdict.heard and each.said.event in gone else each
        for each in judged
    ]


def take(unread: Mapping[str, Sequence[Judged]], target: int, per_room: int) -> Batch:
    """
    The next batch.

    Args:
        unread: Room id -> what is unread in it, oldest first.
        target: How many the batch should have.
        per_room: How many of each room at least, where it has so many; that may make the batch larger.
    """
    heard = {room: [each.said for each in judged if each.verdict.heard] for room, judged in unread.items()}
    share = {room: min(per_room, len(said)) for room, said in heard.items()}
    waiting = [(said[share[room]].at, room) for room, said in heard.items() if share[room] < len(said)]
    heapq.heapify(waiting)
    for _ in range(target - sum(share.values())):
        if not waiting:
            break
        _, room = heapq.heappop(waiting)
        share[room] += 1
        if share[room] < len(heard[room]):
            heapq.heappush(waiting, (heard[room][share[room]].at, room))
    taken = {room: _beginning(judged, share[room]) for room, judged in unread.items()}
    return Batch(
        {room: judged for room, judged in taken.items() if judged},
        {room: len(said) - share[room] for room, said in heard.items() if len(said) > share[room]},
    )


def _beginning(judged: Sequence[Judged], count: int) -> Sequence[Judged]:
    """The shortest beginning with so many that are heard, and what is passed over right behind them."""
    for place, each in enumerate(judged):
        if each.verdict.heard:
            if count == 0:
                return judged[:place]
            count -= 1
    return judged
