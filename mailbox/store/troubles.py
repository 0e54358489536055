"""
What an error of SQLite means here.

A file that is damaged or foreign can be replaced, because an index is only a
projection.  Everything else is a trouble that somebody has to mend first.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Final

from fencepost.journal.errors import JournalFull, JournalUnavailable


class Unusable(Exception):
    """The file is missing, damaged, foreign or of another layout: make a new one."""


@contextlib.contextmanager
def translating(path: str) -> Iterator[None]:
    """The border at which the errors of SQLite become ours, for the length of a block."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise translated(error, path) from error


def translated(error: sqlite3.DatabaseError, path: str) -> Exception:
    """What an error of SQLite means here: a file that can be replaced, or a trouble that has to be mended first."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # the low byte is the kind
    if code in _DAMAGED:
        return Unusable(f"{path}: {error}")
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return JournalFull(path=path)
    return JournalUnavailable(path=path, why=str(error))


def _has_no_room(path: str) -> bool:
    """SQLite calls a full disk an I/O error where its shared memory is concerned."""
    return os.statvfs(os.path.dirname(path) or ".").f_bavail == 0


#: No database, a damaged one, or one without our tables.
_DAMAGED: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR))
