"""
The watermark: how far the journal has been written and synced, shared through memory.

It is one page of 64-bit words that every process on the machine maps.  It saves
each of them from reading the journal to find its end.  It is never synced and
never believed: the page is good only for the store, the folder and the boot it
was written in, the words about the tail carry a checksum, and whoever appends
looks at the journal itself first.  Whatever does not fit means reading the last segment again.

The word `durable` is written by whoever syncs, without the append lock; one
aligned word is read and written whole (`memoryview.cast`; what `struct` writes
into a map can be seen half written).

Rules for this file: standard library only and no attrs, because the quickest
commands read the watermark too.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import Final

_LAYOUT: Final = 0x31_70_65_63_6E_65_66  # "fencep1"
_SIZE: Final = 4096

# Whose page this is, and since which start of the machine.
_OWNER: Final = slice(0, 4)
# The tail: written under the append lock, guarded by the checksum behind it.
_FILE_INODE, _FILE_MTIME, _SEGMENT, _SEGMENT_INODE, _SEQ, _OFFSET, _LAST, _DIGEST, _CHECKSUM = (
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    15,
)
_HEAD: Final = struct.Struct("=11Q")
# Words that stand alone.
_DURABLE, _POISON, _EPOCH, _HOLDER, _ROTATING, _SYNC_ENDS, _ERASING = 16, 17, 18, 19, 20, 21, 22
_EPOCH_MASK: Final = 2**63 - 1


_NOBODYS: Final = mmap.mmap(-1, _SIZE)


def boot_id() -> int:
    """A number that is another one after each start of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as handle:
            return int(handle.read(18).replace("-", ""), 16)
    except OSError:
        return _boot_id_elsewhere()


def _boot_id_elsewhere() -> int:
    import subprocess

    try:
        answer = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, timeout=5, check=True, text=True
        ).stdout
        return int(answer.strip().replace("-", "")[:16], 16)
    except (OSError, ValueError, subprocess.SubprocessError):
        return os.getpid()  # no way to know: every process looks for itself


class Mark:
    """
    What the watermark says of the tail.

    Attributes:
        store: Inode and modification time of the `store.json` it belongs to.
        segment: The open segment, by its first sequence number; `inode` is its file's.
        seq: The last event written.
        offset: The byte behind the last frame.
        last: The byte at which the last frame begins; equal to `offset` in a new segment.
        digest: The digest of the last frame, in hex.
    """

    __slots__ = ("digest", "inode", "last", "offset", "segment", "seq", "store")

    def __init__(
        self, store: tuple[int, int], segment: int, inode: int, seq: int, offset: int, last: int, digest: str
    ) -> None:
        self.store = store
        self.segment = segment
        self.inode = inode
        self.seq = seq
        self.offset = offset
        self.last = last
        self.digest = digest


class Watermark:
    """
    The mapped page.

    Args:
        path: The file; made if it is not there and may be written.
        store_id: The uuid of the store.

    Raises:
        OSError: The file cannot be opened or made.
    """

    def __init__(self, path: str, store_id: str, *, write: bool = True) -> None:
        self._path = path
        self._write = write
        self._map_page()
        folder = os.stat(os.path.dirname(path) or ".").st_ino
        self._owner = [_LAYOUT, boot_id(), int(store_id.replace("-", "")[:16], 16), folder]
        self._written: tuple[bytes, Mark | None] = (b"", None)

    def _map_page(self) -> None:
        flags = (os.O_RDWR | os.O_CREAT if self._write else os.O_RDONLY) | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        try:
            found = os.fstat(fd)
            if found.st_size < _SIZE:
                if not self._write:
                    raise OSError(f"{self._path} is too short")
                os.fchmod(fd, 0o600)
                # Real zeros, not a hole: on a full disk a hole would kill the process at the first store into the map.
                done = 0
                while done < _SIZE:
                    done += os.pwrite(fd, bytes(_SIZE - done), done)
            self._inode = found.st_ino
            access = mmap.ACCESS_WRITE if self._write else mmap.ACCESS_READ
            page = mmap.mmap(fd, _SIZE, access=access)
        finally:
            os.close(fd)
        self._map, self._words = page, memoryview(page).cast("Q")

    def follow(self) -> None:
        """If the file has been replaced or removed, go on with the one that stands there now."""
        try:
            if os.stat(self._path).st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        self._map_page()

    def close(self) -> None:
        """Let go of the page; a thread that still looks sees one that belongs to nobody."""
        page, words = self._map, self._words
        self._map, self._words = _NOBODYS, memoryview(_NOBODYS).cast("Q")
        words.release()
        page.close()

    @property
    def belongs(self) -> bool:
        """
        Is this page this store's, in this folder, of this boot?

        Only then do `durable` and `poisoned` say anything.  A copied store has a page that is not its own.
        """
        return self._words[_OWNER].tolist() == self._owner

    @property
    def mark(self) -> Mark | None:
        """The tail as it was last written, or None where that cannot be told."""
        words = self._words
        for _ in range(3):
            checksum = words[_CHECKSUM]
            raw = self._map[: _CHECKSUM * 8]
            if raw == self._written[0]:
                return self._written[1]
            if words[_CHECKSUM] == checksum and zlib.crc32(raw) == checksum:
                break
        else:
            return None
        if not self.belongs:
            return None
        *_, inode, mtime, segment, segment_inode, seq, offset, last = _HEAD.unpack_from(raw)
        digest = raw[_DIGEST * 8 : _CHECKSUM * 8].hex()
        return Mark((inode, mtime), segment, segment_inode, seq, offset, last, digest)

    def write(self, mark: Mark) -> None:
        """Say where the tail is; under the append lock."""
        where = (mark.segment, mark.inode, mark.seq, mark.offset, mark.last)
        raw = _HEAD.pack(*self._owner, *mark.store, *where) + bytes.fromhex(mark.digest)
        self._map[: len(raw)] = raw
        self._words[_CHECKSUM] = zlib.crc32(raw)
        self._written = (raw, mark)

    @property
    def seq(self) -> int:
        """The last event written, as a hint; `mark` says it with its checksum."""
        return self._words[_SEQ]

    @property
    def segment(self) -> int:
        """The open segment, as a hint."""
        return self._words[_SEGMENT]

    @property
    def durable(self) -> int:
        """The last event known to be on the disk."""
        return self._words[_DURABLE]

    @durable.setter
    def durable(self, seq: int) -> None:
        self._words[_DURABLE] = seq

    @property
    def poisoned(self) -> bool:
        """A sync failed in this boot, so what was written behind `durable` is in doubt, whatever the tail says."""
        return self._words[_POISON] != 0 and self.belongs

    @poisoned.setter
    def poisoned(self, value: bool) -> None:
        self._words[_POISON] = value

    @property
    def epoch(self) -> int:
        """Grows whenever something that was written and not durable has been taken back."""
        return self._words[_EPOCH]

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._words[_EPOCH] = value & _EPOCH_MASK

    @property
    def rotating(self) -> bool:
        """Somebody is beginning a segment, or died doing so."""
        return self._words[_ROTATING] != 0

    @rotating.setter
    def rotating(self, value: bool) -> None:
        self._words[_ROTATING] = value

    @property
    def erasing(self) -> bool:
        """Somebody is carrying out an erasure, or died doing so; as `poisoned`, it counts in this boot only."""
        return self._words[_ERASING] != 0

    @erasing.setter
    def erasing(self, value: bool) -> None:
        self._words[_ERASING] = value

    @property
    def holder(self) -> int:
        """The process that holds the append lock, or held it last."""
        return self._words[_HOLDER]

    @holder.setter
    def holder(self, pid: int) -> None:
        self._words[_HOLDER] = pid

    @property
    def sync_ends(self) -> int:
        """When the sync that runs is expected to end, in nanoseconds of the monotonic clock; a guess."""
        return self._words[_SYNC_ENDS]

    @sync_ends.setter
    def sync_ends(self, moment: int) -> None:
        self._words[_SYNC_ENDS] = moment
