"""
The program that a controller has left behind.

Who was killed could not end what it had started.  Before another run, the
process of the last one must be gone: as long as it lives it may add to the
history, and another run must not be given what this one still has in hand.

A process is known by its id and by when it began, as ids are used again; on
Linux the boot belongs to that.  Nothing else is ever waited for or signalled.

Whoever calls this holds the agent: two controllers of one agent would end the
programs of each other.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import orjson

from fencepost.journal.disk import PRIVATE_FILE
from fencepost.mailbox.errors import EngineFailed

#: What ends by itself at the end of its input is given so long; so is what was asked to end.
PATIENCE_S: Final = 5.0
_STEP_S: Final = 0.02
_RECORD: Final = "running.json"
_PROC: Final = Path("/proc")


@attrs.frozen
class Process:
    """
    A process that is mistaken for no other.

    Attributes:
        began: When, in words of the operating system.
    """

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has that id now; None where none has, or where it has ended and nobody has asked how."""
        began = _began_by_proc(pid) if (_PROC / "self" / "stat").exists() else _began_by_ps(pid)
        return cls(pid, began) if began else None

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return Process.of(self.pid) == self

    def gone(self, patience_s: float) -> bool:
        """Whether it ends within that time."""
        deadline = time.monotonic() + patience_s
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(_STEP_S)
        return True

    def signal(self, number: signal.Signals) -> None:
        """Signal it, if it is still there; to be killed is for its whole group where it leads one."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                # What a program keeps in its own group is a part of it: a starter's own child, which would go on
                # writing.  The commands that an agent runs are in groups of their own, and are the agent's business.
                whole = number is signal.SIGKILL and os.getpgid(self.pid) == self.pid
                (os.killpg if whole else os.kill)(self.pid, number)


def stop(process: Process | None, gone: Callable[[float], bool], patience_s: float) -> bool:
    """
    Wait for the end of a process whose input is closed; ask for it; make it.

    Returns:
        Whether it has ended; `gone` says that after waiting for so many seconds.
    """
    if gone(patience_s):
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process is not None:
            process.signal(number)
        if gone(patience_s):
            return True
    return False


def record(folder: Path, process: Process) -> None:
    """
    Note who runs, so that it can be found by whoever comes next.

    Raises:
        OSError: The note cannot be written.
    """
    staged = folder / f"{_RECORD}.{secrets.token_hex(4)}"
    fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(fd, "wb") as file:
        file.write(orjson.dumps(attrs.asdict(process)))
    staged.replace(folder / _RECORD)


def forget(folder: Path) -> None:
    """What was noted has ended."""
    (folder / _RECORD).unlink(missing_ok=True)


def end_orphan(folder: Path, program: str, patience_s: float = PATIENCE_S) -> None:
    """
    See to it that the last run has ended.

    It is waited for first: both programs end when their input does, which it did when their controller died.

    Raises:
        EngineFailed: It cannot be ended.
    """
    left = _recorded(folder)
    if left is not None:
        try:
            ended = stop(left, left.gone, patience_s)
        except OSError as error:
            raise EngineFailed(program=program, why=f"process {left.pid} is left: {error}", log=str(folder)) from error
        if not ended:
            raise EngineFailed(program=program, why=f"process {left.pid} is left and does not end", log=str(folder))
    forget(folder)


def _recorded(folder: Path) -> Process | None:
    """Who ran last.  A note that nobody can read is from before the machine went down, and so is who it was about."""
    try:
        said = orjson.loads((folder / _RECORD).read_bytes())
        pid, began = said["pid"], said["began"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return Process(pid, began) if isinstance(pid, int) and isinstance(began, str) else None


def _began_by_proc(pid: int) -> str | None:
    """proc_pid_stat(5): the name in brackets may hold anything; behind it stand the state and, as the 20th, ticks."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        boot = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return None if fields[0] in {b"Z", b"X"} else f"{boot} {fields[19].decode('ascii')}"


def _began_by_ps(pid: int) -> str | None:
    """ps(1): the state and the second in which it began."""
    said = subprocess.run(  # noqa: S603 - the id is a number
        ("/bin/ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)),
        env={"LC_ALL": "C", "TZ": "UTC0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    ).stdout.split(None, 1)
    return None if len(said) < 2 or said[0].startswith("Z") else said[1].strip()
