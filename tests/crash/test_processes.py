"""Real processes that are killed, stopped, outlived and out of room."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from crash.child import MOUNTS, SEGMENT_BYTES, mailbox
from crash.faulty_disk import place_for_tests

from fencepost.journal.errors import JournalBusy, JournalFull
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Mailbox, audit
from fencepost.mailbox.errors import ClaimedByAnother
from fencepost.mailbox.store.opening import file_store, open_index_to_read

CHILD = str(Path(__file__).with_name("child.py"))
WHOLE = os.environ.get("FENCEPOST_CRASH") == "all"
#: Longer than anything here takes, so that what hangs fails its test and nothing more.
PATIENCE_S = 60


@pytest.fixture
def root():
    """A folder for a store, where a sync costs nothing."""
    folder = tempfile.mkdtemp(prefix="fencepost-processes-", dir=place_for_tests())
    yield os.path.join(folder, "store")
    shutil.rmtree(folder)


@pytest.fixture
def start(root):
    """Starts children, and ends those that are left."""
    children = []

    def start(doing, *words):
        words = [sys.executable, "-P", CHILD, root, doing, *map(str, words)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # Unbuffered, because `communicate` does not see what a buffer has taken in with the first line.
        child = subprocess.Popen(words, bufsize=0, **pipes)
        children.append(child)
        return child

    yield start
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGCONT)
        child.kill()
        child.communicate(timeout=PATIENCE_S)


def sent(child):
    """The ids that a child was told are stored; to its end."""
    said, complaints = child.communicate(timeout=PATIENCE_S)
    lines = said.decode().splitlines(keepends=True)
    # A line that was cut by the kill tells nothing.
    return [line.split()[1] for line in lines if line.startswith("sent ") and line.endswith("\n")], complaints.decode()


def stored(root):
    """The ids in the store, which must be sound."""
    box = mailbox(root)
    with contextlib.closing(box.store), contextlib.closing(FileReader(root)) as reader:
        assert box.store.damage is None
        box.list()
        with open_index_to_read(reader) as db:
            verdict = audit.check(reader, db)
        assert verdict.good, verdict
        events = [event for commit in reader.read() for event in commit.events]
        assert list(range(1, len(events) + 1)) == [event.seq for event in events]
        return [event.stream.removeprefix("messages/") for event in events if event.type == "message.sent"]


@pytest.mark.sample
def test_killed_writers(root, start, tally):
    """Writers are killed at random moments, again and again; what they were told is there, and the store goes on."""
    rng = random.Random(5)
    told = []
    for number in range(25 if WHOLE else 4):
        writers = [start("send", f"writer {number}.{n}", 0) for n in range(3)]
        first = [writer.stdout.readline().decode() for writer in writers]
        time.sleep(rng.random() * 0.06)
        for writer in rng.sample(writers, len(writers)):
            writer.kill()
            time.sleep(rng.choice((0, 0, rng.random() * 0.01)))
        for writer, line in zip(writers, first, strict=True):
            ids, complaints = sent(writer)
            assert line.startswith("sent "), complaints
            told += [line.split()[1], *ids]
        tally["writers killed"] += len(writers)
        there = stored(root)
        assert set(told) <= set(there)
        assert len(there) == len(set(there))
        # What nobody was told about is at most the message that each writer was at.
        assert len(there) <= len(told) + tally["writers killed"]
    tally["acknowledged before a kill"] += len(told)


@pytest.mark.sample
def test_eight_processes(root, start):
    """Eight processes send fifty messages each, and there are four hundred."""
    writers = [start("send", f"writer {n}", 50) for n in range(8)]
    told = [sent(writer) for writer in writers]
    assert [""] * 8 == [complaints for _, complaints in told]
    there = stored(root)
    assert sorted(each for ids, _ in told for each in ids) == sorted(there)
    assert 400 == len(set(there))


@pytest.mark.sample
def test_stopped_past_the_lease(root, start):
    """A worker that is stopped for longer than its lease finds out that the work is another's."""
    box = mailbox(root)
    message = box.send("Work.", actionable=True).message.id
    worker = start("work", message)
    assert worker.stdout.readline().startswith(b"claimed ")
    worker.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)

    with pytest.raises(ClaimedByAnother):
        box.claim(message, session="other", occurrence=1)
    later = mailbox(root, hours=1)
    taken = later.claim(message, session="other", occurrence=1)

    worker.send_signal(signal.SIGCONT)
    said, complaints = worker.communicate(b"go\n", timeout=PATIENCE_S)
    assert ["refused lease_lost"] * 2 == said.decode().splitlines(), complaints
    token = taken.message.lease.token
    assert 4 == later.complete(message, session="other", occurrence=1, token=token, outcome="Done.").version
    box.store.close()
    later.store.close()


@pytest.mark.sample
def test_stopped_in_its_sync(root, start):
    """While one process is stopped in its sync nobody is told that anything is stored; when it goes on, all are."""
    mailbox(root).store.close()
    stopped = start("stop", "one")
    assert b"syncing\n" == stopped.stdout.readline()
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    other = start("send", "other", 1)
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(1)
    reader = mailbox(root, lock_wait_ms=500)
    assert () == reader.list(status="all").items

    stopped.send_signal(signal.SIGCONT)
    told = [*sent(stopped)[0], *sent(other)[0]]
    assert 2 == len(told)
    assert sorted(told) == sorted(item.message.id for item in reader.list(status="all").items)
    reader.store.close()


@pytest.mark.sample
@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_outlived_by_its_child(root, start, how):
    """A process dies with the lock in its hands, and a child that it left behind does not keep it."""
    box = mailbox(root, lock_wait_ms=200)
    holder = start("hold", how)
    said = holder.stdout.readline().decode().split()
    assert "held" == said[0], holder.stderr.read()
    orphan = int(said[1])
    try:
        with pytest.raises(JournalBusy) as caught:
            box.send("Too early.")
        assert str(holder.pid) in caught.value.holder
        holder.kill()
        holder.wait(PATIENCE_S)
        os.kill(orphan, 0)  # it still lives
        assert 1 == box.send("In time.").version
        box.store.close()
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.fixture
def small(cannot):
    """A file system of two megabytes."""
    folder = tempfile.mkdtemp(prefix="fencepost-small-")
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    if mounted:
        words = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", folder]
        mounted = not subprocess.run(words, capture_output=True, check=False).returncode
    try:
        if not mounted:
            cannot("no small file system can be mounted here")
        yield Path(folder)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
        os.rmdir(folder)


def open_below(folder):
    """What this process still has open in a folder."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return [link for link in links if link.startswith(str(folder))]


@pytest.mark.sample
def test_a_full_disk(small, tally):
    """A send without room fails whole; the same process goes on once there is room, and nothing is missing."""
    rng = random.Random(9)
    store = file_store(small / "store", segment_bytes=SEGMENT_BYTES)
    box = Mailbox(store, MOUNTS, actor="host:test")
    told = [box.send("First.").message.id]
    for number in range(6 if WHOLE else 2):
        with contextlib.suppress(OSError), (small / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(rng.choice((512, 4096)))):
                pass
        with pytest.raises(JournalFull):
            while True:
                told.append(box.send("x" * rng.randrange(1, 60_000)).message.id)
        assert set(told) == {event.stream[9:] for commit in store._journal.read() for event in commit.events}
        (small / "filler").unlink()
        told.append(box.send(f"And on {number}.").message.id)
        tally["full disks"] += 1
    assert {item.message.id for item in box.list(status="all", limit=500).items} == set(told)
    store.close()
    assert [] == open_below(small)
    assert set(told) == set(stored(str(small / "store")))


@pytest.mark.sample
def test_a_clock_that_jumps(root, start):
    """Processes whose clocks are twelve hours apart write one history, in the order in which it happened."""
    told = []
    for hours in (0, -12, 12, -12, 0):
        child = start("send", f"at {hours}", 2, hours)
        ids, complaints = sent(child)
        assert 2 == len(ids), complaints
        told += ids
    assert told == stored(root)
    back, here, ahead = (mailbox(root, hours=hours) for hours in (-12, 0, 12))
    assert set(told) == {item.message.id for item in here.list(status="all").items}

    # A claim that was made ahead of time is bounded by its lease, and waits for nobody for ever.
    work = back.send("Work.", actionable=True).message.id
    claim = ahead.claim(work, session="ahead", occurrence=1)
    assert claim.message.lease.until < datetime.now(UTC) + timedelta(hours=13)
    with pytest.raises(ClaimedByAnother):
        back.claim(work, session="back", occurrence=1)
    late = mailbox(root, hours=13)
    assert "late" == late.claim(work, session="late", occurrence=1).message.lease.owner
    for box in (back, here, ahead, late):
        box.store.close()


@pytest.mark.sample
def test_killed_while_the_index_is_made(root, start, tally):
    """Writers are killed while the index is missing, so that they die making it; the next one makes it."""
    box = mailbox(root)
    told = [box.send(f"number {n}").message.id for n in range(300)]
    box.store.close()
    rng = random.Random(6)
    for _ in range(20 if WHOLE else 3):
        for name in os.listdir(root):
            if name.startswith("index-"):
                os.unlink(os.path.join(root, name))
        writers = [start("send", "writer", 0) for _ in range(2)]
        time.sleep(0.25 + rng.random() * 0.15)
        for writer in writers:
            writer.kill()
            told += sent(writer)[0]
        tally["writers killed"] += 2
    assert set(told) <= set(stored(root))
    assert json.loads(Path(root, "store.json").read_text(encoding="utf-8"))["generation"] > 0
