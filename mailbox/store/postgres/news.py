"""
Whether there is news: a number that grows whenever something was added.

It counts events, and not their numbers, because a smaller number may come after
a greater one.  Somebody who listens is told by the database when to look again;
what is told may be lost, and behind some poolers nothing ever is, so it is
looked at from time to time in any case.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from fencepost.mailbox.store.postgres.asking import Ask, Database, answers
from fencepost.mailbox.store.postgres.horizon import Locks
from fencepost.mailbox.store.postgres.schema import named

#: How old the answer may be where somebody listens, and where nobody does.
LISTENING_S: Final = 0.5
DEAF_S: Final = 0.1
#: After a listener was cut off, the next one is started no sooner.
_RESTART_S: Final = 5.0
#: So many events are counted each time before the count is kept.
_COUNTED_MAX: Final = 1_000
_COUNT: Final = "SELECT count(*) FROM {s}.event WHERE seq > %s"
_COUNT_UP_TO: Final = "SELECT count(*) FROM {s}.event WHERE seq > %s AND seq <= %s"
_REPLAYED: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END"
)


class Count:
    """
    How many events there are, counted from a place behind which nothing small can come any more.

    Args:
        database: Where.
        schema: Its tables.
        end: Tells up to which number nothing will be added.
    """

    def __init__(self, database: Database, schema: str, end: Callable[[], int]) -> None:
        self._db: Final = database
        self._schema: Final = schema
        self._end: Final = end
        self._base: int | None = None
        self._before = 0

    def look(self) -> int:
        """The number now."""
        if self._base is None:
            (((replayed,),),) = self._db.ask(Ask(_REPLAYED))
            if replayed is not None:  # of a replica nobody knows what is under way, but how far it has come
                return int(replayed)
            self._base = self._before = self._end()
        (((count,),),) = self._db.ask(Ask(named(_COUNT, self._schema), (self._base,)))
        mark = self._before + int(count)
        if count > _COUNTED_MAX:
            end = self._end()
            (((kept,),),) = self._db.ask(Ask(named(_COUNT_UP_TO, self._schema), (self._base, end)))
            self._before, self._base = self._before + int(kept), end
        return mark


class News:
    """
    The number, asked of the database no more often than needed.  Threads may share it.

    Args:
        look: Asks for it.
        connect: Makes a connection to listen on; None where nobody should.
        locks: Where news is told, and how whoever tells it knows that somebody listens.
        fresh_s: How old the answer may be; None for what is usual.
    """

    def __init__(
        self,
        look: Callable[[], int],
        connect: Callable[[], psycopg.Connection] | None,
        locks: Locks,
        fresh_s: float | None,
    ) -> None:
        self._look: Final = look
        self._connect: Final = connect
        self._locks: Final = locks
        self._fresh_s: Final = fresh_s
        self.renew()

    def renew(self) -> None:
        """Begin anew; in a forked child too, where the listener of the parent is not there."""
        self._mutex = threading.Lock()
        self._stale = threading.Event()
        self._stale.set()
        self._listener: _Listener | None = None
        self._mark = 0
        self._looked = float("-inf")
        self._asked = False
        self._tried = float("-inf")

    def mark(self) -> int:
        """The number."""
        with self._mutex:
            self._listen()
            deaf = self._listener is None or not self._listener.is_alive()
            usual_s = DEAF_S if deaf else LISTENING_S
            fresh_s = usual_s if self._fresh_s is None else self._fresh_s
            if self._stale.is_set() or time.monotonic() - self._looked >= fresh_s:
                self._looked = time.monotonic()
                self._stale.clear()  # before looking: what is told meanwhile may be missed by the look
                try:
                    self._mark = max(self._mark, self._look())
                except BaseException:
                    self._stale.set()
                    raise
            return self._mark

    def heard(self) -> None:
        """There is news."""
        self._stale.set()

    def _listen(self) -> None:
        """Listen from the second question on: who asks once does not wait."""
        asked, self._asked = self._asked, True
        if self._connect is None or not asked:
            return
        if self._listener is not None and self._listener.is_alive():
            return
        if time.monotonic() - self._tried >= _RESTART_S:
            self._tried = time.monotonic()
            self._listener = _Listener(self._connect, self._locks, self._stale)
            self._listener.start()

    def close(self) -> None:
        """Listen no more."""
        with self._mutex:
            listener, self._listener = self._listener, None
            self._tried = float("inf")
        if listener is not None:
            listener.stop()


class _Listener(threading.Thread):
    """A connection on which the database tells of news."""

    def __init__(self, connect: Callable[[], psycopg.Connection], locks: Locks, stale: threading.Event) -> None:
        super().__init__(name="fencepost-listener", daemon=True)
        self._make: Final = connect
        self._locks: Final = locks
        self._stale: Final = stale
        self._wake: Final = os.pipe()

    def run(self) -> None:
        """Set the event whenever something is told; the end of the connection is the end of it."""
        with contextlib.suppress(psycopg.Error), contextlib.closing(self._make()) as db:
            answers(db, [self._locks.hear()])  # first, so that who appends afterwards tells
            db.execute(f"LISTEN {self._locks.channel}")  # a name and a number
            self._stale.set()  # what was told before
            with selectors.DefaultSelector() as waiting:
                waiting.register(db.fileno(), selectors.EVENT_READ)
                waiting.register(self._wake[0], selectors.EVENT_READ)
                while all(key.fd != self._wake[0] for key, _ in waiting.select()):
                    for _ in db.notifies(timeout=0):
                        self._stale.set()
        self._stale.set()

    def stop(self) -> None:
        """Let go of the connection."""
        os.write(self._wake[1], b".")
        self.join()
        for end in self._wake:
            os.close(end)
