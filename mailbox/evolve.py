"""
What an event makes of a message: the fold.

Rules for this file: no clock, no guessing.  An event that the table does not
allow cannot have been decided here, so folding it is damage, not data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from fencepost.mailbox.events import (
    Accepted,
    Acknowledged,
    Cancelled,
    Claimed,
    Completed,
    Declined,
    MessageEvent,
    Released,
    Renewed,
    Reserved,
    Sent,
    Snoozed,
)
from fencepost.mailbox.lifecycle import MOVES, stage
from fencepost.mailbox.message import Lease, Message, Reading, Reservation, Status


class Impossible(Exception):
    """An event that cannot follow on the message it stands behind."""


def evolve(message: Message | None, event: MessageEvent) -> Message:
    """
    The message after the event.

    Args:
        message: The message before; None before it was sent.
        event: What happened.

    Raises:
        Impossible: The transition table has no such move.
    """
    before = stage(message)
    if type(event) not in MOVES[before]:
        raise Impossible(f"{type(event).__name__} of a message that is {before.value}")
    if isinstance(event, Sent):
        return Message(letter=event.letter, due_at=event.due_at)
    assert message is not None, "only Sent starts a message"
    return _AFTER[type(event)](message, event)


def _acknowledged(m: Message, e: Acknowledged) -> Message:
    reading = Reading(e.by, e.at)
    return Message(m.letter, m.due_at, m.occurrence, m.status, reading, None, m.outcome, m.reservation, m.wake_accepted)


def _claimed(m: Message, e: Claimed) -> Message:
    reading, lease = Reading(e.by, e.at), Lease(e.by, e.token, e.until)
    return Message(
        m.letter, m.due_at, m.occurrence, m.status, reading, lease, m.outcome, m.reservation, m.wake_accepted
    )


def _renewed(m: Message, e: Renewed) -> Message:
    assert m.lease is not None
    return attrs.evolve(m, lease=Lease(m.lease.owner, m.lease.token, e.until))


def _released(m: Message, _: Released) -> Message:
    return Message(m.letter, m.due_at, m.occurrence, outcome=m.outcome)


def _completed(m: Message, e: Completed) -> Message:
    return Message(
        m.letter, m.due_at, m.occurrence, _DONE, m.reading, m.lease, e.outcome, m.reservation, m.wake_accepted
    )


def _snoozed(m: Message, e: Snoozed) -> Message:
    return Message(m.letter, e.due_at, m.occurrence + 1, outcome=e.outcome)


def _cancelled(m: Message, e: Cancelled) -> Message:
    return attrs.evolve(m, status=Status.CANCELLED, outcome=e.outcome)


def _reserved(m: Message, e: Reserved) -> Message:
    return attrs.evolve(m, reservation=Reservation(e.by, e.token, e.until))


def _accepted(m: Message, _: Accepted) -> Message:
    return attrs.evolve(m, reservation=None, wake_accepted=True)


def _declined(m: Message, _: Declined) -> Message:
    return attrs.evolve(m, reservation=None, wake_accepted=False)


_DONE: Final = Status.DONE
#: Event -> the message after it.  The events that make up most of a journal spell the message out: that is faster.
_AFTER: Final[Mapping[type[MessageEvent], Callable[[Message, Any], Message]]] = {
    Acknowledged: _acknowledged,
    Claimed: _claimed,
    Renewed: _renewed,
    Released: _released,
    Completed: _completed,
    Snoozed: _snoozed,
    Cancelled: _cancelled,
    Reserved: _reserved,
    Accepted: _accepted,
    Declined: _declined,
}


def replay(events: Iterable[MessageEvent]) -> Message | None:
    """The message after all of its events, in order; None where there are none."""
    message: Message | None = None
    for event in events:
        message = evolve(message, event)
    return message
