"""The feed of changes: gaps, waiting, what it costs, and what it never says."""

import asyncio
import time
from datetime import timedelta

import pytest
from unit import processes

from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.retention import retain
from fencepost.mailbox import (
    AsyncChanges,
    Changes,
    Conversations,
    Documents,
    Draft,
    Gap,
    Mailbox,
    Mount,
    errors,
    open_store,
)
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.store.opening import file_store, reading_store

MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user"))
SOON_S = 1.0

WRITE = """
import sys, time
from fencepost.mailbox import Documents, Mount, open_store
notes = Documents(open_store(sys.argv[1]), [Mount("user:me", "/user")])
print("ready", flush=True)
for line in sys.stdin:
    notes.write("/user/notes.md", line)
    print(time.time(), flush=True)
"""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(root):
    """A store with small segments."""
    store = file_store(root, segment_bytes=1_500)
    yield store
    store.close()


def sent(store, count=1):
    return [Mailbox(store, MOUNTS).send("x" * 100).message.id for _ in range(count)]


def trimmed(store):
    """A store of 30 messages, the oldest of which were moved to an archive; the first event that is kept."""
    sent(store, 30)
    assert retain(store._journal, utc_now() + timedelta(days=1))
    return store._journal.kept_from()


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_a_gap_says_what_is_not_told(store):
    """From where to where, once, and then everything that is kept."""
    kept_from = trimmed(store)
    news = Changes(store, MOUNTS).poll(2, limit=500)

    assert Gap(2, kept_from - 1) == news.items[0]
    assert list(range(kept_from, 31)) == [item.id for item in news.items[1:]]


def test_a_reader_that_was_far_enough_sees_no_gap(store):
    """Right before the first event that is kept nothing is missing."""
    kept_from = trimmed(store)
    news = Changes(store, MOUNTS).poll(kept_from - 1, limit=1)

    assert [kept_from] == [item.id for item in news.items]


def test_who_takes_no_gap_is_told_where_to_go_on(store):
    """`expired` is another answer than `ahead`, and both say what to do."""
    kept_from = trimmed(store)
    feed = Changes(store, MOUNTS)

    with pytest.raises(errors.Expired) as caught:
        feed.poll(0, gaps=False)
    assert kept_from == feed.poll(caught.value.through, gaps=False, limit=1).items[0].id
    with pytest.raises(errors.Ahead) as caught:
        feed.poll(31)
    assert 30 == caught.value.end


def test_a_gap_counts_as_no_change(store):
    """The limit is one of changes."""
    trimmed(store)

    assert 2 == len(Changes(store, MOUNTS).poll(limit=1).items)


def test_what_is_archived_still_answers_history(store):
    """Retention trims the feed, and nothing else."""
    trimmed(store)
    message = Mailbox(store, MOUNTS).list(limit=1).items[0].message

    assert ["stored"] == [fact.fact for fact in Mailbox(store, MOUNTS).receipts(message.letter.id).facts]


# --- what is told -------------------------------------------------------------------------------------------------


def test_a_redaction_is_a_change_and_takes_none_away(store):
    """The items stay as they were, because they hold nothing that was said."""
    box = Mailbox(store, MOUNTS)
    (message,) = sent(store)
    box.cancel(message, session="s", occurrence=1, outcome="secret")
    before = Changes(store, MOUNTS).poll().items
    assert "secret" not in repr(before)
    box.redact(message, reason="secret")
    news = Changes(store, MOUNTS).poll()

    assert before == news.items[:2]
    assert ("state.redaction", f"messages/{message}", None, "redacted") == (
        news.items[2].type,
        news.items[2].path,
        news.items[2].version,
        news.items[2].action,
    )


def test_only_what_is_mounted_is_told(store):
    """Another scope's changes are passed over, and the position moves past them."""
    Mailbox(store, [Mount("user:you", "/user")]).send("x")
    sent(store)
    Mailbox(store, [Mount("user:you", "/user")]).send("x")
    news = Changes(store, MOUNTS).poll()

    assert ([2], 3) == ([item.id for item in news.items], news.position)
    assert [1, 2, 3] == [item.id for item in Changes(store, None).poll().items]
    assert [2] == [item.id for item in Changes(store, None).poll(target="user:me/proj:app").items]


def test_a_reader_that_saves_where_it_is_does_not_feed_itself(store):
    """Moving a checkpoint and showing a message are no changes, and move no position on."""
    (message,) = sent(store)
    feed = Changes(store, MOUNTS)
    for _ in range(3):
        news = feed.poll(checkpoint="one")
        feed.advance("one", news.position)
        Mailbox(store, MOUNTS).shown([message], session="s", door="hook")

    assert 1 == feed.checkpoint("one").position
    assert 3 == store._journal.refresh()


def test_what_is_not_durable_is_not_told(store):
    """It could be taken back."""
    (message,) = sent(store)
    batch_end = store.feed_bounds()[1]
    Mailbox(store, MOUNTS).shown([message], session="s", door="hook")

    assert batch_end == store.feed_bounds()[1] == Changes(store, MOUNTS).poll().end


def test_a_checkpoint_is_on_record(store, root):
    """Who moved it, and when; for a reader of another process, and after the index was made anew."""
    sent(store, 3)
    moved = Changes(store, MOUNTS, actor="host:indexer").advance("one", 2)
    store.close()
    for index in root.glob("index-*"):
        index.unlink()
    again = open_store(root)
    found = Changes(again, MOUNTS).checkpoint("one")
    again.close()

    assert moved == found
    assert ("one", 2, "host:indexer") == (found.name, found.position, found.actor)


def test_an_erased_checkpoint_begins_anew(store):
    """Where its reader was is gone, and it can be moved again."""
    sent(store, 3)
    feed = Changes(store, MOUNTS)
    feed.advance("one", 2)
    store.redact("feed:checkpoints", None, at=utc_now(), actor="host:test")

    assert 0 == feed.checkpoint("one").position
    assert 1 == feed.advance("one", 1).position
    with pytest.raises(errors.MovesBack):
        feed.advance("one", 0)
    assert ["state.redaction"] == [item.type for item in Changes(store, None).poll(3).items]


def test_a_store_that_is_only_read_tells_its_feed(store, root):
    """Gap included."""
    kept_from = trimmed(store)
    reader = reading_store(root)

    assert Changes(store, MOUNTS).poll(limit=500) == Changes(reader, MOUNTS).poll(limit=500)
    assert kept_from == reader.feed_bounds()[0]
    reader.close()


@pytest.mark.parametrize("opened", [file_store, reading_store])
@pytest.mark.parametrize("damaged, wrong", [(3, [2]), (4, [3, 99])], ids=["amid", "at-the-end"])
def test_a_damaged_journal_tells_what_is_intact(store, root, opened, damaged, wrong):
    """And then what is wrong, which is no end that one could be ahead of."""
    sent(store, 4)
    store.close()
    path = root / "journal" / f"{damaged:016d}.log"
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    path.write_bytes(data)
    for left in (*root.glob("index-*"), root / "watermark"):
        left.unlink()
    again = opened(root)
    feed = Changes(again, MOUNTS)

    assert list(range(1, damaged)) == [item.id for item in feed.poll().items]
    for after in wrong:
        with pytest.raises(JournalCorrupt):
            feed.poll(after)
    again.close()


@pytest.mark.parametrize("options", [{"after": -1}, {"limit": 0}, {"after": 1, "checkpoint": "one"}, {"target": "/no"}])
def test_bad_questions_are_refused(store, options):
    """Before anything is looked for."""
    with pytest.raises(errors.BadInput):
        Changes(store, MOUNTS).poll(**options)


# --- what it costs ------------------------------------------------------------------------------------------------


def test_a_poll_costs_what_it_returns(tmp_path):
    """Reading at the end of a long journal reads no more than at the end of a short one, but for finding the place."""
    store = file_store(tmp_path / "store", segment_bytes=200_000)
    read = []
    disk = store._journal._disk
    real = disk.read
    disk.read = lambda fd, size, offset: read.append(size) or real(fd, size, offset)
    costs = []
    for _ in range(3):
        for _ in range(4):
            Mailbox(store, MOUNTS).send_many([Draft("x" * 400)] * 200)
        end = store.feed_bounds()[1]
        read.clear()
        assert 10 == len(Changes(store, MOUNTS).poll(end - 10).items)
        costs.append(sum(read))
    store.close()

    assert max(costs) < 600_000


def test_a_poll_for_what_is_rare_looks_at_so_much_and_no_more(store, monkeypatch):
    """It goes on from there next time, and waiting goes on by itself."""
    monkeypatch.setattr("fencepost.mailbox.feed.EVENTS_MAX", 10)
    for _ in range(25):
        Mailbox(store, [Mount("user:you", "/user")]).send("x")
    sent(store)
    feed = Changes(store, MOUNTS)
    news = feed.look()

    assert ((), 10, True) == (news.items, news.position, news.more)
    assert [26] == [item.id for item in feed.poll(wait_s=30).items]


# --- waiting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def writer(root, store):
    """Another process, which writes a document for each line it is given."""
    process = processes.start(WRITE, root)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.communicate(timeout=processes.PATIENCE_S)


def test_another_process_is_noticed_at_once(store, writer):
    """In most of several tries within 100 ms of the moment that the change was acknowledged."""
    feed, delays, position = Changes(store, MOUNTS), [], 0
    for number in range(5):
        writer.stdin.write(f"{number}\n")
        writer.stdin.flush()
        news = feed.poll(position, wait_s=30)
        noticed = time.time()
        delays.append(noticed - float(writer.stdout.readline()))
        assert ["written"] == [item.action for item in news.items]
        position = news.position

    assert max(delays) < SOON_S
    assert sorted(delays)[2] < 0.1


def test_a_wait_ends_with_nothing_when_the_time_is_up(store):
    """And where it ended is where to go on."""
    sent(store)
    begun = time.monotonic()
    news = Changes(store, MOUNTS).poll(1, wait_s=0.2)

    assert ((), 1) == (news.items, news.position)
    assert time.monotonic() - begun >= 0.2


def test_the_loop_runs_while_a_poll_waits(root):
    """Async polls hold no thread, see what comes, and can be cancelled at once."""

    async def main():
        store = open_store(root)
        feed = AsyncChanges(Changes(store, MOUNTS), workers=1)
        polls = [asyncio.create_task(feed.poll(wait_s=30)) for _ in range(5)]
        await asyncio.sleep(0.05)
        polls[0].cancel()
        await asyncio.to_thread(Documents(store, MOUNTS).write, "/user/a", "x")
        found = [await poll for poll in polls[1:]]
        assert polls[0].cancelled()
        assert 1 == (await feed.advance("one", found[0].position)).position
        assert 1 == (await feed.checkpoint("one")).position
        assert () == (await feed.poll(checkpoint="one")).items
        await feed.aclose()
        return [item.action for news in found for item in news.items]

    assert ["written"] * 4 == asyncio.run(main())


def test_what_is_not_durable_is_not_told_behind_something_erased(tmp_path):
    """An erased slot is read with more care, and no further than the disk goes."""
    store = open_store(tmp_path / "store")
    box = Mailbox(store, [Mount("user:me", "/user")])
    box.redact(box.send("secret").message.id)
    event = NewEvent("user:me", "loose", "document.written", b'{"schema":1,"content":"x"}')
    store.append(Batch(box._clock(), "host:me", (event,)), {("user:me", "loose"): 0}, settle=False)
    feed = Changes(store, None)
    news = feed.poll(0)

    assert news.position <= news.end
    assert feed.poll(news.position).position <= news.end


def test_a_mounted_feed_tells_of_conversations_and_a_target_of_itself_alone(tmp_path):
    """Mounts do not matter for conversations, and whoever names a scope is told of that one."""
    store = open_store(tmp_path / "store")
    mounts = [Mount("user:me", "/user")]
    Mailbox(store, mounts).send("x")
    Conversations(store).append_turn("s", [{"role": "user", "content": "x"}])
    Mailbox(store, [Mount("user:you", "/user")]).send("x")
    feed = Changes(store, mounts)

    assert ["user:me", "conversation:s"] == [item.scope for item in feed.poll().items]
    assert ["user:me"] == [item.scope for item in feed.poll(target="/user").items]
