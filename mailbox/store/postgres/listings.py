"""
The listings as questions: each is one statement, and so one look at the database.

`fencepost.mailbox.views` says which messages a listing shows; this says it in
SQL, over the columns that `views.place` computes.

Rules for this file: no I/O.
"""

from __future__ import annotations

from typing import Final

from fencepost.mailbox.store.port import Query
from fencepost.mailbox.store.postgres.asking import Ask
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.times import micros
from fencepost.mailbox.views import Listing, Standing

#: The session and every conversation that it continues, as links in some scopes say; a circle ends where it began.
_AUDIENCE: Final = (
    'WITH RECURSIVE audience (name) AS (SELECT %(session)s::text COLLATE "C" WHERE %(session)s::text IS NOT NULL'
    " UNION SELECT parent FROM {s}.link JOIN audience ON session = name WHERE scope = ANY(%(links)s::text[]))"
)
_WHERE: Final = (
    " FROM unnest(%(scopes)s::text[]) AS read (scope)"
    " CROSS JOIN (SELECT '' AS name UNION ALL SELECT name FROM audience) AS heard"
    " CROSS JOIN LATERAL "
)
_HERE: Final = "FROM {s}.document d WHERE d.scope = read.scope AND d.conversation = heard.name AND standing = "
_FIRST: Final = " ORDER BY due, created, path LIMIT %(limit)s"
_DUE, _LATER, _LAPSED, _ANY = " AND due <= %(now)s", " AND due > %(now)s", " AND ready <= %(now)s", ""
_PENDING, _READ, _CLOSED, _CLAIMED = Standing.PENDING, Standing.READ, Standing.CLOSED, Standing.CLAIMED
#: Listing -> which standings it looks at, and how.
_ASKS: Final[dict[Listing, tuple[tuple[Standing, str], ...]]] = {
    Listing.UNREAD: ((_PENDING, _DUE), (_CLAIMED, _LAPSED)),
    Listing.OPEN: ((_PENDING, _DUE), (_READ, _DUE), (_CLAIMED, _DUE)),
    Listing.SCHEDULED: ((_PENDING, _LATER), (_READ, _LATER), (_CLAIMED, _LATER)),
    Listing.CLOSED: ((_CLOSED, _ANY),),
    Listing.ALL: ((_PENDING, _ANY), (_READ, _ANY), (_CLOSED, _ANY), (_CLAIMED, _ANY)),
}
_UNSUPPORTED: Final = (
    "SELECT u.* FROM unnest(%s::text[]) WITH ORDINALITY AS read (scope, place) CROSS JOIN LATERAL"
    " (SELECT d.scope, path, version, why FROM {s}.document d WHERE d.scope = read.scope AND why IS NOT NULL"
    " AND path >= 'message-links/' AND path < 'messages0'"  # one range, which the index knows; '0' follows '/'
    " AND (path < 'message-links0' OR path >= 'messages/') ORDER BY path LIMIT %s) u ORDER BY place, path LIMIT %s"
)


def _part(standing: Standing, condition: str) -> str:
    """The first messages of one standing, in each scope and for each of the audience."""
    inner = f"(SELECT due, created, path, version, body {_HERE}{standing.value}{condition}{_FIRST}) AS item"
    return f"SELECT item.*{_WHERE}{inner}"


_ITEMS: Final = {
    listing: f"{_AUDIENCE} SELECT version, body FROM ("
    + " UNION ALL ".join(f"({_part(*ask)})" for ask in asks)
    + f") AS item{_FIRST}"
    for listing, asks in _ASKS.items()
}
_NEXT: Final = (
    f"{_AUDIENCE} SELECT min(moment) FROM (SELECT moment{_WHERE}"
    f"(SELECT min(due) AS moment {_HERE}{_PENDING.value}{_LATER}) AS a"
    f" UNION ALL SELECT moment{_WHERE}(SELECT min(ready) AS moment {_HERE}{_CLAIMED.value} AND ready > %(now)s) AS b)"
    " AS next"
)


def items(schema: str, query: Query) -> Ask:
    """Version and body of each message of a listing, in its order."""
    return Ask(named(_ITEMS[query.listing], schema), _values(query))


def unsupported(schema: str, query: Query) -> Ask:
    """Scope, path, version and reason of each message or link that this version cannot read."""
    return Ask(named(_UNSUPPORTED, schema), (list(query.scopes), query.limit, query.limit))


def next_change(schema: str, query: Query) -> Ask:
    """When the passing of time alone next makes a message unread; microseconds since 1970."""
    return Ask(named(_NEXT, schema), _values(query))


def audience(schema: str, session: str, scopes: tuple[str, ...]) -> Ask:
    """The session and what it continues."""
    return Ask(named(f"{_AUDIENCE} SELECT name FROM audience", schema), {"session": session, "links": list(scopes)})


def _values(query: Query) -> dict[str, object]:
    return {
        "session": query.session,
        "links": list(query.links),
        "scopes": list(query.scopes),
        "now": micros(query.now),
        "limit": query.limit,
    }
