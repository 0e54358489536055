"""
Segments: the files that the frames stand in.

A segment is named by the sequence number of its first event.  The newest is
open; the others are sealed and end with their last frame.  The open one is
filled with zeros ahead of its last frame, because overwriting zeros syncs
faster than growing a file: the size on the disk does not change.

Sealed segments may have been moved to an archive folder; they are found there,
and everything reads on as before.

Rules for this file: it finds, makes and reads segments, and does not judge
what stands in them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from typing import Final

from fencepost.journal import forks
from fencepost.journal.disk import Disk, failure, write_whole
from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.root import JOURNAL

#: A segment is sealed when the next frame would make it longer.  After a power cut one segment is read again.
SEGMENT_BYTES: Final = 16 << 20
#: Zeros are written this far ahead: about 2 ms of work for about 900 messages.
ALLOCATE_BYTES: Final = 1 << 20
#: In the journal folder: one path on each line, relative to the root where it lies within.
ARCHIVES: Final = "archives"
_NAME: Final = re.compile(r"([0-9]{16})\.log")


def segment_name(first: int) -> str:
    """The file name of a segment."""
    return f"{first:016d}.log"


def archives(folder: str) -> list[str]:
    """The folders that sealed segments of a journal have been moved to, as its `archives` file says."""
    try:
        with open(os.path.join(folder, ARCHIVES), encoding="utf-8", newline="\n") as handle:
            lines = handle.read().split("\n")
            return [os.path.join(os.path.dirname(folder), line) for line in lines if line]
    except FileNotFoundError:
        return []


class Segments:
    """The segments of one store, through one process."""

    def __init__(self, root: str, disk: Disk, *, write: bool) -> None:
        self.folder = os.path.join(root, JOURNAL)
        self._disk = disk
        self._write = write
        self._mutex = threading.Lock()
        self._open: tuple[int, int, int] | None = None  # first sequence number, file descriptor, inode
        self._stood = (0, 0, 0, 0)  # what `is_file` was asked when it last said yes, and how the folder was then
        #: What the frames of sealed segments erase, as far as somebody had to look for it.
        self.erasures: dict[int, frozenset[int]] = {}
        forks.register(self)

    def renew_in_child(self) -> None:
        """In a forked child: a thread of the parent may have held the mutex."""
        self._mutex = threading.Lock()

    def path(self, first: int) -> str:
        """Where a segment is, or would be."""
        name = segment_name(first)
        here = os.path.join(self.folder, name)
        if not os.path.exists(here):
            for folder in archives(self.folder):
                there = os.path.join(folder, name)
                if os.path.exists(there):
                    return there
        return here

    def firsts(self) -> list[int]:
        """The segments by their first sequence numbers, in order, archived ones included."""
        found: set[int] = set()
        try:
            # In this order: a segment that is being archived is named and copied there before it is gone here.
            names = self._disk.names(self.folder)
            for folder in archives(self.folder):
                names += self._disk.names(folder) if os.path.isdir(folder) else []
            found.update(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
        except OSError as error:
            raise failure(error, self.folder) from error
        return sorted(found)

    def kept(self) -> int:
        """The first event that no archive has taken: that of the oldest segment in the journal's own folder."""
        try:
            names = self._disk.names(self.folder)
        except OSError as error:
            raise failure(error, self.folder) from error
        return min((int(match[1]) for match in map(_NAME.fullmatch, names) if match), default=1)

    def size(self, first: int) -> int:
        """How many bytes a segment has, the zeros ahead of its last frame included."""
        try:
            fd = self._open_to_read(first)  # see `is_file`: nobody asks the open one for more than its size
            try:
                return self._disk.size(fd)
            finally:
                self._let_go(fd)
        except OSError as error:
            raise failure(error, self.folder) from error

    def fd(self, first: int) -> int:
        """A descriptor of a segment that is being written, kept open."""
        with self._mutex:
            if self._open is None or self._open[0] != first:
                self._close()
                fd = self._disk.open(self.path(first), write=self._write)
                self._open = (first, fd, os.fstat(fd).st_ino)
            return self._open[1]

    def inode(self, first: int) -> int:
        """Which file the segment is."""
        self.fd(first)
        with self._mutex:
            assert self._open is not None
            return self._open[2]

    def is_file(self, first: int, inode: int) -> bool:
        """
        Does the segment stand in the journal's folder, as that file?

        Once it did, a look at the folder tells.  Asking a file for its times makes Linux (6.13 and later) stamp the
        next write to it more finely, which syncing it then has to carry: a third more time.
        """
        try:
            folder = os.stat(self.folder)
            asked = (first, inode, folder.st_ino, folder.st_mtime_ns)
            if asked != self._stood and os.stat(os.path.join(self.folder, segment_name(first))).st_ino == inode:
                self._stood = asked
        except FileNotFoundError:
            return False
        return asked == self._stood

    def create(self, first: int) -> None:
        """Make a segment of zeros, durable under its name before anything is written to it; again if need be."""
        with self._mutex:
            self._close()
        path = os.path.join(self.folder, segment_name(first))
        if os.path.exists(path):
            self._disk.sync_folder(self.folder)  # whoever made it may have died before this
        else:
            write_whole(self._disk, path, bytes(ALLOCATE_BYTES))

    def allocate(self, first: int, end: int) -> None:
        """Have zeros up to the byte, and some more if there is room for more."""
        fd = self.fd(first)
        size = self._disk.size(fd)
        if size >= end:
            return
        try:
            self._disk.write(fd, bytes(end - size + ALLOCATE_BYTES), size)
        except OSError as error:
            self._disk.truncate(fd, size)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._disk.write(fd, bytes(end - size), size)

    def seal(self, first: int, end: int) -> None:
        """Cut the zeros off a segment and sync it; nothing is written to it any more."""
        fd = self.fd(first)
        self._disk.truncate(fd, end)
        self._disk.sync(fd)

    def read(self, first: int, begin: int = 0, size: int | None = None) -> bytes:
        """
        Bytes of a segment; all from `begin` on where no size is given.

        Raises:
            JournalCorrupt: It is gone.
            JournalUnavailable: It cannot be read.
        """
        try:
            with self._mutex:
                if self._open is not None and self._open[0] == first:
                    return self._read(self._open[1], begin, size)
            fd = self._open_to_read(first)
            try:
                return self._read(fd, begin, size)
            finally:
                self._let_go(fd)
        except OSError as error:
            raise failure(error, self.folder) from error

    def _read(self, fd: int, begin: int, size: int | None) -> bytes:
        return self._disk.read(fd, max(0, self._disk.size(fd) - begin) if size is None else size, begin)

    def _open_to_read(self, first: int) -> int:
        for _ in range(2):  # it may have been moved to the archive in between
            with contextlib.suppress(FileNotFoundError):
                return self._disk.open(self.path(first), write=False)
        raise JournalCorrupt(file=self.path(first), offset=0, why="the segment is gone")

    def close(self) -> None:
        """Let go of the open file."""
        with self._mutex:
            self._close()

    def _close(self) -> None:
        kept, self._open = self._open, None
        if kept is not None:
            self._let_go(kept[1])

    def _let_go(self, fd: int) -> None:
        """Close a file.  What is written to it has been synced or will be through another descriptor."""
        with contextlib.suppress(OSError):
            self._disk.close(fd)
