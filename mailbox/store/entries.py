"""
Memory documents in the index: the listing, the versions and the history, as tables and questions.

`entry` holds the documents that can be read, as a listing shows them, so that
listing never touches their content nor walks over mail.  `act` holds every
version of every document without its content, which is read from the journal;
`peak` is the latest time of all acts of its scope up to that one.

Rules for this file: sqlite3 and plain values.  What is kept here is derived
from the fold alone and carries nothing of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from fencepost.journal.event import Event
from fencepost.journal.port import Stream
from fencepost.mailbox.records import Action, Entry, Record
from fencepost.mailbox.times import micros

TABLES: Final = """
CREATE TABLE entry (scope TEXT, path TEXT, version INTEGER, created TEXT, updated TEXT, redacted INTEGER,
    PRIMARY KEY (scope, path)) WITHOUT ROWID;
CREATE TABLE act (document INTEGER, version INTEGER, scope TEXT, seq INTEGER, at INTEGER, peak INTEGER,
    action TEXT, created TEXT, PRIMARY KEY (document, version)) WITHOUT ROWID;
CREATE UNIQUE INDEX history ON act (scope, seq);
"""
_ACT: Final = (
    "SELECT path, act.version, segment, offset, action, act.created, seq, at, peak FROM act"
    " JOIN version ON version.document = act.document AND version.version = act.version"
    " JOIN document ON document.id = act.document"
)
#: Behind every text that can begin with a prefix; no character comes behind this one.
_LAST: Final = "\U0010ffff"


class Act(NamedTuple):
    """
    What the index knows of a version.

    Attributes:
        segment: The segment that its batch stands in, by first sequence number.
        offset: The byte of that segment at which the batch begins.
        created: When the document was written for the first time, or for the first time since it was deleted.
        seq: Its sequence number.
    """

    path: str
    version: int
    segment: int
    offset: int
    action: Action
    created: datetime
    seq: int


# --- feeding ----------------------------------------------------------------------------------------


def take(db: sqlite3.Connection, document: int, event: Event, record: Record) -> None:
    """One more act of a document, and the line of its listing."""
    at = micros(record.updated_at)
    last = db.execute("SELECT peak FROM act WHERE scope = ? ORDER BY seq DESC LIMIT 1", (event.scope,)).fetchone()
    peak = at if last is None else max(at, last[0])
    row = (document, event.version, event.scope, event.seq, at, peak, record.action.value, _text(record.created_at))
    db.execute("INSERT INTO act VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    keep(db, (event.scope, event.stream), event.version, record)


def keep(db: sqlite3.Connection, stream: Stream, version: int, record: Record | None) -> None:
    """Let the listing show a document as it stands; None for one that cannot be read."""
    if record is None or not record.live:
        db.execute("DELETE FROM entry WHERE scope = ? AND path = ?", stream)
        return
    times = (_text(record.created_at), _text(record.updated_at))
    db.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)", (*stream, version, *times, record.redacted))


def is_kept(db: sqlite3.Connection, stream: Stream, version: int, record: Record) -> bool:
    """Does the listing show what `keep` made of a document?"""
    row = db.execute("SELECT version, created, updated, redacted FROM entry WHERE scope = ? AND path = ?", stream)
    times = (_text(record.created_at), _text(record.updated_at))
    return bool(row.fetchone() == ((version, *times, int(record.redacted)) if record.live else None))


def _text(moment: datetime) -> str:
    return moment.isoformat()


# --- questions --------------------------------------------------------------------------------------


def listed(db: sqlite3.Connection, scope: str, prefix: str, after: str | None, limit: int) -> list[Entry]:
    """Documents whose path begins with the prefix, in the order of their paths, behind one of them."""
    begin = prefix if after is None else max(prefix, after + "\0")  # the first text behind it
    rows = db.execute(
        "SELECT path, version, created, updated, redacted FROM entry"
        " WHERE scope = ? AND path >= ? AND path < ? ORDER BY path LIMIT ?",
        (scope, begin, prefix + _LAST, limit),
    )
    moment = datetime.fromisoformat
    return [Entry(path, version, moment(made), moment(told), bool(gone)) for path, version, made, told, gone in rows]


def unsupported(db: sqlite3.Connection, scope: str, prefix: str, limit: int) -> list[tuple[str, str, int, str]]:
    """Scope, path, version and reason of each document of that prefix that cannot be read."""
    return db.execute(
        "SELECT scope, path, version, why FROM document WHERE scope = ? AND why IS NOT NULL"
        " AND path >= ? AND path < ? AND path NOT GLOB 'messages/*' AND path NOT GLOB 'message-links/*'"
        " AND path NOT GLOB '/*'"
        " ORDER BY path LIMIT ?",
        (scope, prefix, prefix + _LAST, limit),
    ).fetchall()


def versions(db: sqlite3.Connection, stream: Stream, before: int, limit: int) -> list[Act]:
    """The acts on a document that are older than a version, newest first."""
    where = "WHERE document.scope = ? AND path = ? AND act.version < ? ORDER BY act.version DESC LIMIT ?"
    return [_act(row) for row in db.execute(f"{_ACT} {where}", (*stream, before, limit))]


def history(db: sqlite3.Connection, scope: str, since: int | None, before: int, limit: int) -> list[Act]:
    """
    The acts on all documents of a scope that are older than a sequence number and no older than a time, newest first.

    Order is by sequence and clocks go back, so an older act may have a later time; once no act up to here has reached
    the time, none further back does.
    """
    rows = db.execute(f"{_ACT} WHERE act.scope = ? AND seq < ? ORDER BY seq DESC", (scope, before))
    return list(_reaching(rows, since, limit))


def _reaching(rows: sqlite3.Cursor, since: int | None, limit: int) -> Iterator[Act]:
    count = 0
    for row in rows:
        at, peak = row[7:]
        if count == limit or (since is not None and peak < since):
            return
        if since is None or at >= since:
            count += 1
            yield _act(row)


def _act(row: tuple[str, int, int, int, str, str, int, int, int]) -> Act:
    path, version, segment, offset, action, created, seq, _, _ = row
    return Act(path, version, segment, offset, Action(action), datetime.fromisoformat(created), seq)
