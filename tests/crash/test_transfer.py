"""An import or an export that a crash or a power cut strikes at any step: nothing of it is there, or all."""

import os
import tempfile

import pytest
from crash.conftest import EVERYTHING
from crash.faulty_disk import CODES, Crash, Fault, FaultyDisk, Stop, When, place_for_tests
from crash.images import images, lay_out
from crash.shadow import Shadow

from fencepost.journal.errors import FencepostError
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Documents, Mailbox, Mount, open_store
from fencepost.mailbox.digest import replay_digest
from fencepost.mailbox.transfer import export_store, import_store

MOUNTS = [Mount("user:me", "/user")]
#: Images of each crash.
MOST = 40 if EVERYTHING else 6

pytestmark = pytest.mark.sample


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store with a little of everything, and its export."""
    folder = tmp_path_factory.mktemp("source")
    store = open_store(folder / "store")
    box = Mailbox(store, MOUNTS)
    sent = box.send("work", actionable=True, idempotency_key="k")
    box.claim(sent.message.id, session="s", occurrence=1)
    Documents(store, MOUNTS).write("/user/a", "one")
    box.redact(box.send("secret").message.id)
    store.close()
    export_store(folder / "store", folder / "export")
    return folder


def digest(root):
    reader = FileReader(root)
    found = replay_digest(reader.read).digest
    reader.close()
    return found


def transfer(kind, source, top, disk=None):
    """Import or export to a place below the folder."""
    if kind == "import":
        import_store(source / "export", os.path.join(top, "there"), disk=disk)
    else:
        export_store(source / "store", os.path.join(top, "there"), disk=disk)


def strike(kind, source, stop=None, fault=None):
    """Do it on a disk that stops or fails; the shadow of what would survive, and whether it was acknowledged."""
    with tempfile.TemporaryDirectory(dir=place_for_tests()) as top:
        disk = FaultyDisk(Shadow(top))
        disk.arm(stop=stop, fault=fault)
        done = False
        try:
            transfer(kind, source, top, disk)
            done = True
        except (Crash, FencepostError):
            pass
        return disk, done


def check(kind, source, image, *, acknowledged):
    """What a power cut left is nothing or all, and the next one does it."""
    with tempfile.TemporaryDirectory(dir=place_for_tests()) as top:
        lay_out(image, top)
        there = os.path.join(top, "there")
        whole = os.path.lexists(there)
        assert whole or not acknowledged
        if whole:
            assert digest(source / "store") == digest(there), image.kind
        else:
            transfer(kind, source, top)
            assert digest(source / "store") == digest(there), image.kind
            assert ["there"] == os.listdir(top)


@pytest.mark.parametrize("kind", ["import", "export"])
def test_a_crash_leaves_nothing_or_all(kind, source, tally):
    """Before, amid and after every step, with what was not synced lost, kept, torn or garbage."""
    disk, done = strike(kind, source)
    assert done
    for image in images(disk.shadow, MOST, 0):
        check(kind, source, image, acknowledged=True)
    for step in range(1, disk.steps + 1):
        for when in When:
            struck, done = strike(kind, source, Stop(step, when))
            assert not done
            tally["crash points"] += 1
            for image in images(struck.shadow, MOST, step):
                check(kind, source, image, acknowledged=False)
                tally["crash images"] += 1


@pytest.mark.parametrize("kind", ["import", "export"])
def test_a_failing_call_is_told_and_leaves_nothing_or_all(kind, source, tally):
    """Each call once and for good, with each of the errors."""
    disk, _ = strike(kind, source)
    step = 1 if EVERYTHING else 3
    for call in range(1, disk.calls + 1, step):
        for code in CODES:
            for once in (True, False):
                struck, done = strike(kind, source, fault=Fault(call, code, once=once))
                tally["faults"] += 1
                for image in images(struck.shadow, 4, call):
                    check(kind, source, image, acknowledged=done)
