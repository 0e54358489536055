"""
How far an agent has read a room.

The token is the homeserver's and opaque: reading goes on behind it.  It may lie
before events that were taken in already, so these are remembered by their ids;
an event that comes again, from whatever token, is not taken twice.

Rules for this file: pure, no clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import attrs

from fencepost.mailbox.events import RoomClosed, RoomEvent, RoomOpened, RoomRead, RoomResynced
from fencepost.mailbox.evolve import Impossible

#: Ids that are remembered of a room: more than twice what one reading takes of it, so that what stands between a token
#: and what was taken behind it is always among them.
REMEMBERED_MAX: Final = 512


@attrs.frozen(slots=False)
class Place:
    """
    Where reading a room goes on.

    Attributes:
        token: The homeserver's.
        since: What was said before is not for the agent.
        remembered: The last events that were taken in or passed over, oldest first.
        closed: Why the agent hears the room no more; None where it does.
        passed: How many were passed over since it was opened.
    """

    token: str
    since: datetime
    remembered: tuple[str, ...] = ()
    closed: str | None = None
    passed: int = 0

    @property
    def open(self) -> bool:
        """The agent hears the room."""
        return self.closed is None

    @property
    def last(self) -> str | None:
        """The event that was taken in or passed over last; None where there was none yet."""
        return self.remembered[-1] if self.remembered else None


def after(place: Place | None, event: RoomEvent) -> Place:
    """
    The place after the event.

    Raises:
        Impossible: A room is read that was not opened.
    """
    if isinstance(event, RoomOpened):
        return Place(event.token, event.at, () if place is None else place.remembered)
    if place is None or not place.open:
        raise Impossible(f"{type(event).__name__} of a room that is not heard")
    match event:
        case RoomRead():
            ids = (*place.remembered, *event.taken, *(each.event for each in event.passed))
            kept, passed = tuple(dict.fromkeys(ids))[-REMEMBERED_MAX:], place.passed + len(event.passed)
            return attrs.evolve(place, token=event.token, remembered=kept, passed=passed)
        case RoomResynced():
            return attrs.evolve(place, token=event.token)
        case RoomClosed():
            return attrs.evolve(place, closed=event.why)
