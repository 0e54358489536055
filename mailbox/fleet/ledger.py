"""
What is recorded of an agent and of the rooms that it hears, for the one controller that has it.

Every record is durable when it is made, and expects what this controller has
seen.  Whoever feeds an agent is on record (`AgentHeld`), so where somebody else has
recorded something meanwhile, it shows whether this one has the agent no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from fencepost.journal.errors import JournalConflict
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, confirmation, rooms
from fencepost.mailbox.addresses import FLEET, FLEET_SCOPE
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.confirmation import Agent
from fencepost.mailbox.errors import AgentElsewhere, AgentTaken, UnsupportedDocument
from fencepost.mailbox.events import AgentEvent, AgentHeld, FleetEvent, RoomEvent
from fencepost.mailbox.rooms import Place
from fencepost.mailbox.store.documents import Content
from fencepost.mailbox.store.port import Store

#: Who is on record for what a controller does.
ACTOR = "host:fleet"
_ROOMS = "/rooms/"


def stream_of(agent: str, room: str | None = None) -> Stream:
    """Where it is recorded what becomes of an agent, or how far it has read a room."""
    return FLEET_SCOPE, FLEET + agent + ("" if room is None else _ROOMS + room)


class Ledger:
    """
    The records of one agent.  One thread uses it.

    Args:
        store: Where they are kept.
        name: Which agent.
        clock: Gives the time, aware, in UTC.

    Raises:
        UnsupportedDocument: They are in a form that this version does not know.
        JournalError: They cannot be read.
    """

    def __init__(self, store: Store, name: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._holder: str | None = None
        self.reload()

    def reload(self) -> None:
        """
        Look at what stands there, where it is not known what became of a record.

        Raises:
            AgentTaken: This one had the agent, and has it no more.
        """
        stream = stream_of(self._name)
        version, found = self._find(stream)
        assert found is None or isinstance(found, Agent), "its name says what stands there"
        # Only now: where it cannot be read, what was known is still what the next record expects.
        self.agent = found or Agent()
        self._versions: dict[Stream, int] = {stream: version}
        self._places: dict[str, Place | None] = {}
        if self._holder not in (None, self.agent.holder):
            raise AgentTaken(agent=self._name)

    def hold(self, holder: str, runtime: str) -> None:
        """
        Have the agent from here on, as a program of that kind.

        Args:
            holder: What the state folder is known by.
            runtime: Which program the agent is.

        Raises:
            AgentElsewhere: Another state folder has it.
        """
        if self.agent.holder not in (None, holder):
            raise AgentElsewhere(agent=self._name, holder=self.agent.holder)
        self._holder = holder
        if (self.agent.holder, self.agent.runtime) != (holder, runtime):
            self.record(AgentHeld(holder, runtime))

    def place(self, room: str) -> Place | None:
        """How far a room was read; None where it never was opened."""
        if room not in self._places:
            stream = stream_of(self._name, room)
            version, found = self._find(stream)
            assert found is None or isinstance(found, Place), "its name says what stands there"
            self._versions[stream], self._places[room] = version, found
        return self._places[room]

    def record(self, *events: AgentEvent, rooms_too: Mapping[str, Iterable[RoomEvent]] | None = None) -> None:
        """
        Record what happened to the agent and to rooms, all of it or nothing.

        Raises:
            AgentTaken: Somebody else has the agent by now.
            Impossible: It cannot happen as things stand; nothing is recorded.
            JournalError: It could not be recorded, or (`SyncFailed`) that is not known.
        """
        agent = self.agent
        for event in events:
            agent = confirmation.after(agent, event)
        places: dict[str, Place | None] = {}
        new = [self._new(stream_of(self._name), event) for event in events]
        for room, happened in (rooms_too or {}).items():
            places[room] = self.place(room)
            for each in happened:
                places[room] = rooms.after(places[room], each)
                new.append(self._new(stream_of(self._name, room), each))
        if not new:
            return
        expect = {(event.scope, event.stream): self._versions[event.scope, event.stream] for event in new}
        try:
            self._store.append(Batch(self._clock(), ACTOR, tuple(new)), expect)
        except JournalConflict:
            # Somebody else's record, or one of ours that nobody had confirmed.
            self.reload()
            raise
        for made in new:
            self._versions[made.scope, made.stream] += 1
        self.agent = agent
        self._places |= places

    def _new(self, stream: Stream, event: FleetEvent) -> NewEvent:
        return NewEvent(*stream, *codec.encode(event), meaning=event)

    def _find(self, stream: Stream) -> tuple[int, Content | None]:
        """The version of a stream, and what stands there."""
        document = self._store.find(stream)
        if document is None:
            return 0, None
        if not isinstance(document.content, Agent | Place):
            raise UnsupportedDocument(scope=document.scope, path=document.path, why=document.why or "it was erased")
        return document.version, document.content
