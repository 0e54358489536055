"""
A disk that stops, fails or forgets at a call of one's choice.

`FaultyDisk` is the disk of one process over real files, with a `Shadow` of what would survive a power cut.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from crash.shadow import SECTOR_BYTES, File, Folder, Op, Shadow

from fencepost.journal.disk import Disk


class Crash(BaseException):
    """The process died here.  No handler of errors may take it for one."""


class When(Enum):
    """Where in a call the process dies."""

    BEFORE = "before"
    AMID = "amid"  # half of a write is done
    AFTER = "after"  # it is done, and nobody was told


class Pages(Enum):
    """What the kernel does with what it could not write (Rebello et al., USENIX ATC 2020)."""

    DIRTY = "stay to be written"
    CLEAN = "are shown, and never written"
    REVERTED = "show again what is on the disk"


@dataclass(frozen=True)
class Stop:
    """Die at a step."""

    step: int
    when: When


@dataclass(frozen=True)
class Fault:
    """Fail at a call, once or from then on; a write may do half of its work before."""

    call: int
    code: int
    once: bool = True
    short: bool = False
    pages: Pages = Pages.CLEAN
    only: str = ""


class FaultyDisk(Disk):
    """
    The disk as one process sees it.

    A *step* is a call that changes something, a *call* is any.  A process that dies before a call that only reads
    leaves what it leaves after the step before, so stops are counted in steps; faults are counted in calls.
    """

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.dead = False
        self.log: list[str] = []
        self.failed: list[str] = []
        self._files: dict[int, File | None] = {}
        self._paths: dict[int, str] = {}
        self.arm()

    def arm(self, stop: Stop | None = None, fault: Fault | None = None) -> None:
        """Begin to count, and stop or fail where that says."""
        self.stop, self.fault = stop, fault
        self.steps = self.calls = 0
        self.log.clear()

    # --- counting -----------------------------------------------------------------------------------------

    def step(self, name: str, act: Callable[[], object], half: Callable[[], object] | None = None) -> object:
        """Do something that a process may die before, amid or after.  Steps of others than the disk join here."""
        if self.dead:
            raise Crash
        self.steps += 1
        self.log.append(name)
        stop = self.stop if self.stop is not None and self.stop.step == self.steps else None
        if stop is not None and stop.when is not When.AFTER:
            if stop.when is When.AMID and half is not None:
                half()
            self.die()
        done = act()
        if stop is not None:
            self.die()
        return done

    def die(self) -> None:
        """Nothing that this process does from here on has an effect."""
        self.dead = True
        raise Crash

    def _call(self, name: str, path: str) -> Fault | None:
        """Count a call; the fault that strikes it, if one does."""
        if self.dead:
            raise Crash
        self.calls += 1
        fault = self.fault
        if fault is None or self.calls < fault.call or (fault.only and fault.only != name):
            return None
        if fault.once:
            self.fault = None
        self.failed.append(f"{name} {os.path.basename(path)}")
        return fault

    def _maybe_fail(self, name: str, path: str) -> None:
        fault = self._call(name, path)
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)

    def _entry(self, path: str) -> tuple[Folder | None, str]:
        folder, name = os.path.split(path)
        node = self.shadow.find(folder)
        return (node if isinstance(node, Folder) else None), name

    # --- the calls -------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        self._maybe_fail("open", path)
        if not create:
            fd = super().open(path, write=write)
            found = self.shadow.find(path)
        else:
            opened: list[int] = []

            def act() -> None:
                opened.append(Disk.open(self, path, create=True))

            try:
                self.step(f"create {os.path.basename(path)}", act)
            except Crash:
                self._created(path) if opened else None
                for fd in opened:
                    os.close(fd)
                raise
            (fd,) = opened
            found = self._created(path)
        self._files[fd], self._paths[fd] = found, path
        return fd

    def _created(self, path: str) -> File:
        folder, name = self._entry(path)
        file = File()
        if folder is not None:
            folder.change((), {name: file})
        return file

    def close(self, fd: int) -> None:
        self._files.pop(fd, None)
        path = self._paths.pop(fd, "")
        super().close(fd)  # a failing close closes too (close(2) of Linux)
        if not self.dead:
            self._maybe_fail("close", path)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._maybe_fail("read", self._paths.get(fd, ""))
        return super().read(fd, size, offset)

    def size(self, fd: int) -> int:
        self._maybe_fail("size", self._paths.get(fd, ""))
        return super().size(fd)

    def names(self, path: str) -> list[str]:
        self._maybe_fail("names", path)
        return super().names(path)

    def _write(self, fd: int, data: bytes, offset: int) -> None:
        file = self._files.get(fd)
        if data and file is not None:
            file.ops.append(Op(offset, bytes(data)))
        Disk.write(self, fd, data, offset)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        # Half of it, and up to a sector's end: what a killed process leaves of a long write.
        half = data[: max(0, (offset + len(data) // 2) // SECTOR_BYTES * SECTOR_BYTES - offset) or len(data) // 2]
        fault = self._call("write", self._paths.get(fd, ""))
        if fault is not None:
            if fault.short:
                self._write(fd, half, offset)
            raise OSError(fault.code, os.strerror(fault.code))
        name = f"write {len(data)} bytes at {offset} of {os.path.basename(self._paths.get(fd, ''))}"
        self.step(name, lambda: self._write(fd, data, offset), lambda: self._write(fd, half, offset))

    def truncate(self, fd: int, size: int) -> None:
        self._maybe_fail("truncate", self._paths.get(fd, ""))

        def act() -> None:
            file = self._files.get(fd)
            if file is not None:
                file.ops.append(Op(size))
            Disk.truncate(self, fd, size)

        self.step(f"truncate {os.path.basename(self._paths.get(fd, ''))} to {size}", act)

    def sync_data(self, fd: int) -> None:
        self._sync("sync_data", fd)

    def sync(self, fd: int) -> None:
        self._sync("sync", fd)

    def _sync(self, name: str, fd: int) -> None:
        file = self._files.get(fd)
        fault = self._call(name, self._paths.get(fd, ""))
        if fault is None:
            self.step(f"{name} {os.path.basename(self._paths.get(fd, ''))}", lambda: file is None or file.sync())
            return
        if file is not None and fault.pages is Pages.CLEAN:
            file.forget()
        elif file is not None and fault.pages is Pages.REVERTED:
            file.revert()
            os.ftruncate(fd, 0)
            os.pwrite(fd, file.durable(), 0)
        raise OSError(fault.code, os.strerror(fault.code))

    def sync_folder(self, path: str) -> None:
        self._maybe_fail("sync_folder", path)
        folder = self.shadow.find(path)
        self.step(f"sync_folder {os.path.basename(path)}", lambda: isinstance(folder, Folder) and folder.sync())

    def rename(self, source: str, target: str) -> None:
        self._maybe_fail("rename", source)

        def act() -> None:
            before, old = self._entry(source)
            after, new = self._entry(target)
            assert before is after, "a rename between folders is two changes, which nobody here needs"
            Disk.rename(self, source, target)
            if before is not None:
                before.change((old,), {new: before.now[old]})

        self.step(f"rename to {os.path.basename(target)}", act)

    def remove(self, path: str) -> None:
        self._maybe_fail("remove", path)

        def act() -> None:
            Disk.remove(self, path)
            folder, name = self._entry(path)
            if folder is not None:
                folder.change((name,), {})

        self.step(f"remove {os.path.basename(path)}", act)

    def make_folder(self, path: str) -> None:
        self._maybe_fail("make_folder", path)

        def act() -> None:
            there = os.path.isdir(path)
            Disk.make_folder(self, path)
            folder, name = self._entry(path)
            if folder is not None and not there:
                folder.change((), {name: Folder()})

        self.step(f"make_folder {os.path.basename(path)}", act)


#: What an operating system says when it fails; EINTR it should not say here, and may all the same.
CODES = (errno.EIO, errno.ENOSPC, errno.EINTR)


def place_for_tests() -> str:
    """Where to put the files: memory if there is some, because a sync there costs nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else os.environ.get("TMPDIR", "/tmp")


@contextlib.contextmanager
def ignored(*errors):
    """What comes of a process that is dead already does not matter."""
    with contextlib.suppress(Crash, *errors):
        yield
