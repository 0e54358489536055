"""
The files that hold what is too large to hand over.

They are private, named by the SHA-256 of what they hold, and whole or not there:
each is written beside its place, synced and renamed.  The same content put
again is the same file, kept longer.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fencepost.mailbox.errors import FilesFailed
from fencepost.mailbox.fleet import writing
from fencepost.mailbox.fleet.writing import Stored, digest

_DAY_S: Final = 86_400
_PART: Final = ".part"


class Files:
    """
    A folder of such files, made when the first one is put.

    Args:
        folder: Where it is.

    Raises:
        FilesFailed: From every method: the disk does not take or give it.
    """

    def __init__(self, folder: str) -> None:
        self._folder: Final = Path(folder)

    def place(self, name: str) -> str:
        """Where content of that digest is, or would be."""
        return str(self._folder / name[:2] / name)

    def put(self, content: bytes) -> Stored:
        """Keep content, durably."""
        name = digest(content)
        path = Path(self.place(name))
        with _told(path):
            self._put(path, content)
        return Stored(name, len(content), str(path))

    def _put(self, path: Path, content: bytes) -> None:
        for folder in (self._folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_file() and path.read_bytes() == content:
            os.utime(path)
        else:
            part = path.with_suffix(f".{os.getpid()}{_PART}")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            for folder in (path.parent, self._folder):
                _sync(folder)

    def renew(self, text: str) -> None:
        """Keep what an input names, and what a list names that is in a file itself, for as long again."""
        with _told(self._folder):
            for name in writing.named(text):
                with contextlib.suppress(FileNotFoundError):
                    os.utime(self.place(name))
            listing = writing.listing(text)
            if listing is not None:
                with contextlib.suppress(FileNotFoundError):
                    self.renew(Path(self.place(listing)).read_text("utf-8", "replace"))

    def sweep(self, days: int) -> int:
        """Remove what was put longer ago than that; how many files."""
        oldest = time.time() - days * _DAY_S
        with _told(self._folder):
            old = [each for each in self._folder.glob("*/*") if each.lstat().st_mtime < oldest]
            for each in old:
                each.unlink()
        return len(old)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesFailed(path=str(path), why=error.strerror or str(error)) from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
