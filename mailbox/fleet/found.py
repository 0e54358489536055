"""
What a look at the rooms of an agent has found.

Rules for this file: pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs

from fencepost.mailbox.events import RoomEvent
from fencepost.mailbox.fleet.said import RoomFacts, Said
from fencepost.mailbox.quoting import plain


class What(enum.Enum):
    """What happened to a room, or to the reading of it."""

    OPENED = "is heard from here on"
    CLOSED = "is not heard any more"
    RESYNCED = "had another history than it was read with"
    GAP = "could not be read in full"
    ENCRYPTED = "is encrypted, and not heard"
    UPGRADED = "has moved"
    REFUSED = "cannot be heard"
    MOVED = "was read on, with nothing new in it"


@attrs.frozen
class Happening:
    """
    Something that happened to a room.

    Attributes:
        room: Its id, or how a rule calls it where it was not found.
        what: What happened.
        why: More of it.
        events: What has to be recorded of the place, in order, before anything that was unread is taken.
    """

    room: str
    what: What
    why: str = ""
    events: tuple[RoomEvent, ...] = ()

    @property
    def stands(self) -> bool:
        """It is not over yet."""
        return self.what in (What.REFUSED, What.CLOSED, What.ENCRYPTED)

    @property
    def loud(self) -> bool:
        """An operator is to be told."""
        return self.what is not What.MOVED

    def __str__(self) -> str:
        return plain(f"room {self.room} {self.what.value}" + (f": {self.why}" if self.why else ""))


@attrs.frozen
class Unread:
    """
    What is unread in a room.

    Attributes:
        said: In order.
        tokens: How many of it stand before a place, and the place.
        more: There is more than that, which is found when some of it was taken.
        banned: Whom the room has banned by now.
        authors: The events that are edited -> who has said them, where that is known.
    """

    said: tuple[Said, ...]
    tokens: tuple[tuple[int, str], ...]
    more: bool
    banned: frozenset[str]
    authors: Mapping[str, str]

    def token_after(self, count: int) -> str:
        """The place to go on from when the first so many are taken or passed over."""
        return next(token for before, token in reversed(self.tokens) if before <= count)


@attrs.frozen
class Found:
    """
    What one look has found.

    Attributes:
        unread: Room id -> what is unread there; rooms with nothing unread are not in it.
        facts: Room id -> what is known of each of these.
        happenings: What happened, in order.
        rooms: What a rule calls a room -> the room's id, where it was found.
        unheard: The rooms that cannot be heard now -> why, in a sentence that was among what happened once.
    """

    unread: Mapping[str, Unread]
    facts: Mapping[str, RoomFacts]
    happenings: Sequence[Happening]
    rooms: Mapping[str, str]
    unheard: Mapping[str, str]
