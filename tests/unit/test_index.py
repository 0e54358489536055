"""The index: a projection that may be lost, damaged or old, and is never believed over the journal."""

import os
import shutil
import sqlite3
from datetime import timedelta

import pytest

from fencepost.journal.errors import FencepostError, JournalConflict, JournalCorrupt
from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import Draft, Mailbox, Mount
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.errors import UnsupportedFormat
from fencepost.mailbox.store import inbox
from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.opening import file_store, memory_store
from fencepost.mailbox.store.over_journal import PENDING_MAX
from fencepost.mailbox.times import micros

COUNT = PENDING_MAX + 16


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def a_box(root):
    return Mailbox(file_store(root), [Mount("user:me", "/user")])


def ids(box):
    return [receipt.message.id for receipt in box.list(limit=500, status="all").items]


@pytest.fixture
def filled(root):
    """The ids in a store of some messages, one of them claimed and done, one under an idempotency key."""
    box = a_box(root)
    sent = [box.send("x" * 300, actionable=True).message.id for _ in range(COUNT)]
    sent.append(box.send("once", idempotency_key="k").message.id)
    token = box.claim(sent[0], session="s", occurrence=1).message.lease.token
    box.complete(sent[0], session="s", occurrence=1, token=token, outcome="Fixed.")
    box.link("child", "parent")
    box.store.close()
    return sent


def index_file(root):
    """The only index there."""
    (path,) = root.glob("index-*.sqlite")
    return path


def check_all(root, filled, *, renewed=True):
    """A fresh handle knows everything: messages, versions, keys and links."""
    box = a_box(root)
    assert sorted(filled) == sorted(ids(box))
    assert [3, 2, 1] == [receipt.version for receipt in box.view(filled[0]).versions]
    assert box.send("once", idempotency_key="k").repeated
    assert {"child", "parent"} == box.audience("child")
    assert renewed == (box.store._journal.identity.generation > 1)
    box.store.close()


def test_one_that_is_there_is_used(root, filled):
    """Opening again makes no new one."""
    check_all(root, filled, renewed=False)


def test_a_deleted_one_comes_back(root, filled):
    """Under another name, for a left-over log would be replayed into one of the same name."""
    index_file(root).unlink()
    check_all(root, filled)
    assert index_file(root).name == "index-2.sqlite"


@pytest.mark.parametrize("size", [0, 1, 99, 4_096, 10_000])
def test_a_truncated_one_is_made_anew(root, filled, size):
    """At whatever byte."""
    os.truncate(index_file(root), size)
    check_all(root, filled)


def test_one_that_is_no_database_is_made_anew(root, filled):
    """Whatever stands there."""
    index_file(root).write_bytes(b"not a database, " * 1_000)
    check_all(root, filled)


def test_one_of_another_store_is_made_anew(root, filled, tmp_path):
    """Its mail is not shown here."""
    other = a_box(tmp_path / "other")
    other.send("foreign")
    other.store.close()
    shutil.copy(index_file(tmp_path / "other"), index_file(root))
    check_all(root, filled)


def test_one_of_another_layout_is_made_anew(root, filled):
    """A newer or older program had other tables."""
    with sqlite3.connect(index_file(root)) as db:
        db.execute("UPDATE fed SET layout = 99")
    db.close()
    check_all(root, filled)


@pytest.mark.parametrize("statement", ["DROP TABLE fed", "DELETE FROM fed", "DROP TABLE document", "DROP TABLE link"])
def test_one_without_its_tables_is_made_anew(root, filled, statement):
    """A database that lacks what it should have is damaged too."""
    with sqlite3.connect(index_file(root)) as db:
        db.execute(statement)
    db.close()
    check_all(root, filled)


@pytest.mark.parametrize("page", range(1, 20))
def test_a_damaged_page_hides_nothing(root, filled, page):
    """Whichever page was overwritten: the same mail, or an error of ours; never less in silence."""
    path = index_file(root)
    with path.open("r+b") as file:
        file.seek(page * 4_096)
        file.write(b"\xa5" * 4_096)
    box = None
    try:
        box = a_box(root)
        assert sorted(filled) == sorted(ids(box))
        box.send("y")
        assert len(filled) + 1 == len(ids(box))
        box.view(filled[0])
        box.audience("child")
        box.look()
    except FencepostError:
        pass  # it was named
    finally:
        if box is not None:
            box.store.close()


def test_one_that_is_behind_is_fed(root, filled):
    """An old copy is brought up to date and not made anew."""
    old = index_file(root).read_bytes()
    box = a_box(root)
    late = [box.send("later").message.id for _ in range(3)]
    box.store.close()
    index_file(root).write_bytes(old)
    for suffix in ("-wal", "-shm"):
        index_file(root).with_name(index_file(root).name + suffix).unlink(missing_ok=True)

    check_all(root, filled + late, renewed=False)


def test_an_older_generation_is_not_used(root, filled):
    """After a rebuild the old file may lie about; it is not read, and not written."""
    index_file(root).rename(root / "index-1.kept")
    check_all(root, filled)
    (root / "index-1.kept").rename(root / "index-1.sqlite")
    old = (root / "index-1.sqlite").read_bytes()

    check_all(root, filled)
    assert old == (root / "index-1.sqlite").read_bytes()


def test_a_left_over_next_generation_is_not_used(root, filled):
    """What an interrupted rebuild left is thrown away."""
    (root / "index-2.sqlite").write_bytes(b"half")
    (root / "index-2.sqlite-wal").write_bytes(b"half")
    index_file_1 = root / "index-1.sqlite"
    index_file_1.unlink()

    check_all(root, filled)


def test_another_process_may_make_it_anew(root, filled):
    """A handle that was open before goes on, and misses nothing."""
    before = a_box(root)
    index_file(root).unlink()
    after = a_box(root)
    late = [after.send("later").message.id, before.send("later still").message.id]

    assert sorted(filled + late) == sorted(ids(before)) == sorted(ids(after))
    before.store.close()
    after.store.close()


def lose_the_last_frame(root):
    """Take the last batch off the journal, which the index has seen."""
    (segment,) = (root / "journal").glob("*.log")
    lines = segment.read_bytes().rstrip(b"\0").splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-1]))


@pytest.mark.parametrize("watermark", ["kept", "lost"])
def test_one_that_is_ahead_proves_a_loss(root, filled, watermark):
    """The journal lost something: that is reported, what is intact is shown, and nothing is made anew or written."""
    lose_the_last_frame(root)
    if watermark == "lost":
        (root / "watermark").unlink()
    before = {path: path.read_bytes() for path in root.rglob("*.log")}

    for _ in range(2):
        box = a_box(root)
        assert isinstance(box.store.damage, JournalCorrupt)
        assert sorted(filled) == sorted(ids(box))
        with pytest.raises(JournalCorrupt):
            box.send("y")
        box.store.close()

    assert before == {path: path.read_bytes() for path in root.rglob("*.log")}
    assert index_file(root).name == "index-1.sqlite"


def test_another_journal_under_the_same_index_is_a_loss(root, filled, tmp_path):
    """A history of its own with as many events is not what the index saw."""
    shutil.copytree(root, tmp_path / "other")
    lose_the_last_frame(tmp_path / "other")
    index_file(tmp_path / "other").unlink()
    (tmp_path / "other" / "watermark").unlink()
    other = a_box(tmp_path / "other")
    other.link("child", "somebody-else")
    other.store.close()
    (segment,) = (root / "journal").glob("*.log")
    (foreign,) = (tmp_path / "other" / "journal").glob("*.log")
    shutil.copy(foreign, segment)

    box = a_box(root)
    assert isinstance(box.store.damage, JournalCorrupt)
    box.store.close()


@pytest.mark.parametrize(
    "kind,data",
    [
        ("message.exploded", b'{"schema":1}'),
        ("message.acknowledged", b'{"schema":2,"by":"s","at":"2026-11-30T12:00:00Z"}'),
        ("message.acknowledged", b'{"schema":1,"by":"s","at":"2026-11-30T12:00:00Z","mood":"good"}'),
        ("message.acknowledged", b'{"schema":1,"by":"s","at":"2026-11-30T12:00:00"}'),
        ("message.acknowledged", b'{"schema":1,"by":"s","at":7}'),
        ("message.acknowledged", b'{"schema":1,"by":["s"],"at":"2026-11-30T12:00:00Z"}'),
        ("message.claimed", b'{"schema":1,"by":"s","at":"2026-11-30T12:00:00Z","token":"t","until":"2026-11-30"}'),
        ("message.renewed", b'{"schema":1,"until":"2026-11-30T12:00:00Z"}'),
        ("message.sent", b"[]"),
        ("message.sent", b"null"),
        ("session.linked", b'{"schema":1,"session":"a"}'),
    ],
)
def test_an_unknown_event_is_reported(root, filled, kind, data):
    """Its document is listed as unsupported with its address; all the others are as before, after a rebuild too."""
    strange = ("user:me", f"messages/{filled[1]}")
    box = a_box(root)
    box.store.append(Batch(utc_now(), "host:future", (NewEvent(*strange, kind, data),)), {strange: 1})
    box.send("a later one")

    for rebuild in (False, True):
        if rebuild:
            box.store.close()
            index_file(root).unlink()
            box = a_box(root)
        found = box.list(limit=500, status="all")
        assert COUNT + 1 == len(found.items)
        (reported,) = found.unsupported
        assert (*strange, 2) == (reported.scope, reported.path, reported.version)
        with pytest.raises(UnsupportedFormat):
            box.view(filled[1])
        with pytest.raises(UnsupportedFormat):
            box.ack(filled[1], session="s", occurrence=1)
    box.store.close()


def test_a_link_counts_whichever_scope_is_read():
    """What a session continues is said by all mounts, also for a listing of one of them."""
    box = Mailbox(memory_store(), [Mount("user:me/proj:app", "/project"), Mount("user:me", "/user")])
    box.link("ben", "dan")
    sent = box.send("Look at the build.", target="/user", conversation="dan")

    assert [sent.message.id] == [item.message.id for item in box.list(session="ben", target="/user").items]


def steps(store, query):
    """How many steps of its machine SQLite takes for a question."""
    counted = []
    with store._index.reading() as db:
        db.set_progress_handler(lambda: counted.append(1), 1)
        query(db)
        db.set_progress_handler(None, 1)
    return len(counted)


def test_work_in_progress_costs_a_listing_nothing():
    """However many messages are claimed, looking for unread ones takes the same steps."""
    store = memory_store()
    box = Mailbox(store, [Mount("user:me", "/user")])
    asked = (["user:me"], [], micros(box._clock()) + 1_000_000, 50)

    def claim(count):
        for receipt in box.send_many([Draft("work", actionable=True)] * count):
            box.claim(receipt.message.id, session="s", occurrence=1)
        store.feed()
        return steps(store, lambda db: inbox.select(db, "unread", *asked))

    assert claim(5) == claim(200)


def test_the_newest_id_needs_no_search_and_an_older_one_is_found():
    """Ids begin with the time, so one behind all others is new; any other is looked up."""
    store = memory_store()
    box = Mailbox(store, [Mount("user:me", "/user")])
    sent = [box.send("x").message.id for _ in range(3)]
    store.feed()
    index = store._index
    index.checkpoint()

    assert [1, 1, 1] == [index.version(("user:me", f"messages/{each}")) for each in sent]
    assert 0 == index.version(("user:me", "messages/" + "f" * 36))
    assert [0, 0] == [index.version(("user:me", path)) for path in ("messages/" + "0" * 36, "zoo")]


def test_an_index_that_was_not_asked_where_it_stands_looks_everything_up():
    """Another process may have fed it since the checkpoint that this one knows."""
    index = Index.in_memory("s")
    index._db.execute("INSERT INTO document (scope, path, version) VALUES ('user:me', 'messages/a', 7)")

    assert 7 == index.version(("user:me", "messages/a"))


def test_an_id_is_used_once(root):
    """A source of ids that repeats itself is refused, also by a second handle that has fed the index meanwhile."""
    ids = ["00000000-0000-7000-8000-00000000000f", "00000000-0000-7000-8000-00000000000a"]
    first, second = (
        Mailbox(file_store(root), [Mount("user:me", "/user")], new_id=iter(ids * 9).__next__) for _ in "12"
    )
    for _ in ids:
        first.send("mine")
    first.store.feed()

    with pytest.raises(JournalConflict):
        second.send("yours")
    assert ["mine", "mine"] == [receipt.message.letter.body for receipt in second.list().items]


def test_what_another_handle_did_is_known_at_once(root):
    """A document that was kept in mind is not shown again once somebody else has changed it, fed or not."""
    mine, yours = a_box(root), a_box(root)
    sent = mine.send("work", actionable=True).message.id
    for number in range(6):
        token = mine.claim(sent, session="me", occurrence=number + 1).message.lease.token
        assert token == yours.view(sent).receipt.message.lease.token
        yours.snooze(sent, session="me", occurrence=number + 1, token=token, outcome="later", delay_seconds=1)
        if number % 2:
            yours.store.feed()
        if number % 3:
            mine.store.feed()
        assert number + 2 == mine.view(sent).receipt.message.occurrence
        ahead(mine, yours)


def ahead(*boxes):
    """The next reminder is due."""
    for box in boxes:
        clock = box._read_clock
        box._read_clock = lambda clock=clock: clock() + timedelta(seconds=2)
