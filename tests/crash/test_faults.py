"""Let every call to the disk fail, once and for good, and go on in the same process once the cause is gone."""

import contextlib
import errno
import itertools
import os
import traceback

import pytest
from crash.deeds import PROBE, shown_after
from crash.faulty_disk import CODES, Fault, FaultyDisk, Pages
from crash.images import images
from crash.scenarios import SCENARIOS
from crash.scenes import begins, check_erased, look

from fencepost.journal.errors import JournalError, JournalFull, SyncFailed
from fencepost.journal.file import FileJournal

_READING = ("close", "names", "open", "read", "size")
_SAMPLE = ("send many", "rotate")
_STRUCK = [each for each in SCENARIOS if each.prepare is None]
_RECOVERING = [each for each in SCENARIOS if each.prepare is not None]


def faults(scenario):
    """Every fault that can strike the deed."""
    world, process = scenario.begin()
    kinds = []
    with world:
        process.disk.arm()
        process.disk._call = _noting(process.disk, kinds)
        process.do(scenario.deed)
    for call, kind in enumerate(kinds, 1):
        if kind.startswith("sync"):
            for once, pages in itertools.product((True, False), Pages):
                yield Fault(call, errno.EIO, once, pages=pages)
            yield from (Fault(call, code) for code in CODES[1:])
        elif kind in _READING:
            yield Fault(call, errno.EIO)
            yield Fault(call, errno.EIO, once=False)
        else:
            for code, once in itertools.product(CODES, (True, False)):
                yield Fault(call, code, once)
                if kind == "write":
                    yield Fault(call, code, once, short=True)


def _noting(disk, kinds):
    def call(name, path):
        kinds.append(name)
        return FaultyDisk._call(disk, name, path)

    return call


def _strike(scenario, fault):
    """Let the fault strike; then everything must be whole, and work."""
    world, process = scenario.begin()
    with world:
        process.disk.arm(fault=fault)
        refusal = None
        try:
            process.do(scenario.deed)
        except JournalError as error:
            refusal = error
        assert process.disk.failed
        process.disk.arm()
        histories = scenario.acknowledged if refusal is None else scenario.seen
        other = world.start()
        shown = look(other)
        if scenario.erases:
            check_erased(world)
        assert any(shown == shown_after(each) for each in histories), shown["events"]
        if isinstance(refusal, JournalFull) and scenario.prepare is None:
            assert shown == shown_after(scenario.done), "something was written"
        assert shown == look(process)
        process.do(PROBE)
        # What nobody was told about may still come, and may not go.
        after = [shown_after((*each, PROBE)) for each in histories if begins(shown_after(each), shown)]
        expected = look(other)
        assert expected in after, expected["events"]
        assert expected == look(process)
        process.kill()
        other.kill()
        for image in images(world.shadow, 2, seed=fault.call, garbage=False):
            with world.after_power_cut(image) as left:
                assert expected == look(left.start()), image.kind


def _complaint(scenario, fault):
    """What is wrong where the fault strikes; None where nothing is."""
    try:
        _strike(scenario, fault)
    except Exception as error:  # noqa: BLE001 all of them are to be seen, not the first alone
        words = str(error).strip().splitlines() or [""]
        frames = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
        return f"{fault}: {type(error).__name__} {words[0][:200]} at {' '.join(frames[-6:])}"
    return None


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.sample] if each.name in _SAMPLE else [])
        for each in (*_STRUCK, *_RECOVERING)
    ],
)
def test_faults(scenario, machine, tally):
    """A call that fails leaves everything or nothing, an error of ours, and a process that can go on."""
    tried = list(faults(scenario))
    tally["faults"] += len(tried)
    complaints = [complaint for fault in tried if (complaint := _complaint(scenario, fault)) is not None]
    assert not complaints, "\n".join(complaints)


@pytest.mark.sample
@pytest.mark.parametrize("pieces", [1, 100, 512])
def test_short_writes(machine, monkeypatch, pieces):
    """A system that writes a little at a time is asked again until all is written."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real(fd, memoryview(data)[:pieces], offset))
    scenario = next(each for each in SCENARIOS if each.name == "send long")
    world, process = scenario.begin()
    with world:
        process.do(scenario.deed)
        assert shown_after((*scenario.done, scenario.deed)) == look(process)


@pytest.mark.sample
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_failing_opens_leak_nothing(machine, code):
    """Whatever fails while a store is opened, no descriptor stays behind."""
    scenario = next(each for each in SCENARIOS if each.name == "send by a new process")
    world, process = scenario.begin()
    with world:
        process.disk.arm()
        process.do(scenario.deed)
        calls = process.disk.calls
        process.close()
        for call in range(1, calls + 1):
            before = len(os.listdir("/proc/self/fd"))
            process = world.start(fault=Fault(call, code, once=False))
            with contextlib.suppress(JournalError):
                process.do(scenario.deed)
            process.kill()
            assert before == len(os.listdir("/proc/self/fd")), (call, process.disk.failed)


@pytest.mark.sample
def test_a_failed_sync_stops_everybody(machine):
    """It is reported as an unknown outcome, no other handle syncs the same bytes, and the next append starts anew."""
    scenario = next(each for each in SCENARIOS if each.name == "send")
    world, process = scenario.begin()
    with world:
        process.disk.arm(fault=Fault(1, errno.EIO, only="sync_data"))
        other = world.start()
        other.do(lambda each: each.store)
        with pytest.raises(SyncFailed) as caught:
            process.do(scenario.deed)
        assert "outcome_unknown" == caught.value.code
        other.disk.arm()
        other.do(PROBE)

        doings = [name.split()[0] for name in other.disk.log]
        assert doings.index("truncate") < doings.index("sync_data"), other.disk.log
        assert shown_after((*scenario.done, PROBE)) == look(process)


@pytest.mark.sample
def test_the_journal_alone_reports_what_the_disk_said(machine, tmp_path):
    """A host that uses the journal without a mailbox gets the same errors."""
    with pytest.raises(JournalError):
        FileJournal(tmp_path / "file" / "store", disk=_NoFolders())


class _NoFolders(FaultyDisk):
    def __init__(self):
        self.dead = False

    def make_folder(self, path):
        raise OSError(errno.EROFS, "the file system is read-only")
