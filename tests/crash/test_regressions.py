"""What went wrong once, each under a name of its own."""

import contextlib
import errno
import os
import threading
from datetime import timedelta

import pytest
from crash.deeds import (
    ANOTHER,
    FILL,
    KEYED,
    NOTE,
    PROBE,
    SMALL,
    THREE_SEGMENTS,
    WORK,
    renew_index,
    send,
    shown_after,
    strike,
)
from crash.faulty_disk import Fault, Pages, When
from crash.images import images
from crash.scenes import LATER, MOUNTS, World, keeper, listed, look

from fencepost.journal.disk import Disk
from fencepost.journal.errors import JournalConflict, JournalCorrupt, JournalError, SyncFailed
from fencepost.journal.retention import retain
from fencepost.mailbox import Mailbox
from fencepost.mailbox.store.opening import file_store

pytestmark = [pytest.mark.sample, pytest.mark.usefixtures("machine")]


@pytest.fixture
def world():
    with World(segment_bytes=SMALL) as world:
        yield world


def _keep(world):
    return keeper(lambda old: old, "as it was", world.root)


def test_a_frame_that_was_taken_back_is_not_acknowledged(world):
    """Another process takes a frame back before its writer asks for the sync, and writes others in its place."""
    slow, other = world.start(), world.start()
    slow.do(NOTE)
    other.do(lambda process: process.store)
    sync = slow.store._journal._sync
    settle = sync.settle

    def interrupted(*arguments):
        sync.settle = settle
        other.disk.arm(fault=Fault(1, errno.EIO, only="sync_data"))
        with other.running():
            with pytest.raises(SyncFailed):
                WORK(other)
            other.disk.arm()
            ANOTHER(other)
            PROBE(other)
        settle(*arguments)

    sync.settle = interrupted
    with pytest.raises(SyncFailed):
        slow.do(send("doomed"))
    assert shown_after((NOTE, ANOTHER, PROBE)) == look(slow)


def test_the_poison_outlives_another_store_file(world):
    """After a failed sync the index is made anew, which replaces `store.json`; the frame is taken back all the same."""
    process, other = world.start(), world.start()
    process.do(NOTE)
    process.disk.arm(fault=Fault(1, errno.EIO, only="sync_data", pages=Pages.CLEAN))
    with pytest.raises(SyncFailed):
        process.do(WORK)
    process.disk.arm()
    with contextlib.suppress(JournalError):
        other.do(renew_index)
    other.do(PROBE)
    assert shown_after((NOTE, PROBE)) == look(process)
    with world.after_power_cut() as after:
        assert shown_after((NOTE, PROBE)) == look(after.start())


@pytest.mark.parametrize(
    "step", ["create", "rename to 0", "rename to store.json", "sync_folder journal", "sync_folder store"]
)
def test_names_are_not_believed_because_they_are_seen(world, step):
    """Whoever made a file may have died before syncing its folder."""
    strike(world, NOTE, step, When.AFTER, opening=True)
    world.start().do(PROBE)
    with world.after_power_cut() as after:
        assert shown_after((PROBE,)) == look(after.start())


def test_the_index_is_not_fed_with_what_may_be_taken_back(world):
    """A listing that meets a frame which nobody has synced leaves it out of the index."""
    world.start().do(NOTE)
    strike(world, WORK, "sync_data")
    reader = world.start()
    assert shown_after((NOTE,))["all", "ada"] == listed(reader)
    with world.after_power_cut(keep=_keep(world)) as after:
        assert shown_after((NOTE,)) == look(after.start())


@pytest.mark.parametrize("gone", [0, 1, -1])
@pytest.mark.parametrize("index", [True, False])
def test_a_segment_that_is_gone_is_missed(world, gone, index):
    """It is named as damage, nothing is written, and no index of what is left takes the old one's place."""
    process = world.start()
    process.do(*THREE_SEGMENTS)
    look(process)
    process.close()
    names = sorted(name for name in world.files() if name.endswith(".log"))
    path = os.path.join(world.root, names[gone])
    neighbours = (path, os.path.join(world.root, names[max(0, names.index(names[gone]) - 1)]))
    os.unlink(path)
    if not index:
        for name in os.listdir(world.root):
            if name.startswith("index-"):
                os.unlink(os.path.join(world.root, name))
    with open(os.path.join(world.root, "store.json"), "rb") as handle:
        before = (world.files(), handle.read())
    for _ in range(2):
        with pytest.raises(JournalCorrupt) as caught:
            world.start().do(PROBE)
        # The one that is gone, or the one before it, behind which nothing stands that was on the disk.
        assert caught.value.file in neighbours
    with open(os.path.join(world.root, "store.json"), "rb") as handle:
        assert before == (world.files(), handle.read())


def test_a_segment_that_has_just_begun_is_not_missed(world):
    """Another process begins a segment and feeds the index while this one, opening the store, lists the segments."""
    other, opening = world.start(), world.start()
    other.do(*FILL)
    look(other)
    names = opening.disk.names

    def slowly(path):
        found = names(path)
        if path.endswith("journal"):
            opening.disk.names = names
            other.do(ANOTHER)
            look(other)
        return found

    opening.disk.names = slowly
    opening.do(PROBE)
    assert shown_after((*FILL, ANOTHER, PROBE)) == look(opening)


def test_a_segment_that_is_being_archived_is_not_missed(world):
    """Another process moves segments to the archive while this one, opening the store, lists them."""
    other, opening = world.start(), world.start()
    other.do(*THREE_SEGMENTS)
    look(other)
    names = opening.disk.names

    def slowly(path):
        if path.endswith("journal"):
            opening.disk.names = names
            retain(other.store._journal, LATER + timedelta(days=1), disk=other.disk)
        return names(path)

    opening.disk.names = slowly
    opening.do(PROBE)
    assert shown_after((*THREE_SEGMENTS, PROBE)) == look(opening)


def test_half_made_files_are_removed(world):
    """What an interrupted making of a file has left goes with the first recovery of the next boot."""
    strike(world, NOTE, "rename", opening=True)
    world.start().do(NOTE)
    with world.after_power_cut(images(world.shadow, 2, seed=1)[-1]) as after:
        after.start().do(PROBE)
        left = [name for _, _, names in os.walk(after.root) for name in names if name.endswith(".tmp")]
        assert left == []


@pytest.mark.parametrize(
    "page", [b"\xff" * 4096, bytes(4096), b"", b"\xff" * 100], ids=["ones", "zeros", "empty", "short"]
)
def test_a_watermark_that_is_overwritten(world, page):
    """Whatever stands in it is no more than a hint, also while the machine runs on."""
    process = world.start()
    process.do(NOTE)
    process.close()
    with open(os.path.join(world.root, "watermark"), "r+b") as handle:
        handle.write(page)
        handle.truncate(len(page))
    process.do(PROBE)
    assert shown_after((NOTE, PROBE)) == look(process)


def test_a_failed_seal_is_not_tried_again(world):
    """The sync that ends a segment fails like any other: what was written behind the durable end is in doubt."""
    process = world.start()
    process.do(*FILL)
    process.disk.arm(fault=Fault(1, errno.EIO, only="sync", pages=Pages.CLEAN))
    with pytest.raises(JournalError):
        process.do(ANOTHER)
    process.disk.arm()
    process.do(PROBE)
    assert shown_after((*FILL, PROBE)) == look(process)
    with world.after_power_cut() as after:
        assert shown_after((*FILL, PROBE)) == look(after.start())


def test_a_failing_close_leaves_no_number_behind(world):
    """A file whose closing fails is closed, and its number may be another file's by the next call."""
    process = world.start()
    process.do(*FILL)
    process.disk.arm(fault=Fault(1, errno.EIO, only="close"))
    with contextlib.suppress(JournalError):
        process.do(ANOTHER)
    process.disk.arm()
    before = look(world.start())
    with open(os.path.join(world.top, "precious"), "w+b") as other:
        process.do(PROBE)
        assert other.read() == b""
    assert before["events"] == look(process)["events"][:-1]


class _Waiting(Disk):
    """Waits in a sync until it is let go."""

    def __init__(self):
        self.syncing = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def sync_data(self, fd):
        self.syncing.set()
        self.go_on.wait()
        super().sync_data(fd)


def test_a_conflict_rests_on_what_is_durable(tmp_path):
    """Nobody is told that a message is there already while a power cut could still take it away."""
    disk = _Waiting()
    boxes = [
        Mailbox(file_store(tmp_path / "store", disk=each), MOUNTS, actor="host:test", new_id=lambda: ID)
        for each in (disk, None, None)
    ]
    disk.syncing.clear()
    disk.go_on.clear()
    first = threading.Thread(target=boxes[0].send, args=("First.",))
    first.start()
    disk.syncing.wait()
    told = []

    def second():
        with contextlib.suppress(JournalConflict):
            boxes[1].send("Second.")
        told.append(len(boxes[2].list().items))

    other = threading.Thread(target=second)
    other.start()
    other.join(0.5)
    disk.go_on.set()
    first.join()
    other.join()
    for box in boxes:
        box.store.close()
    assert [1] == told


ID = "6fd8d5bf-1ef9-41d4-8b5f-73a5f8048996"


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_repeated_send_after_a_crash_is_one_message(world, when):
    """Whoever crashed while sending under a key sends again, and there is one message whatever had happened."""
    world.start().do(NOTE)
    strike(world, KEYED, "sync_data", when)
    world.start().do(KEYED)
    assert shown_after((NOTE, KEYED)) == look(world.start())
