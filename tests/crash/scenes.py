"""
A world with one store in it, the processes that use it, and what they do.

A *world* is a folder with its shadow and a boot of the machine.  A *process* opens the store through a disk of its own.
A *deed* is one thing done to a mailbox, always with the same ids, tokens and clock, so that two worlds in which the
same deeds were done show the same.
"""

import contextlib
import os
import shutil
import struct
import tempfile
import uuid
import zlib
from datetime import UTC, datetime, timedelta

from crash.faulty_disk import Crash, FaultyDisk, place_for_tests
from crash.images import lay_out, lost
from crash.shadow import Shadow

from fencepost.journal import segments, watermark
from fencepost.journal.audit import fold
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Changes, Conversations, Documents, Mailbox, Mount, audit
from fencepost.mailbox.addresses import RESERVED
from fencepost.mailbox.errors import Erased
from fencepost.mailbox.store import over_journal
from fencepost.mailbox.store.changes import change
from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.opening import file_store, open_index_to_read

#: Small, so that a store is a few kilobytes and every piece of it can be tried.
ALLOCATE_BYTES = 2_048
SEGMENT_BYTES = 16 << 20
START = datetime(2026, 11, 30, 14, tzinfo=UTC)
#: When everything is looked at: after all deeds, while leases run.
LATER = START + timedelta(minutes=10)
MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user"))
#: Stands in no message but the one that is to be erased.
SECRET_BYTES = b"swordfish"
LISTINGS = ("unread", "open", "scheduled", "closed", "all")
READERS = (None, "ada", "ben", "cyd")

_UNTRACKED = (".lock", "watermark", ".sqlite", ".sqlite-wal", ".sqlite-shm")


def message_id(name, number=0):
    """The id that a deed of that name gives to its messages."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {number}"))


class World:
    """
    A folder, what of it is durable, and the present boot.

    Args:
        image: What stands there at first; nothing where None.
        segment_bytes: When the journal begins another segment.
        boot: The number of the boot.
    """

    def __init__(self, image=None, *, segment_bytes=SEGMENT_BYTES, boot=1):
        self.top = tempfile.mkdtemp(prefix="fencepost-crash-", dir=place_for_tests())
        self.root = os.path.join(self.top, "store")
        self.segment_bytes = segment_bytes
        self.boot = boot
        if image is not None:
            lay_out(image, self.top)
        self.shadow = Shadow(self.top, lambda name: name.endswith(_UNTRACKED))
        self.processes = []

    def start(self, **armed):
        """A new process; its store is opened at first use."""
        process = Process(self)
        process.disk.arm(**armed)
        self.processes.append(process)
        return process

    def files(self):
        """What stands in the journal, folder names included."""
        found = {}
        for above, folders, names in os.walk(os.path.join(self.root, "journal")):
            for name in (*folders, *names):
                path = os.path.join(above, name)
                with contextlib.suppress(IsADirectoryError), open(path, "rb") as handle:
                    found[os.path.relpath(path, self.root)] = handle.read()
        return found

    def after_power_cut(self, image=None, keep=None):
        """
        Another world with what a power cut leaves of this one.

        Args:
            image: What it leaves; nothing but what is durable where None.
            keep: Copies what is no part of the image, from this root to that one.
        """
        world = World(image or lost(self.shadow), segment_bytes=self.segment_bytes, boot=self.boot + 1)
        if keep is not None and os.path.isdir(world.root):
            keep(self.root, world.root)
        return world

    def close(self):
        """Remove everything."""
        for process in self.processes:
            process.kill()
        shutil.rmtree(self.top)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


#: The process whose memory is being written now, so that its stores into the watermark are steps of its disk.
_running = []


class Process:
    """One process: a disk, and a store through it."""

    def __init__(self, world):
        self.world = world
        self.disk = FaultyDisk(world.shadow)
        self._store = None

    @contextlib.contextmanager
    def running(self):
        """What happens in this block is done by this process."""
        _running.append(self)
        try:
            yield
        finally:
            _running.pop()

    @property
    def store(self):
        if self._store is None:
            self._store = file_store(self.world.root, segment_bytes=self.world.segment_bytes, disk=self.disk)
        return self._store

    def do(self, *deeds):
        """Do deeds, opening the store if need be."""
        with self.running():
            for deed in deeds:
                deed(self)

    def box(self, name, at=START):
        """A mailbox that makes the ids and tokens of the deed of that name."""
        numbers = iter(range(1_000))
        return Mailbox(
            self.store,
            MOUNTS,
            actor="host:test",
            clock=lambda: at,
            new_id=lambda: message_id(name, next(numbers)),
            new_token=lambda: f"token of {name}",
        )

    def documents(self, at=START):
        """The documents beside the mail."""
        return Documents(self.store, MOUNTS, actor="host:test", clock=lambda: at)

    def changes(self, at=START):
        """The feed of every scope."""
        return Changes(self.store, None, actor="host:test", clock=lambda: at)

    def talks(self, at=START):
        """The conversations."""
        return Conversations(self.store, actor="host:test", clock=lambda: at)

    def close(self):
        """End as a program ends."""
        if self._store is not None:
            with self.running():
                self._store.close()
            self._store = None

    def kill(self):
        """End at once: the system lets go of files and locks, and nothing else happens."""
        self.disk.dead = True
        if self._store is not None:
            if self._store._timer is not None:
                self._store._timer.cancel()
            with contextlib.suppress(Crash):
                self._store._journal.close()
            self._store._index.close()
            self._store = None


class Shown(dict):
    """What a store shows: its events, its documents with all their versions, and its listings."""


def look(process):
    """
    Everything that a store shows.

    Raises:
        JournalCorrupt: It is damaged.
    """
    with process.running():
        store = process.store
        if store.damage is not None:
            raise store.damage
        box, documents, talks = process.box("look", LATER), process.documents(LATER), process.talks(LATER)
        # What was written and not synced is shown by no listing, and by a view once the view has synced it.
        assert store.settle(store.epoch())
        shown = Shown()
        for reader in READERS:
            for status in LISTINGS:
                inbox = box.list(session=reader, status=status)
                assert () == inbox.unsupported
                shown[status, reader] = [(receipt.version, receipt.message) for receipt in inbox.items]
        shown["audience"] = sorted(box.audience("ben"))
        events = [event for commit in store._journal.read() for event in commit.events]
        shown["events"] = [
            (event.seq, event.at, event.actor, event.scope, event.stream, event.version, event.type, event.data)
            for event in events
        ]
        for stream in {(event.scope, event.stream) for event in events}:
            if stream[1].startswith("messages/"):
                shown[stream] = _history(box, stream[1].removeprefix("messages/"))
            elif stream[1] == "/turns":
                shown[stream] = talks.read_turns(stream[0].removeprefix("conversation:")).turns
            elif stream[1] == "/projections":
                shown[stream] = talks.read_projections(stream[0].removeprefix("conversation:")).entries
            elif not stream[1].startswith((*RESERVED, "/")):
                shown[stream] = documents.versions(stream[1], target=stream[0]).versions
        for mount in MOUNTS:
            listed = documents.list(mount.path)
            assert () == listed.unsupported
            entries = shown["documents", mount.path] = listed.entries
            shown["texts", mount.path] = [documents.read(entry.path, target=mount.path) for entry in entries]
            shown["history", mount.path] = documents.history(mount.path).versions
        feed = process.changes(LATER)
        shown["checkpoint"] = feed.checkpoint("indexer")
        kept_from, _ = store.feed_bounds()  # which depends on the segments, and so on what was appended twice
        kept = [change(event) for event in events if event.seq >= kept_from]
        assert tuple(filter(None, kept)) == feed.poll(kept_from - 1, limit=500).items
        _check_fold(process.world.root, shown)
    return shown


def _history(box, message):
    """Every version of a message, or what is left of one that was erased."""
    try:
        return [(receipt.version, receipt.message) for receipt in box.view(message).versions]
    except Erased:
        return box.skeleton(message)


def check_erased(world):
    """After one storage call an erasure has been finished, or had not begun: then no file holds what it erased."""
    assert not os.path.exists(os.path.join(world.root, "journal", "erasing")), "it is not finished"
    reader = FileReader(world.root)
    kinds = [event.type for commit in reader.read() for event in commit.events]
    reader.close()
    if {"redaction.recorded", "turns.redacted"} & set(kinds):
        assert [] == holding(world.root, SECRET_BYTES)


def holding(root, secret):
    """The files under a root that hold some bytes."""
    found = []
    for above, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(above, name), "rb") as handle:
                if secret in handle.read():
                    found.append(os.path.relpath(handle.name, root))
    return found


def begins(longer, shorter):
    """Does the one show everything that happened in the other, and maybe more behind it?"""
    return longer["events"][: len(shorter["events"])] == shorter["events"]


def listed(process):
    """What a listing shows at once, without waiting for what others have not synced."""
    with process.running():
        items = process.box("look", LATER).list(session="ada", status="all").items
        return [(receipt.version, receipt.message) for receipt in items]


def _check_fold(root, shown):
    """The index holds what folding the journal gives, and nothing else."""
    reader = FileReader(root)
    try:
        with open_index_to_read(reader) as db:
            verdict = audit.check(reader, db)
    finally:
        reader.close()
    assert verdict.good, verdict
    counted = fold(reader.read(), lambda before, event: 1 + (before or 0))
    assert sum(counted.values()) == len(shown["events"]), (counted, len(shown["events"]))


# --- the machine ------------------------------------------------------------------------------------------


def prepare_machine(patch):
    """Make boots, allocation and the steps of memory those of the worlds."""

    def boot_id():
        return 1_000_003 * (_running[-1].world.boot if _running else 1)

    patch.setattr(watermark, "boot_id", boot_id)
    patch.setattr(segments, "ALLOCATE_BYTES", ALLOCATE_BYTES)
    # Nothing happens by itself in the midst of a deed.
    patch.setattr(over_journal, "IDLE_S", 3_600)
    for name, word in list(vars(watermark.Watermark).items()):
        if isinstance(word, property) and word.fset is not None and name != "holder":
            patch.setattr(watermark.Watermark, name, _stepped_word(name, word))
    _step_method(patch, watermark.Watermark, "write", half=_spoil_checksum)
    _step_method(patch, Index, "take_in")


def _stepped_word(name, word):
    def store(self, value):
        _stepped(f"watermark: {name}", lambda: word.fset(self, value))

    return property(word.fget, store)


def _step_method(patch, owner, name, half=None):
    real = getattr(owner, name)

    def stepped(self, *arguments):
        return _stepped(
            f"{owner.__name__}.{name}",
            lambda: real(self, *arguments),
            None if half is None else lambda: half(self, real, *arguments),
        )

    patch.setattr(owner, name, stepped)


def _stepped(name, act, half=None):
    return _running[-1].disk.step(name, act, half) if _running else act()


def _spoil_checksum(page, write, mark):
    """The words about the tail are written, and their checksum is not."""
    write(page, mark)
    page._words[watermark._CHECKSUM] ^= 1


# --- what a reboot may find beside the journal ----------------------------------------------------------------


def watermarks(seed_bytes):
    """What may stand in the watermark after a power cut, which never syncs it: a name, and what to make of the old."""
    return {
        "missing": lambda old: None,
        "stale": lambda old: old,
        "short": lambda old: (old or b"")[:100],
        "ones": lambda old: b"\xff" * 4096,
        "zeros": lambda old: bytes(4096),
        "noise": lambda old: seed_bytes(4096),
    }


INDEXES = ("as it was", "missing", "older", "empty", "without its log")


def keeper(make_watermark, index, older):
    """
    What to copy to the world after a power cut: the locks, the watermark and the index.

    Args:
        make_watermark: One of `watermarks`.
        index: One of `INDEXES`.
        older: A folder with a consistent copy of the index from earlier.
    """

    def keep(before, after):
        page = None
        with contextlib.suppress(FileNotFoundError), open(os.path.join(before, "watermark"), "rb") as handle:
            page = handle.read()
        made = make_watermark(page)
        if made is not None:
            with open(os.path.join(after, "watermark"), "wb") as handle:
                handle.write(_in_place(made, after) if made is page else made)
        if index != "missing":
            _copy_index(older if index == "older" else before, after, index)

    return keep


def _in_place(page, root):
    """
    The page as it would be if the files were still the same ones, which they are after a power cut.

    Here they are copies, which nobody mistakes for those that the page belongs to.
    """
    words = list(struct.unpack("=512Q", page.ljust(4096, b"\0")))
    words[watermark._OWNER.stop - 1] = os.stat(root).st_ino
    for name, places in (
        ("store.json", (watermark._FILE_INODE, watermark._FILE_MTIME)),
        (f"journal/{words[watermark._SEGMENT]:016d}.log", (watermark._SEGMENT_INODE,)),
    ):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(os.path.join(root, name))
            for place, value in zip(places, (status.st_ino, status.st_mtime_ns), strict=False):
                words[place] = value
    page = struct.pack("=512Q", *words)
    words[watermark._CHECKSUM] = zlib.crc32(page[: watermark._CHECKSUM * 8])
    return struct.pack("=512Q", *words)


def _copy_index(before, after, index):
    for name in os.listdir(before):
        if not name.startswith("index-") or (index == "without its log" and not name.endswith(".sqlite")):
            continue
        if name.endswith("-shm"):  # only memory
            continue
        target = os.path.join(after, name)
        if index == "empty":
            with open(target, "wb"):
                continue
        shutil.copyfile(os.path.join(before, name), target)


def copy_index(root):
    """A folder with a copy of the index as it is now; while nobody writes it."""
    folder = tempfile.mkdtemp(prefix="fencepost-index-", dir=place_for_tests())
    if os.path.isdir(root):
        _copy_index(root, folder, "as it was")
    return folder
