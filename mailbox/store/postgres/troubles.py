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

#: What to do about a refusal.
_HINTS: Final = {
    "28P01": "check the password in $FENCEPOST_DATABASE_URL, $PGPASSWORD or the password file",
    "28000": "check the user in the URL, and what the server's pg_hba.conf lets in",
    "3D000": "check the database's name in the URL, or make it with `createdb`",
    "42501": "have its owner grant what docs/postgres.md lists, or name a user who may",
    "53300": "wait, or raise the server's max_connections",
    "57P03": "wait until the server has started",
}
#: The same where no code says which refusal it was: words of libpq, whose connection was none yet.
_SAID_HINTS: Final = {
    "password authentication failed": _HINTS["28P01"],
    "no password supplied": "put one into $FENCEPOST_DATABASE_URL, $PGPASSWORD or the password file",
    "pg_hba.conf": _HINTS["28000"],
    'role "': "check the user in the URL, or make it with `createuser`",
    'database "': _HINTS["3D000"],
    "starting up": _HINTS["57P03"],
    "too many clients": _HINTS["53300"],
    "failed to resolve host": "check the host in the URL",
    "could not translate host name": "check the host in the URL",
    "Connection refused": "check host and port in the URL, and whether the server runs",
    "No such file or directory": "name a host in the URL, or start the server that listens there",
    "timeout expired": "check host and port in the URL, and what stands between here and there",
    "does not support SSL": "leave sslmode out of the URL, or have the server speak TLS",
    "definition of service": "check the service in the URL and the service file",
}


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
    hint = _hint(error)
    return JournalUnavailable(path=where, why=said(error) if hint is None else f"{said(error)}: {hint}")


def _hint(error: psycopg.Error) -> str | None:
    """What to do about it; None where nobody knows."""
    if error.sqlstate is not None:
        return _HINTS.get(error.sqlstate)
    return next((hint for words, hint in _SAID_HINTS.items() if words in str(error)), None)


def said(error: Exception) -> str:
    """The first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
