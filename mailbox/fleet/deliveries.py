"""
What was delivered to an agent, as its stream says: which, when, and by what it is proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from fencepost.journal.event import Event
from fencepost.mailbox import codec
from fencepost.mailbox.events import (
    DeliveryAcknowledged,
    DeliveryCheckpointed,
    DeliveryConfirmed,
    DeliverySaved,
    DeliverySubmitted,
    RoomFound,
)
from fencepost.mailbox.fleet import writing
from fencepost.mailbox.fleet.ledger import stream_of
from fencepost.mailbox.store.port import Store


@attrs.frozen
class Delivered:
    """
    One delivery; times are in ISO-8601 with `Z`, None where it has not come so far.

    Attributes:
        events: The events of rooms that it took.
        messages: The messages that it took.
        rooms: The rooms that these events are of, as a rule calls each.
        senders: Who has said what it took.
        size: UTF-8 bytes of the input.
        history: The native history that it is for.
        attempts: How often it was submitted.
        entry: The id of the entry of that history that proves it.
    """

    id: str
    events: tuple[str, ...]
    messages: tuple[str, ...]
    rooms: tuple[str, ...]
    senders: tuple[str, ...]
    size: int
    history: str
    saved_at: str
    submitted_at: str | None = None
    attempts: int = 0
    confirmed_at: str | None = None
    entry: str | None = None
    checkpointed_at: str | None = None
    acknowledged_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        """It as a program gets it."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        taken = f"{len(self.events)} of rooms, {len(self.messages)} of mail, {self.size:,} bytes"
        words = [f"in {', '.join(self.rooms)}"] if self.rooms else []
        words += [f"from {', '.join(self.senders)}"] if self.senders else []
        return "\n  ".join((f"{self.id}  {taken}, {self._stands()}", *words))

    def _stands(self) -> str:
        if self.entry is None:
            tried = f"submitted {self.submitted_at}, attempt {self.attempts}" if self.submitted_at else "not submitted"
            return f"saved {self.saved_at}, {tried}: not proven yet"
        done = f"acknowledged {self.acknowledged_at}" if self.acknowledged_at else "not acknowledged yet"
        return f"saved {self.saved_at}, proven {self.confirmed_at} by {self.entry}, {done}"


def of(store: Store, agent: str) -> list[Delivered]:
    """
    Every delivery to an agent, oldest first.

    Raises:
        JournalError: It cannot be read.
    """
    return replay(store.events(stream_of(agent)))


def replay(events: Iterable[Event]) -> list[Delivered]:
    """The deliveries that these events of an agent's stream are about, oldest first; what was erased is left out."""
    found: list[Delivered] = []
    rules: dict[str, str] = {}
    for event in events:
        happened = None if event.data is None else codec.decode(event.type, event.data)
        if isinstance(happened, RoomFound):
            rules[happened.room] = happened.rule
        elif isinstance(happened, DeliverySaved):
            taken = tuple(each for read in happened.reads for each in read.taken)
            rooms = tuple(rules.get(read.room, read.room) for read in happened.reads if read.taken)
            mail = tuple(each.rpartition("/")[0] for each in happened.mail)
            senders = writing.senders(happened.text)
            size = len(happened.text.encode())
            found.append(Delivered(happened.id, taken, mail, rooms, senders, size, happened.history, event.at))
        elif found:
            found[-1] = _after(found[-1], happened, event.at)
    return found


def _after(delivered: Delivered, happened: object, at: str) -> Delivered:
    match happened:
        case DeliverySubmitted():
            return attrs.evolve(delivered, submitted_at=at, attempts=happened.attempt)
        case DeliveryConfirmed():
            return attrs.evolve(delivered, confirmed_at=at, entry=happened.entry)
        case DeliveryCheckpointed():
            return attrs.evolve(delivered, checkpointed_at=at)
        case DeliveryAcknowledged():
            return attrs.evolve(delivered, acknowledged_at=at)
        case _:
            return delivered
