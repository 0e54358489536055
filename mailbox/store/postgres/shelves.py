"""
Memory documents: the listing, the versions and the history, as questions.

Rules for this file: no I/O.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fencepost.journal.port import Stream
from fencepost.mailbox import codec
from fencepost.mailbox.events import Written
from fencepost.mailbox.records import Action, Entry, Version
from fencepost.mailbox.store.postgres.asking import Ask, Row
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.times import micros

#: Behind every text that can begin with a prefix; no character comes behind this one.
_LAST: Final = "\U0010ffff"
_ENTRIES: Final = (
    "SELECT path, version, created, updated, redacted FROM {s}.entry"
    " WHERE scope = %s AND path >= %s AND path < %s AND (path > %s OR %s::boolean) ORDER BY path LIMIT %s"
)
_UNSUPPORTED: Final = (
    "SELECT scope, path, version, why FROM {s}.document WHERE scope = %s AND why IS NOT NULL"
    " AND path >= %s AND path < %s AND NOT path ^@ 'messages/' AND NOT path ^@ 'message-links/' AND NOT path ^@ '/'"
    " ORDER BY path LIMIT %s"
)
_ACT: Final = (
    "SELECT a.seq, a.action, a.created, e.stream, e.version, e.at, e.actor, e.type, e.data"
    " FROM {s}.act a JOIN {s}.event e ON e.seq = a.seq"
)
_VERSIONS: Final = _ACT + " WHERE e.scope = %s AND e.stream = %s AND e.version < %s ORDER BY e.version DESC LIMIT %s"
#: Order is by sequence and clocks go back, so an older act may have a later time; before the first act whose peak has
#: reached the time, none has.
_HISTORY: Final = (
    _ACT + " WHERE a.scope = %s AND a.seq < %s AND a.at >= %s AND a.seq >= (SELECT seq FROM {s}.act"
    " WHERE scope = %s AND peak >= %s ORDER BY peak, seq LIMIT 1) ORDER BY a.seq DESC LIMIT %s"
)
_ALL_HISTORY: Final = _ACT + " WHERE a.scope = %s AND a.seq < %s ORDER BY a.seq DESC LIMIT %s"


def entries(schema: str, scope: str, prefix: str, after: str | None, limit: int) -> Ask:
    """Documents whose path begins with the prefix, in the order of their paths, behind one of them."""
    return Ask(named(_ENTRIES, schema), (scope, prefix, prefix + _LAST, after or "", after is None, limit))


def entry(row: Row) -> Entry:
    """A line of the listing from its row."""
    path, version, made, told, gone = row
    return Entry(path, version, datetime.fromisoformat(made), datetime.fromisoformat(told), gone)


def unsupported(schema: str, scope: str, prefix: str, limit: int) -> Ask:
    """Scope, path, version and reason of each document of that prefix that cannot be read."""
    return Ask(named(_UNSUPPORTED, schema), (scope, prefix, prefix + _LAST, limit))


def versions(schema: str, stream: Stream, before: int, limit: int) -> Ask:
    """The acts on a document that are older than a version, newest first."""
    return Ask(named(_VERSIONS, schema), (*stream, before, limit))


def history(schema: str, scope: str, since: datetime | None, before: int, limit: int) -> Ask:
    """The acts on all documents of a scope that are older than a number and no older than a time, newest first."""
    if since is None:
        return Ask(named(_ALL_HISTORY, schema), (scope, before, limit))
    earliest = micros(since)
    return Ask(named(_HISTORY, schema), (scope, before, earliest, scope, earliest, limit))


def told(row: Row) -> tuple[int, datetime, Version]:
    """An act: its number, when its document was written for the first time, and the version that it made."""
    seq, action, created, path, version, at, actor, kind, data = row
    happened = None if data is None else codec.decode(kind, data)
    content = happened.content if isinstance(happened, Written) else ""
    made = Version(path, version, Action(action), content, actor, datetime.fromisoformat(at), data is None)
    return seq, datetime.fromisoformat(created), made
