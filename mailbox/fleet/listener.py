"""
What one agent has to hear: which of its rooms have something unread, and what happened to them.

The listener keeps nothing that matters.  How far a room was read comes with every
call, and what becomes of that is returned; somebody else records it.  So whoever
starts anew goes on exactly where the records are.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.errors import (
    AccessTokenOfAnother,
    HomeserverBusy,
    HomeserverRefused,
    HomeserverUnavailable,
    StrangeHomeserver,
)
from fencepost.mailbox.events import RoomClosed, RoomEvent
from fencepost.mailbox.fleet import reading
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.found import Found, Happening, Unread, What
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.policy import RoomRule
from fencepost.mailbox.fleet.reading import Stretch
from fencepost.mailbox.fleet.said import Kind, Media, RoomFacts, Said
from fencepost.mailbox.fleet.writing import Stored
from fencepost.mailbox.rooms import Place, after

#: What the doorbell is told of: that there is something, and no more of it than has to be.
_DOORBELL: Final = {
    "room": {
        "timeline": {"limit": 1},
        "state": {"types": ["m.room.member"], "lazy_load_members": True},
        "ephemeral": {"types": []},
        "account_data": {"types": []},
    },
    "presence": {"types": []},
    "account_data": {"types": []},
}
#: Who has said what is remembered of so many events, to tell whose words an edit changes.
_AUTHORS_MAX: Final = 5_000
#: So many things are told once and not again.
_TOLD_MAX: Final = 1_000
_MXC: Final = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
#: What a rule, or the homeserver, calls two that talk.
_DIRECT: Final = "m.direct"
#: What may have changed when this was said: names, members, where the room has gone.
_CHANGING: Final = (Kind.MEMBERSHIP, Kind.UPGRADE, Kind.OTHER)


class Listener:
    """
    The ears of one agent.  One thread may ring while another looks.

    Args:
        client: Of the agent's user.
        user: That user.
        rules: The rooms that it hears.
        rooms: What each rule called a room -> the room's id, as it was found before.
        clock: Gives the time, aware, in UTC.

    Raises:
        HomeserverTrouble: From every method: the homeserver does not give what is asked.
    """

    def __init__(
        self,
        client: Matrix,
        user: str,
        rules: Iterable[RoomRule],
        rooms: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._user = user
        self._clock = clock
        self._rules = {rule.room: rule for rule in rules}
        #: What a rule calls a room -> the rooms that are heard by it, the present one last.
        self._rooms = {name: [known] if (known := (rooms or {}).get(name)) else [] for name in self._rules}
        self._unresolved = set(self._rules)
        self._facts: dict[str, RoomFacts] = {}
        self._authors: dict[str, str] = {}
        self._told: set[tuple[str, What, str]] = set()
        #: Places that were found anew: what stands before them says nothing.
        self._settled: dict[str, str] = {}
        self._encrypted: set[str] = set()
        self._direct: set[str] | None = None
        self._proven = False
        # What both threads use.
        self._mutex = threading.Lock()
        self._sure = set[str]()
        self._invited: dict[str, tuple[str, bool]] = {}
        self._since: str | None = None
        self._again = False

    # --- the doorbell ------------------------------------------------------------------------------------

    def ring(self, timeout_s: float) -> bool:
        """Wait until a room may have something new, at most so long."""
        with self._mutex:
            since, again, self._again = self._since, self._again, False
        try:
            answer = self._client.sync(since, _DOORBELL, 0 if again else timeout_s)
        except HomeserverRefused as error:
            if since is None or error.status != 400:
                raise
            answer = self._client.sync(None, _DOORBELL, 0)
            since = None
        except HomeserverUnavailable:
            self._doubt()
            raise
        rooms = _fields(answer.get("rooms"))
        with self._mutex:
            self._since = answer["next_batch"]
            for room, invite in _fields(rooms.get("invite")).items():
                by = _invitation(invite, self._user)
                if by is not None:
                    self._invited[room] = by
            for room in _fields(rooms.get("leave")):  # an invitation may be taken back
                self._invited.pop(room, None)
        return since is None or again or any(rooms.get(kind) for kind in ("join", "invite", "leave"))

    def _doubt(self) -> None:
        """Nothing is known for sure any more: another database may answer next."""
        with self._mutex:
            self._sure.clear()
            self._again = True
        self._facts = {}

    # --- looking -----------------------------------------------------------------------------------------

    def look(self, place_of: Callable[[str], Place | None]) -> Found:
        """
        Read all rooms on from where they were read to.

        Args:
            place_of: Gives the place of a room by its id; None where it never was opened.

        Raises:
            AccessTokenOfAnother: The client is another user's.
        """
        try:
            return self._look(place_of)
        except HomeserverUnavailable:
            self._doubt()
            raise

    def _look(self, place_of: Callable[[str], Place | None]) -> Found:
        self._prove()
        happenings: list[Happening] = []
        self._resolve(happenings)
        joined = self._client.joined_rooms()
        unread: dict[str, Unread] = {}
        for name, rooms in self._rooms.items():
            for room in tuple(rooms):
                stretch = self._try(room, place_of(room), happenings, joined=room in joined)
                if stretch is not None and stretch.said:
                    unread[room] = self._unread(room, stretch)
                    self._notice(name, room, stretch, happenings)
            # A room whose name has gone to another one is heard until all of it was taken.
            self._rooms[name] = [room for room in rooms[:-1] if room in unread] + rooms[-1:]
        facts = {room: self._facts_of(room) for room in unread}
        found = {name: rooms[0] for name, rooms in self._rooms.items() if rooms}
        unheard = {each.room: str(each) for each in happenings if each.stands}
        return Found(unread, facts, [each for each in happenings if self._is_new(each)], found, unheard)

    def _prove(self) -> None:
        """Whose ears these are: what another user is in says nothing of the agent's rooms."""
        if not self._proven:
            owner = self._client.whoami()
            if owner != self._user:
                raise AccessTokenOfAnother(user=self._user, owner=owner, origin=self._client.origin)
            self._proven = True

    def rule_of(self, room: str) -> RoomRule:
        """The rule by which a room is heard."""
        return next(self._rules[name] for name, rooms in self._rooms.items() if room in rooms)

    def _is_new(self, happening: Happening) -> bool:
        """It was not told before, or has to be recorded."""
        key = (happening.room, happening.what, happening.why)
        if not happening.events and key in self._told:
            return False
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told.add(key)
        return True

    def _resolve(self, happenings: list[Happening]) -> None:
        """Find the rooms that rules name by an alias."""
        for name in tuple(self._unresolved):
            room = name if name.startswith("!") else self._client.resolve(name)
            if room is None:
                if not self._rooms[name]:
                    happenings.append(Happening(name, What.REFUSED, "there is no room of that name"))
                continue
            self._unresolved.discard(name)
            if room not in self._rooms[name]:
                self._rooms[name].append(room)

    def _try(self, room: str, place: Place | None, happenings: list[Happening], *, joined: bool) -> Stretch | None:
        """What is unread in one room; that it cannot be read keeps nobody from the others."""
        try:
            if joined:
                return self._read(room, place, happenings)
            if place is not None and place.closed is None:
                return self._read_out(room, place, happenings)
            self._enter(room, place, happenings)
        except (HomeserverRefused, StrangeHomeserver) as error:
            happenings.append(Happening(room, What.REFUSED, str(error)))
        return None

    # --- a room that the agent is in -----------------------------------------------------------------------

    def _read(self, room: str, place: Place | None, happenings: list[Happening]) -> Stretch | None:
        if place is None or place.closed is not None:
            if room in self._encrypted or self._client.state(room, "m.room.encryption") is not None:
                self._encrypted.add(room)
                happenings.append(Happening(room, What.ENCRYPTED))
                return None
            events = reading.opening(self._client, room, self._clock())
            happenings.append(Happening(room, What.OPENED, events=events))
            place = _folded(place, events)
            with self._mutex:
                self._sure.add(room)
        stretch = self._forward(room, place, happenings)
        self._tell(room, stretch, happenings)
        return stretch

    def _forward(self, room: str, place: Place, happenings: list[Happening]) -> Stretch:
        """What is unread, from a place that is found anew where the history is not what it was."""
        late = self._before(room, place)
        if late is None:
            place = self._resync(room, place, "what was read of it is not there", happenings)
            late = []
        try:
            return reading.forward(self._client, room, place, self._user, late)
        except HomeserverRefused as error:
            if error.status != 400:
                raise
            place = self._resync(room, place, "the homeserver does not know the place", happenings)
            return reading.forward(self._client, room, place, self._user)

    def _before(self, room: str, place: Place) -> list[Said] | None:
        """What came late; None where the history is not what it was."""
        with self._mutex:
            sure = room in self._sure
        if self._settled.get(room) == place.token:
            return []
        if not sure and place.last is not None and self._client.event(room, place.last) is None:
            return None
        try:
            late = reading.before(self._client, room, place, self._user)
        except HomeserverRefused as error:
            if error.status != 400:
                raise
            return None
        with self._mutex:
            self._sure.add(room)
        return late

    def _resync(self, room: str, place: Place, why: str, happenings: list[Happening]) -> Place:
        events, lost = reading.resync(self._client, room, place, self._user, why)
        happenings.append(Happening(room, What.RESYNCED, why, events))
        if lost is not None:
            happenings.append(Happening(room, What.GAP, lost))
        found = _folded(place, events)
        self._settled[room] = found.token
        with self._mutex:
            self._sure.add(room)
        return found

    # --- a room that it is not in ---------------------------------------------------------------------------

    def _read_out(self, room: str, place: Place, happenings: list[Happening]) -> Stretch:
        """What was said before the agent had to leave."""
        try:
            stretch = self._forward(room, place, happenings)
        except HomeserverRefused:
            stretch = reading.from_last_words(self._client, room, place, self._user)
        if stretch.hears and not stretch.said and not stretch.more:
            stretch = attrs.evolve(stretch, events=(*stretch.events, RoomClosed("the agent is not in it")), hears=False)
        self._tell(room, stretch, happenings)
        return stretch

    def _enter(self, room: str, place: Place | None, happenings: list[Happening]) -> None:
        with self._mutex:
            invitation = self._invited.get(room)
        if invitation is None:
            why = None if place is None else place.closed
            happenings.append(Happening(room, What.REFUSED, _uninvited(why)))
            return
        by, direct = invitation
        self._client.join(room)
        if direct:
            known = self._client.account_data(self._user, _DIRECT)
            rooms = known.get(by)
            others = [each for each in rooms if each != room] if isinstance(rooms, list) else []
            self._client.keep_account_data(self._user, _DIRECT, {**known, by: [*others, room]})
            self._direct = None
        with self._mutex:
            del self._invited[room]
            self._again = True

    # --- what is told -----------------------------------------------------------------------------------------

    def _tell(self, room: str, stretch: Stretch, happenings: list[Happening]) -> None:
        closed = next((each for each in reversed(stretch.events) if isinstance(each, RoomClosed)), None)
        if stretch.events:
            what = What.MOVED if closed is None else What.CLOSED if not stretch.hears else What.OPENED
            happenings.append(Happening(room, what, "" if closed is None else closed.why, stretch.events))
        if closed is not None:
            self._told = {key for key in self._told if key[0] != room}
            if not stretch.hears:  # which says no more than that it was closed
                self._told.add((room, What.REFUSED, _uninvited(closed.why)))
        happenings += [Happening(room, What.GAP, note) for note in stretch.notes]
        if stretch.more and not stretch.said:
            with self._mutex:
                self._again = True

    def _notice(self, name: str, room: str, stretch: Stretch, happenings: list[Happening]) -> None:
        """What the words themselves say of the room."""
        for said in stretch.said:
            if said.kind is Kind.UPGRADE:
                happenings.append(Happening(room, What.UPGRADED, f"to {said.target}"))
                self._unresolved.add(name)
            elif said.kind is Kind.ENCRYPTED:
                happenings.append(Happening(room, What.GAP, "somebody has said something encrypted"))
        if any(said.kind in _CHANGING for said in stretch.said):
            self._facts.pop(room, None)

    def _unread(self, room: str, stretch: Stretch) -> Unread:
        """With who is banned by now, and whose words are edited."""
        for said in stretch.said:
            self._authors[said.event] = said.sender
        edited = {said.target for said in stretch.said if said.kind is Kind.EDIT and said.target is not None}
        authors: dict[str, str] = {}
        for event in edited:
            author = self._authors.get(event) or self._author(room, event)
            if author:
                authors[event] = author
        while len(self._authors) > _AUTHORS_MAX:
            del self._authors[next(iter(self._authors))]
        try:
            banned = self._client.banned(room)
        except HomeserverRefused:  # the agent is out of it, and what was said last is all that there is
            banned = frozenset()
        return Unread(stretch.said, stretch.tokens, stretch.more, banned, authors)

    def _author(self, room: str, event: str) -> str:
        try:
            found = self._client.event(room, event) or {}
        except HomeserverRefused:
            return ""
        author = found.get("sender")
        self._authors[event] = author if isinstance(author, str) else ""
        return self._authors[event]

    def _facts_of(self, room: str) -> RoomFacts:
        if room not in self._facts:
            try:
                self._facts[room] = self._asked(room)
            except HomeserverRefused:
                return RoomFacts(room)
        return self._facts[room]

    def _asked(self, room: str) -> RoomFacts:
        client = self._client
        if self._direct is None:
            rooms = client.account_data(self._user, _DIRECT).values()
            self._direct = {room for each in rooms if isinstance(each, list) for room in each if isinstance(room, str)}

        def said(kind: str, key: str) -> str | None:
            value = _fields(client.state(room, kind)).get(key)
            return value if isinstance(value, str) and value else None

        return RoomFacts(
            room,
            name=said("m.room.name", "name"),
            alias=said("m.room.canonical_alias", "alias"),
            direct=room in self._direct,
            encrypted=client.state(room, "m.room.encryption") is not None,
            members=client.members(room),
            successor=said("m.room.tombstone", "replacement_room"),
        )

    # --- files -------------------------------------------------------------------------------------------------

    def fetch(self, media: Media, limit_bytes: int, files: Files) -> Stored | str:
        """
        Put a file that somebody has sent where the agent can read it.

        Returns:
            The file, or why there is none.
        """
        where = _MXC.fullmatch(media.url)
        if where is None:
            return "its address is none"
        into = io.BytesIO()
        try:
            if not self._client.download(where[1], where[2], into, limit_bytes):
                return f"not fetched, because it has more than {limit_bytes:,} bytes"
        except HomeserverRefused as error:
            return f"not fetched, because the homeserver refuses it with {error.status}"
        except (StrangeHomeserver, HomeserverBusy):
            return "not fetched, because the homeserver does not give it"
        return files.put(into.getvalue())


def _uninvited(why: str | None) -> str:
    return f"{why or 'the agent is not in it'}, and nobody has invited it"


def _folded(place: Place | None, events: Iterable[RoomEvent]) -> Place:
    for event in events:
        place = after(place, event)
    assert place is not None
    return place


def _invitation(invite: Any, user: str) -> tuple[str, bool] | None:
    """Who invites the user, and whether to a talk between two."""
    events = _fields(_fields(invite).get("invite_state")).get("events")
    for event in map(_fields, events if isinstance(events, list) else ()):
        content = _fields(event.get("content"))
        if event.get("type") == "m.room.member" and event.get("state_key") == user:
            by = event.get("sender")
            return (by, content.get("is_direct") is True) if isinstance(by, str) else None
    return None


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
