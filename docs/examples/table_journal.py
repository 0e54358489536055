"""A journal in one SQLite table: the smallest backend that keeps every promise of `fencepost.journal.port`."""

import hashlib
import hmac
import secrets
import sqlite3
import threading

from fencepost.journal.errors import ClosedHandle, JournalConflict, JournalCorrupt, TargetOccupied
from fencepost.journal.event import Checkpoint
from fencepost.journal.frame import commit_at, encode, erased_slot, header_at, recorded, slot_places
from fencepost.journal.recovery import BEGINNING


class TableJournal:
    """Each row is one frame; its offset is where the frame would stand in a file."""

    def __init__(self, path):
        self._mutex = threading.RLock()
        self._heads = None
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        self._db.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;"
            "CREATE TABLE IF NOT EXISTS frame (offset INTEGER PRIMARY KEY, seq INTEGER, line BLOB);"
            "CREATE TABLE IF NOT EXISTS head (scope TEXT, stream TEXT, version INTEGER, PRIMARY KEY (scope, stream));"
            "CREATE TABLE IF NOT EXISTS sent (digest TEXT PRIMARY KEY);"
            "CREATE TABLE IF NOT EXISTS erased (seq INTEGER PRIMARY KEY);"
            "CREATE TABLE IF NOT EXISTS secret (secret BLOB);"
            "INSERT INTO secret SELECT randomblob(32) WHERE NOT EXISTS (SELECT 1 FROM secret);"
        )

    def attach(self, heads):
        self._heads = heads

    def append(self, batch, expect, *, settle=True, looked=None):
        with self._mutex:
            self._begin()
            try:
                commit = self._append(batch, expect, looked)
                self._db.execute("COMMIT")  # synchronous = FULL: durable when this returns
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return commit

    def _begin(self):
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.ProgrammingError as error:
            raise ClosedHandle(path="table") from error

    def _append(self, batch, expect, looked):
        stale = looked not in (None, self.generation())
        for (scope, stream), expected in expect.items():
            actual = self._version(scope, stream)
            if actual != expected or (stale and expected):
                raise JournalConflict(scope=scope, stream=stream, expected_version=expected, actual_version=actual)
        digests, versions = [], []
        for event in batch.events:
            versions.append(self._version(event.scope, event.stream) + 1)
            digests.append(event.digest if event.key is None else self.key_digest(event.scope, event.key))
            self._db.execute("REPLACE INTO head VALUES (?, ?, ?)", (event.scope, event.stream, versions[-1]))
            if digests[-1] is not None:
                self._use(digests[-1], event)
        end = self._end()
        salts = [secrets.token_hex(16) for _ in batch.events]
        frame = encode(batch, end.seq + 1, end.digest, end.seq, versions, salts, digests)
        self._db.execute("INSERT INTO frame VALUES (?, ?, ?)", (end.offset, end.seq + len(versions), frame[1]))
        self._erase(batch.erases)
        return recorded(batch, end, frame, 1, end.offset, versions, digests)

    def _erase(self, seqs):
        self._db.executemany("INSERT OR IGNORE INTO erased VALUES (?)", [(seq,) for seq in seqs])
        for erased in seqs:
            query = "SELECT offset, line FROM frame WHERE seq >= ? ORDER BY seq LIMIT 1"
            offset, line = self._db.execute(query, (erased,)).fetchone()
            for seq, begin, size in slot_places(header_at(line, 0)):
                if seq == erased:
                    line = line[:begin] + erased_slot(size) + line[begin + size :]
            self._db.execute("UPDATE frame SET line = ? WHERE offset = ?", (line, offset))

    def generation(self):
        with self._mutex:
            return self._db.execute("SELECT count(*) FROM erased").fetchone()[0]

    def _version(self, scope, stream):
        row = self._db.execute("SELECT version FROM head WHERE scope = ? AND stream = ?", (scope, stream)).fetchone()
        return row[0] if row else 0

    def _use(self, digest, event):
        try:
            self._db.execute("INSERT INTO sent VALUES (?)", (digest,))
        except sqlite3.IntegrityError:
            raise JournalConflict(
                scope=event.scope, stream="an idempotency key", expected_version=0, actual_version=1
            ) from None

    def _end(self):
        row = self._db.execute("SELECT offset, line FROM frame ORDER BY offset DESC LIMIT 1").fetchone()
        return self._commit(*row).end if row else BEGINNING

    def _commit(self, offset, line):
        erased = {seq for (seq,) in self._db.execute("SELECT seq FROM erased")}
        commit = commit_at(line, 0, 1, erased, base=offset)
        if commit is None:
            raise JournalCorrupt(file="table", offset=offset, why="the frame is not as it was written")
        return commit

    def check(self):
        self.refresh()

    def refresh(self):
        with self._mutex:
            return self._db.execute("SELECT coalesce(max(seq), 0) FROM frame").fetchone()[0]

    durable = refresh  # a committed row is durable
    news = refresh

    def pending(self):
        return tuple(self.read(self._heads.checkpoint() if self._heads else BEGINNING))

    owed = pending

    def pending_of(self, stream):
        events = (event for commit in self.pending() for event in commit.events)
        return [event for event in events if (event.scope, event.stream) == stream]

    def trim(self):
        pass  # nothing is kept in mind

    def epoch(self):
        return 0  # nothing that was shown is ever taken back

    def settle(self, epoch):
        return True

    def read(self, after=None):
        after = after or Checkpoint(0, "", 1, 0)
        with self._mutex:
            rows = self._db.execute(
                "SELECT offset, line FROM frame WHERE offset >= ? ORDER BY offset", (after.offset,)
            ).fetchall()
        for row in rows:
            yield self._commit(*row)

    def place_before(self, seq):
        with self._mutex:
            query = "SELECT offset, line FROM frame WHERE seq <= ? ORDER BY offset DESC LIMIT 1"
            row = self._db.execute(query, (seq,)).fetchone()
        return self._commit(*row).end if row else BEGINNING

    def kept_from(self):
        return 1  # there is no archive

    def commit_at(self, segment, offset):
        with self._mutex:
            row = self._db.execute("SELECT offset, line FROM frame WHERE offset = ?", (offset,)).fetchone()
        if row is None or segment != 1:
            raise JournalCorrupt(file="table", offset=offset, why="no frame begins here")
        return self._commit(*row)

    def key_digest(self, scope, key):
        return hmac.new(self.secret(), f"{scope}\0{key}".encode(), hashlib.sha256).hexdigest()

    def secret(self):
        with self._mutex:
            return self._db.execute("SELECT secret FROM secret").fetchone()[0]

    def adopt(self, secret):
        with self._mutex:
            done = self._db.execute("UPDATE secret SET secret = ? WHERE NOT EXISTS (SELECT 1 FROM frame)", (secret,))
            if not done.rowcount:
                raise TargetOccupied(path="table", why="a store with a history of its own")

    def close(self):
        with self._mutex:
            self._db.close()
