"""
Opening a store in a database, and making one.

Where the password comes from: `FENCEPOST_DATABASE_URL`, a password file
(`PGPASSFILE`), `PGPASSWORD` or a service file.  It is in no error and no log.

A store is made by `fencepost postgres init` and never by opening it: whoever
opens it may have no right to, and a wrong name should not make a second one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from fencepost.journal.errors import JournalUnavailable, MissingExtra, NewerStore
from fencepost.journal.lock import LOCK_WAIT_MS_DEFAULT
from fencepost.mailbox.store.postgres.schema import GENERATION, SCHEMA, checked, named, quoted, step

if TYPE_CHECKING:
    import psycopg

    from fencepost.mailbox.store.postgres.address import Address
    from fencepost.mailbox.store.postgres.store import PostgresStore

__all__ = ["SCHEMA", "create", "postgres_store"]

#: The oldest Postgres that has all that is asked of it.
_POSTGRES_MIN: Final = 130_000
_IDENTITY: Final = "SELECT generation, key, tag, pg_backend_pid() FROM {s}.meta"
_THERE: Final = "SELECT to_regclass(%s::text) IS NOT NULL"
#: What keeps two who make stores in one database apart.
_MAKING: Final = 0x66656E63


def postgres_store(
    url: str,
    *,
    schema: str = SCHEMA,
    may_hold_password: bool = True,
    lock_wait_ms: int = LOCK_WAIT_MS_DEFAULT,
    listen: bool = True,
    pooled: bool | None = None,
    fresh_s: float | None = None,
) -> PostgresStore:
    """
    The store in a schema of a database.

    A connection that does not go to the server itself, but through a pooler such as pgbouncer, is noticed: then nothing
    is prepared and nobody listens, so the pooler may give each transaction another connection.

    Args:
        url: Where the database is, as `postgresql://…` or as a libpq connection string.
        schema: Which schema.
        may_hold_password: The URL may have a password in it.
        lock_wait_ms: For how long a writer waits for others who write to the same scope.
        listen: Let the database tell of news, on one more connection, once somebody waits for it.
        pooled: There is such a pooler, or there is none; None to find out.
        fresh_s: How old an answer of `change_mark` may be; None for half a second, or less where nobody listens.

    Raises:
        BadInput: The URL or the schema is not well formed, or there is a password where none may be.
        MissingExtra: What talks to Postgres is not installed.
        NoStore: There is none; `fencepost postgres init` makes one.
        NewerStore: A newer fencepost made it.
        JournalUnavailable: It cannot be reached or used.
    """
    at = _address(url, schema, may_hold_password=may_hold_password)
    import psycopg

    from fencepost.mailbox.store.postgres.asking import Own
    from fencepost.mailbox.store.postgres.connections import Connections
    from fencepost.mailbox.store.postgres.horizon import Locks
    from fencepost.mailbox.store.postgres.store import PostgresStore
    from fencepost.mailbox.store.postgres.troubles import translated
    from fencepost.mailbox.store.postgres.writing import Writer

    try:
        with contextlib.closing(at.connect()) as db:
            key, tag, noticed = _identity(db, at)
    except psycopg.Error as error:
        raise translated(error, at.where) from error

    pooler = noticed if pooled is None else pooled

    def connect() -> psycopg.Connection:
        made = at.connect()
        if pooler:
            made.prepare_threshold = None
        made.add_notify_handler(lambda _: None)  # what a pooler may pass on by mistake
        return made

    connections = Connections(connect)
    writer = Writer(at.schema, key, Locks(at.schema, tag))
    listening = at.connect if listen and not pooler else None
    return PostgresStore(Own(connections, at.where, lock_wait_ms), writer, connections, listening, fresh_s)


def create(url: str, *, schema: str = SCHEMA, may_hold_password: bool = True) -> tuple[str, int, int]:
    """
    Make a store, or bring one up to date.  Doing it again, or twice at once, is harmless.

    Returns:
        Where it is, the generation that it had before (0 where there was none), and the one that it has now.

    Raises:
        BadInput, MissingExtra, NewerStore, JournalUnavailable: As for `postgres_store`.
    """
    at = _address(url, schema, may_hold_password=may_hold_password)
    import psycopg

    from fencepost.mailbox.store.postgres.troubles import translated

    try:
        with contextlib.closing(at.connect()) as db, db.transaction():
            before = _bring_up(db, at)
    except psycopg.Error as error:
        raise translated(error, at.where) from error
    return at.where, before, GENERATION


def _address(url: str, schema: str, *, may_hold_password: bool) -> Address:
    checked(schema)
    try:
        from fencepost.mailbox.store.postgres.address import address
    except ImportError as error:
        raise MissingExtra(extra="postgres") from error
    return address(url, schema, may_hold_password=may_hold_password)


def _identity(db: psycopg.Connection, at: Address) -> tuple[bytes, int, bool]:
    """The store's key and tag, and is there a pooler in between?"""
    _check_server(db, at)
    row = db.execute(named(_IDENTITY, at.schema)).fetchone()
    if row is None:
        raise JournalUnavailable(path=at.where, why="its table meta is empty: restore it from a copy")
    generation, key, tag, pid = row
    if generation > GENERATION:
        raise NewerStore(path=at.where, found=generation, known=GENERATION)
    if generation < GENERATION:
        why = "it is of an older layout, which `fencepost postgres init` brings up to date"
        raise JournalUnavailable(path=at.where, why=why)
    return key, tag, pid != db.info.backend_pid


def _check_server(db: psycopg.Connection, at: Address) -> None:
    if db.info.server_version < _POSTGRES_MIN:
        raise JournalUnavailable(path=at.where, why="it is a Postgres older than 13, which cannot hold a store")
    if db.info.parameter_status("server_encoding") != "UTF8":
        raise JournalUnavailable(path=at.where, why="its encoding is not UTF8, which cannot hold every text")


def _bring_up(db: psycopg.Connection, at: Address) -> int:
    """Take the steps that are missing; the generation before."""
    _check_server(db, at)
    db.execute("SELECT pg_advisory_xact_lock(%s::integer, hashtext(%s::text))", (_MAKING, at.schema))
    if db.execute("SELECT to_regnamespace(%s::text) IS NULL", (quoted(at.schema),)).fetchone() == (True,):
        db.execute(f"CREATE SCHEMA {quoted(at.schema)}")  # which takes a right that one who may use it need not have
    before = 0
    there = db.execute(_THERE, (f"{quoted(at.schema)}.meta",)).fetchone()
    if there is not None and there[0]:
        row = db.execute(f"SELECT generation FROM {quoted(at.schema)}.meta").fetchone()
        before = 0 if row is None else int(row[0])
    if before > GENERATION:
        raise NewerStore(path=at.where, found=before, known=GENERATION)
    for number in range(before + 1, GENERATION + 1):
        db.execute(step(number, at.schema))
    return before
