"""
What an error of Postgres means here.

The text of a server's error can be shown.  That of a URL which could not be read
cannot: it repeats the URL, and in it the password.
"""

from __future__ import annotations

from typing import Final

import psycopg

from fencepost.journal.errors import JournalBusy, JournalError, JournalFull, JournalUnavailable, NoStore, ReadOnlyStore

#: The database has rolled the transaction back, and the same again may succeed.
_AGAIN: Final = frozenset(("40001", "40P01"))
#: There is no such schema or table.
_ABSENT: Final = frozenset(("3F000", "42P01"))
_FULL: Final = frozenset(("53100",))
_READ_ONLY: Final = frozenset(("25006",))
_LOCK_WAITED: Final = frozenset(("55P03",))


class NoTables(NoStore):
    """The database has no store in that schema."""

    sentence = "there is no store at {path} ({why}): check the URL and the schema"


class OnlyRead(ReadOnlyStore):
    """The database is a replica, or this user may only read."""

    sentence = "{path} is read only: reading works, and for writing connect to the primary, as a user who may write"


def is_lost(db: psycopg.Connection) -> bool:
    """Is the connection gone, so that nobody knows what the server still did?"""
    return bool(db.closed)


def may_be_repeated(error: psycopg.Error) -> bool:
    """Did the database roll back for a reason that passes?"""
    return error.sqlstate in _AGAIN


def translated(error: psycopg.Error, where: str, waited_ms: int = 0) -> JournalError:
    """What an error of Postgres means here."""
    state = error.sqlstate or ""
    if state in _ABSENT:
        return NoTables(path=where, why="`fencepost postgres init` makes one")
    if state in _FULL:
        return JournalFull(path=where)
    if state in _READ_ONLY:
        return OnlyRead(path=where)
    if state in _LOCK_WAITED:
        return JournalBusy(path=where, waited_ms=waited_ms, holder="another transaction")
    return JournalUnavailable(path=where, why=said(error))


def said(error: Exception) -> str:
    """The first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
