"""
The connections of one process to one database.

There is no thread in it, so a forked child can go on with connections of its
own, and who cannot be reached is an error at once, with its reason.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final

import psycopg
from psycopg.pq import TransactionStatus

from fencepost.journal import forks

#: So many connections of one store at most; a thread that wants one more waits.
CONNECTIONS_MAX: Final = 8
#: Connections of a parent process.  They are never closed here: that would end them for the parent.
_inherited: list[object] = []


class Connections:
    """
    Connections that threads borrow in turn.

    Args:
        connect: Makes one.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection], most: int = CONNECTIONS_MAX) -> None:
        self._connect: Final = connect
        self._most: Final = most
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._idle: list[psycopg.Connection] = []
        self._mutex = threading.Lock()
        self._free = threading.BoundedSemaphore(self._most)
        # Who forgets to close loses nothing: what was committed is durable.
        self._finalizer = weakref.finalize(self, _close_all, self._idle, os.getpid())

    def renew_in_child(self) -> None:
        """In a forked child: leave the parent's connections alone, and have own ones."""
        self._finalizer.detach()
        _inherited.append(self._idle)
        self._begin()

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[tuple[psycopg.Connection, bool]]:
        """
        A connection with no transaction on it, for the length of a block; and is it one that was used before?

        Raises:
            psycopg.Error: There is none, and none can be made.
        """
        with self._free:
            db = self._idle_one()
            known = db is not None
            db = db or self._connect()
            try:
                yield db, known
            finally:
                self._take_back(db)

    def _idle_one(self) -> psycopg.Connection | None:
        """One that nobody uses, if the server has not let go of it: who asks by one that is gone learns too little."""
        while True:
            with self._mutex:
                db = self._idle.pop() if self._idle else None
            if db is None or not select.select([db.fileno()], [], [], 0)[0]:
                return db
            with contextlib.suppress(psycopg.Error):
                db.pgconn.consume_input()  # what is there may be news as well
                return db
            db.close()

    def forget_idle(self) -> None:
        """The server has gone away: what was idle is of no use any more."""
        with self._mutex:
            _close_all(self._idle, os.getpid())

    def _take_back(self, db: psycopg.Connection) -> None:
        if db.closed:
            return
        if db.info.transaction_status is not TransactionStatus.IDLE:
            db.close()  # something was interrupted in the middle; whatever it was, the server rolls it back
            return
        with self._mutex:
            self._idle.append(db)

    def close(self) -> None:
        """Close those that nobody uses; the others are closed when they come back to a store that is closed."""
        self.forget_idle()


def _close_all(idle: list[psycopg.Connection], owner: int) -> None:
    while idle and os.getpid() == owner:
        with contextlib.suppress(psycopg.Error):
            idle.pop().close()
