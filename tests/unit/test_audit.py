"""What happened: replay, differences, one message's life, and the index against the journal."""

import contextlib
import itertools
import json
import shutil
import sqlite3
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some
from serving import LATER, PATH, SCOPE, body

from fencepost.journal.audit import Head
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Documents, Mailbox, Mount, audit, codec, errors
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.events import Deleted, Linked, Rewritten, Written
from fencepost.mailbox.store.opening import file_store, memory_store, open_index_to_read, reading_store

MOUNTS = (Mount("user:me", "/user"),)
MINUTE = timedelta(minutes=1)

_pasts = st.lists(some.histories(max_size=4), min_size=1, max_size=3, unique_by=lambda past: past[0].letter.id)

#: The events of a document that is written, and deleted where it stands.
_documents = st.sampled_from(
    ((), (Written("one"),), (Written("one"), Written("two")), (Written("one"), Deleted(), Written("two"), Deleted()))
)


@st.composite
def journals(draw):
    """A journal in which the events of some messages, of a link and a document stand in any order, at any times."""
    lines = [
        [((past[0].letter.scope, f"messages/{past[0].letter.id}"), event) for event in past] for past in draw(_pasts)
    ]
    lines.append([(("user:me", "message-links/ben/ada"), Linked("ben", "ada"))])
    lines.append([(("user:me", "notes/plan.md"), event) for event in draw(_documents)])
    lines = [line for line in lines if line]
    journal = MemoryJournal()
    while lines:
        line = draw(st.sampled_from(lines))
        stream, event = line.pop(0)
        batch = Batch(draw(some.near_moments), "host:test", (NewEvent(*stream, *codec.encode(event)),))
        journal.append(batch, {})
        lines = [line for line in lines if line]
    return tuple(journal.read())


@pytest.fixture
def now():
    """The time, to be turned by hand."""
    return [some.NOON]


@pytest.fixture
def box(now):
    return Mailbox(memory_store(), MOUNTS, clock=lambda: now[0])


def commits(box):
    return box.store._journal.read()


# --- replay and differences ---------------------------------------------------------------------------------


@given(journals())
def test_every_prefix_is_what_was_there(past):
    """Replay up to any event gives the documents of a store that was given no more."""
    store = memory_store()
    streams = set()
    for commit in past:
        (event,) = commit.events
        streams.add((event.scope, event.stream))
        new = NewEvent(event.scope, event.stream, event.type, event.data)
        store.append(Batch(audit.parse(event.at, "at"), event.actor, (new,)), {})

        assert {stream: store.find(stream) for stream in streams} == audit.replay(past, event.seq)
    assert audit.replay(past, past[-1].seq) == audit.replay(past) == audit.replay(past, past[-1].seq + 1)
    assert {} == audit.replay(past, 0)


@given(journals(), some.near_moments)
def test_a_time_ends_at_the_first_later_event(past, moment):
    """Whatever the clocks of the events behind it say."""
    seqs = [event.seq for event in audit.until(past, moment)]

    times = [audit.parse(commit.events[0].at, "at") for commit in past]
    later = next((number for number, at in enumerate(times) if at > moment), len(times))
    assert [*range(1, later + 1)] == seqs


@given(journals(), st.data())
def test_changes_lead_from_one_state_to_the_other(past, data):
    """Every field that differs is named, and no other, in either direction."""
    first, second = (audit.replay(past, data.draw(st.integers(0, len(past)), label=label)) for label in ("from", "to"))
    changes = audit.compare(first, second)
    assert all(change.before != change.after for change in changes)
    assert [] == audit.compare(first, first)

    for stream in first.keys() | second.keys():
        fields = dict(audit.as_json(first.get(stream)) or {})
        for change in changes:
            if change.stream == stream:
                assert change.before == fields.get(change.field)
                fields[change.field] = change.after
        expected = audit.as_json(second.get(stream)) or {}
        # One that is not there counts as one that is None.
        assert said(expected) == said(fields)


def said(fields):
    return {name: value for name, value in fields.items() if value is not None}


def test_a_document_that_nobody_can_read(box, now):
    """It is replayed with its version and why; its fields are gone, and its fences are worth what its form is."""
    sent = box.send("x", actionable=True).message.id
    box.claim(sent, session="one", occurrence=1)
    stream = ("user:me", f"messages/{sent}")
    box.store.append(Batch(now[0], "host:test", (NewEvent(*stream, "message.redacted/9", b"{}"),)), {})

    document = audit.replay(commits(box))[stream]
    life = audit.explain(commits(box), sent, now[0])

    assert (3, None) == (document.version, audit.as_json(document))
    assert "message.redacted/9" in document.why
    assert ["unsupported_format"] == [fence.answer for fence in life.fences]
    assert ("body", "x", None) in [(each.field, each.before, each.after) for each in life.steps[-1].changes]


# --- one message's life ---------------------------------------------------------------------------------------


def notes(box, message_id, at, **options):
    """What the passing of time did to a message up to some time."""
    life = audit.explain(commits(box), message_id, at, **options)
    return [(step.at, step.note) for step in life.steps if step.event is None]


def test_a_due_time_comes(box, now):
    """It is noted when it has come, to the microsecond; a message that is due at once does not come due."""
    sent = box.send("x", delay_seconds=60).message.id
    due = now[0] + MINUTE
    at_once = box.send("y").message.id

    assert [] == notes(box, sent, due - timedelta(microseconds=1))
    assert [(due, "occurrence 1 came due")] == notes(box, sent, due)
    assert [] == notes(box, at_once, due)


def test_a_lease_runs_out(box, now):
    """That is noted before the event that follows on it; of a lease that ended otherwise it is not."""
    sent = box.send("x", actionable=True).message.id
    first = box.claim(sent, session="one", occurrence=1).message.lease
    assert [] == notes(box, sent, first.until - timedelta(microseconds=1))
    assert [(first.until, "the lease of session one ran out")] == notes(box, sent, first.until)

    now[0] = first.until + MINUTE
    token = box.claim(sent, session="two", occurrence=1).message.lease.token
    now[0] += MINUTE
    box.complete(sent, session="two", occurrence=1, token=token, outcome="Done.")

    expected = [(first.until, "the lease of session one ran out")]
    assert expected == notes(box, sent, now[0] + 99 * MINUTE)


def test_a_renewed_lease_runs_out_later(box, now):
    """Only the time that it was renewed to counts."""
    sent = box.send("x", actionable=True).message.id
    token = box.claim(sent, session="one", occurrence=1).message.lease.token
    now[0] += 20 * MINUTE
    until = box.renew(sent, session="one", occurrence=1, token=token).message.lease.until

    assert [] == notes(box, sent, until - MINUTE)
    assert [(until, "the lease of session one ran out")] == notes(box, sent, until)


def test_an_occurrence_comes_due_once(box, now):
    """Though it is claimed and given back afterwards."""
    sent = box.send("x", delay_seconds=60).message.id
    now[0] += 2 * MINUTE
    token = box.claim(sent, session="one", occurrence=1).message.lease.token
    box.release(sent, session="one", occurrence=1, token=token)

    assert 1 == len(notes(box, sent, now[0]))


def test_a_lease_runs_out_once(box, now):
    """Though the message is offered to somebody else afterwards."""
    sent = box.send("x", actionable=True, delivery="wake").message.id
    box.claim(sent, session="one", occurrence=1)
    now[0] += 60 * MINUTE
    token = box.reserve(sent, session="two", occurrence=1).message.reservation.token
    box.accept(sent, session="two", occurrence=1, token=token)

    assert 1 == len(notes(box, sent, now[0]))


@given(journals(), some.near_moments)
def test_a_life_has_every_event_of_the_message(past, moment):
    """In order, with the changes of each, and ends with the document as it stands."""
    for (scope, path), document in audit.replay(past).items():
        if not path.startswith("messages/"):
            continue
        life = audit.explain(past, path.removeprefix("messages/"), moment)
        recorded = [step for step in life.steps if step.event is not None]
        own = [event for commit in past for event in commit.events if (event.scope, event.stream) == (scope, path)]
        assert own == [step.event for step in recorded]
        assert document == life.document
        fields = {change.field: change.after for step in recorded for change in step.changes}
        assert fields == {name: value for name, value in audit.as_json(document).items() if name in fields}


def test_a_life_of_a_document():
    """Each of its versions with what it changed; scopes are told apart."""
    times = iter(range(9))
    store = memory_store()
    mounts = (Mount("user:me", "/user"), Mount("user:you", "/you"))
    notes = Documents(store, mounts, clock=lambda: some.NOON + next(times) * MINUTE)
    notes.write("/user/plan.md", "one")
    notes.write("/user/plan.md", "two")
    notes.delete("/user/plan.md")

    life = audit.explain_document(store._journal.read(), "plan.md", some.NOON)
    changes = [change for step in life.steps[1:] for change in step.changes if change.field == "content"]
    assert [1, 2, 3] == [step.event.version for step in life.steps]
    assert [("one", "two"), ("two", "")] == [(change.before, change.after) for change in changes]

    notes.write("/you/plan.md", "another")
    for scope, refusal in ((None, errors.Usage), ("user:them", errors.UnknownDocument)):
        with pytest.raises(refusal):
            audit.explain_document(store._journal.read(), "plan.md", some.NOON, scope=scope)


def test_no_such_message(box, now):
    """Neither one that nobody sent, nor one that was sent later than is asked about."""
    sent = box.send("x").message.id
    for message_id, stop in (("00000000-0000-4000-8000-000000000000", None), (sent, now[0] - MINUTE)):
        with pytest.raises(errors.UnknownMessage):
            audit.explain(commits(box), message_id, now[0], stop=stop)


# --- the whole store --------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    """A store with three messages, of which one is claimed, and a link: five events in four batches."""
    store = file_store(tmp_path / "store")
    box = Mailbox(store, MOUNTS)
    first = box.send("first", actionable=True).message.id
    box.claim(first, session="one", occurrence=1)
    box.link("child", "parent")
    box.send_many([Draft("second"), Draft("third")])
    store.close()
    return tmp_path / "store"


def checked(root, **options):
    reader = FileReader(root)
    with contextlib.closing(reader), open_index_to_read(reader) as db:
        return audit.check(reader, db, **options)


def index(root):
    (path,) = root.glob("index-*.sqlite")
    return path


def change_index(root, statement):
    db = sqlite3.connect(index(root))
    with db:
        db.execute(statement)
    db.close()


def test_what_is_proven_is_counted(root):
    """Batches, events and documents, up to the last event; and each batch is shown to whoever asks."""
    seen = []
    verdict = checked(root, each=seen.append)

    assert verdict.good
    assert (5, 4, 5, 0) == (
        verdict.report.head.seq,
        verdict.report.batches,
        verdict.report.events,
        verdict.report.erased,
    )
    assert (4, 5, ()) == (verdict.documents, verdict.index_seq, verdict.differing)
    assert [(1, 1), (2, 2), (3, 3), (4, 5)] == [(commit.events[0].seq, commit.seq) for commit in seen]


def test_an_index_that_is_behind_is_good(root):
    """It is compared with the journal as it was then."""
    old = root / "old"
    shutil.copy(index(root), old)
    store = file_store(root)
    box = Mailbox(store, MOUNTS)
    box.send("later")
    (claimed,) = (item.message for item in box.list(status="all").items if item.message.lease)
    box.complete(claimed.id, session="one", occurrence=1, token=claimed.lease.token, outcome="Done.")
    store.close()
    old.replace(index(root))

    verdict = checked(root)

    assert verdict.good
    assert (7, 5, 4) == (verdict.report.head.seq, verdict.index_seq, verdict.documents)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document SET body = replace(body, 'first', 'other') WHERE body LIKE '%first%'",
        "UPDATE document SET body = NULL, why = 'made up' WHERE body LIKE '%first%'",
        "UPDATE document SET version = 3 WHERE body LIKE '%first%'",
        "UPDATE document SET version = 1 WHERE body LIKE '%first%'",
        "DELETE FROM document WHERE body LIKE '%first%'",
        "UPDATE document SET path = 'messages/other' WHERE body LIKE '%first%'",
        "UPDATE document SET conversation = 'another' WHERE body LIKE '%first%'",
        "UPDATE document SET standing = 2 WHERE body LIKE '%first%'",
        "UPDATE document SET due = 1 WHERE body LIKE '%first%'",
        "UPDATE document SET created = NULL WHERE body LIKE '%first%'",
        "UPDATE document SET ready = 1 WHERE body LIKE '%first%'",
    ],
)
def test_what_differs_is_named(root, statement):
    """By its address; nothing else is."""
    (first,) = (stream for stream, each in _there(root).items() if audit.as_json(each).get("body") == "first")
    change_index(root, statement)

    verdict = checked(root)

    assert (False, None) == (verdict.good, verdict.report.damage)
    assert [first] == [stream for stream in verdict.differing if stream[0]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document SET body = replace(body, 'first', 'other') WHERE path = 'plan.md'",
        "DELETE FROM entry WHERE path = 'plan.md'",
        "UPDATE entry SET version = 1 WHERE path = 'plan.md'",
        "INSERT INTO entry SELECT scope, 'gone.md', version, created, updated, redacted FROM entry",
    ],
)
def test_what_differs_of_documents_is_named(root, statement):
    """What stands there and what the listing shows are both compared."""
    store = file_store(root)
    notes = Documents(store, MOUNTS)
    for path in ("plan.md", "gone.md"):
        notes.write(f"/user/{path}", "the first")
        notes.write(f"/user/{path}", "the first")
    notes.delete("/user/gone.md")
    store.close()
    assert checked(root).good
    change_index(root, statement)

    assert [("user:me", "gone.md" if "gone" in statement else "plan.md")] == list(checked(root).differing)


_WRITTEN = (body(), body(conversation="one"), body(created_at=LATER), body(format=2), "no message at all")


@pytest.mark.parametrize("before, later", list(itertools.permutations(_WRITTEN, 2)))
def test_what_was_written_over_a_message_is_held_and_listed(root, before, later):
    """Whatever stood there when the index was fed; as an index lists it that is made at once."""
    store = file_store(root)
    for written in (before, later):
        happened = Rewritten(json.dumps(written))
        new = NewEvent(SCOPE, PATH, *codec.encode(happened, codec.VIA_WIRE), meaning=happened)
        store.append(Batch(some.NOON, "client:other", (new,)), {})
        listed = _listed(store)
    store.close()
    assert checked(root).good
    index(root).unlink()
    store = file_store(root)
    assert _listed(store) == listed
    store.close()


def _listed(store):
    box = Mailbox(store, MOUNTS)
    return [box.list(session=session, status="all", limit=500) for session in (None, "one", "two")]


def _there(root):
    return audit.replay(FileReader(root).read())


def test_a_document_that_only_the_index_has(root):
    """It is noticed by the number of documents, which is said."""
    change_index(root, "INSERT INTO document (scope, path, version) VALUES ('user:me', 'messages/made-up', 1)")

    verdict = checked(root)

    assert not verdict.good
    assert (1, ()) == (verdict.only_in_index, verdict.differing)


def test_a_head_that_was_noted(root):
    """Any batch's end is one; nothing else is, and the beginning always is."""
    ends = [Head(commit.seq, commit.digest) for commit in FileReader(root).read()]

    for head in (Head(0, "0" * 64), *ends):
        assert checked(root, expect=head).good
    for head in (Head(4, ends[-1].digest), Head(5, ends[0].digest), Head(6, "a" * 64)):
        verdict = checked(root, expect=head)
        assert (False, False, None) == (verdict.good, verdict.report.expected_found, verdict.report.damage)


def test_without_an_index_nothing_is_compared(root):
    """That is no damage."""
    index(root).unlink()
    verdict = checked(root)

    assert (True, 0, None, 5) == (verdict.good, verdict.documents, verdict.index_seq, verdict.report.events)


def test_a_copy_that_is_only_read_shows_the_same(root):
    """Folded in memory, it has the documents of the replay."""
    store = reading_store(root)
    there = _there(root)

    assert there == {stream: store.find(stream) for stream in there}
    store.close()
