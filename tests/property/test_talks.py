"""Conversations: numbers without gaps, turns that come back as they were given, and erasing that spares the rest."""

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from property import strategies as some

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import Conversations, Projection, chat, errors, open_store, turns
from fencepost.mailbox.errors import FencepostError
from fencepost.mailbox.times import show

TALKS = ("s-42", "é\U0001f600")
ACTORS = ("host:ada", "host:ben/nightly")
contents = st.lists(st.integers(1, 9), max_size=3)


def door(actor=ACTORS[0], clock=lambda: some.NOON):
    return Conversations(open_store(":memory:"), actor=actor, clock=clock)


class TalksAndModel(RuleBasedStateMachine):
    """Two actors at one store in a folder, which is closed and opened again, with a clock that goes back as well."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fencepost-talks-")
        self.root = Path(self.folder.name) / "store"
        self.now = some.NOON
        self.turns = {talk: [] for talk in TALKS}
        self.entries = {talk: [] for talk in TALKS}
        self.secrets = 0
        self.gone = []
        self.open()

    def open(self):
        self.store = open_store(self.root)
        self.doors = {actor: Conversations(self.store, actor=actor, clock=lambda: self.now) for actor in ACTORS}
        self.door = self.doors[ACTORS[0]]

    def secret(self):
        self.secrets += 1
        return f"<{self.secrets}>"

    @rule(actor=st.sampled_from(ACTORS), talk=st.sampled_from(TALKS), minutes=st.sampled_from((-90, 1)))
    def append(self, actor, talk, minutes):
        self.now += timedelta(minutes=minutes)
        messages = [{"role": "user", "content": self.secret()}]
        turn = self.doors[actor].append_turn(talk, messages)
        self.turns[talk].append(turns.Turn(talk, len(self.turns[talk]) + 1, tuple(messages), self.now, actor))
        assert self.turns[talk][-1] == turn

    @rule(talk=st.sampled_from(TALKS), places=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=4))
    def project(self, talk, places):
        entries = [Projection(turn, "log", self.secret(), span) for turn, span in places]
        self.door.append_projections(talk, entries)
        self.entries[talk] += entries

    @rule(talk=st.sampled_from(TALKS), chosen=st.integers(0, 4) | st.lists(st.integers(1, 5), min_size=1, max_size=2))
    def redact(self, talk, chosen):
        through = isinstance(chosen, int)
        count = self.door.redact_turns(talk, **({"through": chosen} if through else {"turns": chosen}))
        meant = [turn.turn for turn in self.turns[talk] if (turn.turn <= chosen if through else turn.turn in chosen)]
        assert len(meant) == count
        for number in meant:
            old = self.turns[talk][number - 1]
            self.gone += [message["content"] for message in old.messages]
            self.turns[talk][number - 1] = turns.Turn(talk, number, (), old.created_at, old.actor, redacted=True)
        told = [entry for entry in self.entries[talk] if any(entry.may_tell_of(number) for number in meant)]
        self.gone += [entry.text for entry in told]
        self.entries[talk] = [entry for entry in self.entries[talk] if entry not in told]
        if meant:
            assert tuple(meant) == self.door.turn_redactions(talk)[0].turns

    @rule(rebuild=st.booleans())
    def reopen(self, rebuild):
        self.store.close()
        if rebuild:
            for file in self.root.glob("index-*"):
                file.unlink()
        self.open()

    @rule(talk=st.sampled_from(TALKS), after=st.integers(0, 4), limit=st.integers(0, 3))
    def page(self, talk, after, limit):
        page = self.door.read_turns(talk, after=after, limit=limit)
        rest = self.turns[talk][after:]
        more = rest[limit - 1].turn if len(rest) > limit > 0 else None
        assert (tuple(rest[:limit]), more) == (page.turns, page.next_after)

    @rule(talk=st.sampled_from(TALKS), limit=st.integers(1, 3))
    def projected(self, talk, limit):
        found, after = [], 0
        while after is not None:
            page = self.door.read_projections(talk, after=after, limit=limit)
            assert {entry.turn for entry in found}.isdisjoint(entry.turn for entry in page.entries), "a whole turn"
            assert len(page.entries) <= limit or 1 == len({entry.turn for entry in page.entries})
            found += page.entries
            after = page.next_after
        assert sorted(self.entries[talk], key=lambda entry: entry.turn) == found

    @invariant()
    def numbers_have_no_gaps(self):
        for talk, expected in self.turns.items():
            assert len(expected) == self.door.last_turn_number(talk)

    @invariant()
    def what_was_erased_is_in_no_file(self):
        everything = b"".join(path.read_bytes() for path in self.root.rglob("*") if path.is_file())
        assert [] == [text for text in self.gone if text.encode() in everything]

    def teardown(self):
        self.store.close()
        self.folder.cleanup()


test_turns_are_what_was_appended = TalksAndModel.TestCase


@given(st.lists(some.chat_messages, max_size=4))
def test_a_turn_comes_back_as_it_was_given(messages):
    """Every key that is known, and nothing else, whatever is in it."""
    talks = door()
    strange = [{**message, "unheard_of": 1} for message in messages]

    assert tuple(messages) == talks.append_turn("s", strange).messages == talks.read_turn("s", 1).messages


@given(st.lists(some.anything | some.chat_messages, max_size=2) | some.anything)
def test_a_strange_turn_is_appended_or_refused(messages):
    """With an error of ours, and then nothing was written."""
    talks = door()
    try:
        talks.append_turn("s", messages)
    except FencepostError:
        assert 0 == talks.last_turn_number("s")
    else:
        assert 1 == talks.last_turn_number("s")


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": 1},
        {"role": " "},
        {"role": "user", "content": 1},
        {"role": "user", "content": ["x"]},
        {"role": "user", "tool_calls": [{"id": "1", "name": "x"}]},
        {"role": "user", "extra": {"x": float("nan")}},
        {"role": "user", "extra": {"x": 2**64}},
        {"role": "user", "extra": {"x": b""}},
        {"role": "user", "extra": {1: 1}},
        {"role": "user", "extra": []},
    ],
)
def test_what_is_no_chat_message(message):
    """It is refused by code."""
    with pytest.raises(errors.InvalidTurn):
        door().append_turn("s", [message])


@pytest.mark.parametrize("bad", ["\0", "\ud800"])
def test_texts_in_a_turn_are_texts(bad):
    """Wherever they stand, in keys too."""
    for message in (
        {"role": "user", "content": bad},
        {"role": "user", "content": [{"type": "text", "text": bad}]},
        {"role": "user", "extra": {"deep": [{bad: 1}]}},
        {"role": "user", "tool_calls": [{"id": "1", "name": "x", "arguments": {"a": bad}}]},
    ):
        with pytest.raises(errors.InvalidText):
            door().append_turn("s", [message])


def test_a_turn_may_be_nested_and_not_without_end():
    """As deep as any client does, and no deeper than parsers go."""
    deep = {"x": 1}
    for _ in range(90):
        deep = {"x": deep}
    assert door().append_turn("s", [{"role": "user", "extra": deep}]).messages[0]["extra"] == deep
    for _ in range(3_000):
        deep = {"x": deep}
    with pytest.raises(errors.InvalidTurn):
        door().append_turn("s", [{"role": "user", "extra": deep}])


@pytest.mark.parametrize("limit", [-1, 501, True, "1"])
def test_limits(limit):
    """0 to 500, and never less than nothing."""
    for read in (door().read_turns, door().read_projections):
        with pytest.raises(errors.InvalidNumber):
            read("s", limit=limit)
        with pytest.raises(errors.InvalidNumber):
            read("s", after=-1)


def test_either_through_or_turns():
    """Both and neither are refused."""
    for wrong in ({}, {"through": 1, "turns": [1]}):
        with pytest.raises(errors.WhichTurns):
            door().redact_turns("s", **wrong)


def test_a_turn_of_another_form_is_reported_and_left_alone():
    """The others can be read, and the next one takes the next number."""
    talks = door()
    talks.append_turn("s", [])
    new = NewEvent("conversation:s", "/turns", "turn.sung", b'{"schema":1}')
    talks.store.append(Batch(some.NOON, "host:test", (new,)), {("conversation:s", "/turns"): 1})

    assert 3 == talks.append_turn("s", []).turn
    assert 1 == talks.read_turn("s", 1).turn
    with pytest.raises(errors.UnsupportedDocument):
        talks.read_turn("s", 2)


def test_the_text_of_a_turn():
    """What is said, calls with their arguments, and results; not who, and not what was thought."""
    messages = [
        {"role": "user", "content": "one", "reasoning": "thought"},
        {"role": "assistant", "tool_calls": [{"id": "7", "name": "read", "arguments": {"path": "a b", "n": [1]}}]},
        {"role": "tool", "tool_call_id": "7", "content": [{"type": "text", "text": "two"}, {"type": "image"}]},
    ]

    assert 'one\nread {"path":"a b","n":[1]}\ntwo' == chat.text(messages)


def test_who_and_when_outlive_what():
    """An erased turn keeps its number, its time and its actor."""
    talks = door()
    talks.append_turn("s", [{"role": "user", "content": "x"}])
    assert 1 == talks.redact_turns("s", through=9)
    left = talks.read_turn("s", 1)

    assert (1, (), show(some.NOON), ACTORS[0], True) == (
        left.turn,
        left.messages,
        show(left.created_at),
        left.actor,
        left.redacted,
    )


def test_a_conversation_with_turns_is_known():
    """Mail to it needs no note that nobody has heard of it."""
    talks = door()
    talks.append_turn("s-42", [])

    assert talks.store.has_seen("s-42")
    assert not talks.store.has_seen("s-43")


def test_a_projection_of_another_form_is_erased_with_any_turn():
    """Nobody knows what it tells, so it is reported when read and does not outlive what it may tell."""
    talks = door()
    talks.append_turn("s", [])
    new = NewEvent("conversation:s", "/projections", "projections.sung", b'{"schema":1}')
    talks.store.append(Batch(some.NOON, "host:test", (new,)), {("conversation:s", "/projections"): 0})
    with pytest.raises(errors.UnsupportedDocument):
        talks.read_projections("s")

    assert 1 == talks.redact_turns("s", turns=[1])

    assert () == talks.read_projections("s").entries
