"""fencepost.mailbox.http.plain: mail, documents and turns at a state process that is another program."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest
from plain_process import PlainProcess
from wire_places import TOKEN, Served

from fencepost.journal.errors import (
    BadInput,
    NoExpectedVersion,
    NotCarried,
    OutcomeUnknown,
    ServerRefused,
    StrangeAnswer,
)
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import MESSAGES, Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.erasures import Erasures
from fencepost.mailbox.errors import (
    ClaimedByAnother,
    Erased,
    Forbidden,
    MemoryConflict,
    UnknownDocument,
    UnknownMessage,
    UnsupportedFormat,
)
from fencepost.mailbox.events import Claimed
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.feed import Changes
from fencepost.mailbox.http.opening import remote_store
from fencepost.mailbox.http.plain import PlainStore
from fencepost.mailbox.past import Past
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.turns import Projection
from fencepost.mailbox.views import Listing

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCOPE = "user:me"
MOUNTS = [Mount(SCOPE, "/me")]


@pytest.fixture
def process():
    """Another program, which answers three rows at once, so that every listing has pages."""
    return PlainProcess(page=3)


@pytest.fixture
def store(process):
    """A store there."""
    with Served(process.app) as served:
        store = remote_store(served.url, TOKEN)
        yield store
        store.close()


def box_on(store, **options):
    ids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
    tokens = (f"token {number}" for number in itertools.count(1))
    options = {"clock": lambda: NOON, "new_id": lambda: next(ids), "new_token": lambda: next(tokens)} | options
    return Mailbox(store, MOUNTS, actor="host:test", **options)


def ticking():
    """A clock that goes on with each look at it."""
    ticks = itertools.count()
    return lambda: NOON + timedelta(seconds=next(ticks))


def life(box):
    """Some of every step of the lifecycle, and what each command answered."""
    told = []

    def step(name, number, session="ada", **more):
        message_id = f"00000000-0000-4000-8000-{number:012d}"
        receipt = getattr(box, name)(message_id, session=session, **{"occurrence": 1} | more)
        told.append(receipt)
        return receipt.message

    for number in range(1, 8):
        delivery = "wake" if number > 5 else "next_activity"
        told += box.send_many([Draft(f"Work {number}.", actionable=number != 1, delivery=delivery)])
    step("ack", 1)
    token = step("claim", 2).lease.token
    step("renew", 2, token=token)
    step("complete", 2, token=token, outcome="Done.")
    step("complete", 2, token=token, outcome="Done.")
    token = step("claim", 3).lease.token
    step("snooze", 3, token=token, outcome="Later.", delay_seconds=60)
    step("cancel", 3, occurrence=2, outcome="Never mind.")
    token = step("claim", 4).lease.token
    step("release", 4, token=token)
    step("claim", 4, "ben")
    token = step("reserve", 6).reservation.token
    step("accept", 6, token=token)
    token = step("reserve", 7).reservation.token
    step("decline", 7, token=token)
    return told


def test_the_whole_life_is_what_it_is_in_a_store_of_our_own(store):
    """Every receipt, every listing and every version, but for the actor that the token stands for."""
    here = memory_store()
    here.actor = store.actor
    boxes = box_on(here, clock=ticking()), box_on(store, clock=ticking())
    assert life(boxes[0]) == life(boxes[1])
    for listing in Listing:
        for session in (None, "ada", "ben"):
            found = [box.list(status=listing, session=session) for box in boxes]
            assert listing is Listing.SCHEDULED or found[0].items
            assert found[0] == found[1]
    for receipt in boxes[0].list(status="all").items:
        assert boxes[0].view(receipt.message.id) == boxes[1].view(receipt.message.id)
        facts = [[fact.fact for fact in box.receipts(receipt.message.id).facts] for box in boxes]
        assert facts[0] == facts[1]


def test_a_message_is_a_document_of_format_1(store, process):
    """As every program on that wire reads it, indented, with the actor that the token stands for."""
    sent = box_on(store).send("Look at the build.")
    row = process.rows[SCOPE, MESSAGES + sent.message.id][0]
    body = json.loads(row["content"])

    assert ("client:default/host:test", "client:default/host:test") == (row["actor"], body["actor"])
    assert (1, "Look at the build.", "open") == (body["format"], body["body"], body["status"])
    assert row["content"].startswith('{\n  "format": 1,')


def test_two_clients_of_one_message_decide_one_after_the_other(store, process):
    """Whoever was slower reads again, and sees who was quicker."""
    box = box_on(store)
    message = box.send("Work.", actionable=True).message
    claimed = evolve(message, Claimed("ben", NOON, "rival", NOON + timedelta(minutes=30)))

    def somebody_is_quicker(route):
        if route == "memory_write":
            process.before = lambda _: None
            process.add(SCOPE, MESSAGES + message.id, "modified", codec.document(claimed).decode())

    process.before = somebody_is_quicker
    with pytest.raises(ClaimedByAnother):
        box.claim(message.id, session="ada", occurrence=1)
    assert 2 == len(process.rows[SCOPE, MESSAGES + message.id])


def test_what_cannot_be_read_is_told_and_hides_nothing(store, process):
    """A message of another format, an empty one, and one that stands where another should."""
    good = box_on(store).send("Good.")
    elsewhere = process.rows[SCOPE, MESSAGES + good.message.id][0]["content"]
    for number, content in enumerate(('{"format":2}', "", elsewhere), 0xA0):
        process.add(SCOPE, f"{MESSAGES}00000000-0000-4000-8000-{number:012x}", "created", content)
    found = box_on(store).list()

    assert [good.message] == [receipt.message for receipt in found.items]
    assert 3 == len(found.unsupported)
    with pytest.raises(UnsupportedFormat):
        box_on(store).ack("00000000-0000-4000-8000-0000000000a0", session="a", occurrence=1)


def test_a_write_that_nothing_explains_is_told_as_such(store, process):
    """The message is as it was written, and its earlier versions are there too."""
    box = box_on(store)
    message_id = box.send("Work.", actionable=True).message.id
    stream = (SCOPE, MESSAGES + message_id)
    changed = process.rows[stream][0]["content"].replace("Work.", "Other work.")
    process.add(*stream, "modified", changed)
    seen = box.view(message_id)

    assert ["Other work.", "Work."] == [receipt.message.letter.body for receipt in seen.versions]
    assert ["message.sent", "message.rewritten"] == [event.type for event in store.events(stream)]


def test_what_was_erased_is_neither_listed_nor_done(store):
    """It is known that it was there, in which versions."""
    box = box_on(store)
    message_id = box.send("A password.", actionable=True).message.id
    box.claim(message_id, session="ada", occurrence=1)
    assert 1 == box.redact(message_id).count
    assert () == box.list(status="all").items
    with pytest.raises(Erased):
        box.ack(message_id, session="ada", occurrence=1)
    assert [(1, None), (2, None)] == [(each.version, each.data) for each in box.skeleton(message_id).events]
    with pytest.raises(UnknownMessage):
        box.view("00000000-0000-4000-8000-0000000000ff")


def test_a_session_receives_what_it_continues(store, process):
    """By links, and by what another program writes into the document of a session."""
    box = box_on(store)
    assert {"b", "a"} == box.link("b", "a")
    process.add(SCOPE, "sessions/c", "created", "# c\n- continues: [b, 'x y']\n")
    box.send("For a.", conversation="a")

    assert {"a", "b", "c", "x", "y"} == box.audience("c")
    assert 1 == len(box.list(session="c").items)
    assert 0 == len(box.list(session="d").items)


def test_listings_know_what_they_have_read(store, process):
    """A message that did not change is not fetched again; one that did is."""
    box = box_on(store)
    sent = [box.send(f"{number}", actionable=True).message.id for number in range(5)]
    store._known.clear()
    assert 5 == len(box.list().items)
    process.asked.clear()
    assert 5 == len(box.list().items)
    assert "memory_read" not in process.asked
    box_on(store).claim(sent[0], session="ada", occurrence=1)
    assert 4 == len(box.list().items)


# --- documents ------------------------------------------------------------------------------------------


def test_documents_have_their_versions(store):
    """Written, changed, moved, deleted and written again, on condition of what was seen."""
    notes = Documents(store, MOUNTS, actor="host:test")
    assert 1 == notes.write("/me/a.md", "one", expected_version=0).version
    assert 2 == notes.write("/me/a.md", "two", expected_version=1).version
    with pytest.raises(MemoryConflict):
        notes.write("/me/a.md", "three", expected_version=1)
    assert "two" == notes.rename("/me/a.md", "/me/b.md").content
    with pytest.raises(UnknownDocument):
        notes.read("/me/a.md")
    assert 2 == notes.delete("/me/b.md", expected_version=1).version
    assert 3 == notes.write("/me/b.md", "again", expected_version=0).version
    assert "two" == notes.read("/me/b.md", version=1).content
    assert ["again", "", "two"] == [each.content for each in notes.versions("/me/b.md").versions]
    assert ["b.md"] == [each.path for each in notes.list().entries]


def test_listings_are_followed_from_page_to_page(store):
    """Ours and theirs, whichever are longer, and without mail among them."""
    notes = Documents(store, MOUNTS, actor="host:test")
    for number in range(8):
        notes.write(f"/me/n{number}.md", "x")
    box_on(store).send("Mail.")
    found, cursor = [], None
    while True:
        page = notes.list(limit=3, cursor=cursor)
        found += page.entries
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [f"n{number}.md" for number in range(8)] == [each.path for each in found]
    told, cursor = [], None
    while True:
        page = notes.history(limit=3, cursor=cursor)
        told += page.versions
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [f"n{number}.md" for number in range(8)][::-1] == [each.path for each in told]


def test_an_erasure_is_on_record(store):
    """Of one document, and of all of a scope."""
    notes = Documents(store, MOUNTS, actor="host:test")
    notes.write("/me/a.md", "A password.")
    notes.write("/me/b.md", "x")
    erasures = Erasures(store, MOUNTS, actor="host:test")
    assert 1 == erasures.document("/me/a.md").count
    assert notes.read("/me/a.md").redacted
    assert 2 == erasures.scope("/me").count
    assert [(None, 2), ("a.md", 1)] == [(each.path, each.count) for each in erasures.list().redactions]


def test_a_new_document_that_others_wrote_first_is_told(store, process):
    """There is no condition for what is not there, so it is looked at afterwards."""
    notes = Documents(store, MOUNTS, actor="host:test")

    def somebody_is_quicker(route):
        if route == "memory_write":
            process.add(SCOPE, "a.md", "created", "theirs")

    process.before = somebody_is_quicker
    with pytest.raises(OutcomeUnknown):
        notes.write("/me/a.md", "mine", expected_version=0)


# --- conversations --------------------------------------------------------------------------------------


def test_turns_are_read_as_they_were_appended(store):
    """From page to page; erased ones keep their numbers."""
    talks = Conversations(store, actor="host:test")
    for number in range(1, 9):
        assert number == talks.append_turn("s-1", [{"role": "user", "content": f"Turn {number}."}]).turn
    assert 8 == talks.last_turn_number("s-1")
    page = talks.read_turns("s-1", after=2, limit=4)
    assert ([3, 4, 5, 6], 6) == ([each.turn for each in page.turns], page.next_after)
    assert "Turn 5." == talks.read_turn("s-1", 5).messages[0]["content"]
    assert 2 == talks.redact_turns("s-1", turns=[2, 3])
    assert talks.read_turn("s-1", 2).redacted
    assert [(2, 3)] == [each.turns for each in talks.turn_redactions("s-1")]
    talks.append_projections("s-1", [Projection(1, "log", "One."), Projection(2, "digest", "Two.", 2)])
    assert ["One.", "Two."] == [each.text for each in talks.read_projections("s-1").entries]
    assert [4] == [each.turn for each in Past(store, MOUNTS).search_turns("turn 4")]
    assert () == Past(store, MOUNTS).search_turns("turn 4", conversations=["s-2"])


def test_a_full_page_of_turns_may_not_be_the_last():
    """Some programs do not say that there are more."""
    process = PlainProcess(tells_more=False)
    with Served(process.app) as served:
        store = remote_store(served.url, TOKEN)
        for _ in range(1_001):
            process.conversation_append_turn({"conversation_id": "s-1", "messages": []})
        talks = Conversations(store)
        page = talks.read_turns("s-1", limit=500)
        assert (500, 500) == (len(page.turns), page.next_after)
        assert 1_001 == talks.redact_turns("s-1", through=2_000)
        store.close()


def test_a_turn_that_came_later_is_told(store, process):
    """Nobody is told a number that is another's."""
    talks = Conversations(store, actor="host:test")

    def somebody_is_quicker(route):
        if route == "conversation_append_turn":
            process.conversation_append_turn({"conversation_id": "s-1", "messages": []})

    process.before = somebody_is_quicker
    with pytest.raises(OutcomeUnknown) as told:
        talks.append_turn("s-1", [{"role": "user", "content": "x"}])
    assert "number 2" in str(told.value)


# --- what is refused --------------------------------------------------------------------------------------


def _past(store):
    return Past(store, MOUNTS)


NOT_CARRIED = {
    "idempotency keys": lambda store: box_on(store).send("x", idempotency_key="k"),
    "several changes": lambda store: box_on(store).send_many([Draft("one"), Draft("two")]),
    "waiting": lambda store: box_on(store).wait(0),
    "receipts of showing": lambda store: box_on(store).shown(
        [box_on(store).send("x").message.id], session="a", door="d"
    ),
    "a reason": lambda store: Erasures(store, MOUNTS).scope("/me", reason="because"),
    "search": lambda store: _past(store).search("x"),
    "search of documents": lambda store: _past(store).search_memory("x"),
    "annotations": lambda store: _past(store).recall("s-1"),
    "the feed": lambda store: Changes(store, MOUNTS).look(),
    "checkpoints": lambda store: Changes(store, MOUNTS).checkpoint("x"),
    "the journal": lambda store: store.batches(0, 5),
}


@pytest.mark.parametrize("call", NOT_CARRIED.values(), ids=NOT_CARRIED)
def test_what_the_wire_has_no_words_for_is_refused_by_name(store, process, call):
    """With one code, and nothing is written of it."""
    with pytest.raises(NotCarried) as refusal:
        call(store)
    assert "not_carried" == refusal.value.code
    assert refusal.value.what
    assert not [row for rows in process.rows.values() for row in rows if row["version"] > 1]


def test_without_conditions_mail_is_only_sent_and_read():
    """A step of a message could undo what another has done, so it is refused."""
    process = PlainProcess(compares=False)
    with Served(process.app) as served:
        store = remote_store(served.url, TOKEN)
        assert isinstance(store, PlainStore)
        box = box_on(store)
        message_id = box.send("Work.", actionable=True).message.id
        assert 1 == len(box.list().items)
        with pytest.raises(NoExpectedVersion):
            box.claim(message_id, session="ada", occurrence=1)
        notes = Documents(store, MOUNTS)
        notes.write("/me/a.md", "one")
        with pytest.raises(NoExpectedVersion):
            notes.write("/me/a.md", "two")
        store.close()


def test_an_allowance_is_refused_as_such(store, process, monkeypatch):
    """By the code of the wire alone, and with the name that was asked for."""
    from plain_process import No

    def no(*_):
        raise No("forbidden", 403)

    monkeypatch.setattr(process, "memory_list_documents", no)
    with pytest.raises(Forbidden) as refusal:
        box_on(store).list()
    assert SCOPE == refusal.value.name


def test_another_refusal_says_what_was_said(store, process, monkeypatch):
    """In the words of the other program."""
    from plain_process import No

    def no(*_):
        raise No("value_error")

    monkeypatch.setattr(process, "memory_read", no)
    with pytest.raises(ServerRefused):
        Documents(store, MOUNTS).read("/me/a.md")


@pytest.mark.parametrize(
    "answered",
    [
        {},
        {"entries": 7},
        {"entries": [{"path": 7}], "next_cursor": None},
        {"entries": [], "next_cursor": 7},
        {"entries": [], "next_cursor": "round and round"},
    ],
)
def test_an_answer_that_breaks_the_contract_is_strange(store, process, monkeypatch, answered):
    """A listing that never ends is one of them."""
    monkeypatch.setattr(process, "memory_list_documents", lambda _: answered)
    with pytest.raises(StrangeAnswer):
        box_on(store).list()


def test_bad_input_never_leaves(store, process):
    """What is not well formed is refused here."""
    process.asked.clear()
    with pytest.raises(BadInput):
        box_on(store).send(" ", delay_seconds=60)
    assert [] == process.asked


def test_time_passes_there_too(store):
    """A reminder comes when it is due, as the client's clock says."""
    now = [NOON]
    box = box_on(store, clock=lambda: now[0])
    box.send("Later.", delay_seconds=60)
    assert () == box.list().items
    now[0] += timedelta(seconds=60)
    assert 1 == len(box.list().items)
