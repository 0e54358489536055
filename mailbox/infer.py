"""
Which event explains a change that somebody else made to a message.

A program that knows only documents writes a message whole.  Most such writes
are steps of the lifecycle, and exactly one event explains them; it is recorded
as what happened.  Where none does, or more than one, nothing is guessed.

Rules for this file: pure.  An event that explains is one that the transition
table allows and that makes the second message of the first.  A claim or a
reservation brings a new token; renewing, releasing and declining keep to the old
one.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from fencepost.mailbox.evolve import Impossible, evolve
from fencepost.mailbox.message import Message


def infer(before: Message | None, after: Message) -> MessageEvent | None:
    """
    The one event that makes `after` of `before`; None where there is none, or more than one.

    Args:
        before: The message before; None where there was none.
        after: The message as it was written.
    """
    found = [event for event in _candidates(before, after) if _makes(before, event, after)]
    return found[0] if len(found) == 1 else None


def _makes(before: Message | None, event: MessageEvent, after: Message) -> bool:
    try:
        return evolve(before, event) == after
    except Impossible:
        return False


def _candidates(before: Message | None, after: Message) -> Iterator[MessageEvent]:
    """Every event that could, with what it would carry read off the message that it would have made."""
    if before is None:
        yield Sent(after.letter, after.due_at)
        return
    if before == after:
        return  # a document can be written again as it stands, and nothing has happened to the message
    reading, lease, held = after.reading, after.lease, after.reservation
    if reading is not None:
        yield Acknowledged(reading.by, reading.at)
    if lease is not None and reading is not None and (before.lease is None or before.lease.token != lease.token):
        yield Claimed(lease.owner, reading.at, lease.token, lease.until)
    if lease is not None and before.lease is not None and before.lease.token == lease.token:
        yield Renewed(lease.until)
    if before.lease is not None:
        yield Released()
    if after.outcome is not None:
        yield Completed(after.outcome)
        yield Snoozed(after.due_at, after.outcome)
    yield Cancelled(after.outcome)
    if held is not None and (before.reservation is None or before.reservation.token != held.token):
        yield Reserved(held.owner, held.token, held.until)
    if before.reservation is not None:
        yield Accepted()
        yield Declined()
