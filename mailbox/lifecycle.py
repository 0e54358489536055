"""
The life of a message.

A message is sent once, and then stands in one of five stages.  What moves it
is an event; which event may happen in which stage is the table `MOVES` and
nothing else.  Two things are *not* events and not stages, because nobody does
them: a due time that comes, and a lease that runs out.  Both are functions of
the message and the time, below the table.

                            Renewed
                            Claimed (after the lease ran out)
                             ┌───┐
              Claimed        │   ▼     Completed
      UNREAD ─────────────► CLAIMED ─────────────► DONE
      │  ▲ ▲                │  │  ▲
      │  │ └────────────────┘  │  │ Claimed
      │  │  Released, Snoozed  │  │
      │  │                     ▼  │
      └──┼───────────────────► READ
         │   Acknowledged
         └── Sent                 Cancelled, from UNREAD, READ and CLAIMED ──► CANCELLED

Reading never moves a message: it was read when somebody says so (Acknowledged)
or starts working on it (Claimed).  A snooze keeps the id and raises the
occurrence, so that whatever was said about the old occurrence is recognised as
stale.

Rules for this file: nobody else relates stages or compares a time with
`due_at` or `until`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

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
from fencepost.mailbox.message import Lease, Message, Reservation, Status


class Stage(enum.StrEnum):
    """Where a message stands in its life, whatever the time is."""

    NONE = "not sent yet"
    UNREAD = "unread"
    READ = "read"
    CLAIMED = "claimed"
    DONE = "done"
    CANCELLED = "cancelled"


#: Stage -> event -> next stage.  An absent pair cannot happen; only this table may say otherwise.
MOVES: Final[Mapping[Stage, Mapping[type[MessageEvent], Stage]]] = {
    Stage.NONE: {
        Sent: Stage.UNREAD,
    },
    Stage.UNREAD: {
        Acknowledged: Stage.READ,
        Claimed: Stage.CLAIMED,
        Cancelled: Stage.CANCELLED,
        Reserved: Stage.UNREAD,
        Accepted: Stage.UNREAD,
        Declined: Stage.UNREAD,
    },
    Stage.READ: {
        Claimed: Stage.CLAIMED,
        Cancelled: Stage.CANCELLED,
        Accepted: Stage.READ,
        Declined: Stage.READ,
    },
    Stage.CLAIMED: {
        Acknowledged: Stage.READ,
        Claimed: Stage.CLAIMED,
        Renewed: Stage.CLAIMED,
        Released: Stage.UNREAD,
        Completed: Stage.DONE,
        Snoozed: Stage.UNREAD,
        Cancelled: Stage.CANCELLED,
        Reserved: Stage.CLAIMED,
        Accepted: Stage.CLAIMED,
        Declined: Stage.CLAIMED,
    },
    Stage.DONE: {},
    Stage.CANCELLED: {},
}


_OPEN: Final = Status.OPEN  # folding asks for it at every event, and an enumeration answers slowly


def stage(message: Message | None) -> Stage:
    """The stage that a message stands in; `Stage.NONE` before it was sent."""
    if message is None:
        return Stage.NONE
    if message.status is not _OPEN:
        return Stage.DONE if message.status is Status.DONE else Stage.CANCELLED
    if message.lease is not None:
        return Stage.CLAIMED
    return Stage.READ if message.reading is not None else Stage.UNREAD


def is_available(message: Message, now: datetime) -> bool:
    """Open, and its due time has come; at the due time exactly, it has."""
    return message.status is Status.OPEN and message.due_at <= now


def is_running(hold: Lease | Reservation | None, now: datetime) -> bool:
    """A lease or reservation is running until just before `until`; at `until` it is over."""
    return hold is not None and hold.until > now


def lasting(now: datetime, span: timedelta) -> datetime:
    """The end of a hold that begins now; the calendar's end for one that would outlast it."""
    try:
        return now + span
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


def is_unread(message: Message, now: datetime) -> bool:
    """Available, and nobody has read it, or whoever claimed it let the lease run out."""
    if not is_available(message, now):
        return False
    if message.lease is not None:
        return not is_running(message.lease, now)
    return message.reading is None
