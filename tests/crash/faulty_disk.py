"""
A disk that stops, fails or forgets at a call of one's choice.

`FaultyDisk` is the disk of one process over real files, with a `Shadow` of what would survive a power cut.  `images`
lists what a power cut may leave.
"""

import contextlib
import errno
import hashlib
import os
import random
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


# --- what a power cut leaves ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Image:
    """
    Files as a power cut may leave them.

    Attributes:
        kind: In words.
        tree: Path below the top -> content, None for a folder.
        garbage: There are bytes in it that nobody has written.
    """

    kind: str
    tree: dict[str, bytes | None]
    garbage: bool = False

    @property
    def digest(self) -> bytes:
        """The same for the same files."""
        found = hashlib.sha256()
        for path, content in sorted(self.tree.items()):
            found.update(repr((path, content is None, len(content or b""))).encode() + (content or b""))
        return found.digest()


def subsets(count: int, most: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Subsets of that many things, at most so many: none and all, each prefix, and others drawn by chance."""
    everything = tuple(range(count))
    if 2**count <= most:
        found = [tuple(n for n in everything if mask >> n & 1) for mask in range(2**count)]
        return list(dict.fromkeys([(), everything, *found]))
    found = [(), everything, *(everything[:n] for n in range(1, count))]
    found += [everything[n:] for n in range(1, count)]
    found += [everything[:n] + everything[n + 1 :] for n in everything]
    if len(found) > most:
        found = found[:2] + rng.sample(found[2:], most - 2)
    while len(found) < most:
        found.append(tuple(n for n in everything if rng.random() < 0.5))
    return list(dict.fromkeys(found))


def _variants(node: File | Folder, most: int, rng: random.Random) -> list[tuple[str, object, bool]]:
    """
    What may have become of one file or folder: in words, the content or the names, and whether it is garbage.

    First that nothing of what is open reached the disk, then that all of it did, if that is not the same.
    """
    if isinstance(node, Folder):
        return [
            (f"{len(chosen)} of {len(node.ops)} names", node.after(chosen), False)
            for chosen in subsets(len(node.ops), most, rng)
        ]
    count = len(node.open_pieces())
    found: dict[bytes, tuple[str, bool]] = {}

    def add(words: str, content: bytes, *, garbage: bool = False) -> None:
        found.setdefault(content, (words, garbage))

    add("nothing of it", node.with_pieces(()))
    add("all of it", node.with_pieces(range(count)))
    for chosen in subsets(count, most, rng):
        words = f"{len(chosen)} of {count} pieces"
        add(words, node.with_pieces(chosen))
        add(words + ", the size", node.with_pieces(chosen, full_size=True))
    old = node.base.rstrip(b"\0") or b"0" * 64 + b" 00000010 000000002 {}\n"
    for words, give in (
        ("noise", rng.randbytes),
        ("a line of text", lambda size: b"x" * (size - 1) + b"\n"),
        ("older frames", lambda size: (old * (size // len(old) + 1))[:size]),
    ):
        for chosen in subsets(count, 2, rng):
            content = node.with_pieces(chosen, full_size=True, garbage=give)
            add(f"{len(chosen)} of {count} pieces, {words}", content, garbage=True)
    return [(words, content, garbage) for content, (words, garbage) in found.items()]


def images(shadow: Shadow, most: int, seed: int, *, garbage: bool = True) -> list[Image]:
    """
    What a power cut may leave, at most so many images: nothing that was not synced, all of it, and mixtures.

    Args:
        shadow: What is durable, and what is not.
        most: How many images at most.
        seed: Decides which, where there are more.
        garbage: Include bytes that nobody has written.
    """
    rng = random.Random(seed)
    moving = [node for node in shadow.nodes() if node.ops]
    choices = [
        [each for each in _variants(node, max(8, most), rng) if garbage or not each[2]] for node in moving
    ]
    lost = [0] * len(moving)
    kept = [min(1, len(list_) - 1) for list_ in choices]
    picks = [tuple(lost), tuple(kept)]
    for others in (kept, lost):
        for place, list_ in enumerate(choices):
            picks += [(*others[:place], n, *others[place + 1 :]) for n in range(len(list_))]
    picks += [tuple(rng.randrange(len(list_)) for list_ in choices) for _ in range(most if len(choices) > 1 else 0)]
    picks = list(dict.fromkeys(picks))
    if len(picks) > most:
        picks = picks[:2] + rng.sample(picks[2:], most - 2)
    found: dict[bytes, Image] = {}
    for pick in picks:
        chosen = [list_[n] for list_, n in zip(choices, pick, strict=True)]
        became = {id(node): value for node, (_, value, _) in zip(moving, chosen, strict=True)}
        kind = "; ".join(words for words, _, _ in chosen) or "nothing was open"
        image = Image(kind, _tree(shadow.root, became, ""), any(each[2] for each in chosen))
        found.setdefault(image.digest, image)
    return list(found.values())


def _tree(folder: Folder, became: dict[int, object], above: str) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {}
    for name, node in became.get(id(folder), folder.base).items():
        path = above + name
        if isinstance(node, Folder):
            tree[path] = None
            tree.update(_tree(node, became, path + os.sep))
        else:
            tree[path] = became.get(id(node), None) if id(node) in became else node.durable()
    return tree


def lost(shadow: Shadow) -> Image:
    """The image in which nothing is left that no sync has covered."""
    return Image("all lost", _tree(shadow.root, {}, ""))


def lay_out(image: Image, top: str) -> None:
    """Make the files of an image in an empty folder."""
    for path, content in sorted(image.tree.items()):
        where = os.path.join(top, path)
        if content is None:
            os.mkdir(where, 0o700)
        else:
            with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
                handle.write(content)


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
