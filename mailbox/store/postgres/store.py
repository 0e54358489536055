"""
Documents in a database; see `fencepost.mailbox.store.postgres` for how it is kept in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs
import psycopg

from fencepost.journal import forks
from fencepost.journal.errors import ClosedHandle
from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.port import Stream
from fencepost.mailbox.addresses import REDACTIONS
from fencepost.mailbox.errors import InvalidName
from fencepost.mailbox.records import Entry, Record, Version
from fencepost.mailbox.store.documents import Document, erased_meanwhile, kept
from fencepost.mailbox.store.port import Filed, Query, Redaction, Unsupported
from fencepost.mailbox.store.postgres import erasing, filed, listings, moving, searching, shelves, troubles
from fencepost.mailbox.store.postgres.asking import Ask, Database, Own, Row, Transaction
from fencepost.mailbox.store.postgres.connections import Connections
from fencepost.mailbox.store.postgres.feed import Feed
from fencepost.mailbox.store.postgres.folding import Known
from fencepost.mailbox.store.postgres.horizon import Locks
from fencepost.mailbox.store.postgres.hosted import Hosted
from fencepost.mailbox.store.postgres.news import Count, News
from fencepost.mailbox.store.postgres.quick import Memory, Quick
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.store.postgres.writing import NEVER, Stale, Writer
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.times import EPOCH

_FIND: Final = (
    "SELECT erasures, key, id, version, body, why FROM {s}.meta LEFT JOIN {s}.document ON scope = %s AND path = %s"
)
_EVENTS: Final = (
    "SELECT seq, at, actor, scope, stream, version, type, data, key FROM {s}.event"
    " WHERE scope = %s AND stream = %s AND version > %s ORDER BY version LIMIT %s"
)
_ANNOTATIONS: Final = (
    "SELECT d.scope, d.path, d.version, d.body, d.why FROM {s}.about a JOIN {s}.document d ON a.document = d.id"
    " WHERE a.conversation = %s AND a.turn = %s ORDER BY d.id"
)
_SENT_UNDER: Final = (
    "SELECT erasures, key, scope, path FROM {s}.meta"
    " LEFT JOIN {s}.sendkey ON digest = %s LEFT JOIN {s}.document ON document = id"
)
_HAS_SEEN: Final = "SELECT 1 FROM {s}.seen WHERE session = %s LIMIT 1"
#: What an erasure leaves dead rows in.
_TIDY: Final = ("event", "document", "said", "noted", "link", "reference", "seen")


class PostgresStore(Feed):
    """
    A store in a schema of a database.  Threads may share it.

    Args:
        database: Where it asks.
        writer: How it appends.
        connections: Its own connections; None for a store within a host's transaction.
        connect: Makes a connection to listen on; None where nobody should.
        fresh_s: How old the answer of `change_mark` may be; None for what is usual.
    """

    def __init__(
        self,
        database: Database,
        writer: Writer,
        connections: Connections | None = None,
        connect: Callable[[], psycopg.Connection] | None = None,
        fresh_s: float | None = None,
    ) -> None:
        self._db = database
        self._writer = writer
        self._schema = writer.schema
        self._locks: Locks = writer.locks
        self._connections: Final = connections
        self._quick = Quick(database, writer, Memory()) if isinstance(database, Own) else None
        self._erasures = NEVER
        self._closed = False
        count = Count(database, writer.schema, lambda: self.feed_bounds()[1])
        self._news: Final = News(count.look, connect, writer.locks, fresh_s)
        forks.register(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._db.where}>"

    def renew_in_child(self) -> None:
        """In a forked child: the listener is the parent's."""
        self._news.renew()

    def within(self, connection: psycopg.Connection) -> PostgresStore:
        """
        The same store in a transaction of a host, who commits its own work and what is appended here together.

        It is for the thread that uses the connection, and until the transaction ends.  Nothing here commits it or rolls
        it back.  Until it ends, others who write to the same scopes wait, and the feed tells nothing that came later.

        Args:
            connection: A psycopg connection to the same database, in a transaction at the level READ COMMITTED, or one
                that begins transactions by itself.
        """
        return PostgresStore(Hosted(connection, self._db.where), self._writer, fresh_s=0)

    def actor(self, said: str) -> str:
        """See `fencepost.mailbox.store.port.Store`; whoever has the database at hand is believed."""
        return said

    def _ask(self, statement: str, *values: object) -> list[Row]:
        """The rows of an answer."""
        self._check_open()
        (rows,) = self._db.ask(Ask(named(statement, self._schema), values))
        return rows

    def _look(self, ask: Ask) -> list[Row]:
        self._check_open()
        (rows,) = self._db.ask(ask)
        return rows

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedHandle(path=self._db.where)

    # --- documents ---------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> Document | None:
        """See `fencepost.mailbox.store.port.Store`."""
        ((erasures, key, number, version, body, why),) = self._ask(_FIND, *stream)
        self._found(erasures, key)
        if version is None:
            return None
        content = kept(body, why)
        if self._quick is not None:
            self._quick.memory.keep(stream, erasures, Known(number, version, content), len(body or ""))
        return Document(*stream, version, content)

    def _found(self, erasures: int, key: bytes) -> None:
        """
        What a look has shown of the whole store: an import replaces the key of a store that was empty.

        It counts as an erasure, so whoever appends with the key before is refused by the number before.
        """
        if key != self._writer.key:
            self._writer = attrs.evolve(self._writer, key=key)
            if self._quick is not None:
                self._quick = attrs.evolve(self._quick, writer=self._writer, memory=Memory())
        self._erasures = erasures

    def append(self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True) -> None:
        """See `fencepost.mailbox.store.port.Store`; it is durable in any case."""
        self._check_open()
        erasures, writer, quick = self._erasures, self._writer, self._quick  # in this order: see `_found`
        try:
            done = None if quick is None else quick.append(batch, expect, erasures)
            if done is None:
                done = self._db.write(lambda tx: writer.append(tx, batch, expect, erasures))
            self._erasures = done
        except Stale:
            self._found(*self._look(writer.stands())[0])
            raise erased_meanwhile(batch.events[0].scope) from None
        self._news.heard()
        if batch.erases:
            self._tidy()

    def redact(self, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None = None) -> Redaction:
        """See `fencepost.mailbox.store.port.Store`; what it does not reach is in docs/postgres.md."""
        self._check_open()
        if path == REDACTIONS:
            raise InvalidName(field="path", value=path, rule="what was erased stays on record")

        def deed(tx: Transaction) -> tuple[Redaction, int | None]:
            return erasing.redact(self._writer, tx, scope, path, at=at, actor=actor, reason=reason)

        done, erasures = self._db.write(deed)
        if erasures is not None:
            self._erasures = erasures
            self._news.heard()
            self._tidy()
        return done

    def _tidy(self) -> None:
        """Have the dead rows removed, which still hold what was erased; somebody else does it where we may not."""
        if self._connections is not None:
            with contextlib.suppress(psycopg.Error), self._connections.borrowed() as (db, _):
                for table in _TIDY:
                    db.execute(named(f"VACUUM (SKIP_LOCKED) {{s}}.{table}", self._schema))

    def epoch(self) -> int:
        """See `fencepost.mailbox.store.port.Store`; what is visible is committed."""
        return 0

    def settle(self, epoch: int) -> bool:
        """See `fencepost.mailbox.store.port.Store`; nothing is ever taken back."""
        return True

    def events(self, stream: Stream) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self.events_from(stream, 0, None)

    def events_from(self, stream: Stream, after: int, limit: int | None) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        return [Event._make(row) for row in self._ask(_EVENTS, *stream, after, limit)]

    # --- listings ------------------------------------------------------------------------------------------

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        items: list[tuple[int, str]] = []
        odd: list[Unsupported] = []
        for version, body, scope, path, why in self._look(listings.inbox(self._schema, query)):
            if why is None:
                items.append((version, body))
            else:
                odd.append(Unsupported(scope, path, version, why))
        return items, odd

    def entries(
        self, scope: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._check_open()
        found, odd = self._db.ask(
            shelves.entries(self._schema, scope, prefix, after, limit),
            shelves.unsupported(self._schema, scope, prefix, limit),
        )
        return list(map(shelves.entry, found)), [Unsupported(*row) for row in odd]

    def versions(self, stream: Stream, before: int, limit: int) -> Sequence[Version]:
        """See `fencepost.mailbox.store.port.Store`."""
        rows = self._look(shelves.versions(self._schema, stream, before, limit))
        return [version for _, _, version in map(shelves.told, rows)]

    def history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[tuple[int, Version]]:
        """See `fencepost.mailbox.store.port.Store`."""
        rows = self._look(shelves.history(self._schema, scope, since, before, limit))
        return [(seq, version) for seq, _, version in map(shelves.told, rows)]

    def record_at(self, stream: Stream, version: int) -> Record | None:
        """See `fencepost.mailbox.store.port.Store`."""
        rows = self._look(shelves.versions(self._schema, stream, version + 1, 1))
        if not rows:
            return None
        _, created, found = shelves.told(rows[0])
        if found.version != version:
            return None
        return Record(found.action, found.content, created, found.created_at, found.actor, found.redacted)

    def annotations(self, conversation: str, turn: int | None) -> Sequence[Document]:
        """See `fencepost.mailbox.store.port.Store`."""
        rows = self._ask(_ANNOTATIONS, conversation, turn or 0)
        return [Document(scope, path, version, kept(*told)) for scope, path, version, *told in rows]

    def search(self, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
        """See `fencepost.mailbox.store.port.Store`."""
        self._check_open()
        return searching.find(self._db, self._schema, name, terms, sight, limit)

    def search_turns(self, terms: Sequence[str], sight: Sight, limit: int) -> Sequence[Text]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._check_open()
        return searching.find_turns(self._db, self._schema, terms, sight, limit)

    def next_change(self, query: Query) -> datetime | None:
        """See `fencepost.mailbox.store.port.Store`."""
        ((found,),) = self._look(listings.next_change(self._schema, query))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """See `fencepost.mailbox.store.port.Store`."""
        return frozenset(name for (name,) in self._look(listings.audience(self._schema, session, tuple(scopes))))

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """See `fencepost.mailbox.store.port.Store`."""
        while True:
            writer = self._writer
            ((erasures, secret, there, path),) = self._ask(_SENT_UNDER, writer.digest(scope, key))
            self._found(erasures, secret)
            if secret == writer.key:
                return None if there is None else (there, path)

    def has_seen(self, session: str) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        return bool(self._ask(_HAS_SEEN, session))

    # --- for whoever serves it -----------------------------------------------------------------------------

    def check(self) -> None:
        """See `fencepost.mailbox.store.port.Served`."""
        ((only_read,),) = self._look(filed.is_only_read(self._schema))
        if only_read:
            raise troubles.OnlyRead(path=self._db.where)

    def scopes(self) -> Sequence[str]:
        """See `fencepost.mailbox.store.port.Served`."""
        return [scope for (scope,) in self._look(filed.scopes(self._schema))]

    def mail(self, scope: str, prefix: str, after: str | None, limit: int) -> Sequence[Filed]:
        """See `fencepost.mailbox.store.port.Served`."""
        return [filed.line(row) for row in self._look(filed.mail(self._schema, scope, prefix, after, limit))]

    def mail_history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[Event]:
        """See `fencepost.mailbox.store.port.Served`."""
        return [Event._make(row) for row in self._look(filed.history(self._schema, scope, since, before, limit))]

    # --- the whole of it -----------------------------------------------------------------------------------

    def batches(self, after: int, limit: int) -> Sequence[Commit]:
        """See `fencepost.mailbox.store.port.Store`; `limit` is of events, and see `moving` for what a batch is here."""
        self._check_open()
        horizon, rows = self._as_far_as_decided(moving.recorded(self._schema, after, limit))
        return moving.batches(row for row in rows if row[1] <= horizon)

    def secret(self) -> bytes:
        """See `fencepost.mailbox.store.port.Store`."""
        ((erasures, key),) = self._look(self._writer.stands())
        self._found(erasures, key)
        return bytes(key)

    def restore(self, batches: Sequence[Batch], behind: int, secret: bytes) -> int:
        """See `fencepost.mailbox.store.port.Store`; all of them or none."""
        self._check_open()
        try:
            with self._host() as host:
                done = host.write(lambda tx: moving.restore(tx, self._writer, batches, behind, secret))
        except psycopg.Error as error:
            raise troubles.translated(error, self._db.where) from error
        self._found(NEVER, secret)
        self._news.heard()
        return done

    @contextlib.contextmanager
    def _host(self) -> Iterator[Database]:
        """One transaction for several batches."""
        if self._connections is None:
            yield self._db
            return
        with self._connections.borrowed() as (db, _), db.transaction():
            yield Hosted(db, self._db.where)

    def change_mark(self) -> int:
        """See `fencepost.mailbox.store.port.Store`; it may be half a second old, and less where the database tells."""
        self._check_open()
        return self._news.mark()

    def close(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._closed = True
        self._news.close()
        if self._connections is not None:
            self._connections.close()
