"""
What an event makes of a message: the fold.

Rules for this file: no clock, no guessing.  An event that the table does not
allow cannot have been decided here, so folding it is damage, not data.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve as changed

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
    match event:
        case Acknowledged():
            return changed(message, reading=Reading(event.by, event.at), lease=None)
        case Claimed():
            lease = Lease(event.by, event.token, event.until)
            return changed(message, reading=Reading(event.by, event.at), lease=lease)
        case Renewed():
            assert message.lease is not None
            return changed(message, lease=Lease(message.lease.owner, message.lease.token, event.until))
        case Released():
            return Message(message.letter, message.due_at, message.occurrence, outcome=message.outcome)
        case Completed():
            return changed(message, status=Status.DONE, outcome=event.outcome)
        case Snoozed():
            return Message(message.letter, event.due_at, message.occurrence + 1, outcome=event.outcome)
        case Cancelled():
            return changed(message, status=Status.CANCELLED, outcome=event.outcome)
        case Reserved():
            return changed(message, reservation=Reservation(event.by, event.token, event.until))
        case Accepted():
            return changed(message, reservation=None, wake_accepted=True)
        case Declined():
            return changed(message, reservation=None, wake_accepted=False)


def replay(events: Iterable[MessageEvent]) -> Message | None:
    """The message after all of its events, in order; None where there are none."""
    message: Message | None = None
    for event in events:
        message = evolve(message, event)
    return message
