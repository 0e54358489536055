"""
The listener loses nothing in silence and repeats nothing.

Everything that is said in a room while the agent hears it is found once, in order, or what became of it was told.
Only the places outlive a listener.
"""

from datetime import UTC, datetime

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from property.homeserver import Model

from fencepost.mailbox.errors import HomeserverUnavailable
from fencepost.mailbox.events import Passed, RoomRead
from fencepost.mailbox.fleet.credentials import Credentials
from fencepost.mailbox.fleet.found import What
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.policy import RoomRule
from fencepost.mailbox.fleet.said import Kind
from fencepost.mailbox.rooms import after

ROOMS = ("!a", "!b")
rooms = st.sampled_from(ROOMS)
USER = "@agent:model"


class Ears:
    """A listener and the records that outlive it."""

    def __init__(self, model, rules=ROOMS):
        self.model, self.rules = model, rules
        self.places, self.taken, self.told = {}, {room: [] for room in rules}, []
        self.passed = set()
        self.begin()

    def begin(self):
        self.matrix = Matrix(
            "http://model", Credentials("secret", "a test"), transport=self.model.transport(), sleep=self.model.sleep
        )
        self.listener = Listener(
            self.matrix,
            USER,
            [RoomRule(room) for room in self.rules],
            clock=lambda: datetime.fromtimestamp(self.model.now / 1000, UTC),
        )

    def look(self):
        found = self.listener.look(self.places.get)
        for each in found.happenings:
            self.told.append((each.room, each.what))
            for event in each.events:
                self.places[each.room] = after(self.places.get(each.room), event)
                if isinstance(event, RoomRead) and event.passed:  # with all that stands before it
                    ids = [event["event_id"] for _, _, event in self.model.rooms[each.room]]
                    self.passed |= {*ids[: ids.index(event.passed[-1].event) + 1]}
        return found

    def take(self, found, count=None, passing=lambda said: said.kind is not Kind.MESSAGE):
        """Take the first so many of each room, as a delivery does."""
        for room, unread in found.unread.items():
            first = unread.said[:count]
            read = RoomRead(
                unread.token_after(len(first)),
                tuple(said.event for said in first if not passing(said)),
                tuple(Passed(said.event, "no") for said in first if passing(said)),
            )
            self.places[room] = after(self.places[room], read)
            self.taken[room] += [said.event for said in first]

    def drain(self, count=None):
        """Look and take until nothing is left."""
        for _ in range(200):
            found = self.look()
            if not found.unread and not any(each.events for each in found.happenings):
                return
            self.take(found, count)
        raise AssertionError("there is no end")


class Listening(RuleBasedStateMachine):
    """People, administrators and a controller that dies, in any order."""

    @initialize()
    def begin(self):
        self.model = Model()
        for room in ROOMS:
            self.model.create(room)
            self.model.become(room, "invite")
            self.model.become(room, "join", USER)
        self.ears = Ears(self.model)
        self.ears.drain()
        self.due = {room: [] for room in ROOMS}
        self.excused = set()
        self.lost = {}

    def hears(self, room):
        place = self.ears.places.get(room)
        heard = room in self.model.inside and place is not None and place.closed is None
        return heard and room not in self.model.encrypted

    @rule(room=rooms, at=st.sampled_from((0, 1_000, 1_796_000_000_000)))
    def say_by_a_wrong_clock(self, room, at):
        if room not in self.model.encrypted:
            self.due_if_heard(room, self.model.say(room, "by a wrong clock", at=at))

    @rule(room=rooms, count=st.integers(1, 12), late=st.booleans())
    def say(self, room, count, late):
        secret = "in an encrypted room " if room in self.model.encrypted else ""
        for number in range(count):
            # What comes late stands before the last, which may have been what encrypts.
            event = self.model.say(room, f"{secret}{number}", late=late and not secret and number == count - 1)
            if self.hears(room):
                self.due[room].append(event)

    @rule(room=rooms)
    def many(self, room):
        secret = "in an encrypted room " if room in self.model.encrypted else ""
        for number in range(150):
            event = self.model.say(room, f"{secret}{number}")
            if self.hears(room):
                self.due[room].append(event)

    @rule()
    def look_in_vain(self):
        """A controller that ends before it has taken anything."""
        self.ears.look()

    @rule(count=st.integers(1, 90))
    def take_some(self, count):
        self.ears.take(self.ears.look(), count)

    @rule()
    def take_all(self):
        self.ears.drain()

    @rule()
    def start_anew(self):
        self.ears.begin()

    @rule(room=rooms, how=st.sampled_from(("leave", "ban")))
    def put_out(self, room, how):
        if room in self.model.inside:
            self.model.become(room, how)

    @rule(room=rooms, talk=st.integers(0, 9), encrypting=st.booleans())
    def let_in_again(self, room, talk, encrypting):
        if room in self.model.inside:
            return
        for number in range(talk):
            self.model.say(room, f"behind its back {number}")
        if encrypting:
            self.encrypt(room)
        if room in self.model.banned:
            self.model.become(room, "leave")
        self.model.become(room, "invite")
        self.model.become(room, "join", USER)

    @rule(room=rooms)
    def encrypt(self, room):
        if room not in self.model.encrypted:
            self.model.encrypt(room)

    @rule(room=rooms, count=st.integers(1, 60))
    def purge(self, room, count):
        gone = set(self.model.purge(room, count))
        if gone & set(self.due[room]) - set(self.ears.taken[room]) - self.excused - self.ears.passed:
            self.excused |= gone
            if self.ears.places[room].closed is None:  # else it was told that there may be more
                self.lost[room] = len(self.ears.told)
            self.ears.begin()  # it is noticed at the next start, if not before

    @rule(room=rooms)
    def restart_from_backup(self, room):
        """With nothing but words lost, and some said since."""
        copy = self.model.backup()
        inside = set(self.model.inside)
        before = {room: {e["event_id"] for _, _, e in self.model.rooms[room]} for room in ROOMS}
        for number in range(20):
            self.due_if_heard(room, self.model.say(room, f"lost {number}"))
        self.ears.take(self.ears.look(), 15)
        self.model.down = True
        with pytest.raises(HomeserverUnavailable):
            self.ears.look()
        self.model.restore(copy)
        assert inside == self.model.inside
        self.model.down = False
        for each in ROOMS:
            self.excused |= set(self.due[each]) - before[each]
        for number in range(20):
            self.due_if_heard(room, self.model.say(room, f"since {number}"))

    def due_if_heard(self, room, event):
        if self.hears(room):
            self.due[room].append(event)

    @rule()
    def be_busy(self):
        self.model.busy = 3

    @rule()
    def give_empty_pages(self):
        self.model.empty_pages = not self.model.empty_pages

    @invariant()
    def repeats_nothing(self):
        for taken in self.ears.taken.values():
            assert len(set(taken)) == len(taken)

    def teardown(self):
        if not hasattr(self, "ears"):
            return
        self.ears.drain()
        self.repeats_nothing()
        gaps = {room for room, what in self.ears.told if what is What.GAP}
        for room, due in self.due.items():
            missing = [event for event in due if event not in self.ears.taken[room] and event not in self.excused]
            assert not missing or room in gaps, (room, missing)
            since = [what for name, what in self.ears.told[self.lost.get(room, 0) :] if name == room]
            assert room not in self.lost or {What.GAP, What.RESYNCED, What.CLOSED} & {*since}, room
            words = {e["event_id"]: e["content"].get("body", "") for _, _, e in self.model.rooms[room]}
            never = ("behind its back", "in an encrypted room")
            overheard = [event for event in self.ears.taken[room] if words.get(event, "").startswith(never)]
            assert not overheard, (room, overheard)


TestListening = Listening.TestCase


def entered(*rules):
    """A model with rooms that the agent is in and has heard, and the ears."""
    model = Model()
    for room in rules:
        model.create(room)
        model.become(room, "invite")
        model.become(room, "join", USER)
    ears = Ears(model, rules)
    ears.drain()
    return model, ears


def test_a_room_that_was_encrypted_behind_its_back_is_not_heard():
    """Nor what is said in it in plain words."""
    model, ears = entered("!a")
    model.become("!a", "leave")
    model.encrypt("!a")
    model.become("!a", "invite")
    model.become("!a", "join", USER)
    plain = model.say("!a", "in plain words")
    ears.drain()

    assert plain not in ears.taken["!a"]
    assert ("!a", What.ENCRYPTED) in ears.told


def test_a_wrong_clock_hides_nothing_that_is_found_anew():
    """What was said before and behind it is unread, whenever it says that it was said."""
    model, ears = entered("!a")
    said = [model.say("!a", "first"), model.say("!a", "by a wrong clock", at=1_000), model.say("!a", "last")]
    model.rooms["!a"] = model.rooms["!a"][-3:]
    ears.begin()
    ears.drain()

    assert said == ears.taken["!a"]
