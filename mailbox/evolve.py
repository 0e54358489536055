"""
What an event makes of a message: the fold.

Rules for this file: no clock, no guessing.  An event that the table does not
allow cannot have been decided here, so folding it is damage, not data.  The
message is taken apart and put together by name once, because folding a journal
spends most of its time here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

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


def evolve(message: Message | None, event: MessageEvent) -> Message:  # noqa: PLR0912 - one branch for each event
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
    letter, due_at, occurrence = message.letter, message.due_at, message.occurrence
    status, outcome = message.status, message.outcome
    reading, lease = message.reading, message.lease
    held, accepted = message.reservation, message.wake_accepted
    match event:
        case Acknowledged():
            reading, lease = Reading(event.by, event.at), None
        case Claimed():
            reading, lease = Reading(event.by, event.at), Lease(event.by, event.token, event.until)
        case Renewed():
            assert lease is not None
            lease = Lease(lease.owner, lease.token, event.until)
        case Released():
            reading, lease, held, accepted = None, None, None, False
        case Completed():
            status, outcome = Status.DONE, event.outcome
        case Snoozed():
            due_at, occurrence, outcome = event.due_at, occurrence + 1, event.outcome
            reading, lease, held, accepted = None, None, None, False
        case Cancelled():
            status, outcome = Status.CANCELLED, event.outcome
        case Reserved():
            held = Reservation(event.by, event.token, event.until)
        case Accepted():
            held, accepted = None, True
        case Declined():
            held, accepted = None, False
        case _:
            assert_never(event)
    return Message(letter, due_at, occurrence, status, reading, lease, outcome, held, accepted)


def replay(events: Iterable[MessageEvent]) -> Message | None:
    """The message after all of its events, in order; None where there are none."""
    message: Message | None = None
    for event in events:
        message = evolve(message, event)
    return message
