"""
Which messages a listing shows, and in which order.

One predicate per listing, here.  Everything that lists, counts, injects or
waits uses it, directly or through `place`, which says the same in the form of
columns that an index can be built on.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import NamedTuple

from fencepost.mailbox.lifecycle import is_available, is_unread
from fencepost.mailbox.message import Message, Status
from fencepost.mailbox.times import micros


class Listing(enum.Enum):
    """The listings; `unread` is the default."""

    UNREAD = "unread"
    OPEN = "open"
    SCHEDULED = "scheduled"
    CLOSED = "closed"
    ALL = "all"


#: How many items a listing answers when nobody says, and at most.
LIMIT_DEFAULT = 50
LIMIT_MAX = 500


def shows(listing: Listing, message: Message, now: datetime) -> bool:
    """Does the listing show the message at that time?"""
    match listing:
        case Listing.UNREAD:
            return is_unread(message, now)
        case Listing.OPEN:
            return is_available(message, now)
        case Listing.SCHEDULED:
            return message.status is Status.OPEN and not is_available(message, now)
        case Listing.CLOSED:
            return message.status is not Status.OPEN
        case Listing.ALL:
            return True


def order(message: Message) -> tuple[datetime, datetime, str]:
    """Oldest due first, then oldest sent, then by id."""
    return message.due_at, message.letter.created_at, message.id


class Standing(enum.IntEnum):
    """What a listing needs to know of a message whatever the time is."""

    PENDING = 0  # open; unread once it is due
    READ = 1  # open; acknowledged, so it never becomes unread by waiting
    CLOSED = 2
    CLAIMED = 3  # open; unread again once the lease has run out too


class Place(NamedTuple):
    """
    Where a message stands in an index: `shows` and `order` as columns.

    Times are microseconds since 1970.  An open message is available when
    `due <= now`; a pending or claimed one is unread when `ready <= now`.
    """

    standing: Standing
    due: int
    created: int
    ready: int


def place(message: Message) -> Place:
    """The columns under which an index keeps the message."""
    letter = message.letter
    due = ready = micros(message.due_at)
    created = due if message.due_at is letter.created_at else micros(letter.created_at)
    if message.status is not Status.OPEN:
        standing = Standing.CLOSED
    elif message.lease is not None:
        standing = Standing.CLAIMED
        ready = max(due, micros(message.lease.until))
    else:
        standing = Standing.READ if message.reading is not None else Standing.PENDING
    return Place(standing, due, created, ready)
