"""
Asking a database in the transaction of a host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from fencepost.journal.errors import JournalUnavailable
from fencepost.mailbox.store.postgres import troubles
from fencepost.mailbox.store.postgres.asking import (
    WAIT_FOR_THE_DISK,
    Ask,
    Row,
    Transaction,
    Witness,
    answers,
    streamed,
)

T = TypeVar("T")


class Hosted:
    """
    The connection of a host, in the transaction that it has begun there.

    Nothing here commits it, rolls it back or tries it again; what fails is rolled back to where it began.
    """

    hosted = True

    def __init__(self, db: psycopg.Connection, where: str) -> None:
        self._db: Final = db
        self.where: Final = where

    def _check(self) -> None:
        if self._db.autocommit and self._db.info.transaction_status is TransactionStatus.IDLE:
            raise JournalUnavailable(path=self.where, why="the connection is in no transaction; begin one first")

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        self._check()
        try:
            yield
        except psycopg.Error as error:
            raise troubles.translated(error, self.where) from error

    def ask(self, *asks: Ask, apart: bool = False) -> list[list[Row]]:
        """See `Database`; here each question is a look of its own."""
        with self._translating():
            return answers(self._db, asks)

    def stream(self, ask: Ask) -> Iterator[Row]:
        """See `Database`."""
        with self._translating():
            yield from streamed(self._db, ask, "fencepost_long_answer")

    def write(self, deed: Callable[[Transaction], T]) -> T:
        """See `Database`."""
        with self._translating():
            answers(self._db, [Ask("SAVEPOINT fencepost"), WAIT_FOR_THE_DISK])
            ((level,),) = answers(self._db, [Ask("SELECT current_setting('transaction_isolation')")])[0]
            if level != "read committed":
                why = f"the transaction is {level}, which cannot see what others have written: use read committed"
                raise JournalUnavailable(path=self.where, why=why)
            try:
                done = deed(_HostedTransaction(self._db))
            except BaseException:
                if not self._db.closed:
                    answers(self._db, [Ask("ROLLBACK TO SAVEPOINT fencepost"), Ask("RELEASE SAVEPOINT fencepost")])
                raise
            answers(self._db, [Ask("RELEASE SAVEPOINT fencepost")])
            return done


class _HostedTransaction:
    """What is done within the transaction of a host."""

    hosted = True

    def __init__(self, db: psycopg.Connection) -> None:
        self._db: Final = db

    def ask(self, *asks: Ask) -> list[list[Row]]:
        """See `Transaction`."""
        return answers(self._db, asks)

    def stream(self, ask: Ask) -> Iterator[Row]:
        """See `Transaction`."""
        return streamed(self._db, ask, "fencepost_long_answer")

    def commit(self, asks: Sequence[Ask], tell: Ask, witness: Witness) -> None:
        """See `Transaction`."""
        answers(self._db, [*asks, tell])
