"""
Asking a database: questions that share a round trip, and transactions that write.

A store asks through connections of its own (`Own`), or through one that belongs
to its host, in the transaction that the host has begun there (see `hosted`).

A transaction that writes takes two round trips.  The first one begins it, waits
for its turn and reads; the second one writes and commits.  Where nothing has to
be read, one statement is all of it (`Own.once`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import attrs
import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.rows import tuple_row

from fencepost.journal.errors import JournalUnavailable, OutcomeUnknown
from fencepost.mailbox.store.postgres import troubles
from fencepost.mailbox.store.postgres.connections import Connections

#: A transaction that the database rolled back for others' sake is tried again so many times.
_ATTEMPTS_MAX: Final = 16
_PAUSE_S: Final = 0.002
#: For how long to ask what has become of a commit whose answer was lost.
_LEARN_S: Final = 5.0
_LEARN_PAUSE_S: Final = 0.1
_ROWS: Final = 500

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


@attrs.frozen
class Ask:
    """A statement and its values."""

    sql: str
    values: Sequence[object] | Mapping[str, object] = ()


@attrs.frozen
class Witness:
    """What proves that a transaction was committed: its number, and a question that has a row only then."""

    xid: str
    proof: Ask


class Transaction(Protocol):
    """A transaction that writes."""

    hosted: bool

    def ask(self, *asks: Ask) -> list[list[Row]]:
        """The answers to some statements, each of which sees what was committed before it began."""

    def stream(self, ask: Ask) -> Iterator[Row]:
        """The rows of a long answer, a part at a time."""

    def commit(self, asks: Sequence[Ask], tell: Ask, witness: Witness) -> None:
        """Write, make it visible and durable, and tell whoever listens; in a host's transaction, when that commits."""


class Database(Protocol):
    """Where a store asks."""

    @property
    def where(self) -> str:
        """For a sentence."""

    def ask(self, *asks: Ask, apart: bool = False) -> list[list[Row]]:
        """
        The answers to some questions, of one look at the database.

        Args:
            asks: The questions.
            apart: Each is a look of its own, later than the one before.
        """

    def stream(self, ask: Ask) -> Iterator[Row]:
        """The rows of a long answer, a part at a time."""

    def write(self, deed: Callable[[Transaction], T]) -> T:
        """Do something in a transaction; again if the database has rolled it back for others' sake."""


def run(db: psycopg.Connection, asks: Sequence[Ask], cursors: list[psycopg.Cursor[Row]] | None = None) -> None:
    """
    Send some statements, and wait for all of their answers at once.

    Args:
        db: Where.
        asks: The statements.
        cursors: Is filled with what the answers are read from, also where one of them is an error.
    """
    made = [] if cursors is None else cursors
    first: psycopg.Error | None = None
    try:
        # One has nothing to share the round trip with.
        with db.pipeline() if len(asks) > 1 else contextlib.nullcontext():
            try:
                for ask in asks:
                    cursor = psycopg.Cursor(db, row_factory=tuple_row)
                    made.append(cursor)
                    cursor.execute(ask.sql, ask.values)
            except psycopg.Error as error:
                first = error  # a pipeline that ends with an error writes the next one, and where it was, to the log
    except psycopg.Error as error:
        first = first or error
    if first is not None:
        raise first


def answers(db: psycopg.Connection, asks: Sequence[Ask]) -> list[list[Row]]:
    """The rows of each answer to some statements."""
    cursors: list[psycopg.Cursor[Row]] = []
    run(db, asks, cursors)
    return [cursor.fetchall() if _has_rows(cursor) else [] for cursor in cursors]


def _has_rows(cursor: psycopg.Cursor[Row]) -> bool:
    return cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK


def streamed(db: psycopg.Connection, ask: Ask, name: str) -> Iterator[Row]:
    """The rows of an answer, a part at a time; within a transaction."""
    answers(db, [Ask(f"DECLARE {name} NO SCROLL CURSOR FOR {ask.sql}", ask.values)])
    try:
        while True:
            (rows,) = answers(db, [Ask(f"FETCH {_ROWS} FROM {name}")])
            yield from rows
            if len(rows) < _ROWS:
                break
    finally:
        if db.info.transaction_status is TransactionStatus.INTRANS:
            answers(db, [Ask(f"CLOSE {name}")])


class Own:
    """
    The connections of a store.

    Args:
        connections: Where they are.
        where: For a sentence.
        lock_wait_ms: For how long a writer waits for others.
    """

    def __init__(self, connections: Connections, where: str, lock_wait_ms: int) -> None:
        self._connections: Final = connections
        self.where: Final = where
        self.lock_wait_ms: Final = lock_wait_ms

    def ask(self, *asks: Ask, apart: bool = False) -> list[list[Row]]:
        """See `Database`."""
        level = "READ COMMITTED" if apart else "REPEATABLE READ"
        whole = [Ask(f"BEGIN ISOLATION LEVEL {level} READ ONLY"), *asks, Ask("COMMIT")]
        return self._once_more(lambda db: answers(db, asks) if len(asks) == 1 else answers(db, whole)[1:-1])

    def _once_more(self, deed: Callable[[psycopg.Connection], T]) -> T:
        """Do something that only reads; once more where the server has let go of a connection that was idle."""
        while True:
            db: psycopg.Connection | None = None
            known = False
            try:
                with self._connections.borrowed() as (db, known):
                    return deed(db)
            except psycopg.Error as error:
                if db is not None and known and troubles.is_lost(db):
                    self._connections.forget_idle()
                elif not troubles.may_be_repeated(error):
                    raise troubles.translated(error, self.where) from error

    def stream(self, ask: Ask) -> Iterator[Row]:
        """See `Database`."""
        try:
            with self._connections.borrowed() as (db, _):
                answers(db, [Ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")])
                try:
                    yield from streamed(db, ask, "long_answer")
                finally:
                    if not db.closed:
                        db.rollback()
        except psycopg.Error as error:
            raise troubles.translated(error, self.where) from error

    def write(self, deed: Callable[[Transaction], T]) -> T:
        """See `Database`."""
        for attempt in range(_ATTEMPTS_MAX):
            done: OwnTransaction | None = None
            known = False
            try:
                with self._connections.borrowed() as (db, known):
                    done = OwnTransaction(db, self)
                    with done.closing():
                        return deed(done)
            except psycopg.Error as error:
                stale = done is not None and known and not done.began and troubles.is_lost(done.db)
                if stale:
                    self._connections.forget_idle()
                elif attempt == _ATTEMPTS_MAX - 1 or not troubles.may_be_repeated(error):
                    raise troubles.translated(error, self.where, self.lock_wait_ms) from error
                else:
                    time.sleep(attempt * _PAUSE_S)
        raise JournalUnavailable(path=self.where, why="the database rolls back again and again")

    def once(self, ask: Ask) -> tuple[Row, bool]:
        """
        The row that a statement answers which is a transaction of its own, and which it is harmless to do again.

        Where the answer is lost, and with it whether the statement was carried out, it is done again.

        Returns:
            The row, and may the statement have been carried out before?

        Raises:
            JournalError: It was not carried out; `OutcomeUnknown` where nobody can say.
        """
        lost: psycopg.Error | None = None
        deadline = float("inf")
        attempt = 0
        while True:
            db: psycopg.Connection | None = None
            try:
                with self._connections.borrowed() as (db, _):
                    return answers(db, [ask])[0][0], lost is not None
            except psycopg.Error as error:
                if db is not None and troubles.is_lost(db):
                    self._connections.forget_idle()
                    lost = lost or error
                    deadline = min(deadline, time.monotonic() + _LEARN_S)
                elif db is not None and troubles.may_be_repeated(error) and attempt < _ATTEMPTS_MAX:
                    time.sleep(attempt * _PAUSE_S)
                elif lost is None:
                    raise troubles.translated(error, self.where, self.lock_wait_ms) from error
                elif db is not None:
                    raise OutcomeUnknown(path=self.where, why=troubles.said(error)) from lost
                else:
                    time.sleep(_LEARN_PAUSE_S)
                if lost is not None and time.monotonic() >= deadline:
                    raise OutcomeUnknown(path=self.where, why=troubles.said(lost)) from lost
                attempt += 1

    def tell(self, ask: Ask) -> None:
        """Tell whoever listens; who is not told finds out by looking."""
        with contextlib.suppress(psycopg.Error), self._connections.borrowed() as (db, _):
            answers(db, [ask])

    def learn(self, witness: Witness, cause: psycopg.Error) -> None:
        """
        What has become of a commit whose answer was lost; returns where it was committed.

        Raises:
            JournalUnavailable: It was not.
            OutcomeUnknown: Nobody can say.
        """
        self._connections.forget_idle()
        deadline = time.monotonic() + _LEARN_S
        while True:
            committed = None
            with contextlib.suppress(psycopg.Error), self._connections.borrowed() as (db, _):
                committed = _has_committed(db, witness)
            if committed is not None:
                break
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(path=self.where, why=troubles.said(cause)) from cause
            time.sleep(_LEARN_PAUSE_S)
        if not committed:
            raise JournalUnavailable(path=self.where, why=troubles.said(cause)) from cause


def _has_committed(db: psycopg.Connection, witness: Witness) -> bool | None:
    """Has a transaction been committed?  None while it is under way."""
    try:
        ((status,),) = answers(db, [Ask("SELECT pg_xact_status(%s::text::xid8)", (witness.xid,))])[0]
    except psycopg.errors.InvalidParameterValue:
        status = None  # the server has crashed, and remembers no such transaction
    if status == "in progress":
        return None
    # After a crash a number may be given again, so the number alone proves nothing: what was written does.
    return bool(answers(db, [witness.proof])[0])


class OwnTransaction:
    """
    A transaction on a connection of a store.

    Attributes:
        began: The database has answered in it.
    """

    hosted = False

    def __init__(self, db: psycopg.Connection, own: Own) -> None:
        self.db: Final = db
        self.began = False
        self._own: Final = own

    def ask(self, *asks: Ask) -> list[list[Row]]:
        """See `Transaction`."""
        opening = () if self.began else self._opening()
        found = answers(self.db, [*opening, *asks])[len(opening) :]
        self.began = True
        return found

    def _opening(self) -> tuple[Ask, ...]:
        return (
            Ask("BEGIN ISOLATION LEVEL READ COMMITTED"),
            Ask("SELECT set_config('lock_timeout', %s::text, true)", (str(self._own.lock_wait_ms),)),
            WAIT_FOR_THE_DISK,
        )

    def stream(self, ask: Ask) -> Iterator[Row]:
        """See `Transaction`."""
        return streamed(self.db, ask, "long_answer")

    def commit(self, asks: Sequence[Ask], tell: Ask, witness: Witness) -> None:
        """See `Transaction`."""
        cursors: list[psycopg.Cursor[Row]] = []
        try:
            # What is told is told by a transaction of its own: within ours, all of the cluster would commit in turn.
            run(self.db, [*asks, Ask("COMMIT"), tell], cursors)
        except psycopg.Error as error:
            if len(cursors) > len(asks) and cursors[len(asks)].statusmessage == "COMMIT":
                return  # who listens finds out by looking
            if not troubles.is_lost(self.db):
                raise
            self._own.learn(witness, error)

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Roll back what was not committed."""
        try:
            yield
        finally:
            if not self.db.closed and self.db.info.transaction_status is not TransactionStatus.IDLE:
                with contextlib.suppress(psycopg.Error):
                    self.db.rollback()


#: Only where somebody has turned it off is it turned on, because a database may be set to wait for more.
WAIT_FOR_THE_DISK: Final = Ask(
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)
