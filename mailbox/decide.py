"""
May this command happen to this message, and what happens then?

`NEEDS` lists for each command what must be true, in the order in which it is
checked.  The fence comes first: a stale occurrence is refused whatever else is
true.  Then comes whether the command has been done already (`None`: nothing
happens, the same answer is given again), and then the event.

Rules for this file: no clock, no random numbers, no I/O.  A refusal raises and
has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from fencepost.mailbox import errors
from fencepost.mailbox.commands import (
    Accept,
    Ack,
    Cancel,
    Claim,
    Command,
    Complete,
    Decline,
    Release,
    Renew,
    Reserve,
    Send,
    Snooze,
    Step,
)
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
from fencepost.mailbox.lifecycle import MOVES, is_available, is_running, is_unread, lasting, stage
from fencepost.mailbox.message import Delivery, Message, Status
from fencepost.mailbox.times import show

#: A guard takes the commands that it is listed for in `NEEDS`, and raises the refusal.
Guard: TypeAlias = Callable[[Any, Message], None]


def _same_occurrence(command: Step, message: Message) -> None:
    if command.occurrence != message.occurrence:
        raise errors.StaleOccurrence(message_id=message.id, given=command.occurrence, current=message.occurrence)


def _is_open(command: Step, message: Message) -> None:
    if message.status is not Status.OPEN:
        raise errors.Closed(message_id=message.id, status=message.status.value)


def _is_recipient(command: Ack | Claim | Cancel | Reserve, message: Message) -> None:
    conversation = message.letter.conversation
    if conversation is not None and conversation not in command.audience:
        raise errors.NotRecipient(message_id=message.id, conversation=conversation, session=command.session)


def _is_recipient_or_sender(command: Cancel, message: Message) -> None:
    if message.letter.source != command.session:
        _is_recipient(command, message)


def _is_due(command: Step, message: Message) -> None:
    if not is_available(message, command.now):
        raise errors.NotDue(message_id=message.id, due_at=show(message.due_at))


def _is_actionable(command: Step, message: Message) -> None:
    if not message.letter.actionable:
        raise errors.NotActionable(message_id=message.id)


def _not_claimed_by_another(command: Step, message: Message) -> None:
    lease = message.lease
    if lease is not None and is_running(lease, command.now) and lease.owner != command.session:
        raise errors.ClaimedByAnother(message_id=message.id, owner=lease.owner, until=show(lease.until))


def _holds_lease(command: Renew | Release | Complete | Snooze, message: Message) -> None:
    lease = message.lease
    if lease is not None and (lease.owner, lease.token) != (command.session, command.token):
        raise errors.LeaseLost(message_id=message.id, session=command.session)
    if not is_running(lease, command.now):
        raise errors.LeaseExpired(message_id=message.id, session=command.session)


def _has_outcome(command: Complete | Snooze, message: Message) -> None:
    if command.outcome is None:
        raise errors.MissingField(field="outcome", rule="say what came of it")


def _is_later(command: Snooze, message: Message) -> None:
    if command.due_at <= command.now:
        raise errors.TimeNotInFuture(message_id=message.id, due_at=show(command.due_at))


def _wants_wake(command: Reserve, message: Message) -> None:
    if message.letter.delivery is not Delivery.WAKE:
        raise errors.NotWake(message_id=message.id)


def _is_unread(command: Reserve, message: Message) -> None:
    if not is_unread(message, command.now):
        raise errors.NotUnread(message_id=message.id)


def _not_accepted(command: Reserve, message: Message) -> None:
    if message.wake_accepted:
        raise errors.WakeAccepted(message_id=message.id, occurrence=message.occurrence)


def _not_reserved_by_another(command: Reserve, message: Message) -> None:
    held = message.reservation
    if held is not None and is_running(held, command.now) and held.owner != command.session:
        raise errors.ReservedByAnother(message_id=message.id, owner=held.owner, until=show(held.until))


def _holds_reservation(command: Accept | Decline, message: Message) -> None:
    held = message.reservation
    mine = held is not None and (held.owner, held.token) == (command.session, command.token)
    if not (mine and is_running(held, command.now)):
        raise errors.ReservationLost(message_id=message.id, session=command.session)


#: Command -> what it needs, checked in this order after the occurrence.
NEEDS: Final[Mapping[type[Step], tuple[Guard, ...]]] = {
    Ack: (_is_recipient, _is_open, _is_due, _not_claimed_by_another),
    Claim: (_is_recipient, _is_open, _is_actionable, _is_due, _not_claimed_by_another),
    Renew: (_is_open, _holds_lease),
    Release: (_is_open, _holds_lease),
    Complete: (_is_open, _holds_lease, _has_outcome),
    Snooze: (_is_open, _holds_lease, _is_later),
    Cancel: (_is_recipient_or_sender, _is_open),
    Reserve: (_is_recipient, _is_open, _wants_wake, _not_accepted, _is_unread, _not_reserved_by_another),
    Accept: (_is_open, _holds_reservation),
    Decline: (_is_open, _holds_reservation),
}


def decide(command: Command, message: Message | None) -> MessageEvent | None:
    """
    The event that a command causes, or None where it was done before.

    Args:
        command: What is asked, with its clock reading, ids and tokens.
        message: The message as it stands; None only for `Send`.

    Raises:
        Refused: It does not fit the message.  Nothing happens.
    """
    if isinstance(command, Send):
        assert message is None, "a message is sent once"
        return Sent(command.letter, command.due_at, command.idempotency)
    assert message is not None, "only Send needs no message"
    _same_occurrence(command, message)
    if _closed_before(command, message):
        return None
    for guard in NEEDS[type(command)]:
        guard(command, message)
    event = _event(command, message)
    assert event is None or type(event) in MOVES[stage(message)], (event, stage(message))
    return event


def _closed_before(command: Step, message: Message) -> bool:
    """Completing or cancelling again, by whoever might have done it, is the same answer again."""
    if isinstance(command, Complete) and message.status is Status.DONE:
        lease = message.lease
        return lease is not None and (lease.owner, lease.token) == (command.session, command.token)
    if isinstance(command, Cancel) and message.status is Status.CANCELLED:
        _is_recipient_or_sender(command, message)
        return True
    return False


def _event(command: Step, message: Message) -> MessageEvent | None:
    now = command.now
    match command:
        case Ack():
            read_before = message.reading is not None and not is_unread(message, now)
            return None if read_before else Acknowledged(by=command.session, at=now)
        case Claim():
            if is_running(message.lease, now):
                return None
            return Claimed(by=command.session, at=now, token=command.token, until=lasting(now, command.lease))
        case Renew():
            return Renewed(until=lasting(now, command.lease))
        case Release():
            return Released()
        case Complete():
            assert command.outcome is not None
            return Completed(command.outcome)
        case Snooze():
            return Snoozed(due_at=command.due_at, outcome=command.outcome)
        case Cancel():
            return Cancelled(command.outcome)
        case Reserve():
            if is_running(message.reservation, now):
                return None
            return Reserved(by=command.session, token=command.token, until=lasting(now, command.hold))
        case Accept():
            return Accepted()
        case Decline():
            return Declined()
