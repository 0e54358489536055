"""
The locks of a store, and how far its feed can be told.

Numbers are taken before a transaction commits, so a smaller one may become
visible later.  A transaction therefore says by a lock that it is about to take
numbers (and the last one that was given), and by another the number before the
first that it took.  Whoever reads the feed looks in this order: at the last
number, at the locks, at the events.  A batch that is not among the events and
whose number is no greater than the last one was under way when the locks were
looked at, or never will be there.  So up to the smallest number that a lock
names, nothing will be added.

Between the two locks a transaction may seem to hold more back than it does.
That is over in a moment, and is waited for, so that the horizon never recedes.

Rules for this file: no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import Final

import attrs

from fencepost.mailbox.store.postgres.asking import Ask, Row
from fencepost.mailbox.store.postgres.schema import named

_LOW: Final = 1 << 32
_TURN: Final = "SELECT pg_advisory_xact_lock(%s::integer, place) FROM unnest(%s::integer[]) AS place"
_ANNOUNCE: Final = "SELECT pg_advisory_xact_lock_shared(%s::integer, last_value::bit(32)::integer) FROM {s}.number"
_TAKE: Final = (
    "WITH taken AS MATERIALIZED (SELECT nextval('{s}.number') AS seq FROM generate_series(1, %s::integer))"
    " SELECT array_agg(seq ORDER BY seq), pg_current_xact_id()::text,"
    " pg_advisory_xact_lock_shared(%s::integer, (min(seq) - 1)::bit(32)::integer) FROM taken"
)
#: In a host's transaction there may be thousands of batches, and the first one holds back the rest.
_ANNOUNCE_ONCE: Final = (
    _ANNOUNCE + " WHERE NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
    " AND objsubid = 2 AND classid = %s::bigint::oid)"
)
_TAKE_ONCE: Final = (
    "WITH held AS MATERIALIZED (SELECT count(*) AS count FROM pg_locks WHERE pid = pg_backend_pid()"
    " AND locktype = 'advisory' AND objsubid = 2 AND classid = %s::bigint::oid), taken AS MATERIALIZED"
    " (SELECT nextval('{s}.number') AS seq FROM generate_series(1, %s::integer))"
    " SELECT array_agg(seq ORDER BY seq), pg_current_xact_id()::text, CASE WHEN (SELECT count FROM held) = 0 THEN"
    " pg_advisory_xact_lock_shared(%s::integer, (min(seq) - 1)::bit(32)::integer)::text END FROM taken"
)
_END: Final = "SELECT last_value, pg_is_in_recovery(), current_setting('transaction_isolation') FROM {s}.number"
_LOCKS: Final = (
    "SELECT virtualtransaction, classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
    " AND objsubid = 2 AND classid = ANY(%s::bigint[]::oid[])"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@attrs.frozen
class Horizon:
    """
    How far the feed can be told.

    Attributes:
        seq: Nothing will be added up to this number.
        sure: It is not held back by a transaction that may be further than it has said.
    """

    seq: int
    sure: bool


@attrs.frozen
class Locks:
    """
    The locks of a store.

    Attributes:
        schema: Where its tables are.
        tag: What its locks begin with.
    """

    schema: str
    tag: int

    def turn(self, scopes: Collection[str]) -> Ask:
        """Wait for the turn of scopes.  Everybody waits in the same order."""
        return Ask(_TURN, (self.tag, places(scopes)))

    def hear(self) -> Ask:
        """Let those who append know that somebody listens, for as long as this connection is there."""
        return Ask("SELECT pg_advisory_lock_shared(%s::integer, 0)", (self.tag + 4,))

    def numbers(self, count: int, *, hosted: bool) -> tuple[Ask, Ask]:
        """Take numbers; the last answer holds them, and the number of the transaction."""
        announced, taken = self.tag + 1, self.tag + 2
        if hosted:
            first = Ask(named(_ANNOUNCE_ONCE, self.schema), (announced, taken))
            return first, Ask(named(_TAKE_ONCE, self.schema), (taken, count, taken))
        return Ask(named(_ANNOUNCE, self.schema), (announced,)), Ask(named(_TAKE, self.schema), (count, taken))

    def tell(self) -> Ask:
        """Tell whoever listens that there is news.  It says nothing more."""
        return Ask("SELECT pg_notify(%s::text, '')", (self.channel,))

    @property
    def channel(self) -> str:
        """Where news is told."""
        return f"fencepost_{self.tag}"

    def asks(self) -> tuple[Ask, Ask]:
        """What to ask, before the events, so that `horizon` can be told."""
        return Ask(named(_END, self.schema)), Ask(_LOCKS, ([self.tag + 1, self.tag + 2],))

    def horizon(self, last: int, held: Iterable[Row]) -> Horizon:
        """How far the feed can be told, from the last number and the locks that were found."""
        announced: dict[str, int] = {}
        taken: dict[str, int] = {}
        for transaction, kind, low in held:
            where = announced if kind == self.tag + 1 else taken
            where[transaction] = min(where.get(transaction, last), _whole(last, low))
        vague = [seq for transaction, seq in announced.items() if transaction not in taken and seq < last]
        return Horizon(min([last, *taken.values(), *vague]), not vague)


def places(names: Iterable[str]) -> list[int]:
    """What scopes, or whatever else is waited for, are locked by, in the order in which everybody does."""
    return sorted(
        {int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), signed=True) for name in names}
    )


def _whole(near: int, low: int) -> int:
    """The number near another one of which the lower half is known."""
    back = (near - low) % _LOW
    return near - back if back < _LOW // 2 else near - back + _LOW
