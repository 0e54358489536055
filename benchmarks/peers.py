"""
The peers, each made to sync every message, and given the work that it can do.
"""

import itertools
import sqlite3
import time
from pathlib import Path

from subject import Subject
from texts import BODY, LISTED, OUTCOME, SESSION, YEAR_S, kind

#: For how long a process waits for another, so that eight of them can take turns.
BUSY_S = 60
_INSERT = "INSERT INTO message (conversation, body, due, status) VALUES (?, ?, ?, 0)"
_FULL = 2  # what `PRAGMA synchronous` answers


def sync_every_commit(db):
    """In WAL mode only FULL syncs at each commit; NORMAL leaves the last ones to chance when the power goes."""
    db.execute("PRAGMA synchronous = FULL")
    assert db.execute("PRAGMA synchronous").fetchone()[0] == _FULL
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


class PlainSqlite(Subject):
    """
    A queue as one would write it over SQLite in an afternoon: one table, claims with a token, no history.
    """

    def __init__(self, folder, listed=LISTED):
        Path(folder).mkdir(exist_ok=True)
        self.db = sqlite3.connect(Path(folder) / "queue.sqlite", timeout=BUSY_S, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        sync_every_commit(self.db)
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, conversation TEXT, body TEXT, due REAL,"
            " status INTEGER, owner TEXT, token TEXT, until REAL, outcome TEXT)"
        )
        self.db.execute("CREATE INDEX IF NOT EXISTS inbox ON message (status, due)")
        self.listed = listed
        self.work = []

    def ready(self, work, count):
        if work == "turn":
            self.batch(1, count)
            newest = self.db.execute("SELECT max(id) FROM message").fetchone()[0]
            self.work += range(newest - count + 1, newest + 1)

    def send(self, count):
        for _ in range(count):
            self.db.execute(_INSERT, ("", BODY, time.time()))

    def _insert_many(self, messages):
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(_INSERT, messages)
        self.db.execute("COMMIT")

    def turn(self, count):
        for number in range(count):
            message, token = self.work.pop(), f"token {number}"
            now = time.time()
            claimed = self.db.execute(
                "UPDATE message SET owner = ?, token = ?, until = ? WHERE id = ? AND status = 0 AND due <= ?"
                " AND (until IS NULL OR until <= ?)",
                (SESSION, token, now + 1800, message, now, now),
            )
            assert claimed.rowcount == 1
            done = self.db.execute(
                "UPDATE message SET status = 1, outcome = ? WHERE id = ? AND token = ? AND until > ?",
                (OUTCOME, message, token, time.time()),
            )
            assert done.rowcount == 1

    def batch(self, count, size=100):
        for _ in range(count):
            self._insert_many([("", BODY, time.time())] * size)

    def fill(self, begin, end):
        """Store messages of the same mixture as the big store holds."""
        messages = []
        for number in range(begin, end):
            what = kind(number)
            conversation = f"other-{number % 1000}" if what == "elsewhere" else ""
            messages.append((conversation, BODY, time.time() + (YEAR_S if what == "later" else 0)))
        self._insert_many(messages)

    def list(self, count):
        for _ in range(count):
            found = self.db.execute(
                "SELECT * FROM message WHERE status = 0 AND due <= ? AND (until IS NULL OR until <= ?)"
                " AND conversation IN ('', ?) ORDER BY due LIMIT 50",
                (time.time(), time.time(), SESSION),
            ).fetchall()
            assert len(found) == self.listed, f"{len(found)} listed"

    def close(self):
        self.db.close()


class PersistQueue(Subject):
    """
    persist-queue's SQLiteAckQueue.

    It opens SQLite in WAL mode and leaves `synchronous` as it was compiled, which is FULL nearly everywhere.  So it
    syncs each put, get and ack; this sets and checks it all the same.
    """

    def __init__(self, folder):
        from persistqueue import SQLiteAckQueue

        # Not resuming: eight processes share the file, and what another has taken must stay taken.
        self.queue = SQLiteAckQueue(folder, auto_resume=False, timeout=BUSY_S)
        sync_every_commit(self.queue._putter)  # noqa: SLF001 - it has no public door to its connection

    def ready(self, work, count):
        if work == "turn":
            self.send(count)

    def send(self, count):
        for _ in range(count):
            self.queue.put(BODY)

    def turn(self, count):
        """Its nearest to claim and complete: get, which nobody's lease ends, and ack by id, which asks for no token."""
        for _ in range(count):
            item = self.queue.get(block=False, raw=True)
            self.queue.ack(id=item["pqid"])

    def close(self):
        self.queue.close()


class LiteQueue(Subject):
    """
    litequeue.

    It opens SQLite in WAL mode with `synchronous = NORMAL`, so that by itself a put that returned can be lost with the
    power.  Its connection is public, and setting FULL on it is all that is needed.
    """

    def __init__(self, folder):
        from litequeue import LiteQueue as Queue

        Path(folder).mkdir(exist_ok=True)
        self.queue = Queue(Path(folder) / "queue.sqlite", timeout=BUSY_S)
        sync_every_commit(self.queue.conn)

    def ready(self, work, count):
        if work == "turn":
            self.batch(1, count)

    def send(self, count):
        for _ in range(count):
            self.queue.put(BODY)

    def turn(self, count):
        """Its nearest to claim and complete: pop and done, without a lease or a token."""
        for _ in range(count):
            self.queue.done(self.queue.pop().message_id)

    def batch(self, count, size=100):
        for _ in range(count):
            with self.queue.transaction(mode="IMMEDIATE"):
                for _ in itertools.repeat(None, size):
                    self.queue.put(BODY)

    def close(self):
        self.queue.close()
