"""
The calls by which the journal touches the disk.

Everything that must survive a crash goes through one `Disk`, so that a test can
put another one underneath that stops, fails or forgets at any call.  The real
one is thin.  The watermark and the locks are not here: they hold nothing that
must survive.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from typing import BinaryIO

from fencepost.journal.errors import FencepostError, JournalFull, JournalUnavailable

#: How the name of a file ends that is not in place yet.
STAGED = ".tmp"
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

#: macOS: fsync hands the data to the drive, F_FULLFSYNC makes the drive write it (fsync(2) of macOS).
_F_FULLFSYNC = 51


def failure(error: OSError, path: str) -> FencepostError:
    """The one place where an error of the operating system becomes one of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return JournalFull(path=path)
    return JournalUnavailable(path=path, why=error.strerror or str(error))


def open_file(path: str) -> BinaryIO:
    """
    A file of somebody else's, to be read; a pipe or a device in its place would be waited for without end.

    Raises:
        OSError: It is no regular file, or cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


class Disk:
    """The real disk.  Each method raises `OSError` as the operating system does."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        """A file descriptor that no child process inherits; a created file is private whatever the umask."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        if not create:
            return os.open(path, flags)
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        os.fchmod(fd, PRIVATE_FILE)
        return fd

    def close(self, fd: int) -> None:
        """Close a file descriptor."""
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from the offset; fewer only at the end of the file."""
        piece = os.pread(fd, size, offset)
        if len(piece) == size or not piece:
            return piece
        pieces = [piece]
        done = len(piece)
        while piece and done < size:
            piece = os.pread(fd, size - done, offset + done)
            pieces.append(piece)
            done += len(piece)
        return b"".join(pieces)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """All of the bytes, however many calls it takes."""
        done = os.pwrite(fd, data, offset)
        while done < len(data):
            done += os.pwrite(fd, memoryview(data)[done:], offset + done)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to the size."""
        os.ftruncate(fd, size)

    def size(self, fd: int) -> int:
        """Bytes in the file, without asking for its times: see `segments.Segments.is_file`."""
        return os.lseek(fd, 0, os.SEEK_END)

    def sync_data(self, fd: int) -> None:
        """Everything written to the file is on the disk when this returns."""
        if sys.platform == "darwin":
            self._full_sync(fd)
        else:
            os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        """Everything written to the file, its size and times included, is on the disk when this returns."""
        if sys.platform == "darwin":
            self._full_sync(fd)
        else:
            os.fsync(fd)

    def _full_sync(self, fd: int) -> None:
        import fcntl

        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
            os.fsync(fd)

    def sync_folder(self, path: str) -> None:
        """The names in the folder are on the disk when this returns."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Put a file in another's place."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        """Make a private folder whatever the umask; one that is there already stays as it is."""
        try:
            os.mkdir(path, PRIVATE_FOLDER)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise
        else:
            os.chmod(path, PRIVATE_FOLDER)

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        return os.listdir(path)


def write_whole(disk: Disk, path: str, data: bytes) -> None:
    """
    Put a whole file in place: after a crash it holds the old bytes or the new ones.

    Raises:
        OSError: It did not work, or whether the new name is durable is not known.
    """
    folder, name = os.path.split(path)
    staged = os.path.join(folder, f".{name}.{secrets.token_hex(4)}{STAGED}")
    fd = disk.open(staged, create=True)
    try:
        try:
            disk.write(fd, data, 0)
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.rename(staged, path)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            disk.remove(staged)
        raise
    disk.sync_folder(folder)


def remove_staged(disk: Disk, folder: str) -> None:
    """Remove what an interrupted `write_whole` has left; while nobody else writes in the folder."""
    for name in disk.names(folder):
        if name.startswith(".") and name.endswith(STAGED):
            disk.remove(os.path.join(folder, name))
