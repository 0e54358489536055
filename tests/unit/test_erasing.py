"""Erasing on files, with other handles open, and interrupted."""

import contextlib
import errno
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from fencepost.journal import segments
from fencepost.journal.audit import verify
from fencepost.journal.disk import Disk
from fencepost.journal.errors import ErasureUnfinished, NotErasable
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.journal.reader import FileReader
from fencepost.journal.retention import default_archive, retain
from fencepost.journal.segments import ARCHIVES
from fencepost.mailbox import Mailbox, Mount, codec
from fencepost.mailbox.box import utc_now
from fencepost.mailbox.errors import Erased, InvalidName, UnknownMessage
from fencepost.mailbox.events import Redacted, Sent
from fencepost.mailbox.message import Context
from fencepost.mailbox.store.documents import Document
from fencepost.mailbox.store.opening import file_store, open_index_to_read, reading_store

SECRET = "swordfish"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Died(BaseException):
    """The process died here.  No handler of errors may take it for one."""


class Stopping(Disk):
    """A disk on which the next call of one name does not come to pass, and everything after it neither."""

    def __init__(self):
        self.name = self.error = None

    def _call(self, name, *arguments, **options):
        if name == self.name:
            raise self.error
        return getattr(Disk, name)(self, *arguments, **options)

    def remove(self, path):
        return self._call("remove", path)

    def sync(self, fd):
        return self._call("sync", fd)

    def sync_data(self, fd):
        return self._call("sync_data", fd)

    def rename(self, source, target):
        return self._call("rename", source, target)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make segments that are quickly made."""
    monkeypatch.setattr(segments, "ALLOCATE_BYTES", 2_048)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def disk():
    return Stopping()


@pytest.fixture
def open_box(root):
    """Opens mailboxes of the store that are closed after the test."""
    with contextlib.ExitStack() as opened:

        def box(**options):
            store = file_store(root, **options)
            opened.callback(store.close)
            return Mailbox(store, [Mount("user:me", "/user"), Mount("user:me/proj:app", "/project")])

        yield box


def holding(root):
    """The files that hold the secret."""
    return [path.name for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def bodies(box):
    return [item.message.letter.body for item in box.list(status="all", limit=500).items]


def note(journal, text, erases=(), scope="user:me"):
    event = NewEvent(scope, "notes", "note", b'"%b"' % text.encode())
    return journal.append(Batch(NOON, "host:test", (event,), erases), {})


def data(commits):
    return [event.data for commit in commits for event in commit.events]


def half_erased(root, disk, name="sync", error=Died):
    """A journal whose first event is erased on record, and not one byte of it overwritten."""
    journal = FileJournal(root, disk=disk)
    first = note(journal, SECRET)
    note(journal, "kept")
    real = journal._eraser._carry_out

    def stop(erases):
        disk.name, disk.error = name, error
        real(erases)

    journal._eraser._carry_out = stop
    with pytest.raises((error if isinstance(error, type) else type(error), ErasureUnfinished)):
        note(journal, "gone", erases=(1,))
    disk.name = None
    journal.close()
    assert holding(root)
    return first


# --- two handles ------------------------------------------------------------------------------------------------------


def test_another_handle_does_not_bring_it_back(root, open_box):
    """Neither what it has in mind and has not fed, nor what its index holds."""
    one, other = open_box(), open_box()
    fed = one.send(f"{SECRET} 1").message.id
    assert 1 == len(other.list().items)
    mine = other.send(f"{SECRET} 2", actionable=True).message.id
    other.claim(mine, session="ada", occurrence=1)
    assert 2 == len(bodies(one))

    for message in (fed, mine):
        one.redact(message)
    other.send("kept")
    other.store.feed()

    assert ["kept"] == bodies(other) == bodies(one)
    assert [] == holding(root)
    other.store.close()
    one.store.close()
    assert [] == holding(root)
    assert ["kept"] == bodies(open_box())


def test_another_handle_decides_on_what_is_left(open_box):
    """A claim that was given before does not help: the work is gone."""
    one, other = open_box(), open_box()
    sent = one.send(SECRET, actionable=True, idempotency_key="once").message.id
    lease = other.claim(sent, session="ada", occurrence=1).message.lease
    one.redact(sent)

    for step in (
        lambda: other.complete(sent, session="ada", occurrence=1, token=lease.token, outcome=SECRET),
        lambda: other.cancel(sent, session="ada", occurrence=1),
        lambda: other.view(sent),
        lambda: other.send(SECRET, actionable=True, idempotency_key="once"),
    ):
        with pytest.raises(Erased) as raised:
            step()
        assert {"message_id": sent} == raised.value.details
    assert ((), ()) == (other.list(status="all").items, other.list().unsupported)


def test_a_step_that_was_decided_before_is_refused(root):
    """What another handle appends to a stream that was erased meanwhile has to be decided anew."""
    one, other = FileJournal(root), FileJournal(root)
    with contextlib.closing(one), contextlib.closing(other):
        note(one, SECRET)
        other.refresh()
        note(one, "gone", erases=(1,))
        event = NewEvent("user:me", "notes", "note", b"{}")
        with pytest.raises(Exception, match="decide again") as raised:
            other.append(Batch(NOON, "host:test", (event,)), {("user:me", "notes"): 2})
        assert "journal_conflict" == raised.value.code
        assert 4 != other.append(Batch(NOON, "host:test", (event,)), {("user:me", "notes"): 2}).seq


def test_a_long_look_at_the_index_holds_nobody_up(root, open_box):
    """A reader that has the index open goes on with what it has, and the file is gone."""
    box = open_box()
    sent = box.send(SECRET).message.id
    box.list()
    (path,) = root.glob("index-*.sqlite")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert 1 == reader.execute("SELECT count(*) FROM document").fetchone()[0]
        box.redact(sent)

        assert [] == holding(root)
        assert 1 == reader.execute("SELECT count(*) FROM document").fetchone()[0]
    assert [] == holding(root)


def test_a_reader_that_has_folded_it_forgets_it(root, open_box):
    """A store that is only read, opened before."""
    box = open_box()
    sent = box.send(SECRET).message.id
    with contextlib.closing(reading_store(root)) as store:
        reader = Mailbox(store, [Mount("user:me", "/user")])
        assert [SECRET] == bodies(reader)
        box.redact(sent)

        assert [] == bodies(reader)
        with pytest.raises(Erased):
            reader.view(sent)
        assert [1] == [event.version for event in reader.skeleton(sent).events]


# --- interrupted ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rename", "sync"])
def test_a_reader_takes_it_for_erased(root, disk, name):
    """Whoever may not write believes the record, from the first byte on that is not overwritten."""
    first = half_erased(root, disk, name)
    reader = FileReader(root)

    assert [None, b'"kept"', b'"gone"'] == data(reader.read())
    assert [None] == data([reader.commit_at(first.segment, first.offset)])
    assert (1, None) == (verify(reader).erased, verify(reader).damage)
    with open_index_to_read(reader) as db:
        assert db is None
    assert holding(root), "a reader wrote"


@pytest.mark.parametrize(
    "call",
    [
        lambda journal, first: journal.refresh(),
        lambda journal, first: journal.commit_at(first.segment, first.offset),
        lambda journal, first: list(journal.read()),
        lambda journal, first: journal.durable(),
        lambda journal, first: note(journal, "more"),
        lambda journal, first: retain(journal, NOON),
    ],
    ids=["refresh", "commit_at", "read", "durable", "append", "retain"],
)
@pytest.mark.parametrize("rebooted", [True, False])
def test_any_call_finishes_it(root, disk, call, rebooted):
    """Before it answers."""
    first = half_erased(root, disk)
    if rebooted:
        (root / "watermark").unlink()
    with contextlib.closing(FileJournal(root)) as journal:
        call(journal, first)
        assert [] == holding(root)
        assert not (root / "journal" / "erasing").exists()
        assert [None, b'"kept"', b'"gone"'] == data(journal.read())[:3]


def test_a_plan_that_came_to_nothing_is_forgotten(root, disk):
    """Whoever died before its frame was there has erased nothing."""
    with contextlib.closing(FileJournal(root, disk=disk)) as journal:
        note(journal, "kept")
        journal._writer.write = lambda *_: (_ for _ in ()).throw(Died)
        with pytest.raises(Died):
            note(journal, "gone", erases=(1,))
    assert (root / "journal" / "erasing").exists()
    with contextlib.closing(FileJournal(root)) as journal:
        assert [b'"kept"'] == data(journal.read())
        assert not (root / "journal" / "erasing").exists()
        assert 2 == note(journal, "more").seq


def test_what_cannot_be_finished_is_told_and_tried_again(root, open_box, disk):
    """It says so by its code, shows nothing of it meanwhile, and the next call does the rest."""
    box, other = open_box(disk=disk), open_box()
    sent = box.send(SECRET).message.id
    disk.name, disk.error = "remove", OSError(errno.EIO, "the disk is broken")
    for _ in range(2):
        with pytest.raises(ErasureUnfinished) as raised:
            box.redact(sent)
        assert "erasure_unfinished" == raised.value.code
    assert [None] == data(FileReader(root).read())[:1]

    disk.name = None
    with pytest.raises(Erased):
        other.view(sent)
    assert [] == holding(root)


@pytest.mark.parametrize("seq", [0, -1, 4, 3])
def test_what_cannot_be_erased_is_refused(root, seq):
    """An event that is not there, and the record of an erasure; nothing is written."""
    with contextlib.closing(FileJournal(root)) as journal:
        for text, erases in (("one", ()), ("two", ()), ("gone", (1,))):
            note(journal, text, erases)
        with pytest.raises(NotErasable) as raised:
            note(journal, "gone", erases=(2, seq))
        assert seq == raised.value.details["seq"]
        assert [None, b'"two"', b'"gone"'] == data(journal.read())
        assert not (root / "journal" / "erasing").exists()
        assert 4 == note(journal, "more").seq


# --- where it is ------------------------------------------------------------------------------------------------------


def test_both_copies_of_a_segment_that_is_being_archived(root):
    """An interrupted move leaves two, and one that was being made under another name."""
    with contextlib.closing(FileJournal(root, segment_bytes=1)) as journal:
        note(journal, SECRET)
        note(journal, "kept")
        (first,) = (path for path in (root / "journal").glob("*.log") if SECRET.encode() in path.read_bytes())
        copy = first.read_bytes()
        retain(journal, datetime(2027, 1, 1, tzinfo=UTC))
        first.write_bytes(copy)
        archive = Path(default_archive(str(root)))
        (archive / ".half.0123abcd.tmp").write_bytes(copy)
        (root / "journal" / "torn" / "0000000000000001-0-0123456789abcdef").write_bytes(copy)
        assert 4 == len(holding(root))

        note(journal, "gone", erases=(1,))

        assert [] == holding(root)
        assert [None, b'"kept"', b'"gone"'] == data(journal.read())
        assert "archive\n" == (root / "journal" / ARCHIVES).read_text()
        assert 1 == len(list((root / "journal" / "torn").iterdir())), "that something was cut stays known"


def test_a_left_over_index_goes_too(root, open_box):
    """Of any generation, with its log."""
    box = open_box()
    sent = box.send(SECRET).message.id
    for name in ("index-0.sqlite", "index-7.sqlite-wal", "index-99.sqlite"):
        if not (root / name).exists():
            (root / name).write_text(SECRET)
    box.redact(sent)
    assert [] == holding(root)


# --- the record -------------------------------------------------------------------------------------------------------


def test_the_act_is_on_record_beside_the_message(open_box):
    """Who, what, how many and why; the version of the message does not move, and doing it again counts the same."""
    box = open_box()
    sent = box.send(SECRET).message.id
    box.ack(sent, session="ada", occurrence=1)
    for count in range(1, 3):
        assert 1 == box.redact(sent, reason="A password.").count
        found = box.store.find(("user:me", "/redactions"))
        assert (count, Redacted(f"messages/{sent}", 1, "A password.")) == (found.version, found.content)
    left = box.skeleton(sent)
    assert [(1, "message.sent"), (2, "message.acknowledged")] == [(each.version, each.type) for each in left.events]
    with pytest.raises(InvalidName):
        box.store.redact("user:me", "/redactions", at=NOON, actor="host:test")


def test_a_whole_scope(root, open_box):
    """Everything in it, whatever it is, and nothing beside it."""
    box = open_box()
    box.link("ada", "ben")
    for _ in range(3):
        box.send(SECRET)
    box.send("kept", target="/project")

    done = box.store.redact("user:me", None, at=NOON, actor="host:test")

    assert (4, ["kept"], {"ada"}) == (done.count, bodies(box), box.audience("ada"))
    assert [] == holding(root)
    assert 4 == box.store.redact("user:me", None, at=NOON, actor="host:test").count
    assert 0 == box.store.redact("user:nobody", None, at=NOON, actor="host:test").count


def test_nothing_is_recorded_of_what_is_not_there(open_box):
    """An unknown message is refused."""
    box = open_box()
    with pytest.raises(UnknownMessage):
        box.redact("0b0e7f3e-3c55-4d6c-9d0e-0c1d2e3f4a5b")
    assert box.store.find(("user:me", "/redactions")) is None


@pytest.mark.parametrize("path", ["notes/plan.md", None])
def test_messages_that_refer_to_it_are_named(open_box, path):
    """They keep the reference, which holds nothing of it."""
    box = open_box()
    letter = box.send("See the plan.").message.letter
    expected = []
    for scope, target in (("user:me", "notes/plan.md"), ("user:me/proj:app", "notes/plan.md"), ("user:me", "b")):
        other = attrs.evolve(letter, id=box._new_id(), context=Context(scope, target, 1))
        stream = ("user:me/proj:app", f"messages/{other.id}")
        name, raw = codec.encode(Sent(other, letter.created_at))
        box.store.append(Batch(utc_now(), "host:test", (NewEvent(*stream, name, raw),)), {})
        if scope == "user:me" and path in (None, target):
            expected.append(stream)
    plan = NewEvent("user:me", "notes/plan.md", "document.written", b'"plan"')
    box.store.append(Batch(utc_now(), "host:test", (plan,)), {})

    done = box.store.redact("user:me", path, at=NOON, actor="host:test")

    assert sorted(expected) == list(done.referring)
    assert isinstance(box.store.find(("user:me", "notes/plan.md")), Document)
