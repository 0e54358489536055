"""fencepost.mailbox.wire: each question of a store's port answers over the wire what the store answers directly."""

import contextlib
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from postgres import drop, new_schema
from wire_places import TOKEN, serving

from fencepost.journal.errors import BadInput, EventRefused, JournalConflict, MalformedRequest, UnknownMethod
from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec, events
from fencepost.mailbox.addresses import MESSAGES, REDACTIONS, Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.errors import Forbidden, IdempotencyConflict
from fencepost.mailbox.feed import Changes
from fencepost.mailbox.http.opening import remote_store
from fencepost.mailbox.past import Past
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.changes import WithConversations
from fencepost.mailbox.store.opening import file_store, memory_store
from fencepost.mailbox.store.port import Query, Store
from fencepost.mailbox.store.texts import Sight
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.turns import PROJECTIONS, TURNS, Projection, scope_of
from fencepost.mailbox.views import Listing
from fencepost.mailbox.wire import kinds
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.port import METHODS, answer

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCOPE, OTHER = "user:me/proj:app", "user:you"
MOUNTS = [Mount(SCOPE, "/project"), Mount(OTHER, "/you")]
ANYBODY = Client("default")
ALICE = Client("alice", "user:me", "ada")
#: Messages by what they are for.
SENT = "00000000-0000-4000-8000-000000000001"


def clock():
    ticks = itertools.count()
    return lambda: NOON + timedelta(seconds=next(ticks))


def fill(store):
    """Mail, documents, turns, links and checkpoints, some of them erased, and some that nobody can read."""
    now = clock()
    ids = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count(1))
    box = Mailbox(store, MOUNTS, actor="host:test", clock=now, new_id=lambda: next(ids))
    notes = Documents(store, MOUNTS, actor="host:test", clock=now)
    talks = Conversations(store, actor="host:test", clock=now)
    box.send("Look at the build.\n\u202e\U0001f600", actionable=True, conversation="ada", idempotency_key="key 1")
    claim = box.claim(SENT, session="ada", occurrence=1)
    box.snooze(
        SENT,
        session="ada",
        occurrence=1,
        token=claim.message.lease.token,
        outcome="Still red.",
        due_at=NOON + timedelta(days=1),
    )
    notes.write("/project/notes/plan.md", "First the tests.")
    notes.write("/project/notes/plan.md", "First the types.")
    notes.write("/project/notes/gone.md", "a")
    notes.delete("/project/notes/gone.md")
    notes.rename("/project/notes/plan.md", "/project/notes/aim.md")
    box.send("For everybody.", target="/you", context="/project/notes/aim.md", change_id="c 1")
    box.shown([SENT], session="ada", door="test")
    box.link("ada-2", "ada")
    talks.append_turn("ada", [{"role": "user", "content": "Look at the build."}])
    talks.append_turn("ada", [{"role": "assistant", "content": [{"type": "text", "text": "It is red."}]}])
    talks.append_projections("ada", [Projection(1, "log", "Red."), Projection(2, "digest", "Red.", 2)])
    box.send("About the second turn.", conversation="ada", about="ada", about_turn=2)
    talks.redact_turns("ada", turns=[1], reason="It held a password.")
    erased = box.send("A password.", target="/you")
    box.redact(erased.message.id, reason="It held a password.")
    Changes(store, MOUNTS, actor="host:test", clock=now).advance("indexer", 3)
    for stream in ("notes/later.md", MESSAGES + "00000000-0000-4000-8000-0000000000ff"):
        event = NewEvent(SCOPE, stream, "document.folded", b'{"schema":2}')
        store.append(Batch(now(), "host:test", (event,)), {(SCOPE, stream): 0})


@pytest.fixture(params=["memory", "files"])
def store(request, tmp_path):
    """A store that holds some of everything."""
    store = memory_store() if request.param == "memory" else file_store(tmp_path / "store")
    fill(store)
    yield store
    store.close()


@pytest.fixture
def remote(store):
    """The same store at the other end of a wire."""
    with serving(store) as (_, url):
        remote = remote_store(url, TOKEN)
        yield remote
        remote.close()


QUERIES = [
    Query(listing, scopes, session, NOON + timedelta(days=2), limit, (SCOPE, OTHER))
    for listing in Listing
    for scopes in ((SCOPE,), (OTHER, SCOPE))
    for session in (None, "ada", "ada-2")
    for limit in (1, 500)
]
STREAMS = [
    (SCOPE, MESSAGES + SENT),
    (SCOPE, "/shown/" + SENT),
    (SCOPE, "notes/aim.md"),
    (SCOPE, "notes/plan.md"),
    (SCOPE, "notes/gone.md"),
    (SCOPE, "notes/later.md"),
    (SCOPE, "message-links/ada-2/ada"),
    (SCOPE, "nothing"),
    (OTHER, MESSAGES + "00000000-0000-4000-8000-000000000004"),
    (OTHER, REDACTIONS),
    (scope_of("ada"), TURNS),
    (scope_of("ada"), PROJECTIONS),
    (scope_of("ada"), REDACTIONS),
    ("feed:checkpoints", "/checkpoints/indexer"),
]
SIGHTS = [
    Sight(frozenset(scopes), talks)
    for scopes in ((), (SCOPE, OTHER))
    for talks in (None, frozenset(), frozenset(("ada",)))
]
QUESTIONS = {
    "find": [(stream,) for stream in STREAMS],
    "events": [(stream,) for stream in STREAMS],
    "events_from": [(stream, after, limit) for stream in STREAMS for after in (0, 1) for limit in (0, 1, 501)],
    "inbox": [(query,) for query in QUERIES],
    "next_change": [(query,) for query in QUERIES],
    "annotations": [("ada", 2), ("ada", None), ("nobody", 7)],
    "search": [(name, ("red",), sight, 5) for name in ("said", "noted") for sight in SIGHTS]
    + [("noted", ("types",), SIGHTS[-1], 5)],
    "search_turns": [(("red",), sight, 5) for sight in SIGHTS],
    "entries": [(SCOPE, "", None, 501), (SCOPE, "notes/", "notes/a", 1), (OTHER, "", None, 501)],
    "versions": [((SCOPE, path), before, 5) for path in ("notes/aim.md", "notes/gone.md") for before in (2, 2**63 - 1)],
    "history": [(SCOPE, since, 2**63 - 1, 50) for since in (None, NOON + timedelta(seconds=4))],
    "record_at": [((SCOPE, "notes/plan.md"), version) for version in (1, 2, 3, 9)],
    "audience": [("ada-2", [SCOPE, OTHER]), ("ada-2", [OTHER])],
    "sent_under": [(SCOPE, "key 1"), (SCOPE, "key 2")],
    "has_seen": [("ada",), ("nobody",)],
    "feed_bounds": [()],
    "changes": [
        (after, limit, scopes, 10_000)
        for after in (0, 4)
        for limit in (1, 500)
        for scopes in (None, frozenset((SCOPE,)), WithConversations((OTHER,)))
    ],
    "batches": [(0, 500), (0, 2), (5, 3), (10_000, 5)],
    "secret": [()],
    "change_mark": [()],
}


def test_every_question_is_asked_here():
    """No method of the port is left out of the table or of these tests."""
    asked = set(QUESTIONS) | {"append", "redact", "restore"}  # the last is tried with whole histories
    port = {name for name in vars(Store) if not name.startswith("_")}

    assert asked == set(METHODS) == port - {"actor", "epoch", "settle", "close"}


@pytest.mark.parametrize("method", QUESTIONS)
def test_the_wire_changes_no_answer(store, remote, method):
    """What a store answers directly it answers at the other end of a wire, whatever is in it."""
    for asked in QUESTIONS[method]:
        direct, far = getattr(store, method)(*asked), getattr(remote, method)(*asked)
        if method == "search_turns":
            direct = list(direct)  # either sequence will do
        assert direct == far


def test_batches_tell_all_that_is_recorded(store, remote):
    """From the beginning to the end, in order, however they are asked for; and what was erased as such."""
    found = []
    while True:
        page = remote.batches(found[-1].seq if found else 0, 3)
        if not page:
            break
        found += page

    events = [event for commit in found for event in commit.events]
    assert list(range(1, remote.feed_bounds()[1] + 1)) == [event.seq for event in events]
    assert any(event.data is None for event in events)
    assert any(event.key is not None for event in events)


def test_a_client_is_on_record_as_its_token_says(store, remote):
    """Whatever it claims to be: in the envelope, in the letter, and in its own receipt."""
    box = Mailbox(remote, MOUNTS, actor="host:me")
    receipt = box.send("Hello.")
    stream = (SCOPE, MESSAGES + receipt.message.id)

    assert "client:default/host:me" == receipt.message.letter.actor
    assert receipt.message == store.find(stream).content
    assert "client:default/host:me" == store.events(stream)[0].actor


def append(store, who, actor="me", **changes):
    """An append, as it comes over the wire."""
    event = {"scope": SCOPE, "stream": "notes/new.md", "type": "document.written"}
    event |= {"data": '{"schema":1,"content":"x"}', "key": None} | changes
    batch = {"at": "2026-11-30T12:00:00Z", "actor": actor, "events": [event], "erases": []}
    expect = [[event["scope"], event["stream"], 0]]
    return answer(store, "append", {"batch": batch, "expect": expect}, who)


def test_nobody_writes_under_another_name(store):
    """An actor that a client makes up stands behind its own."""
    append(store, ALICE, actor="host:root")
    append(store, ALICE, actor="client:bob", stream="notes/new2.md")

    recorded = [store.events((SCOPE, path))[0].actor for path in ("notes/new.md", "notes/new2.md")]
    assert ["client:alice/host:root", "client:alice/client:bob"] == recorded


def test_nobody_signs_a_letter_with_another_name(store):
    """The letter is signed by whoever sends it."""
    letter = store.find((OTHER, MESSAGES + "00000000-0000-4000-8000-000000000002")).content.letter
    body = codec.encode(events.Sent(letter, letter.created_at))[1].decode().replace("000000000002", "0000000000aa")
    body = body.replace(OTHER, SCOPE).replace("host:test", "client:bob")
    stream = MESSAGES + "00000000-0000-4000-8000-0000000000aa"
    append(store, ALICE, stream=stream, type="message.sent", data=body)

    assert "client:alice/me" == store.find((SCOPE, stream)).content.letter.actor


# --- allowances -------------------------------------------------------------------------------------


def names(asked):
    """An allowed question with one name in it outside."""
    for name, value in asked.items():
        if value in (SCOPE, "ada"):
            yield {**asked, name: OTHER if value == SCOPE else "ben"}
        elif isinstance(value, list) and SCOPE in value[:1]:
            yield {**asked, name: [OTHER, *value[1:]]}
            yield {**asked, name: [scope_of("ben"), *value[1:]]}


SIGHT = {"scopes": [SCOPE], "conversations": ["ada"]}
QUERY = {
    "listing": "unread",
    "scopes": [SCOPE],
    "session": "ada",
    "now": "2026-12-01T00:00:00Z",
    "limit": 5,
    "links": [SCOPE],
}
#: Allowed to Alice, and what of it is not once a name in it is another.
PAGE = {"before": 9, "limit": 5}
ALLOWED = {
    "find": {"stream": [SCOPE, "x"]},
    "events": {"stream": [SCOPE, "x"]},
    "events_from": {"stream": [SCOPE, "x"], "after": 0, "limit": 5},
    "inbox": {"query": QUERY},
    "next_change": {"query": QUERY},
    "annotations": {"conversation": "ada", "turn": 1},
    "search": {"name": "said", "terms": ["x"], "sight": SIGHT, "limit": 5},
    "search_turns": {"terms": ["x"], "sight": SIGHT, "limit": 5},
    "entries": {"scope": SCOPE, "prefix": "", "after": None, "limit": 5},
    "versions": {"stream": [SCOPE, "x"], **PAGE},
    "history": {"scope": SCOPE, "since": None, **PAGE},
    "record_at": {"stream": [SCOPE, "x"], "version": 1},
    "audience": {"session": "ada", "scopes": [SCOPE]},
    "sent_under": {"scope": SCOPE, "key": "x"},
    "has_seen": {"session": "ada"},
    "changes": {"after": 0, "limit": 5, "scopes": {"scopes": [SCOPE], "conversations": False}, "look": 5},
    "redact": {"scope": SCOPE, "path": "nothing", "at": "2026-11-30T12:00:00Z", "actor": "me", "reason": None},
    "feed_bounds": {},
    "change_mark": {},
}
NESTED = {
    "inbox": [
        {"query": {**QUERY, **change}} for change in ({"scopes": [OTHER]}, {"links": [SCOPE, OTHER]}, {"session": "b"})
    ],
    "next_change": [{"query": {**QUERY, "scopes": [SCOPE, OTHER]}}],
    "search": [
        {**ALLOWED["search"], "sight": {**SIGHT, **change}}
        for change in ({"scopes": [OTHER]}, {"conversations": ["ben"]}, {"conversations": None})
    ],
    "search_turns": [{**ALLOWED["search_turns"], "sight": {**SIGHT, "conversations": None}}],
    "changes": [
        {**ALLOWED["changes"], "scopes": change}
        for change in (
            {"all": True},
            {"scopes": [SCOPE, OTHER], "conversations": False},
            {"scopes": [SCOPE], "conversations": True},
            {"scopes": [scope_of("ben")], "conversations": False},
        )
    ],
    "batches": [{"after": 0, "limit": 5}],
    "secret": [{}],
}
OUTSIDE = [
    *((method, asked) for method, inside in ALLOWED.items() for asked in names(inside)),
    *((method, asked) for method, several in NESTED.items() for asked in several),
]


def test_what_is_inside_the_allowance_is_answered(store):
    """Every question but the one about everything."""
    for method, asked in ALLOWED.items():
        answer(store, method, asked, ALICE)


@pytest.mark.parametrize("method, asked", OUTSIDE)
def test_what_is_outside_the_allowance_is_forbidden(store, method, asked):
    """Whichever name in it is outside, nothing is told and nothing is changed."""
    before = store.change_mark()
    answer(store, method, asked, ANYBODY)
    if method != "redact":
        assert before == store.change_mark()
    before = store.change_mark()
    with pytest.raises(Forbidden):
        answer(store, method, asked, ALICE)
    assert before == store.change_mark()


def test_every_method_is_tried_outside(store):
    """Those that name nothing and tell no more than a number are the only ones for everybody."""
    assert {method for method, _ in OUTSIDE} | {"append", "restore", "feed_bounds", "change_mark"} == set(METHODS)


@pytest.mark.parametrize("scope", [OTHER, scope_of("ben"), "feed:checkpoints"])
def test_nothing_is_added_outside_the_allowance(store, scope):
    """Neither to a scope nor to a conversation, nor on a condition about one."""
    before = store.change_mark()
    with pytest.raises(Forbidden):
        append(store, ALICE, scope=scope)
    with pytest.raises(Forbidden):
        answer(store, "append", {"batch": _batch([]), "expect": [[scope, "x", 0]]}, ALICE)
    assert before == store.change_mark()


def test_no_history_is_recorded_again_by_a_client_with_an_allowance(store):
    """It would write in the names of others."""
    for asked in (
        {"batches": [], "behind": 0, "secret": "0" * 64},
        {"batches": [], "behind": 10**6, "secret": "f" * 64},
    ):
        with pytest.raises(Forbidden):
            answer(store, "restore", asked, ALICE)


def test_annotations_outside_the_allowance_are_left_out(store):
    """A message about an allowed conversation is told only where its scope is allowed too."""
    assert 1 == len(answer(store, "annotations", {"conversation": "ada", "turn": 2}, ALICE))
    nowhere = Client("carol", "user:carol", "ada")
    assert [] == answer(store, "annotations", {"conversation": "ada", "turn": 2}, nowhere)


def test_what_refers_to_something_erased_is_told_within_the_allowance():
    """Who refers to it elsewhere is none of the client's business."""
    store = memory_store()
    Documents(store, MOUNTS).write("/project/a.md", "x")
    box = Mailbox(store, MOUNTS)
    sent = [box.send("see there", target=to, context="/project/a.md").message for to in ("/project", "/you")]
    asked = {"scope": SCOPE, "path": "a.md", "at": "2026-11-30T12:00:00Z", "actor": "me", "reason": None}
    mine, all_of_it = (answer(store, "redact", asked, who)["referring"] for who in (ALICE, ANYBODY))

    assert [[SCOPE, MESSAGES + sent[0].id]] == mine
    assert 2 == len(all_of_it)


# --- what may be added --------------------------------------------------------------------------------


def _batch(events_, erases=()):
    return {"at": "2026-11-30T12:00:00Z", "actor": "me", "events": events_, "erases": list(erases)}


REFUSED = {
    "an unknown kind": {"type": "document.folded"},
    "another schema": {"data": '{"schema":2,"content":"x"}'},
    "another shape": {"data": '{"schema":1,"content":7}'},
    "no JSON": {"data": "{"},
    "a document among the mail": {"stream": MESSAGES + SENT[:-1] + "f"},
    "a document among the streams": {"stream": "/turns"},
    "a path that is none": {"stream": "../x"},
    "a turn in a scope": {"stream": TURNS, "type": "turn.appended", "data": '{"schema":1,"messages":[]}'},
    "a turn elsewhere": {
        "scope": scope_of("ada"),
        "stream": "x",
        "type": "turn.appended",
        "data": '{"schema":1,"messages":[]}',
    },
    "no chat message": {
        "scope": scope_of("zoe"),
        "stream": TURNS,
        "type": "turn.appended",
        "data": '{"schema":1,"messages":[{"content":"x"}]}',
    },
    "a record of an erasure": {
        "stream": REDACTIONS,
        "type": "redaction.recorded",
        "data": '{"schema":1,"path":null,"count":1,"reason":null}',
    },
    "a message written whole": {
        "stream": MESSAGES + SENT[:-1] + "f",
        "type": "message.rewritten",
        "data": '{"schema":1,"body":"x"}',
    },
    "a step of no message": {
        "stream": MESSAGES + SENT[:-1] + "f",
        "type": "message.released",
        "data": '{"schema":1}',
    },
    "a deletion of nothing": {"type": "document.deleted", "data": '{"schema":1}'},
    "a text with a NUL": {"data": '{"schema":1,"content":"\\u0000"}'},
    "a key of no send": {"key": "key 9"},
    "a link elsewhere": {
        "stream": "message-links/a/c",
        "type": "session.linked",
        "data": '{"schema":1,"session":"a","parent":"b"}',
    },
    "a showing to nobody": {
        "stream": "/shown/" + SENT[:-1] + "f",
        "type": "message.shown",
        "data": '{"schema":1,"occurrence":1,"session":"a b","door":"x"}',
    },
    "a checkpoint in a scope": {
        "stream": "/checkpoints/x",
        "type": "checkpoint.moved",
        "data": '{"schema":1,"position":1}',
    },
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_nobody_can_plant_what_nobody_can_read(store, changes):
    """What is unknown, not well formed, misplaced, or cannot follow on what stands there is refused whole."""
    before = store.change_mark()
    with pytest.raises(BadInput):
        append(store, ANYBODY, **changes)
    assert before == store.change_mark()


def test_a_stream_is_only_added_to_on_condition(store):
    """Whoever adds must say what stands there."""
    event = {"scope": SCOPE, "stream": "notes/aim.md", "type": "document.deleted", "data": '{"schema":1}'}
    with pytest.raises(MalformedRequest):
        answer(store, "append", {"batch": _batch([event]), "expect": []}, ANYBODY)
    with pytest.raises(JournalConflict):
        answer(store, "append", {"batch": _batch([event]), "expect": [[SCOPE, "notes/aim.md", 7]]}, ANYBODY)


@pytest.mark.parametrize("erases", [[1], [1, 2, 3], []])
def test_a_batch_erases_only_the_turns_that_it_names(store, erases):
    """Neither anything else of anybody's, nor less than its record says."""
    scope = scope_of("ada")
    event = {
        "scope": scope,
        "stream": REDACTIONS,
        "type": "turns.redacted",
        "data": '{"schema":1,"turns":[2],"reason":null}',
    }
    before = store.change_mark()
    with pytest.raises(BadInput):
        answer(store, "append", {"batch": _batch([event], erases), "expect": []}, ANYBODY)
    event = {"scope": SCOPE, "stream": "notes/n.md", "type": "document.written", "data": '{"schema":1,"content":""}'}
    asked = {"batch": _batch([event], erases or [1]), "expect": [[SCOPE, "notes/n.md", 0]]}
    with pytest.raises(BadInput):
        answer(store, "append", asked, ANYBODY)
    assert before == store.change_mark()


def test_an_unknown_method_has_a_code_of_its_own(store):
    """Whoever asks a newer question of an older process can tell."""
    for method in ("close", "append_turn", "__init__", "settle", "epoch"):
        with pytest.raises(UnknownMethod):
            answer(store, method, {}, ANYBODY)


@pytest.mark.parametrize("path", [TURNS, PROJECTIONS, REDACTIONS, "/checkpoints/indexer", "/shown/" + SENT, ""])
def test_only_documents_are_erased_by_their_paths(store, path):
    """What is kept beside them goes with what it is about, or by a command of its own."""
    asked = {"path": path, "at": "2026-11-30T12:00:00Z", "actor": "me"}
    before = store.change_mark()
    for scope in (SCOPE, scope_of("ada"), "feed:checkpoints"):
        with pytest.raises(BadInput):
            answer(store, "redact", {"scope": scope, **asked}, ANYBODY)
    assert before == store.change_mark()


# --- the doors over it ----------------------------------------------------------------------------------


def test_all_doors_work_over_the_wire(remote):
    """Mail under keys, documents, turns, search, recall, erasures and checkpoints."""
    box = Mailbox(remote, MOUNTS, actor="host:far")
    first = box.send("Once more.", idempotency_key="far 1", conversation="ada")
    assert box.send("Once more.", idempotency_key="far 1", conversation="ada").repeated
    with pytest.raises(IdempotencyConflict):
        box.send("Something else.", idempotency_key="far 1", conversation="ada")
    assert 2 == len(box.send_many([Draft("one"), Draft("two", target="/you")]))
    assert first.message.id in {receipt.message.id for receipt in box.wait(5, session="ada-2").items}
    notes = Documents(remote, MOUNTS, actor="host:far")
    notes.write("/project/far.md", "Far away.", expected_version=0)
    assert 2 == notes.rename("/project/far.md", "/project/notes/plan.md").version - 2
    past = Past(remote, MOUNTS)
    assert past.search("once more").hits
    assert past.search_memory("far away").hits
    assert past.recall("ada", turn=2).turns[0].annotations
    talks = Conversations(remote, actor="host:far")
    assert 3 == talks.append_turn("ada", [{"role": "user", "content": "And now?"}]).turn
    assert 3 == talks.redact_turns("ada", through=3)
    assert 1 == box.redact(first.message.id).count
    feed = Changes(remote, MOUNTS, actor="host:far")
    assert feed.advance("far", feed.poll().position).position
    assert feed.poll(checkpoint="far").items == ()


def test_a_refused_event_names_itself(store):
    """So that whoever made it can be found."""
    with pytest.raises(EventRefused) as refusal:
        append(store, ANYBODY, type="document.folded")
    assert ("notes/new.md", "document.folded") == (refusal.value.stream, refusal.value.type)


# --- long answers -------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "postgres"])
def small_answers(request, monkeypatch):
    """A store, and the same over a wire whose answers are long soon."""
    monkeypatch.setattr(kinds, "LONG", 1_000)
    with contextlib.ExitStack() as opened:
        if request.param == "postgres":
            pytest.importorskip("psycopg", reason="pip install 'fencepost[postgres]'")
            from fencepost.mailbox.store.postgres.opening import create, postgres_store

            cluster, schema = request.getfixturevalue("cluster"), new_schema()
            create(cluster, schema=schema)
            opened.callback(drop, cluster, schema)
            store = opened.enter_context(contextlib.closing(postgres_store(cluster, schema=schema, listen=False)))
        else:
            store = memory_store()
        _, url = opened.enter_context(serving(store))
        yield store, opened.enter_context(contextlib.closing(remote_store(url, TOKEN)))


def test_what_is_long_comes_in_pages(small_answers):
    """All of it, whatever is short or long in it, and however much is asked for."""
    store, over = small_answers
    notes = Documents(store, MOUNTS)
    for number in range(40):
        notes.write("/project/a", "x" * (number * number % 1_700))
    stream = (SCOPE, "a")
    answers = answer(store, "versions", {"stream": list(stream), "before": 10**6, "limit": 100}, ANYBODY)

    assert store.events(stream) == over.events(stream)
    for limit in (0, 1, 7, 39, 40, 41, 100):
        assert list(store.events_from(stream, 3, limit)) == list(over.events_from(stream, 3, limit))
        assert list(store.versions(stream, 40, limit)) == list(over.versions(stream, 40, limit))
        assert list(store.history(SCOPE, None, 10**6, limit)) == list(over.history(SCOPE, None, 10**6, limit))
    assert len(answers) < 40


def test_a_listing_ends_with_the_message_by_which_it_is_long(small_answers):
    """The first come first, and what is behind comes once they are read; with the store itself all come."""
    store, over = small_answers
    box = Mailbox(store, MOUNTS, clock=clock())
    ids = [
        box.send("x" * size, target=to, conversation=who).message.id
        for size, to, who in (
            (1, None, None),
            (300, "/you", None),
            (900, None, "ada"),
            (1, None, None),
            (900, "/you", None),
        )
    ]
    late = {"clock": lambda: NOON + timedelta(hours=1)}

    assert ids == [each.message.id for each in Mailbox(store, MOUNTS, **late).list(session="ada").items]
    far = Mailbox(over, MOUNTS, **late)
    found = [each.message.id for each in far.list(session="ada").items]
    assert ids[: len(found)] == found
    assert 0 < len(found) < 5
    for each in found:
        far.ack(each, session="ada", occurrence=1)
    assert ids[len(found)] == far.list(session="ada").items[0].message.id
