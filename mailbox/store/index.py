"""
The index: the documents as they stand, kept in SQLite.

It is a projection.  It is fed by `documents.fold` alone, never past what is
durable, and carries the place in the journal up to which it has been fed, so it
can be deleted and comes back.  Taking in a batch twice changes nothing.

An index that is behind is fed.  One that is missing or damaged is made anew as
a new generation, under a new name: SQLite replays a left-over write-ahead log
into whatever database has its name, so a name is never used for a second file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

import attrs

from fencepost.journal import forks
from fencepost.journal.disk import PRIVATE_FILE, failure
from fencepost.journal.event import Checkpoint, Commit, Event
from fencepost.journal.port import Stream
from fencepost.journal.recovery import BEGINNING
from fencepost.mailbox.addresses import MESSAGES
from fencepost.mailbox.events import AnnotationsRedacted, Linked
from fencepost.mailbox.message import Message
from fencepost.mailbox.records import Record
from fencepost.mailbox.store import entries, notes, texts
from fencepost.mailbox.store.documents import Content, Document, Series, Unreadable, after, body, kept
from fencepost.mailbox.store.troubles import Unusable, translating
from fencepost.mailbox.turns import conversation_of
from fencepost.mailbox.views import place

#: The layout of the tables; an index of another layout is made anew.
LAYOUT: Final = 7
#: Greater than any path of a message.
_BEYOND: Final = MESSAGES + "~"
#: For how long one process waits for another that is feeding the same index.
_BUSY_S: Final = 10.0
#: SQLite copies its log into the database after this many pages; each time costs two syncs.
_CHECKPOINT_PAGES: Final = 4_000

_TABLES: Final = """
CREATE TABLE fed (
    store TEXT, layout INTEGER, seq INTEGER, digest TEXT, segment INTEGER, offset INTEGER, last INTEGER, newest TEXT
);
CREATE TABLE document (
    id INTEGER PRIMARY KEY, scope TEXT, path TEXT, version INTEGER, body TEXT, why TEXT,
    conversation TEXT, standing INTEGER, due INTEGER, created INTEGER, ready INTEGER
);
CREATE UNIQUE INDEX address ON document (scope, path);
CREATE INDEX inbox ON document (scope, conversation, standing, due, created, path) WHERE standing IS NOT NULL;
CREATE INDEX claimed ON document (scope, conversation, ready, due, created, path) WHERE standing = 3;
CREATE INDEX unsupported ON document (scope, path) WHERE why IS NOT NULL;
CREATE TABLE version (document INTEGER, version INTEGER, segment INTEGER, offset INTEGER,
    PRIMARY KEY (document, version)) WITHOUT ROWID;
CREATE TABLE link (session TEXT, scope TEXT, parent TEXT, PRIMARY KEY (session, scope, parent)) WITHOUT ROWID;
CREATE TABLE sendkey (digest TEXT PRIMARY KEY, document INTEGER) WITHOUT ROWID;
CREATE TABLE reference (scope TEXT, path TEXT, document INTEGER, PRIMARY KEY (scope, path, document)) WITHOUT ROWID;
CREATE TABLE seen (session TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segment (first INTEGER PRIMARY KEY);
"""
_UPSERT: Final = (
    "INSERT INTO document (id, scope, path, version, body, why, conversation, standing, due, created, ready)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = excluded.version,"
    " body = excluded.body, why = excluded.why, conversation = excluded.conversation,"
    " standing = excluded.standing, due = excluded.due, created = excluded.created, ready = excluded.ready"
)
_TOLD: Final = (
    "SELECT body, why, conversation, standing, due, created, ready FROM document WHERE scope = ? AND path = ?"
)
_REFERRING: Final = (
    "SELECT DISTINCT document.scope, document.path FROM reference JOIN document ON document = id"
    " WHERE reference.scope = :scope AND reference.path BETWEEN coalesce(:path, '') AND coalesce(:path, char(0x10FFFF))"
    " ORDER BY document.scope, document.path"
)


def file_of(path: str) -> tuple[int, int] | None:
    """Which file stands there: device and inode; None for none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def file_name(generation: int) -> str:
    """The file of an index of that generation."""
    return f"index-{generation}.sqlite"


class Index:
    """
    An index file, for the threads of one process; opened by `open` or `in_memory`.

    Attributes:
        generation: The journal's when it was made.  In another one, what it holds may have been erased.
    """

    def __init__(self, db: sqlite3.Connection, path: str, generation: int) -> None:
        self.path: Final = path
        self.generation: Final = generation
        self._db: Final = db
        self._mutex = threading.RLock()
        self._file = file_of(path)
        self._newest = _BEYOND  # the greatest path of a message at the checkpoint, as last asked for
        # Who forgets to close loses nothing: what was fed is committed.
        self._finalizer = weakref.finalize(self, db.close)
        self._finalizer.atexit = False
        forks.register(self)

    def renew_in_child(self) -> None:
        """In a forked child: a thread of the parent may have held the mutex, and the connection is the parent's."""
        self._mutex = threading.RLock()
        self._finalizer.detach()
        if self._file is not None:
            forks.inherited.add(self._file)

    @classmethod
    def open(cls, path: str, store: str, generation: int) -> Index:
        """
        Open the index of a store.

        Raises:
            Unusable: The file is missing, damaged, foreign or of another layout.
            JournalFull, JournalUnavailable: The file may be good, and cannot be used now.
        """
        db = _connect(path)
        try:
            with translating(path):
                row = db.execute("SELECT store, layout FROM fed").fetchone()
            if row != (store, LAYOUT):
                raise Unusable(f"{path} is of store and layout {row!r}")
        except BaseException:
            db.close()
            raise
        return cls(db, path, generation)

    @classmethod
    def create(cls, path: str, store: str, generation: int) -> Index:
        """Make an empty index.  The name must never have been used."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
            os.chmod(path, PRIVATE_FILE)  # SQLite gives its other files the mode of this one
        except OSError as error:
            raise failure(error, path) from error
        db = _connect(path)
        try:
            with translating(path):
                _make_tables(db, store)
        except BaseException:
            db.close()
            raise
        return cls(db, path, generation)

    @classmethod
    def in_memory(cls, store: str, generation: int = 0) -> Index:
        """An index that lasts as long as the object."""
        db = _connect(":memory:")
        _make_tables(db, store)
        return cls(db, ":memory:", generation)

    def close(self) -> None:
        """Let go of the file."""
        with self._mutex:
            self._finalizer()

    # --- what the journal asks ------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """The place in the journal up to which the index has been fed."""
        with self._mutex:
            *place, self._newest = self._db.execute("SELECT seq, digest, segment, offset, newest FROM fed").fetchone()
            return Checkpoint(*place)

    def last_batch(self) -> tuple[int, str, int, int]:
        """Last event, digest, segment and first byte of the last batch that was taken in."""
        with self._mutex:
            seq, digest, segment, last = self._db.execute("SELECT seq, digest, segment, last FROM fed").fetchone()
            return seq, digest, segment, last

    def segments(self) -> list[int]:
        """The segments that batches were taken in from, by first sequence number."""
        with self._mutex:
            return [row[0] for row in self._db.execute("SELECT first FROM segment ORDER BY first")]

    def version(self, stream: Stream) -> int:
        """The version of a stream at the checkpoint last asked for, or at a later one; 0 where it has no event."""
        with self._mutex:
            if stream[1].startswith(MESSAGES) and stream[1] > self._newest:
                return 0  # ids begin with the time: most new ones need no search
            row = self._db.execute("SELECT version FROM document WHERE scope = ? AND path = ?", stream).fetchone()
            return 0 if row is None else int(row[0])

    def knows_key(self, digest: str) -> bool:
        """Has an idempotency key of that digest been taken in?"""
        return self.sent_under(digest) is not None

    # --- reading -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent look at the index, for several questions."""
        with self._mutex:
            self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                self._db.execute("COMMIT")

    def document(self, stream: Stream) -> Document | None:
        """A document as it stands here."""
        with self._mutex:
            row = self._db.execute(
                "SELECT version, body, why FROM document WHERE scope = ? AND path = ?", stream
            ).fetchone()
        return None if row is None else Document(*stream, row[0], kept(*row[1:]))

    def versions(self, stream: Stream, after: int = 0, limit: int = -1) -> list[tuple[int, int, int]]:
        """Version, segment and first byte of the batch of each event of a document behind one, oldest first."""
        with self._mutex:
            return self._db.execute(
                "SELECT version.version, segment, offset FROM version JOIN document ON document = id"
                " WHERE scope = ? AND path = ? AND version.version > ? ORDER BY version.version LIMIT ?",
                (*stream, after, limit),
            ).fetchall()

    def places(self, scope: str) -> list[tuple[str, int, int, int]]:
        """Path, version, segment and first byte of the batch of each event of a scope."""
        with self._mutex:
            return self._db.execute(
                "SELECT path, version.version, segment, offset FROM document JOIN version ON document = id"
                " WHERE scope = ? ORDER BY path, version.version",
                (scope,),
            ).fetchall()

    def referring(self, scope: str, path: str | None) -> list[Stream]:
        """The messages whose context is the document of that path, or any of the scope where there is no path."""
        with self._mutex:
            return self._db.execute(_REFERRING, {"scope": scope, "path": path}).fetchall()

    def sent_under(self, digest: str) -> Stream | None:
        """The message that an idempotency key sent, by the key's digest."""
        with self._mutex:
            row = self._db.execute(
                "SELECT scope, path FROM sendkey JOIN document ON document = id WHERE digest = ?", (digest,)
            ).fetchone()
        return None if row is None else (row[0], row[1])

    def has_seen(self, session: str) -> bool:
        """Has the session ever sent, read or claimed anything, or been linked?"""
        with self._mutex:
            return self._db.execute("SELECT 1 FROM seen WHERE session = ?", (session,)).fetchone() is not None

    # --- feeding -----------------------------------------------------------------------------------------------

    def take_in(self, commits: Iterable[Commit]) -> None:
        """
        Feed durable batches, in order.  Those that were taken in before are passed over.

        Raises:
            sqlite3.Error: Nothing was taken in.
        """
        with self.writing() as db:
            _Feeding(db).take_in(commits)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One change to the index, which is made whole or not at all."""
        with self._mutex:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:" and not os.path.exists(path):
        raise Unusable(f"{path} is missing")
    with translating(path):
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except sqlite3.DatabaseError:
            db.close()
            raise
    return db


def _make_tables(db: sqlite3.Connection, store: str) -> None:
    db.executescript(f"BEGIN; {_TABLES} {entries.TABLES} {texts.TABLES} {notes.TABLES} COMMIT;")
    beginning = attrs.astuple(BEGINNING)
    db.execute("INSERT INTO fed VALUES (?, ?, ?, ?, ?, ?, 0, '')", (store, LAYOUT, *beginning))


class _Feeding:
    """One transaction that takes batches in: documents are folded in memory and written once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._ids: dict[Stream, int] = {}
        self._contents: dict[Stream, Content] = {}
        self._latest: dict[Stream, int] = {}
        self._versions: list[tuple[int, int, int, int]] = []
        self._segments: set[int] = set()
        self._about: list[tuple[str, int, int]] = []
        self._next_id = 1 + (db.execute("SELECT max(id) FROM document").fetchone()[0] or 0)

    def take_in(self, commits: Iterable[Commit]) -> None:
        seq = self._db.execute("SELECT seq FROM fed").fetchone()[0]
        newest: Commit | None = None
        for commit in commits:
            if commit.seq <= seq:
                continue
            assert commit.events[0].seq == seq + 1, "the index is fed without gaps"
            for event, meaning in zip(commit.events, commit.meanings or repeat(None), strict=False):
                self._take(event, meaning, commit)
            self._segments.add(commit.segment)
            seq, newest = commit.seq, commit
        if newest is not None:
            self._write(newest)

    def _take(self, event: Event, meaning: object, commit: Commit) -> None:
        stream = (event.scope, event.stream)
        if event.version == 1:
            self._ids[stream] = self._next_id
            self._next_id += 1
            content = after(None, event, meaning)
        else:
            content = after(self._find(stream), event, meaning)
        self._contents[stream] = content
        self._latest[stream] = event.version
        self._versions.append((self._ids[stream], event.version, commit.segment, commit.offset))
        self._note(stream, content, event)
        if not isinstance(content, Message):  # mail, which most of it is, has nothing to do with the rest
            if isinstance(content, Record):
                entries.take(self._db, self._ids[stream], event, content)
            elif isinstance(content, Unreadable):
                entries.keep(self._db, stream, event.version, None)

    def _find(self, stream: Stream) -> Content:
        if stream in self._contents:
            return self._contents[stream]
        row = self._db.execute("SELECT id, body, why FROM document WHERE scope = ? AND path = ?", stream).fetchone()
        assert row is not None, "a stream begins with version 1"
        self._ids[stream] = row[0]
        return kept(*row[1:])

    def _note(self, stream: Stream, content: Content, event: Event) -> None:
        """What is remembered beside the documents."""
        key, version = event.key, event.version
        sessions: tuple[str | None, ...] = ()
        if isinstance(content, Message):
            reading = content.reading
            sessions = (content.letter.source, None if reading is None else reading.by)
            context = content.letter.context
            if context is not None:
                reference = (context.scope, context.path, self._ids[stream])
                self._db.execute("INSERT OR IGNORE INTO reference VALUES (?, ?, ?)", reference)
            if content.letter.about is not None and version == 1:
                self._annotate(stream, content.letter.about, content.letter.about_turn)
        elif isinstance(content, AnnotationsRedacted):
            for entry in content.entries:
                self._find((stream[0], entry.path))
                self._annotate((stream[0], entry.path), entry.about, entry.about_turn)
        elif isinstance(content, Series):
            sessions = (conversation_of(stream[0]),) if version == 1 else ()
        elif isinstance(content, Linked):
            sessions = (content.session,)
            link = (content.session, stream[0], content.parent)
            self._db.execute("INSERT OR IGNORE INTO link VALUES (?, ?, ?)", link)
        for session in sessions:
            if session is not None:
                self._db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (session,))
        if key is not None:
            self._db.execute("INSERT OR IGNORE INTO sendkey VALUES (?, ?)", (key, self._ids[stream]))

    def _annotate(self, stream: Stream, about: str, turn: int | None) -> None:
        self._about.append((about, turn or 0, self._ids[stream]))

    def _write(self, newest: Commit) -> None:
        messages = (path for _, path in self._ids if path.startswith(MESSAGES))
        self._db.executemany(_UPSERT, [self._row(stream, content) for stream, content in self._contents.items()])
        self._db.executemany(notes.ADD, self._about)
        self._db.executemany("INSERT INTO version VALUES (?, ?, ?, ?)", self._versions)
        self._db.executemany("INSERT OR IGNORE INTO segment VALUES (?)", [(first,) for first in self._segments])
        self._db.execute(
            "UPDATE fed SET seq = ?, digest = ?, segment = ?, offset = ?, last = ?, newest = max(newest, ?)",
            (newest.seq, newest.digest, newest.segment, newest.stop, newest.offset, max(messages, default="")),
        )

    def _row(self, stream: Stream, content: Content) -> tuple[object, ...]:
        return (self._ids[stream], *stream, self._latest[stream], *_columns(content))


def _columns(content: Content) -> tuple[object, ...]:
    """What a document's row says of its content."""
    raw = body(content)
    told = (None if raw is None else raw.decode(), content.why if isinstance(content, Unreadable) else None)
    if not isinstance(content, Message):
        return (*told, None, None, None, None, None)
    there = place(content)
    return (*told, content.letter.conversation or "", int(there.standing), there.due, there.created, there.ready)


def is_kept(db: sqlite3.Connection, stream: Stream, content: Content) -> bool:
    """Does the row of a document say what its content is?"""
    return bool(db.execute(_TOLD, stream).fetchone() == _columns(content))
