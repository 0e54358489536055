"""
The locks: who may append, and who syncs.

Both are locks of the operating system on files that are never removed, so a
process that dies lets go at once and a file left behind locks nobody out.
flock belongs to the open file: threads of one process share it, and so would a
forked child.  So each lock has a thread lock in front of it, and a forked child
drops its copy of the file.

This is coordination on one machine.  A network file system may lock only for
its own client; `network_filesystem` tells.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, cast

from portalocker.constants import LockFlags
from portalocker.portalocker import LOCKER

from fencepost.journal import forks
from fencepost.journal.disk import PRIVATE_FILE
from fencepost.journal.errors import ClosedHandle, JournalBusy, JournalUnavailable

#: How long to wait for the append lock: long enough for any append, short enough for a person.
LOCK_WAIT_MS_DEFAULT: Final = 10_000
#: portalocker's own wait between tries is 250 ms, which starves writers for longer than a whole append takes.
_RETRY_FIRST_S: Final = 0.000_05
_RETRY_MOST_S: Final = 0.002
#: A holder that has not let go by then is the closing thread itself, or waits for another process.
_CLOSE_WAIT_S: Final = 0.5

# portalocker's own call, flock, without the checks of flags and files that it makes at each use: these do not change.
_flock: Final = cast("Callable[[int, int], None]", LOCKER)
_TRY: Final = int(LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
_LET_GO: Final = int(LockFlags.UNBLOCK)


class FileLock:
    """
    An exclusive lock on one file, for threads and processes.

    Args:
        path: The file; made if it is not there.
        exact: Whether two holders would do harm, should somebody replace the file against the rules.

    Raises:
        OSError: The lock file cannot be opened or made.
    """

    def __init__(self, path: str, *, exact: bool = True) -> None:
        self.path = path
        self._exact = exact
        self._threads = threading.Lock()
        self._fd, self._file = self._open()
        forks.register(self)

    def _open(self) -> tuple[int, tuple[int, int]]:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        found = os.fstat(fd)
        if found.st_mode & 0o777 != PRIVATE_FILE:
            os.fchmod(fd, PRIVATE_FILE)
        return fd, (found.st_ino, found.st_dev)

    def close(self) -> None:
        """Let go of the file, once no other thread is using it.  The file itself stays."""
        free = self._threads.acquire(timeout=_CLOSE_WAIT_S)
        try:
            self._drop()
        finally:
            if free:
                self._threads.release()

    def _drop(self) -> None:
        fd, self._fd = self._fd, -1  # a number that is closed may be another file's the next moment
        if fd >= 0:
            os.close(fd)

    def _try_file(self) -> bool:
        if self._fd < 0:
            raise ClosedHandle(path=self.path)
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            return False
        except (OSError, EOFError) as error:  # EOFError: what some NFS servers answer with
            raise JournalUnavailable(path=self.path, why=f"it cannot be locked ({error})") from error
        if not self._exact or self._is_same_file():
            return True
        # Somebody replaced the lock file, against the rules: what was locked locks nobody out.
        fd, file = self._open()
        self._drop()
        self._fd, self._file = fd, file
        return False

    def _is_same_file(self) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return there.st_ino == self._file[0] and there.st_dev == self._file[1]

    def try_acquire(self) -> bool:
        """Take the lock if nobody holds it."""
        if not self._threads.acquire(blocking=False):
            return False
        try:
            taken = self._try_file()
        except BaseException:
            self._threads.release()
            raise
        if not taken:
            self._threads.release()
        return taken

    def acquire(self, wait_ms: int, holder: Callable[[], str]) -> None:
        """
        Take the lock, waiting for it if need be.

        Args:
            wait_ms: For how long.
            holder: Says who holds it, for the error.

        Raises:
            JournalBusy: It was held all the while.
            JournalUnavailable: The file cannot be locked at all.
        """
        if self.try_acquire():
            return
        deadline = time.monotonic() + wait_ms / 1000
        pause_s = _RETRY_FIRST_S
        if self._threads.acquire(timeout=wait_ms / 1000):
            try:
                while not self._try_file():
                    if time.monotonic() >= deadline:
                        raise JournalBusy(path=self.path, waited_ms=wait_ms, holder=holder())
                    time.sleep(pause_s)
                    pause_s = min(pause_s * 1.5, _RETRY_MOST_S)
            except BaseException:
                self._threads.release()
                raise
        else:
            raise JournalBusy(path=self.path, waited_ms=wait_ms, holder="another thread of this process")

    def release(self) -> None:
        """Let go of the lock."""
        try:
            if self._fd >= 0:
                _flock(self._fd, _LET_GO)
        finally:
            self._threads.release()

    @contextlib.contextmanager
    def held(self, wait_ms: int, holder: Callable[[], str]) -> Iterator[None]:
        """The lock for the length of a block."""
        self.acquire(wait_ms, holder)
        try:
            yield
        finally:
            self.release()

    def renew_in_child(self) -> None:
        """In a forked child: close the copy of the file, which would hold the parent's lock beyond its death."""
        self._threads = threading.Lock()
        self._drop()


def lock_folder(path: str) -> int | None:
    """
    A descriptor of a folder, which keeps it locked as long as it is open; None where somebody else holds the lock.

    Raises:
        OSError: The folder cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _flock(fd, _TRY)
    except OSError:
        os.close(fd)
        return None
    return fd


def describe_process(pid: int) -> str:
    """A process in words, as far as the system tells."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            words = handle.read(200).replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()
    except OSError:
        words = ""
    if not pid:
        return "a process that is not known"
    printable = "".join(character if character.isprintable() else "?" for character in words)
    return f"process {pid} ({printable})" if printable else f"process {pid}"


#: File systems whose locks may not reach other machines (statfs(2), f_type), and what mounts call them.
_NETWORK_TYPES: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
)


_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def network_filesystem(path: str) -> str | None:
    """The type of the network file system that the path is on; None on a local one, or where it cannot be told."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return None
    best, found = "", None
    where = os.path.realpath(path)
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, rest.split(" ")[0]
    return found if found in _NETWORK_TYPES else None
