"""
The listings as questions to the index.

`fencepost.mailbox.views` says which messages a listing shows; this says it in
SQL, over the columns that `views.place` computes.  That the two agree is a
property test.

Rules for this file: the standard library's sqlite3 and nothing else, because
the quickest commands ask it too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

PENDING, READ, CLOSED, CLAIMED = range(4)  # views.Standing, which would import too much here

_ITEM: Final = "SELECT due, created, path, version, body FROM document WHERE "
_HERE: Final = "scope = :scope AND conversation = :conversation AND standing = "
_FIRST: Final = " ORDER BY due, created, path LIMIT :limit"
_DUE: Final = f"{_ITEM}{_HERE}:standing AND due <= :now{_FIRST}"
_LATER: Final = f"{_ITEM}{_HERE}:standing AND due > :now{_FIRST}"
_ALL: Final = f"{_ITEM}{_HERE}:standing{_FIRST}"
#: Claimed messages are also kept by the end of their lease, so that those still worked on need not be passed over.
_CLAIMED: Final = f"FROM document INDEXED BY claimed WHERE {_HERE}{CLAIMED} AND ready"
_LAPSED: Final = f"{_ITEM}id IN (SELECT id {_CLAIMED} <= :now{_FIRST}){_FIRST}"
#: Listing -> which standings it looks at, and how.
_ASKS: Final[dict[str, tuple[tuple[int, str], ...]]] = {
    "unread": ((PENDING, _DUE), (CLAIMED, _LAPSED)),
    "open": ((PENDING, _DUE), (READ, _DUE), (CLAIMED, _DUE)),
    "scheduled": ((PENDING, _LATER), (READ, _LATER), (CLAIMED, _LATER)),
    "closed": ((CLOSED, _ALL),),
    "all": ((PENDING, _ALL), (READ, _ALL), (CLOSED, _ALL), (CLAIMED, _ALL)),
}
_COUNTS: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM document WHERE {_HERE}{PENDING} AND due <= :now LIMIT :limit)",  # noqa: S608 - of constants
    f"SELECT count(*) FROM (SELECT 1 {_CLAIMED} <= :now LIMIT :limit)",  # noqa: S608 - likewise
)
#: The next due time of what is scheduled, and the next end of a running lease.
_PENDING: Final = f"FROM document WHERE {_HERE}{PENDING} AND due"
_NEXT: Final = (f"SELECT min(due) {_PENDING} > :now", f"SELECT min(ready) {_CLAIMED} > :now")


#: When it is due and was created, its path, its version and its body.
_Item: TypeAlias = tuple[int, int, str, int, str]


def select(
    db: sqlite3.Connection,
    listing: str,
    scopes: Iterable[str],
    conversations: Iterable[str],
    now: int,
    limit: int,
    long: int | None = None,
) -> list[tuple[int, str]]:
    """
    The items of a listing, oldest due first.

    Args:
        db: The index.
        listing: One of `views.Listing`, by its value.
        scopes: The scopes to read.
        conversations: The conversations whose mail the caller receives; mail for everybody comes always.
        now: Microseconds since 1970.
        limit: How many at most.
        long: The message by which it becomes so long is the last one.

    Returns:
        The version and the body of each message.
    """
    asks = _ASKS[listing]
    found: list[_Item] = []
    audience = ("", *conversations)
    for scope in scopes:
        for conversation in audience:
            for standing, query in asks:
                asked = {
                    "scope": scope,
                    "conversation": conversation,
                    "standing": standing,
                    "now": now,
                    "limit": limit,
                }
                found += _until_long(db.execute(query, asked), long)
    found.sort()
    return [(version, body) for _, _, _, version, body in _until_long(found[:limit], long)]


def _until_long(rows: Iterable[_Item], long: int | None) -> Iterator[_Item]:
    """The rows up to the one by which they become so long; the rest is not even looked at."""
    length = 0
    for row in rows:
        yield row
        length += len(row[-1])
        if long is not None and length >= long:
            return


def count_unread(
    db: sqlite3.Connection, scopes: Iterable[str], conversations: Iterable[str], now: int, most: int
) -> int:
    """How many messages are unread; counting ends at `most`."""
    found = 0
    audience = ("", *conversations)
    for scope in scopes:
        for conversation in audience:
            for query in _COUNTS:
                asked = {"scope": scope, "conversation": conversation, "now": now, "limit": most - found}
                found += db.execute(query, asked).fetchone()[0]
    return found


def unsupported(db: sqlite3.Connection, scopes: Iterable[str], limit: int) -> list[tuple[str, str, int, str]]:
    """Scope, path, version and reason of each message or link that this version cannot read."""
    query = (
        "SELECT scope, path, version, why FROM document WHERE scope = ? AND why IS NOT NULL"
        " AND path >= 'message-links/' AND path < 'messages0'"  # one range, which the index knows; '0' follows '/'
        " AND (path < 'message-links0' OR path >= 'messages/') ORDER BY path LIMIT ?"
    )
    found: list[tuple[str, str, int, str]] = []
    for scope in scopes:
        found += db.execute(query, (scope, limit))
    return found[:limit]


def audience(db: sqlite3.Connection, session: str | None, scopes: Iterable[str]) -> frozenset[str]:
    """
    The session and every conversation that it continues, directly or through others, as links in these scopes say.

    Cycles are harmless.  Nobody (None) continues nothing.
    """
    if session is None:
        return frozenset()
    reached = {session}
    waiting = [session]
    while waiting:
        child = waiting.pop()
        for scope in scopes:
            for (parent,) in db.execute("SELECT parent FROM link WHERE session = ? AND scope = ?", (child, scope)):
                if parent not in reached:
                    reached.add(parent)
                    waiting.append(parent)
    return frozenset(reached)


def next_change(db: sqlite3.Connection, scopes: Iterable[str], conversations: Iterable[str], now: int) -> int | None:
    """When the passing of time alone next makes a message unread; microseconds since 1970, None for never."""
    times: list[int] = []
    audience = ("", *conversations)
    for scope in scopes:
        for conversation in audience:
            for query in _NEXT:
                asked = {"scope": scope, "conversation": conversation, "now": now}
                row = db.execute(query, asked).fetchone()
                if row[0] is not None:
                    times.append(row[0])
    return min(times, default=None)
