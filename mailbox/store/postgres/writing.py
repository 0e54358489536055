"""
Appending: a batch, what it folds to and what it erases, in one transaction.

The first round trip waits for the turn of every scope that is concerned, reads
what stands there and takes the numbers.  They are taken after the wait, so
within a scope their order is the order of the commits.  The second one writes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Final

import attrs

from fencepost.journal.errors import BatchTooLarge, JournalConflict, NotErasable
from fencepost.journal.event import Batch, Event
from fencepost.journal.frame import BATCH_BYTES_MAX, BATCH_ERASES_MAX, BATCH_EVENTS_MAX
from fencepost.journal.port import Stream
from fencepost.mailbox.store.documents import Content, check_not_erased
from fencepost.mailbox.store.postgres.asking import Ask, Row, Transaction, Witness
from fencepost.mailbox.store.postgres.folding import Folding, Known, known, parts
from fencepost.mailbox.store.postgres.horizon import Locks
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.turns import PROJECTIONS, TURNS

#: How often this handle has not looked yet.
NEVER: Final = -1
_STANDING: Final = (
    "SELECT id, d.scope, d.path, version, body, why FROM {s}.document d"
    " JOIN unnest(%s::text[], %s::text[]) AS wanted (scope, path) ON d.scope = wanted.scope AND d.path = wanted.path"
)
_STANDS: Final = "SELECT erasures, key FROM {s}.meta"
_USED: Final = "SELECT digest FROM {s}.sendkey WHERE digest = ANY(%s::text[])"
_PROOF: Final = (
    "SELECT 1 FROM {s}.event WHERE scope = %s AND stream = %s AND version = %s AND type = %s"
    " AND actor = %s AND at = %s AND (data IS NULL OR data = %s::bytea)"
)
_NAMED: Final = "SELECT seq, scope, stream, erasing FROM {s}.event WHERE seq = ANY(%s::bigint[])"
_ERASE: Final = (
    "UPDATE {s}.event SET data = NULL WHERE seq = ANY(%s::bigint[]) AND data IS NOT NULL",
    "DELETE FROM {s}.said WHERE seq = ANY(%s::bigint[])",
    "DELETE FROM {s}.noted WHERE seq = ANY(%s::bigint[])",
)
_KEEP: Final = "SELECT {s}.keep(NULL, %s::jsonb)"
COUNT_ERASURE: Final = "UPDATE {s}.meta SET erasures = erasures + 1"
#: What a document has left beside itself, and may not leave there when it is folded again.
_FORGET: Final = tuple(
    "DELETE FROM {s}." + table + " WHERE document IN (SELECT id FROM {s}.document WHERE scope = %s"
    " AND path = ANY(%s::text[]))"
    for table in ("link", "reference", "seen")
)
_RECORDED: Final = (
    "SELECT seq, at, actor, scope, stream, version, type, data, key FROM {s}.event"
    " WHERE scope = %s AND stream = ANY(%s::text[]) ORDER BY stream, version"
)
#: So many documents are folded again before they are written.
_REFOLD: Final = 200


class Stale(Exception):
    """Something was erased, or a whole history brought here, since the handle looked last."""

    def __init__(self, erasures: int) -> None:
        super().__init__()
        self.erasures = erasures


@attrs.frozen
class _Turn:
    """What a transaction has found when its turn came."""

    erasures: int
    documents: dict[Stream, Known]
    used: frozenset[str]
    numbers: tuple[int, ...]
    xid: str


@attrs.frozen
class Writer:
    """
    How batches are appended to a store.

    Attributes:
        schema: Where its tables are.
        key: What its idempotency keys are digested with.
        locks: Its locks.
    """

    schema: str
    key: bytes = attrs.field(repr=False)
    locks: Locks

    def digest(self, scope: str, key: str) -> str:
        """The keyed digest under which an idempotency key of a scope is kept."""
        return hmac.new(self.key, f"{scope}\0{key}".encode(), hashlib.sha256).hexdigest()

    def macs(self, batch: Batch) -> list[str | None]:
        """The digest of the idempotency key of each event that has one."""
        return [event.digest if event.key is None else self.digest(event.scope, event.key) for event in batch.events]

    def ask(self, statement: str, *values: object) -> Ask:
        """A question to the tables of this store."""
        return Ask(named(statement, self.schema), values)

    def stands(self) -> Ask:
        """How often has something been erased, and what are idempotency keys digested with?"""
        return self.ask(_STANDS)

    def append(self, tx: Transaction, batch: Batch, expect: Mapping[Stream, int], erasures: int) -> int:
        """
        Append a batch, and commit.

        Args:
            tx: The transaction.
            batch: The events.
            expect: The version that each stream must be at.
            erasures: How often something had been erased when this handle looked last.

        Returns:
            How often something has been erased by now.

        Raises:
            Stale: That is not as often as it was.
            JournalConflict: A stream is at another version, or an idempotency key was used.
            NotErasable: What should be erased is not there, or is the record of an erasure.
        """
        check_size(batch)
        erased = self._to_erase(tx, batch.erases)
        scopes = {event.scope for event in batch.events} | {scope for scope, _ in (*expect, *erased)}
        turn, events = self._turn(tx, batch, expect, scopes)
        if erasures not in (NEVER, turn.erasures):
            raise Stale(turn.erasures)
        asks = self._added(batch, turn, events, erasing=bool(batch.erases))
        if batch.erases:
            tx.ask(*(self.ask(each, list(batch.erases)) for each in _ERASE))
            for scope, streams in groupby(sorted(erased), key=lambda stream: stream[0]):
                self.refold(tx, scope, [path for _, path in streams])
        self._commit(tx, asks, turn, events[0])
        return turn.erasures + bool(batch.erases)

    def record(self, tx: Transaction, batch: Batch) -> int:
        """
        Append the record of an erasure that was carried out in this transaction, and commit.

        Returns:
            How often something has been erased by now.
        """
        turn, events = self._turn(tx, batch, {}, {event.scope for event in batch.events})
        self._commit(tx, self._added(batch, turn, events, erasing=True), turn, events[0])
        return turn.erasures + 1

    def _to_erase(self, tx: Transaction, erases: Sequence[int]) -> set[Stream]:
        """The streams of events that are to be erased."""
        if not erases:
            return set()
        (found,) = tx.ask(self.ask(_NAMED, list(erases)))
        missing = set(erases) - {row[0] for row in found}
        if missing:
            raise NotErasable(seq=min(missing), why="it is not there")
        for seq, _, _, erasing in sorted(found):
            if erasing:
                raise NotErasable(seq=seq, why="it erases others")
        return {(scope, stream) for _, scope, stream, _ in found}

    def _turn(
        self, tx: Transaction, batch: Batch, expect: Mapping[Stream, int], scopes: Collection[str]
    ) -> tuple[_Turn, list[Event]]:
        """Wait for our turn in some scopes, look at what stands there, take numbers, and say what is recorded then."""
        streams = list(dict.fromkeys([*expect, *((event.scope, event.stream) for event in batch.events)]))
        macs = self.macs(batch)
        used = [mac for mac in macs if mac is not None]
        _, ((erasures, key),), standing, taken, _, (numbers,) = tx.ask(
            self.locks.turn(scopes),
            self.stands(),
            self.ask(_STANDING, [scope for scope, _ in streams], [path for _, path in streams]),
            self.ask(_USED, used),
            *self.locks.numbers(len(batch.events), hosted=tx.hosted),
        )
        if used and key != self.key:
            raise Stale(erasures)
        turn = _Turn(
            erasures,
            dict(map(known, standing)),
            frozenset(digest for (digest,) in taken),
            tuple(numbers[0]),
            numbers[1],
        )
        _check(batch, expect, turn, used)
        versions = {stream: each.version for stream, each in turn.documents.items()}
        return turn, events_of(batch, versions, turn.numbers, macs)

    def _added(self, batch: Batch, turn: _Turn, events: Sequence[Event], *, erasing: bool) -> list[Ask]:
        asks = self.keeping(folding_of(turn.documents, batch, events, erasing=erasing))
        return [*asks, self.ask(COUNT_ERASURE)] if erasing else asks

    def _commit(self, tx: Transaction, asks: Sequence[Ask], turn: _Turn, first: Event) -> None:
        tx.commit(asks, self.locks.tell(), Witness(turn.xid, self.proof(first)))

    def proof(self, event: Event) -> Ask:
        """Has a row where that was recorded."""
        return self.ask(_PROOF, event.scope, event.stream, event.version, event.type, event.actor, event.at, event.data)

    def refold(self, tx: Transaction, scope: str, paths: Sequence[str]) -> None:
        """Fold documents again, since what some of their events said is gone."""
        folded = [path for path in paths if path not in (TURNS, PROJECTIONS)]
        for begin in range(0, len(folded), _REFOLD):
            some = folded[begin : begin + _REFOLD]
            folding = Folding({})
            for row in tx.stream(self.ask(_RECORDED, scope, some)):
                folding.take(_event(row), again=True)
            tx.ask(*(self.ask(each, scope, some) for each in _FORGET), *self.keeping(folding))

    def keeping(self, folding: Folding) -> list[Ask]:
        """What writes it all, once its numbers are known."""
        return [self.ask(_KEEP, part) for part in parts(folding.rows())]


def folding_of(documents: Mapping[Stream, Known], batch: Batch, events: Sequence[Event], *, erasing: bool) -> Folding:
    """A batch that is recorded as these events, folded."""
    folding = Folding(documents)
    for event, new in zip(events, batch.events, strict=True):
        folding.record(event, events[0].seq, erasing=erasing)
        folding.take(event, new.meaning)
    return folding


def _event(row: Row) -> Event:
    return Event._make(row)


def check_size(batch: Batch) -> None:
    """Refuse what is larger than any store takes."""
    size_bytes = sum(len(event.data) for event in batch.events)
    too_many = not 0 < len(batch.events) <= BATCH_EVENTS_MAX or len(batch.erases) > BATCH_ERASES_MAX
    if too_many or size_bytes > BATCH_BYTES_MAX:
        limit = f"1 to {BATCH_EVENTS_MAX} events, {BATCH_BYTES_MAX} bytes, {BATCH_ERASES_MAX} events to erase"
        raise BatchTooLarge(events=len(batch.events), size_bytes=size_bytes, limit=limit)


def _check(batch: Batch, expect: Mapping[Stream, int], turn: _Turn, macs: Sequence[str]) -> None:
    for stream, expected in expect.items():
        there = turn.documents.get(stream)
        actual = 0 if there is None else there.version
        if actual != expected:
            raise JournalConflict(scope=stream[0], stream=stream[1], expected_version=expected, actual_version=actual)
    check_not_erased(batch, expect, lambda stream: content_in(turn.documents, stream))
    if turn.used or len(set(macs)) < len(macs):
        raise key_used(batch)


def content_in(documents: Mapping[Stream, Known], stream: Stream) -> Content | None:
    """What stands there."""
    there = documents.get(stream)
    return None if there is None else there.content


def key_used(batch: Batch) -> JournalConflict:
    """Something was recorded under one of its idempotency keys before."""
    scope = batch.events[0].scope
    return JournalConflict(scope=scope, stream="an idempotency key", expected_version=0, actual_version=1)


def events_of(
    batch: Batch, before: Mapping[Stream, int], numbers: Sequence[int], macs: Sequence[str | None]
) -> list[Event]:
    """The events of a batch as they are recorded under some numbers, in streams that are at some versions."""
    at = batch.at.isoformat()[:-6] + "Z"
    versions = dict(before)
    events = []
    for seq, new, mac in zip(numbers, batch.events, macs, strict=True):
        stream = (new.scope, new.stream)
        version = versions[stream] = versions.get(stream, 0) + 1
        events.append(Event(seq, at, batch.actor, *stream, version, new.type, new.data, mac))
    return events
