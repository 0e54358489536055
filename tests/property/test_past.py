"""Search is what a naive scan of the events gives, and recall is the turn and what was said about it."""

import contextlib
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from property import strategies as some

from fencepost.journal.errors import JournalUnavailable
from fencepost.mailbox import (
    Conversations,
    Documents,
    Mailbox,
    Mode,
    Mount,
    Past,
    Source,
    chat,
    codec,
    errors,
    matching,
    open_store,
)
from fencepost.mailbox.events import Cancelled, Completed, Sent, Snoozed, TurnAppended
from fencepost.mailbox.store import texts as searched

MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user", Mode.READ_ONLY))
ELSEWHERE = Mount("user:you", "/you")
TALKS = ("s-42", "s-43")
#: Pieces of which texts and terms are made: short and long, and each a trap of its own.
PIECES = (
    "POL-358",
    "don't",
    "50%",
    "src/main.py",
    "a,b",
    '"quoted"',
    "'",
    '"',
    "\U0001f600",
    "\U0001f469\u200d\U0001f680",
    "I",
    "İstanbul",
    "\u0131spanak",
    "Straße",
    "STRASSE",
    "ss",
    "x",
    "AND",
    "OR NOT",
    "NEAR(",
    "*",
    "^a",
    "text:",
    "_",
    "%",
    "\\",
    "\ufffe",
    "a\ufffe\uffffb",
    "\u0301",
)
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(" ".join)


def cut(text):
    """A piece of a text, in some case."""
    ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    cases = st.sampled_from((str, str.upper, str.lower, str.swapcase, str.title))
    return st.builds(lambda case, ends: case(text[min(ends) : max(ends)]), cases, ends)


queries = texts.flatmap(cut).filter(lambda query: query.strip()) | st.lists(
    st.sampled_from(PIECES), min_size=1, max_size=2
).map(" ".join)


def naive(events, query, scopes, talks):
    """Every text that matches, newest first: kind, address and number of what says it."""
    terms = [term.casefold() for term in query.split()]
    found = []
    for event in events:
        if event.data is None or not event.type.startswith(("message.", "turn.")):
            continue
        happened = codec.decode(event.type, event.data)
        if isinstance(happened, TurnAppended):
            said, seen = chat.text(happened.messages), event.scope.removeprefix("conversation:") in talks
        else:
            said = happened.letter.body if isinstance(happened, Sent) else None
            if isinstance(happened, Completed | Snoozed | Cancelled):
                said = happened.outcome
            seen = event.scope in scopes
        if said is not None and seen and all(term in said.casefold() for term in terms):
            found.append((event.scope, event.stream, event.version))
    return found[::-1]


def address(hit):
    """Where a hit stands in the journal."""
    if hit.source is Source.TURN:
        return f"conversation:{hit.conversation_id}", "/turns", hit.turn
    return hit.scope, f"messages/{hit.message_id}", hit.version


class SearchAndScan(RuleBasedStateMachine):
    """A store in a folder with mail, turns and documents, some of them erased."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fencepost-past-")
        self.root = Path(self.folder.name) / "store"
        self.now = some.NOON
        self.sent = []
        self.notes = {}
        self.said = []
        self.open()

    def open(self):
        self.store = open_store(self.root)

        def clock():
            return self.now

        everywhere = (MOUNTS[0], Mount("user:me", "/user"), ELSEWHERE)
        self.box = Mailbox(self.store, everywhere, clock=clock)
        self.documents = Documents(self.store, everywhere, clock=clock)
        self.talks = Conversations(self.store, clock=clock)
        self.past = Past(self.store, MOUNTS, clock=clock)

    def events(self):
        return [event for commit in self.store._journal.read() for event in commit.events]

    @rule(
        body=texts,
        where=st.sampled_from(("/project", "/user", "/you")),
        about=st.none() | st.sampled_from(TALKS),
        turn=st.none() | st.integers(1, 2),
    )
    def send(self, body, where, about, turn):
        self.now += timedelta(minutes=1)
        self.said.append(body)
        sent = self.box.send(
            body, target=where, about=about, about_turn=None if about is None else turn, actionable=True
        )
        self.sent.append(sent.message)

    @rule(data=st.data(), outcome=texts, how=st.sampled_from(("complete", "snooze", "cancel", "ack", "redact")))
    def step(self, data, outcome, how):
        if not self.sent:
            return
        message = data.draw(st.sampled_from(self.sent))
        self.said.append(outcome)
        with contextlib.suppress(errors.Refused):
            if how == "redact":
                self.box.redact(message.id)
                return
            standing = self.box.view(message.id).receipt.message
            who = {"session": "ada", "occurrence": standing.occurrence}
            if how in ("complete", "snooze"):
                who["token"] = self.box.claim(message.id, **who).message.lease.token
                more = {"delay_seconds": 1} if how == "snooze" else {}
                getattr(self.box, how)(message.id, **who, outcome=outcome, **more)
            elif how == "cancel":
                self.box.cancel(message.id, **who, outcome=outcome)
            else:
                self.box.ack(message.id, **who)

    @rule(talk=st.sampled_from(TALKS), content=texts)
    def append(self, talk, content):
        self.said.append(content)
        self.talks.append_turn(talk, [{"role": "user", "content": content}])

    @rule(talk=st.sampled_from(TALKS), turn=st.integers(1, 3))
    def redact(self, talk, turn):
        self.talks.redact_turns(talk, turns=[turn])

    @rule(path=st.sampled_from(("/project/a", "/user/b", "/you/c")), content=texts | st.none())
    def write(self, path, content):
        if content is not None:
            self.said.append(content)
            self.documents.write(path, content)
            self.notes.pop(path, None)
            self.notes[path] = content
        elif self.notes.pop(path, None) is not None:
            self.documents.delete(path)

    @rule(rebuild=st.booleans())
    def reopen(self, rebuild):
        self.store.close()
        if rebuild:
            for file in self.root.glob("index-*"):
                file.unlink()
        self.open()

    def query(self, data):
        """Mostly a piece of what somebody has said."""
        pieces = st.sampled_from(self.said).flatmap(cut) if self.said else queries
        query = data.draw(pieces | pieces | queries)
        return query if query.strip() else PIECES[0]

    @rule(data=st.data(), limit=st.sampled_from((1, 2, 500)), talk=st.none() | st.sampled_from(TALKS))
    def search(self, data, limit, talk):
        query = self.query(data)
        found = self.past.search(query, conversations=None if talk is None else [talk], limit=limit)
        scopes = {mount.scope for mount in MOUNTS}
        expected = naive(self.events(), query, scopes, TALKS if talk is None else (talk,))

        assert expected[:limit] == [address(hit) for hit in found.hits]
        assert found.complete
        for hit in found.hits:
            if hit.source is Source.TURN:
                self.check_annotations(hit.annotations, hit.conversation_id, hit.turn)
            else:
                assert hit.status == self.box.view(hit.message_id).receipt.message.status.value

    @rule(data=st.data(), limit=st.sampled_from((1, 500)), talk=st.none() | st.sampled_from(TALKS))
    def search_turns(self, data, limit, talk):
        terms = [term.casefold() for term in self.query(data).split()]
        talks = TALKS if talk is None else (talk,)
        turns = [turn for each in talks for turn in self.talks.read_turns(each).turns]
        matching = [turn for turn in turns if all(term in chat.text(turn.messages).casefold() for term in terms)]
        matching.sort(key=lambda turn: (turn.created_at, turn.conversation_id, turn.turn), reverse=True)
        found = self.past.search_turns(" ".join(terms), conversations=None if talk is None else [talk], limit=limit)

        assert [turn for turn in matching if not turn.redacted][:limit] == list(found)

    @rule(minutes=st.sampled_from((-90, 1)))
    def turn_the_clock(self, minutes):
        self.now += timedelta(minutes=minutes)

    @rule(data=st.data())
    def search_memory(self, data):
        query = self.query(data)
        terms = [term.casefold() for term in query.split()]
        expected = [
            path
            for path, content in self.notes.items()
            if not path.startswith("/you") and all(term in content.casefold() for term in terms)
        ]
        names = {mount.scope: mount.path for mount in MOUNTS}
        found = self.past.search_memory(query)

        assert expected[::-1] == [f"{names[hit.scope]}/{hit.path}" for hit in found.hits]

    def erased(self):
        """The messages that were erased."""
        return {e.stream.removeprefix("messages/") for e in self.events() if e.type == "message.sent" and not e.data}

    def annotating(self, talk, turn):
        """The messages that are about a turn, in the scopes that are mounted, by a scan."""
        happened = [codec.decode(e.type, e.data) for e in self.events() if e.type == "message.sent" and e.data]
        letters = [each.letter for each in happened]
        scopes = {mount.scope for mount in MOUNTS}
        return [
            letter.id
            for letter in letters
            if letter.scope in scopes and (letter.about, letter.about_turn) == (talk, turn)
        ]

    def check_annotations(self, annotations, talk, turn):
        """They are what a scan finds; and those that were erased say so."""
        left = [each.message_id for each in annotations if each.message is not None]
        assert self.annotating(talk, turn) == left
        gone = {each.message_id: each.why for each in annotations if each.message is None}
        scopes = {mount.scope for mount in MOUNTS}
        meant = [each for each in self.sent if (each.letter.about, each.letter.about_turn) == (talk, turn)]
        erased = {each.id for each in meant if each.letter.scope in scopes} & self.erased()
        assert dict.fromkeys(erased, "erased") == gone

    @rule(talk=st.sampled_from(TALKS))
    def recall(self, talk):
        found = self.past.recall(talk)
        self.check_annotations(found.annotations, talk, None)
        assert self.talks.read_turns(talk).turns == tuple(each.turn for each in found.turns)
        for each in found.turns:
            self.check_annotations(each.annotations, talk, each.turn.turn)
            assert found.turns[each.turn.turn - 1] == self.past.recall(talk, turn=each.turn.turn).turns[0]

    def teardown(self):
        self.store.close()
        self.folder.cleanup()


test_search_is_a_scan_of_the_events = SearchAndScan.TestCase


# --- the predicate ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query,text,found",
    [
        ("POL-358", "see pol-358.", True),
        ("358-POL", "see POL-358.", False),
        ("don't", "I DON'T know", True),
        ("50%", "50 %", False),
        ("50%", "at 50%", True),
        ("main.py src/", "src/main.py", True),
        ("a,b", "(A,B)", True),
        ('"', 'say "hi"', True),
        ('"hi there"', 'say "hi there"', True),
        ('"hi there"', 'there" "hi', True),
        ("\U0001f600", "ok \U0001f600", True),
        ("x", "X", True),
        ("strasse", "Straße", True),
        ("STRASSE", "straße", True),
        ("ß", "STRASSE", True),
        ("i", "İ", True),
        ("İ", "i", False),
        ("\u0131", "I", False),
        ("\u0131", "\u0131", True),
        ("i", "I", True),
        ("*", "a", False),
        ("a OR b", "a", False),
    ],
)
def test_case_and_signs(query, text, found):
    """As it is documented; a sign stands for itself, and a language for nothing."""
    assert found is matching.matches(matching.terms(query), text)


@given(some.texts, some.texts, some.texts)
def test_a_piece_is_found(before, piece, after):
    """Whatever it is, wherever it stands and in which case; and the snippet shows where."""
    wanted = tuple(matching.fold(term) for term in piece.split())

    assert matching.matches(wanted, before + piece + after)
    assert all(term in matching.fold(matching.snippet((term,), piece)) for term in wanted)


@given(st.integers(0, 400), st.integers(0, 400))
def test_a_snippet_shows_the_first_term(before, after):
    """Though folding made what stands before it longer, and with a mark where it was cut."""
    text = "ß" * before + "Needle" + "." * after
    shown = matching.snippet(("needle",), text)

    assert "Needle" in shown
    assert len(shown) <= 162
    assert ("…" in shown) == (len(text) > 160)


@pytest.mark.parametrize("query", ["", " ", "\n\t\u3000"])
def test_a_blank_query_is_an_error(query):
    """Never an empty list."""
    past = Past(open_store(":memory:"), MOUNTS)
    for ask in (past.search, past.search_memory):
        with pytest.raises(errors.BlankQuery):
            ask(query)


@pytest.mark.parametrize("limit", [0, -1, 501, True, None])
def test_a_limit_out_of_range_is_an_error(limit):
    """1 to 500."""
    past = Past(open_store(":memory:"), MOUNTS)
    for ask in (past.search, past.search_memory):
        with pytest.raises(errors.InvalidNumber):
            ask("x", limit=limit)


@pytest.mark.parametrize("query", ["a\0b", "\ud800", 1, None])
def test_a_query_is_a_text(query):
    """NUL and surrogates are refused here as everywhere."""
    with pytest.raises(errors.InvalidText):
        Past(open_store(":memory:"), MOUNTS).search(query)


def test_a_bound_is_told(monkeypatch):
    """Short terms alone are looked for so far back and no further, and the answer says so."""
    store = open_store(":memory:")
    box, past = Mailbox(store, MOUNTS[:1]), Past(store, MOUNTS)
    for body in ("xy old", "new", "newer"):
        box.send(body)
    monkeypatch.setattr(searched, "SCAN_MAX", 2)

    assert ((), False) == (past.search("xy").hits, past.search("xy").complete)
    assert (1, True) == (len(past.search("xy old").hits), past.search("xy old").complete)


def test_every_earlier_outcome_is_found():
    """Snoozed twice and cancelled: three outcomes, each with its version, and where the message stands now."""
    now = [some.NOON]
    store = open_store(":memory:")
    box, past = Mailbox(store, MOUNTS[:1], clock=lambda: now[0]), Past(store, MOUNTS)
    sent = box.send("work", actionable=True).message
    for occurrence in (1, 2):
        token = box.claim(sent.id, session="ada", occurrence=occurrence).message.lease.token
        box.snooze(
            sent.id, session="ada", occurrence=occurrence, token=token, outcome=f"try {occurrence}", delay_seconds=60
        )
        now[0] += timedelta(minutes=1)
    box.cancel(sent.id, session="ada", occurrence=3, outcome="try nothing")

    found = past.search("TRY").hits

    assert [(6, "try nothing"), (5, "try 2"), (3, "try 1")] == [(hit.version, hit.snippet) for hit in found]
    assert {("cancelled", Source.OUTCOME)} == {(hit.status, hit.source) for hit in found}


def test_an_sqlite_that_cannot_search_says_so(tmp_path, monkeypatch):
    """With an error of ours, and the index stays as it is; all the rest works."""
    store = open_store(tmp_path / "store")
    box, past = Mailbox(store, MOUNTS[:1]), Past(store, MOUNTS)
    box.send("hello")
    monkeypatch.setattr(searched, "_PIECES", "CREATE VIRTUAL TABLE {name}_pieces USING fts_of_tomorrow (text)")
    before = store._index.generation

    with pytest.raises(JournalUnavailable):
        past.search("hello")

    assert before == store._index.generation
    assert 1 == len(box.list().items)


def test_reading_the_journal_for_a_search_holds_nothing_of_the_index(tmp_path, monkeypatch):
    """Whoever erases holds the journal and wants the index: it would wait for a searcher that waits for the journal."""
    store = open_store(tmp_path / "store")
    box = Mailbox(store, [Mount("user:me", "/user")])
    box.send("The build is red.")
    read, held = store._journal.read, []

    def watched(*place):
        held.append(store._index._db.in_transaction)
        return read(*place)

    monkeypatch.setattr(store._journal, "read", watched)
    assert 1 == len(Past(store, [Mount("user:me", "/user")]).search("build").hits)
    assert held
    assert not any(held)
