"""
The listings as questions: each is one statement, and so one look at the database.

`fencepost.mailbox.views` says which messages a listing shows; this, and the
function `inbox` in `schema`, say it in SQL, over the columns that `views.place`
computes.

Rules for this file: no I/O.
"""

from __future__ import annotations

from typing import Final

from fencepost.mailbox.store.port import Query
from fencepost.mailbox.store.postgres.asking import Ask
from fencepost.mailbox.store.postgres.folding import numbers
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
_EVER: Final = (-(1 << 63), (1 << 63) - 1)
_PENDING, _CLAIMED = Standing.PENDING.value, Standing.CLAIMED.value
#: Listing -> the standings it looks at, whatever the time is or only what is due, or is not.
_LOOKS: Final[dict[Listing, tuple[str, bool | None]]] = {
    Listing.UNREAD: (numbers([Standing.PENDING]), True),
    Listing.OPEN: (numbers([Standing.PENDING, Standing.READ, Standing.CLAIMED]), True),
    Listing.SCHEDULED: (numbers([Standing.PENDING, Standing.READ, Standing.CLAIMED]), False),
    Listing.CLOSED: (numbers([Standing.CLOSED]), None),
    Listing.ALL: (numbers(Standing), None),
}
_INBOX: Final = (
    "SELECT version, body, scope, path, why FROM {s}.inbox(%s::smallint[], %s::bigint, %s::bigint, %s::bigint,"
    " %s::text, %s::text[], %s::text[], %s::integer, %s::bigint)"
)
_NEXT: Final = (
    f"{_AUDIENCE} SELECT min(moment) FROM (SELECT moment{_WHERE}"
    f"(SELECT min(due) AS moment {_HERE}{_PENDING} AND due > %(now)s) AS a"
    f" UNION ALL SELECT moment{_WHERE}(SELECT min(ready) AS moment {_HERE}{_CLAIMED} AND ready > %(now)s) AS b)"
    " AS next"
)


def inbox(schema: str, query: Query) -> Ask:
    """
    The messages of a listing, in its order, and behind them the messages and links that this version cannot read.

    Each has its version, then the one its body, and the other its scope, its path and the reason.
    """
    standings, due = _LOOKS[query.listing]
    now = micros(query.now)
    after, until = _EVER if due is None else (_EVER[0], now) if due else (now, _EVER[1])
    lapsed = now if query.listing is Listing.UNREAD else None  # whose lease has run out is unread again
    who = (query.session, list(query.links), list(query.scopes))
    return Ask(named(_INBOX, schema), (standings, after, until, lapsed, *who, query.limit, query.long))


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
    }
