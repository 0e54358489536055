"""Memory documents: versions only grow, nothing is lost, and every listing is what a scan of the events gives."""

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from property import strategies as some
from property.paging import pages

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.memory import MemoryJournal
from fencepost.mailbox import Documents, Mount, codec, errors, open_store
from fencepost.mailbox.events import Deleted, Written
from fencepost.mailbox.records import Action, Entry, MemoryDocument, Version
from fencepost.mailbox.store import documents
from fencepost.mailbox.store.inbox import unsupported
from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.over_journal import JournalStore
from fencepost.mailbox.times import EPOCH, parse, show

MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user"))
SCOPES = {mount.path: mount.scope for mount in MOUNTS}
ACTORS = ("host:ada", "host:ben/nightly")
#: Few, so that what is done to one is often done to another.
places = st.sampled_from((("/project", "a"), ("/project", "a/b"), ("/project", "é/\U0001f600"), ("/user", "a")))
contents = st.sampled_from(("", "one", "two", "\u202e\x1b[2J\n"))
prefixes = st.sampled_from(("", "a", "a/", "é", "zzz"))
#: What a caller expects, beside the version that stands there.
expectations = st.sampled_from((None, None, None, "right", "right", "right", 0, 1, 7))


# --- the dumb model ---------------------------------------------------------------------------------------------


class Model:
    """Every version of every document in the order in which they came."""

    def __init__(self):
        self.rows = []

    def add(self, place, action, content, actor, at):
        version = 1 + len(self.versions(place))
        self.rows.append((place, Version(place[1], version, action, content, actor, at, redacted=False)))

    def versions(self, place):
        return [row for there, row in self.rows if there == place]

    def standing(self, place, version=None):
        """The document after so many versions, or None."""
        rows = self.versions(place)[:version]
        if not rows or rows[-1].action is Action.DELETED:
            return None
        created = max(row.version for row in rows if row.action is Action.CREATED)
        last = rows[-1]
        times = rows[created - 1].created_at, last.created_at
        return MemoryDocument(SCOPES[place[0]], place[1], last.content, len(rows), *times, last.actor, redacted=False)

    def seen(self, place):
        document = self.standing(place)
        return 0 if document is None else document.version

    def write(self, place, content, actor, at):
        action = Action.MODIFIED if self.standing(place) else Action.CREATED
        self.add(place, action, content, actor, at)

    def listed(self, mount, prefix):
        found = [self.standing(place) for place in {place for place, _ in self.rows} if place[0] == mount]
        entries = [
            Entry(each.path, each.version, each.created_at, each.updated_at, each.redacted)
            for each in found
            if each is not None and each.path.startswith(prefix)
        ]
        return sorted(entries, key=lambda entry: entry.path)

    def history(self, mount, since):
        rows = [row for place, row in self.rows if place[0] == mount]
        return [row for row in reversed(rows) if since is None or row.created_at >= since]


class DocumentsAndModel(RuleBasedStateMachine):
    """Two actors at one store in a folder, which is closed and opened again, with a clock that goes back as well."""

    @initialize(written=st.lists(st.tuples(places, contents), min_size=1, max_size=6))
    def begin(self, written):
        self.folder = tempfile.TemporaryDirectory(prefix="fencepost-documents-")
        self.root = Path(self.folder.name) / "store"
        self.model = Model()
        self.now = some.NOON
        self.open()
        for place, content in written:
            self.doors[ACTORS[0]].write("/".join(place), content)
            self.model.write(place, content, ACTORS[0], self.now)

    def open(self):
        self.store = open_store(self.root)
        self.doors = {actor: Documents(self.store, MOUNTS, actor=actor, clock=lambda: self.now) for actor in ACTORS}

    def expected(self, place, expectation):
        return self.model.seen(place) if expectation == "right" else expectation

    def refusal(self, place, expected):
        """What a change must be refused with."""
        wrong = expected is not None and expected != self.model.seen(place)
        return errors.MemoryConflict if wrong else None

    def attempt(self, refusal, change):
        """The answer to a change, or None where it was refused as it must be."""
        if refusal is None:
            return change()
        before = self.store._journal.refresh()
        with pytest.raises(refusal):
            change()
        assert before == self.store._journal.refresh()
        return None

    @rule(minutes=st.sampled_from((-90, -1, 1, 1, 1)))
    def turn_the_clock(self, minutes):
        self.now += timedelta(minutes=minutes)

    @rule(actor=st.sampled_from(ACTORS), place=places, content=contents, expectation=expectations)
    def write(self, actor, place, content, expectation):
        expected = self.expected(place, expectation)
        answer = self.attempt(
            self.refusal(place, expected),
            lambda: self.doors[actor].write("/".join(place), content, expected_version=expected),
        )
        if answer is not None:
            self.model.write(place, content, actor, self.now)
            assert self.model.standing(place) == answer

    @rule(actor=st.sampled_from(ACTORS), place=places, expectation=expectations)
    def delete(self, actor, place, expectation):
        expected = self.expected(place, expectation)
        missing = None if self.model.standing(place) else errors.UnknownDocument
        answer = self.attempt(
            missing or self.refusal(place, expected),
            lambda: self.doors[actor].delete(place[1], target=SCOPES[place[0]], expected_version=expected),
        )
        if answer is not None:
            self.model.add(place, Action.DELETED, "", actor, self.now)
            assert self.model.versions(place)[-1] == answer

    @rule(actor=st.sampled_from(ACTORS), source=places, destination=places, expectation=expectations)
    def rename(self, actor, source, destination, expectation):
        expected = self.expected(source, expectation)
        moved = self.model.standing(source)
        missing = None if moved else errors.UnknownDocument
        taken = errors.MemoryConflict if self.model.standing(destination) else None
        answer = self.attempt(
            missing or self.refusal(source, expected) or taken,
            lambda: self.doors[actor].rename("/".join(source), "/".join(destination), expected_version=expected),
        )
        if answer is not None:
            self.model.add(source, Action.DELETED, "", actor, self.now)
            self.model.write(destination, moved.content, actor, self.now)
            assert self.model.standing(destination) == answer

    @rule(rebuild=st.booleans())
    def reopen(self, rebuild):
        self.store.close()
        if rebuild:
            for file in self.root.glob("index-*"):
                file.unlink()
        self.open()

    @rule(place=places, version=st.integers(1, 6))
    def read(self, place, version):
        self.check_read(place, self.model.standing(place), errors.UnknownDocument)
        there = self.model.standing(place, version) if version <= len(self.model.versions(place)) else None
        unknown = errors.UnknownVersion if self.model.versions(place) else errors.UnknownDocument
        self.check_read(place, there, unknown, version)

    def check_read(self, place, expected, refusal, version=None):
        door = self.doors[ACTORS[0]]
        if expected is None:
            with pytest.raises(refusal):
                door.read("/".join(place), version=version)
        else:
            assert expected == door.read("/".join(place), version=version)

    @rule(mount=st.sampled_from(tuple(SCOPES)), prefix=prefixes, limit=st.sampled_from((1, 2, 500)))
    def list(self, mount, prefix, limit):
        found = pages(
            lambda **page: self.doors[ACTORS[0]].list(f"{mount}/{prefix}", **page), lambda page: page.entries, limit
        )
        assert self.model.listed(mount, prefix) == found

    @rule(place=places, limit=st.sampled_from((1, 2, 500)))
    def versions(self, place, limit):
        def ask(**page):
            return self.doors[ACTORS[0]].versions("/".join(place), **page)

        rows = self.model.versions(place)
        if rows:
            assert list(reversed(rows)) == pages(ask, lambda page: page.versions, limit)
        else:
            with pytest.raises(errors.UnknownDocument):
                ask()

    @rule(mount=st.sampled_from(tuple(SCOPES)), minutes=st.none() | st.integers(-3, 1), limit=st.sampled_from((1, 3)))
    def history(self, mount, minutes, limit):
        since = None if minutes is None else self.now + timedelta(minutes=minutes)
        found = pages(
            lambda **page: self.doors[ACTORS[0]].history(mount, since=since, **page),
            lambda page: page.versions,
            limit,
        )
        assert self.model.history(mount, since) == found

    @invariant()
    def the_fold_of_the_journal_is_what_stands(self):
        """Of all streams together, whatever the index says."""
        if not hasattr(self, "model"):
            return
        folded = {}
        for commit in self.store._journal.read():
            for event in commit.events:
                stream = (event.scope, event.stream)
                folded[stream] = documents.fold(folded.get(stream), event)
        assert {(SCOPES[mount], path) for (mount, path), _ in self.model.rows} == folded.keys()
        for (mount, path), row in self.model.rows:
            document = folded[SCOPES[mount], path]
            if row.version == document.version:
                assert row == codec_row(document)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


def codec_row(document):
    """The last version of a folded document."""
    record = document.content
    return Version(
        document.path,
        document.version,
        record.action,
        record.content,
        record.actor,
        record.updated_at,
        record.redacted,
    )


TestDocumentsAndModel = DocumentsAndModel.TestCase


# --- erased content ---------------------------------------------------------------------------------------------

_steps = st.lists(st.tuples(st.just(Deleted()) | st.builds(Written, contents), some.near_moments), max_size=8)


def journal_of(steps, stream=("user:me", "notes/plan.md")):
    """A journal with these events of one document, deletions only where there is something to delete."""
    journal = MemoryJournal()
    live = False
    for event, at in steps:
        if isinstance(event, Deleted) and not live:
            continue
        live = isinstance(event, Written)
        journal.append(Batch(at, "host:test", (NewEvent(*stream, *codec.encode(event)),)), {})
    return journal


@given(_steps, st.sets(st.integers(1, 8)))
def test_an_erased_document_keeps_its_skeleton(steps, erased):
    """Without its content it tells the same path, version, action, actor and times, and says that it was erased."""
    before, after = None, None
    for commit in journal_of(steps).read():
        (event,) = commit.events
        before = documents.fold(before, event)
        after = documents.fold(after, event._replace(data=None) if event.seq in erased else event)
        was, now = before.content, after.content
        gone = event.seq in erased
        kept = (was.action, was.created_at, was.updated_at, was.actor)

        assert kept == (now.action, now.created_at, now.updated_at, now.actor)
        assert (before.version, gone) == (after.version, now.redacted)
        assert ("" if gone else was.content) == now.content


@given(_steps, st.sets(st.integers(1, 8)))
def test_an_index_made_after_erasing_shows_no_content(steps, erased):
    """Every version and the listing say that they were redacted, and all else as before."""
    journal = journal_of(steps)
    for number, commit in enumerate(journal._commits):
        if commit.seq in erased:
            journal._commits[number] = commit._replace(events=(commit.events[0]._replace(data=None),))
    door = Documents(JournalStore(journal, Index.in_memory("memory")), [Mount("user:me", "/user")])
    rows = [commit.events[0] for commit in journal.read()]
    if not rows:
        return
    found = door.versions("/user/notes/plan.md").versions

    assert [(row.version, row.seq in erased) for row in reversed(rows)] == [(v.version, v.redacted) for v in found]
    assert all(version.content == "" for version in found if version.redacted)
    listed = door.list("/user").entries
    assert [version.redacted for version in found[:1] if version.action is not Action.DELETED] == [
        entry.redacted for entry in listed
    ]


# --- forms that are not known -----------------------------------------------------------------------------------


@given(_steps, st.sampled_from(("document.archived", "message.sent", "session.linked")))
def test_a_document_with_a_strange_event_is_no_trouble_of_the_mail(steps, kind):
    """It is reported beside the documents, never rewritten, and no mailbox listing mentions it."""
    stream = ("user:me", "notes/plan.md")
    store = JournalStore(journal_of(steps), Index.in_memory("memory"))
    store.append(Batch(some.NOON, "host:future", (NewEvent(*stream, kind, b'{"schema":1}'),)), {})
    door = Documents(store, [Mount("user:me", "/user")])
    page = door.list("/user/notes/")

    assert () == page.entries
    assert [stream] == [(each.scope, each.path) for each in page.unsupported]
    for change in (
        lambda: door.read("/user/notes/plan.md"),
        lambda: door.write("/user/notes/plan.md", "x"),
        lambda: door.delete("/user/notes/plan.md"),
        lambda: door.rename("/user/notes/plan.md", "/user/b"),
    ):
        with pytest.raises(errors.UnsupportedDocument):
            change()
    with store._index.reading() as db:
        assert [] == unsupported(db, ["user:me"], 9)


@given(st.sampled_from(("messages/x", "message-links/a/b")), _steps)
def test_mail_is_never_made_of_documents(path, steps):
    """Events of documents where the mailbox keeps its own are reported with the mail, and shown as no document."""
    journal = journal_of([*steps, (Written("x"), some.NOON)], ("user:me", path))
    store = JournalStore(journal, Index.in_memory("memory"))
    door = Documents(store, [Mount("user:me", "/user")])

    assert ((), ()) == (door.list("/user").entries, door.history("/user").versions)
    assert () == door.list("/user").unsupported
    with store._index.reading() as db:
        assert [path] == [row[1] for row in unsupported(db, ["user:me"], 9)]


def test_times_are_told_to_the_microsecond():
    """The answer to a write, the fold, and what a later process reads say the same instant."""
    now = EPOCH + timedelta(microseconds=1)
    door = Documents(open_store(":memory:"), MOUNTS, clock=lambda: now)
    written = door.write("/project/a", "x")

    assert now == written.created_at == door.read("/project/a").updated_at == parse(show(now), "at")
