"""
A whole history, out of a database and into one.

A database keeps no chain, so what is told of a batch has no digest.  Batches of
different scopes take their numbers at the same time; what is told of one is in
the order of the numbers, so a batch whose numbers have others between them is
told in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

import attrs

from fencepost.journal.errors import TargetOccupied
from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.frame import GENESIS
from fencepost.mailbox.store.postgres.asking import Ask, Row, Transaction
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.store.postgres.writing import COUNT_ERASURE, NEVER, Writer

#: So many bytes of events are told at once, and one more event.
_BYTES_MAX: Final = 8 << 20
_RECORDED: Final = (
    "SELECT batch, seq, at, actor, scope, stream, version, type, data, key FROM (SELECT *,"
    " sum(coalesce(length(data), 0)) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
    " FROM (SELECT * FROM {s}.event WHERE seq > %s ORDER BY seq LIMIT %s) AS part) AS sized"
    " WHERE coalesce(before, 0) <= %s ORDER BY seq"
)
_END: Final = "SELECT coalesce(max(seq), 0), (SELECT last_value FROM {s}.number) FROM {s}.event"
_ALONE: Final = "SELECT key FROM {s}.meta FOR UPDATE"
_ADOPT: Final = "UPDATE {s}.meta SET key = %s"
_AGAIN: Final = "SELECT setval('{s}.number', %s)"


def recorded(schema: str, after: int, limit: int) -> Ask:
    """The events behind a number, for `batches`."""
    return Ask(named(_RECORDED, schema), (after, limit, _BYTES_MAX))


def batches(rows: Iterable[Row]) -> list[Commit]:
    """Events as batches."""
    return [
        Commit(tuple(Event._make(row[1:]) for row in some), GENESIS, GENESIS, 1, 0, 0)
        for _, some in groupby(rows, key=lambda row: row[0])
    ]


def restore(tx: Transaction, writer: Writer, some: Sequence[Batch], behind: int, secret: bytes) -> int:
    """
    Record again what another store has recorded, in one transaction; see `fencepost.mailbox.store.port.Store`.

    Raises:
        TargetOccupied: Something else has been recorded here, or is being.
    """
    ((key,),), ((end, number),) = tx.ask(writer.ask(_ALONE), writer.ask(_END))
    if end != behind or (behind and bytes(key) != secret):
        raise TargetOccupied(path="the database", why="a store with a history of its own")
    if not behind:
        tx.ask(writer.ask(_ADOPT, secret), writer.ask(COUNT_ERASURE))  # what others know of it is over
    if number != behind:  # whoever took a number has not used it
        tx.ask(writer.ask(_AGAIN, behind))
    again = attrs.evolve(writer, key=secret)
    for batch in some:
        again.append(tx, batch, {}, NEVER)
        behind += len(batch.events)
    (((end, _),),) = tx.ask(writer.ask(_END))
    if end != behind:
        raise TargetOccupied(path="the database", why="somebody else is writing to it")
    return behind
