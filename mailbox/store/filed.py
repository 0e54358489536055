"""
Messages and links in the index, as the documents that they are for programs which know nothing else.

Rules for this file: sqlite3 and plain values.  Nothing is kept for these
questions that the index would not keep anyway.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

#: Everything that begins with `messages/` or `message-links/`, as two ranges; what follows each is `0` behind `/`.
_RANGES: Final = (("message-links/", "message-links0"), ("messages/", "messages0"))
_LAST: Final = "\U0010ffff"
_LISTED: Final = (
    "SELECT path, document.version, body IS NULL AND why IS NULL, why, one.segment, one.offset, last.segment,"
    " last.offset FROM document JOIN version AS one ON one.document = id AND one.version = 1"
    " JOIN version AS last ON last.document = id AND last.version = document.version"
    " WHERE scope = ? AND path >= ? AND path > ? AND path < ? ORDER BY path LIMIT ?"
)
_PLACES: Final = (
    "SELECT DISTINCT segment, offset FROM document JOIN version ON document = id"
    " WHERE scope = ? AND (path >= 'message-links/' AND path < 'message-links0'"
    " OR path >= 'messages/' AND path < 'messages0') AND (segment, offset) < (?, ?)"
    " ORDER BY segment DESC, offset DESC LIMIT ?"
)


class Line(NamedTuple):
    """
    What the index knows of a message or link.

    Attributes:
        erased: Its content was erased.
        first: The segment and first byte of the batch of its first event.
        last: Those of its last one.
    """

    path: str
    version: int
    erased: bool
    why: str | None
    first: tuple[int, int]
    last: tuple[int, int]

    def ends(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """The first version and the last, and where each stands."""
        yield 1, self.first
        yield self.version, self.last


def listed(db: sqlite3.Connection, scope: str, prefix: str, after: str | None, limit: int) -> list[Line]:
    """Messages and links whose path begins with the prefix, in the order of their paths, behind one of them."""
    found: list[Line] = []
    for begin, end in _RANGES:
        if limit > len(found):
            bounds = max(prefix, begin), after or "", min(prefix + _LAST, end)
            rows = db.execute(_LISTED, (scope, *bounds, limit - len(found)))
            found += [_line(*row) for row in rows]
    return found


def _line(path: str, version: int, erased: int, why: str | None, *places: int) -> Line:
    first_segment, first_offset, segment, offset = places
    return Line(path, version, bool(erased), why, (first_segment, first_offset), (segment, offset))


def places(db: sqlite3.Connection, scope: str, before: tuple[int, int], limit: int) -> Sequence[tuple[int, int]]:
    """The segments and first bytes of the batches with mail of a scope that begin before a place, the last first."""
    return db.execute(_PLACES, (scope, *before, limit)).fetchall()


def scopes(db: sqlite3.Connection) -> Iterator[str]:
    """Every scope there is; each is found behind the one before, however much stands in it."""
    scope = ""
    while True:
        row = db.execute("SELECT scope FROM document WHERE scope > ? ORDER BY scope LIMIT 1", (scope,)).fetchone()
        if row is None:
            return
        scope = row[0]
        yield scope
