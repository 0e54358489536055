"""
Reading one room, from the place up to which it was read.

What is unread is read forwards, a page at a time.  The place that goes with the
first so many of it is the beginning of a page: it may lie before events that
were taken, which are remembered, and never behind one that was not.  Three
numbers keep what lies between within what is remembered:

    PAGE + HELD_MAX + BEFORE < REMEMBERED_MAX

A homeserver puts an event that it was slow to take in where it belongs, which
may be before the place; so what stands right before that is looked at as well.
If nothing there is remembered, the history is not what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from fencepost.mailbox.events import Passed, RoomClosed, RoomEvent, RoomOpened, RoomRead, RoomResynced
from fencepost.mailbox.fleet.matrix import Matrix, Page
from fencepost.mailbox.fleet.said import Said, encrypts, interpret, joins, leaves
from fencepost.mailbox.rooms import REMEMBERED_MAX, Place

#: Events that are asked for at once.
PAGE: Final = 100
#: Unread events of a room that are held; beyond, some have to be taken before it is read on.
HELD_MAX: Final = 300
#: Events before the place that are looked at again.
BEFORE: Final = 30
#: Pages that one look at a room reads, or that the search for a lost place goes back.
_PAGES_MAX: Final = 50
assert PAGE + HELD_MAX + BEFORE < REMEMBERED_MAX
_TICK: Final = timedelta(milliseconds=1)
_OUT: Final = ("leave", "ban")
_TOO_OLD: Final = "what is dated before the agent heard it was passed over, though a clock may have been wrong"
_ENCRYPTED: Final = "it is encrypted"


@attrs.frozen
class Stretch:
    """
    What is unread in a room.

    Attributes:
        said: In order.
        tokens: How many of it stand before a place, and the place; from the first on.
        more: There is more, which is read when some of it was taken.
        events: What has become of the place itself, before any of it.
        notes: What else has to be told.
        hears: The agent still hears the room, as far as it was read.
    """

    said: tuple[Said, ...]
    tokens: tuple[tuple[int, str], ...]
    more: bool = False
    events: tuple[RoomEvent, ...] = ()
    notes: tuple[str, ...] = ()
    hears: bool = True


def opening(client: Matrix, room: str, now: datetime) -> tuple[RoomOpened, RoomRead]:
    """Hear a room from its present end on.  Its last event is remembered, as the one that is not for the agent."""
    page = client.messages(room, "b", None, BEFORE)
    before = list(_interpreted(room, page.events))
    if not before:
        token = _start(client, page)
        return RoomOpened(token, now), RoomRead(token, ())
    _, token = client.token_around(room, before[0].event)
    return (
        RoomOpened(token, min(max(said.at for said in before) + _TICK, now)),  # some may be said by a wrong clock
        RoomRead(token, (), (Passed(before[0].event, "said before the agent heard the room"),)),
    )


def before(client: Matrix, room: str, place: Place, user: str) -> list[Said] | None:
    """
    What stands right before the place and is not remembered: a homeserver was slow to take it in.

    Returns:
        None where nothing there is remembered, so that the history is not what it was.
    """
    if not place.remembered:
        return []
    remembered, token = frozenset(place.remembered), place.token
    for _ in range(_PAGES_MAX):
        page = client.messages(room, "b", token, BEFORE)
        found: list[Said] = []
        known = 0
        for event in page.events:
            said = interpret(room, event)
            if said is None:
                continue
            found.append(said)
            if said.event in remembered:
                known = len(found)
            if joins(event, user):  # before that it was out of the room
                break
        if found:
            return [said for said in reversed(found[:known]) if said.event not in remembered] if known else None
        if page.end is None or page.end == token:
            return None
        token = page.end
    return None


def forward(client: Matrix, room: str, place: Place, user: str, late: Iterable[Said] = ()) -> Stretch:
    """What is unread in a room that the agent is in, or was, after what came late."""
    return _Reader(room, place, user, late).read(client)


def from_last_words(client: Matrix, room: str, place: Place, user: str) -> Stretch:
    """What is unread in a room that lets the agent read it no more, from what the homeserver says last of it."""
    words = client.last_words(room, PAGE)
    if words is None:
        lost = "what was said last in it cannot be read any more, if there was anything"
        return Stretch(
            (), ((0, place.token),), events=(RoomClosed("the agent is not in it"),), notes=(lost,), hears=False
        )
    events, limited = words
    remembered = frozenset(place.remembered)
    known = next((n for n, event in enumerate(events) if _id(room, event) in remembered), None)
    turns = (joins(event, user) for event in events if joins(event, user) or leaves(event, user))
    reader = _Reader(room, place, user, inside=known is not None or not next(turns, False))
    # What stands before the first that is remembered was said before the agent heard the room.
    first = _heard(room, events, place) if known is None and not limited else known or 0
    for event in events[first:]:
        reader.hear_last(event)
    stretch = reader.gone()
    notes = stretch.notes
    if known is None and limited:
        notes += ("some of what was said before the agent had to leave cannot be read any more",)
    elif known is None and first:
        notes += (_TOO_OLD,)
    return attrs.evolve(stretch, notes=notes)


def resync(client: Matrix, room: str, place: Place, user: str, why: str) -> tuple[tuple[RoomEvent, ...], str | None]:
    """
    Find a place anew, from the end of the room backwards: behind whatever is remembered.

    Returns:
        What has become of the place, and what may be lost by it.
    """
    remembered, token, oldest, older = frozenset(place.remembered), None, None, list[Said]()
    end, inside, encrypting = place.token, True, False
    for number in range(_PAGES_MAX):
        page = client.messages(room, "b", token, PAGE)
        end = _start(client, page) if number == 0 else end
        for event in page.events:
            said = interpret(room, event)
            if said is None:
                continue
            if said.event in remembered:
                return (RoomResynced(client.token_around(room, said.event)[1], why),), None
            encrypting = encrypting or encrypts(event)
            # What stands between a time out of the room that is not there any more and coming in is not for the agent.
            inside = leaves(event, user) or (inside and not joins(event, user))
            if said.at < place.since:
                older.append(said)
            elif inside:  # what seemed older was said by a wrong clock
                oldest, older = said, []
        if len(older) >= PAGE or page.end is None or page.end == token:
            break
        token = page.end
    lost = None
    if older:
        behind = client.token_around(room, older[0].event)[1]
        passed = (Passed(older[0].event, "said before the agent heard the room"),)
        events, lost = _unless_forgotten(
            client, room, place, (RoomResynced(behind, why), RoomRead(behind, (), passed)), end
        )
        lost = (
            lost or "what a slow clock has dated before the agent heard the room cannot be told from what was said then"
        )
    elif oldest is None:
        events, lost = (RoomResynced(end, why),), "what was said since cannot be read any more"
    else:
        begin = client.token_around(room, oldest.event)[0]
        events, _ = _unless_forgotten(client, room, place, (RoomResynced(begin, why),), end)
        lost = "what was said before the oldest event that is left cannot be read any more"
    if not encrypting and client.state(room, "m.room.encryption") is not None:  # by an event that is gone
        events = (*events, RoomClosed(_ENCRYPTED))
    return events, lost


def _unless_forgotten(
    client: Matrix, room: str, place: Place, events: tuple[RoomEvent, ...], end: str
) -> tuple[tuple[RoomEvent, ...], str | None]:
    """
    A place that was found without anything that is remembered.

    Where more was taken than is remembered, it may lie before what was taken long ago.
    """
    if len(place.remembered) < REMEMBERED_MAX:
        return events, None
    resynced = events[0]
    assert isinstance(resynced, RoomResynced)
    if client.messages(room, "f", place.token, 1).events:  # only the past was removed
        return (attrs.evolve(resynced, token=place.token),), None
    lost = "what was taken cannot be told from what was not, so it is heard from its present end on"
    return (attrs.evolve(resynced, token=end),), lost


class _Reader:
    """Takes in the events of a room, and keeps count."""

    def __init__(self, room: str, place: Place, user: str, late: Iterable[Said] = (), *, inside: bool = True) -> None:
        self._room = room
        self._user = user
        self._seen = set(place.remembered)
        self._said: list[Said] = []
        self._tokens = [(0, place.token)]
        self._events: list[RoomEvent] = []
        self._notes: list[str] = []
        self._inside = inside
        self._encrypted = False
        self._more = False
        self._why = "the agent is not in it"
        for said in late:
            self._take(said)

    def read(self, client: Matrix) -> Stretch:
        """Read on, page by page, as far as may be held."""
        token = self._tokens[0][1]
        for count in range(_PAGES_MAX + 1):
            if count == _PAGES_MAX or len(self._said) + PAGE > HELD_MAX:
                self._more = True
                break
            page = client.messages(self._room, "f", token, PAGE)
            turned = next((event for event in page.events if not self.hear(event)), None)
            if turned is not None:
                if encrypts(turned):
                    return self.ended()
                # The agent came in again: what was said before that is not for it.
                said = interpret(self._room, turned)
                assert said is not None
                token = client.token_around(self._room, said.event)[1]
                self._come_in(said, token)
                continue
            if page.end is None or page.end == token:
                break
            token = page.end
            if self._inside:
                self._tokens.append((len(self._said), token))
        if (
            self._inside and not self._said and len(self._tokens) > 2
        ):  # many pages were nothing new: not to be read again
            moved = self._tokens[-1][1]
            self._events.append(RoomRead(moved, ()))
            self._tokens = [(0, moved)]
        return self.ended()

    def hear(self, event: Any) -> bool:
        """Take in an event; False where reading has to turn there."""
        said = interpret(self._room, event)
        if said is None:
            self._notes.append("the homeserver gave an event that is none, and nobody can read it")
            return True
        self._encrypted = self._encrypted or encrypts(event)
        if not self._inside:
            return self._encrypted or not joins(event, self._user)
        if self._encrypted:
            self._leave(_ENCRYPTED)
            return False
        if said.membership is not None and said.membership[0] == self._user and said.membership[1] in _OUT:
            self._leave(_left(said))
        else:
            self._take(said)
        return True

    def hear_last(self, event: Any) -> None:
        """Take in an event of a room that cannot be read on its own; where the agent was away, go on behind that."""
        self._encrypted = self._encrypted or encrypts(event)
        if self._encrypted:
            self._inside, self._why = False, _ENCRYPTED if self._inside else self._why
        elif joins(event, self._user):
            self._inside = True
        elif self._inside:
            said = interpret(self._room, event)
            if said is not None and (said.membership is None or said.membership[0] != self._user):
                self._take(said)
            elif said is not None and said.membership is not None and said.membership[1] in _OUT:
                self._inside, self._why = False, _left(said)

    def gone(self) -> Stretch:
        """What is unread, of a room that the agent is out of."""
        self._inside = False
        if not self._said:
            self._events.append(RoomClosed(self._why))
        return self.ended()

    def ended(self) -> Stretch:
        return Stretch(
            tuple(self._said),
            tuple(self._tokens),
            more=self._more,
            events=tuple(self._events),
            notes=tuple(dict.fromkeys(self._notes)),
            hears=self._inside,
        )

    def _take(self, said: Said) -> None:
        if said.event not in self._seen:
            self._seen.add(said.event)
            self._said.append(said)

    def _leave(self, why: str) -> None:
        """The agent hears no more; it is on record when all before it was taken."""
        self._inside = False
        self._why = why
        if not self._said:
            self._events.append(RoomClosed(why))

    def _come_in(self, said: Said, token: str) -> None:
        self._inside = True
        if self._said:
            self._take(said)
            self._tokens.append((len(self._said), token))
            self._notes.append("what was said while the agent was out of it is not for the agent")
        else:
            self._events += [
                RoomOpened(token, said.at),
                RoomRead(token, (), (Passed(said.event, "the agent came in"),)),
            ]
            self._tokens = [(0, token)]


def _left(said: Said) -> str:
    """Why the agent is out, by its own membership event."""
    assert said.membership is not None
    user, became = said.membership
    return (
        "the agent was banned"
        if became == "ban"
        else "the agent left"
        if said.sender == user
        else "the agent was put out"
    )


def _heard(room: str, events: Sequence[Any], place: Place) -> int:
    """How many were said before the agent heard the room; what seems older behind these was said by a wrong clock."""
    told = (interpret(room, event) for event in events)
    return next((n for n, said in enumerate(told) if said is not None and said.at >= place.since), len(events))


def _id(room: str, event: Any) -> str | None:
    said = interpret(room, event)
    return None if said is None else said.event


def _interpreted(room: str, events: Iterable[Any]) -> Iterable[Said]:
    return (said for event in events if (said := interpret(room, event)) is not None)


def _start(client: Matrix, page: Page) -> str:
    """The place that a page was read from."""
    if page.start is None:
        client.strange("a page without a place")
    return page.start
