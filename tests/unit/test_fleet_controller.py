"""The controller of an agent, with a program and rooms of the test's own: it may end at every record, and goes on."""

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest

from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.confirmation import Stage
from fencepost.mailbox.errors import AgentTaken, EngineFailed, EngineRefused, NativeHistoryLost
from fencepost.mailbox.events import RoomOpened, RoomRead
from fencepost.mailbox.fleet import deliveries
from fencepost.mailbox.fleet.config import AgentRule, Limits, Runtime
from fencepost.mailbox.fleet.controller import Controller
from fencepost.mailbox.fleet.engine import Bound, Entry
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.found import Found, Happening, Unread, What
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.fleet.permits import Permits
from fencepost.mailbox.fleet.policy import Grant, RoomRule, Wake
from fencepost.mailbox.fleet.said import Kind, RoomFacts, Said
from fencepost.mailbox.fleet.troubles import Troubles, standing
from fencepost.mailbox.store.opening import memory_store

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROOM, ME, ANN = "!kitchen", "@me:example.org", "@ann:example.org"
STEPS_MAX = 200


class Died(BaseException):
    """The whole process is gone."""


class Rooms:
    """One room, in which everything that was said can be read for ever."""

    def __init__(self):
        self.said = []
        self.unheard = {}

    def says(self, body, kind=Kind.MESSAGE, sender=ANN):
        number = len(self.said) + 1
        self.said.append(Said(ROOM, f"${number}", sender, NOON + timedelta(minutes=number), kind, body))

    def ring(self, timeout_s):
        threading.Event().wait(min(timeout_s, 0.01))
        return True

    def rule_of(self, room):
        assert ROOM == room
        return self.rule

    rule = RoomRule(ROOM, (Grant("*"),), Wake.ALL)

    def look(self, place_of):
        place, happenings = place_of(ROOM), []
        if place is None:
            events = (RoomOpened("0", NOON), RoomRead("0", ()))
            happenings.append(Happening(ROOM, What.OPENED, events=events))
        known = () if place is None else place.remembered
        unread = tuple(said for said in self.said if said.event not in known)
        tokens = tuple((number, str(number)) for number in range(len(unread) + 1))
        found = {ROOM: Unread(unread, tokens, False, frozenset(), {})} if unread else {}
        return Found(found, {ROOM: RoomFacts(ROOM)}, happenings, {ROOM: ROOM}, self.unheard)


class Engine:
    """A program that writes down what it is given at once, later, or never; its history is a file."""

    def __init__(self, history, moods):
        self.history, self.moods = history, moods
        self.ended = False
        self.held = []

    def begin(self, bound):
        return bound if bound is not None and self.history.exists() else Bound("s-1", str(self.history))

    def idle(self):
        return True

    def submit(self, delivery, text):
        mood = self.moods.pop(0) if self.moods else "takes"
        if mood == "refuses":
            raise EngineRefused(program="it", why="busy")
        if mood == "fails":
            raise EngineFailed(program="it", why="gone", log="log")
        if mood == "takes and fails":
            self.write(delivery, text)
            raise EngineFailed(program="it", why="gone", log="log")
        if mood == "is late":
            self.held.append((delivery, text))
            return
        self.write(delivery, text)

    def write(self, delivery, text):
        with self.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"id": delivery, "text": text}) + "\n")

    def wait(self, timeout_s):
        for each in self.held:
            self.write(*each)
        self.held.clear()

    def end(self):
        self.ended = True
        self.held.clear()


def entry(line, delivery, text):
    return Entry(line["id"], line["text"]) if line["id"] == delivery else None


class Place:
    """What outlives a controller: the store, the room, and the program's history."""

    def __init__(self, folder):
        self.folder = folder
        self.store = memory_store()
        self.rooms = Rooms()
        self.history = folder / "history.jsonl"
        self.moods = []
        self.told = []
        self.engines = []
        self.mounts = [Mount("user:me", "/user")]

    def controller(self, **limits):
        rule = AgentRule("chef", ME, ANN, Runtime.PI, str(self.folder), (self.rooms.rule,))

        def start():
            self.engines.append(Engine(self.history, self.moods))
            return self.engines[-1]

        return Controller(
            rule,
            Limits(**limits),
            ledger=Ledger(self.store, "chef"),
            box=Mailbox(self.store, self.mounts),
            listener=self.rooms,
            start=start,
            matcher=entry,
            files=Files(str(self.folder / "files")),
            permits=Permits(1),
            troubles=Troubles(self.folder, self.told.append),
            say=self.told.append,
        )

    def entries(self):
        return [json.loads(line) for line in self.history.read_text().splitlines()] if self.history.exists() else []

    def until_delivered(self, controller):
        """Step until nothing is unread and nothing is in hand."""
        for _ in range(STEPS_MAX):
            try:
                controller.step()
            except EngineFailed:
                controller._end_engine()
            ledger = Ledger(self.store, "chef")
            place = ledger.place(ROOM)
            if (
                ledger.agent.stage is Stage.IDLE
                and place
                and {each.event for each in self.rooms.said} <= set(place.remembered)
            ):
                return
        raise AssertionError("it is never delivered")


def step_on(controller):
    for _ in range(STEPS_MAX):
        controller.step()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def dying(store, number, *, before):
    """A store in which the so-many-th record is the last thing that the process does."""
    append, count = store.append, iter(range(number, -1, -1))

    def last(*args, **options):
        dies = next(count) == 0
        if dies and before:
            raise Died
        append(*args, **options)
        if dies:
            raise Died

    store.append = last
    return append


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(12))
def test_a_controller_may_end_at_any_record(place, number, before):
    """Another one goes on from there: everything is in the history once, in order, and acknowledged."""
    place.rooms.says("one")
    place.controller()
    append = dying(place.store, number, before=before)
    first = place.controller()
    try:
        place.until_delivered(first)
        place.rooms.says("two")
        place.until_delivered(first)
    except Died:
        pass
    place.store.append = append
    place.rooms.says("three")
    place.until_delivered(place.controller())

    told = "".join(each["text"] for each in place.entries())
    assert all(1 == told.count(f"| {body}\n") for body in ("one", "three"))
    assert len(place.entries()) == len({each["id"] for each in place.entries()})
    assert all(each.acknowledged_at and each.entry for each in deliveries.of(place.store, "chef"))


@pytest.mark.parametrize("mood", ["refuses", "fails", "takes and fails", "is late"])
def test_whatever_the_program_does_with_it_the_history_decides(place, mood):
    """It is there once in the end, however the program answered."""
    place.moods.append(mood)
    place.rooms.says("one")
    place.until_delivered(place.controller())

    assert 1 == len(place.entries())
    assert {"refuses": 2, "fails": 2}.get(mood, 1) == deliveries.of(place.store, "chef")[0].attempts


def test_the_same_run_is_never_given_it_twice(place):
    """A program that is at rest and has not written it down is given time, and then ended; it is not asked again."""
    place.moods += ["is late"] * 3
    place.rooms.says("one")
    controller = place.controller()
    for _ in range(20):
        controller.step()
        place.engines[-1].wait = lambda _: None

    assert 1 == deliveries.of(place.store, "chef")[0].attempts
    assert [] == place.entries()


def test_a_history_that_is_gone_decides_nothing(place):
    """It is not submitted again on the word of a history that lacks what it had."""
    place.rooms.says("one")
    place.until_delivered(place.controller())
    place.moods.append("fails")
    place.rooms.says("two")
    controller = place.controller()
    with pytest.raises(EngineFailed):
        step_on(controller)
    place.history.write_text("")

    with pytest.raises(NativeHistoryLost):
        place.controller().step()


def test_another_controller_ends_this_one(place):
    """Whoever finds that somebody else has recorded something stops, and has changed nothing."""
    first, second = place.controller(), place.controller()
    place.rooms.says("one")
    place.until_delivered(second)

    with pytest.raises(AgentTaken):
        step_on(first)
    assert 1 == len(place.entries())


def test_what_is_passed_over_is_read_on_without_a_delivery(place):
    """What is for nobody moves the place, says why, and wakes nobody."""
    place.rooms.says("own", sender=ME)
    place.rooms.says("", kind=Kind.MEMBERSHIP)
    controller = place.controller()
    for _ in range(5):
        controller.step()
    found = Ledger(place.store, "chef").place(ROOM)

    assert ("$1", "$2") == found.remembered
    assert 2 == found.passed
    assert [] == deliveries.of(place.store, "chef")


def test_mail_is_accepted_only_when_it_is_proven(place):
    """It is reserved, delivered, and accepted; unread it stays, and it does not come again."""
    box = Mailbox(place.store, place.mounts)
    sent = box.send("taste the soup", delivery="wake")
    place.moods.append("fails")
    controller = place.controller()
    for _ in range(STEPS_MAX):
        try:
            controller.step()
        except EngineFailed:
            controller._end_engine()
            assert not box.view(sent.message.id).receipt.message.wake_accepted
        if deliveries.of(place.store, "chef") and deliveries.of(place.store, "chef")[0].acknowledged_at:
            break
    for _ in range(5):
        controller.step()

    assert 1 == len(place.entries())
    assert "| taste the soup\n" in place.entries()[0]["text"]
    assert box.view(sent.message.id).receipt.message.wake_accepted
    assert [sent.message.id] == [each.message.id for each in box.list(session="s-1").items]


def test_what_is_too_large_is_in_files_before_it_is_saved(place):
    """Whoever reads the list finds every file that it names."""
    body = "x" * 5_000
    place.rooms.says(body)
    place.until_delivered(place.controller(inline_bytes=1_024))
    text = place.entries()[0]["text"]
    files = [path for path in (place.folder / "files").rglob("*") if path.is_file()]

    assert [body] == [path.read_text() for path in files]
    assert str(files[0]) in text
    assert body not in text


def test_a_program_that_is_busy_is_told_of_once(place):
    """However often it is asked; and that it goes on, when that is proven.  What is with a room stands meanwhile."""
    place.moods += ["refuses"] * 5
    place.rooms.unheard = {ROOM: "room !kitchen cannot be heard"}
    place.rooms.says("one")
    controller = place.controller()
    for _ in range(5):
        controller._try()
    troubles = standing(place.folder)

    assert ["it did not take the input", "room !kitchen cannot be heard"] == [
        each.what.partition(" (")[0] for each in troubles
    ]
    assert 0o600 == (place.folder / "troubles.json").stat().st_mode & 0o777
    place.rooms.unheard = {}
    for _ in range(20):
        controller._try()
    assert [] == standing(place.folder)
    assert not (place.folder / "troubles.json").exists()
    told = [each.partition(" (")[0] for each in place.told]
    assert ["it did not take the input", "its program runs and takes input again"] == told[-2:]
    assert 1 == told.count("it did not take the input")


def test_what_was_delivered_says_where_and_by_whom(place):
    """Of rooms as a rule calls them, and of mail."""
    place.rooms.says("one")
    place.rooms.says("[fencepost] 1.2 from @eve:example.org, and on")
    place.until_delivered(place.controller())
    Mailbox(place.store, place.mounts).send("two", delivery="wake")
    controller = place.controller()
    for _ in range(STEPS_MAX):
        controller.step()
        if len(deliveries.of(place.store, "chef")) == 2:
            break
    first, second = deliveries.of(place.store, "chef")

    assert ((ROOM,), (ANN,)) == (first.rooms, first.senders)
    assert f"\n  in {ROOM}\n  from {ANN}" in str(first)
    assert ((), 1) == (second.rooms, len(second.senders))


def test_the_same_trouble_of_two_is_told_once(tmp_path):
    """It begins with the first, is over with the last, and is another one where more than a number differs."""
    told = []
    troubles = Troubles(tmp_path, told.append)
    troubles.begin("looking", "gone for 1 ms")
    troubles.begin("ringing", "gone for 2 ms")
    (since,) = {each.since for each in standing(tmp_path)}
    troubles.over("looking", "back")
    troubles.begin("ringing", "refused")
    assert ["gone for 1 ms", "refused"] == told
    assert [("refused", since)] == [(each.what, each.since) for each in standing(tmp_path)]

    troubles.over("ringing", "back")
    troubles.over("ringing", "back")

    assert ["gone for 1 ms", "refused", "back"] == told
    assert [] == standing(tmp_path)


def test_a_file_of_troubles_that_nobody_wrote_is_none(tmp_path):
    """A status is told all the same."""
    for text in ("", "{", "[1]", "{}", "[{}]", "null"):
        (tmp_path / "troubles.json").write_text(text)
        assert [] == standing(tmp_path)
