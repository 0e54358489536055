"""The program that a controller has left behind."""

import os
import signal
import stat
import subprocess
import sys
import time

import attrs
import pytest

from fencepost.mailbox.errors import EngineFailed
from fencepost.mailbox.fleet import orphans
from fencepost.mailbox.fleet.orphans import Process, end_orphan, forget, record

DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
PATIENT = "import time; print(flush=True); time.sleep(60)"


@pytest.fixture
def left():
    """Leaves a process that somebody else asks how it has ended, as an orphan's is."""
    begun = []

    def leave(code):
        middle = (
            "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE,"
            " start_new_session=True); p.stdout.readline(); print(p.pid, flush=True); p.wait()"
        )
        words = [sys.executable, "-P", "-c", middle, code]
        parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        begun.append(parent)
        process = Process.of(int(parent.stdout.readline()))
        begun.append(process)
        return process

    yield leave
    for parent, process in zip(begun[::2], begun[1::2], strict=True):
        process.signal(9)
        parent.wait()
        parent.stdout.close()


def test_a_process_is_known_by_its_beginning(left):
    """The same id with another beginning is another process, and no id is none."""
    process = left(PATIENT)

    assert process == Process.of(process.pid)
    assert process.alive
    assert not attrs.evolve(process, began=f"{process.began}0").alive
    assert Process.of(2**22 + 1) is None


def test_ps_knows_it_as_well(left):
    """Where there is no /proc."""
    process = left(PATIENT)
    began = orphans._began_by_ps(process.pid)

    assert began
    assert began == orphans._began_by_ps(process.pid)
    assert orphans._began_by_ps(2**22 + 1) is None


def test_who_has_ended_and_is_not_asked_how_is_gone():
    """Its id is still there, and nothing of it runs."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert Process.of(child.pid) is None
        assert orphans._began_by_ps(child.pid) is None


@pytest.mark.parametrize("code", [PATIENT, DEAF], ids=["asked", "made to"])
def test_what_is_left_is_ended(left, tmp_path, code):
    """Also what does not want to; then nothing is noted any more."""
    process = left(code)
    record(tmp_path, process)

    end_orphan(tmp_path, "It", patience_s=0.1)

    assert not process.alive
    assert [] == [*tmp_path.iterdir()]


def test_what_ends_by_itself_is_waited_for(left, tmp_path):
    """Its last words are its own."""
    process = left(f"import time; print(flush=True); time.sleep(0.5); open({str(tmp_path / 'words')!r}, 'w').close()")
    record(tmp_path, process)

    end_orphan(tmp_path, "It")

    assert (tmp_path / "words").exists()


def test_another_process_is_never_touched(left, tmp_path):
    """The id of the one that was noted is used again: nobody is waited for, nobody is signalled."""
    process = left(PATIENT)
    record(tmp_path, attrs.evolve(process, began="before"))

    begun = time.monotonic()
    end_orphan(tmp_path, "It")
    for number in (signal.SIGTERM, signal.SIGKILL):
        attrs.evolve(process, began="before").signal(number)

    assert time.monotonic() - begun < orphans.PATIENCE_S
    assert not process.gone(0.2)


def test_what_cannot_be_ended_is_said(left, tmp_path, monkeypatch):
    """Nothing may be given to another run while it lives, so the note stays."""
    process = left(PATIENT)
    record(tmp_path, process)
    monkeypatch.setattr(Process, "signal", lambda *_: None)

    with pytest.raises(EngineFailed, match=str(process.pid)):
        end_orphan(tmp_path, "It", patience_s=0.05)

    monkeypatch.undo()
    assert process == orphans._recorded(tmp_path)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"pid": "1", "began": "x"}',
        '{"pid": 0, "began": "x"}',
        '{"pid": -1, "began": "x"}',
    ],
)
def test_a_note_that_says_nothing_is_none(tmp_path, note):
    """It is from before the machine went down, or nobody's; signals to ids under one would reach many."""
    (tmp_path / "running.json").write_text(note)

    end_orphan(tmp_path, "It")

    assert [] == [*tmp_path.iterdir()]


def test_a_note_is_private(tmp_path):
    """And goes when what was noted has ended; nothing noted is nothing to do."""
    record(tmp_path, Process(2**22 + 1, "x"))
    assert 0o600 == stat.S_IMODE((tmp_path / "running.json").stat().st_mode)

    forget(tmp_path)
    forget(tmp_path)
    end_orphan(tmp_path, "It")

    assert [] == [*tmp_path.iterdir()]
