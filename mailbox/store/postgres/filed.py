"""
Mail as documents, and what there is at all, for whoever serves a store in a database.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fencepost.mailbox.store.port import Filed
from fencepost.mailbox.store.postgres.asking import Ask, Row
from fencepost.mailbox.store.postgres.schema import named

#: '0' follows '/'.
_IS_MAIL: Final = "({0} >= 'message-links/' AND {0} < 'message-links0' OR {0} >= 'messages/' AND {0} < 'messages0')"
_MAIL: Final = (
    "SELECT d.path, d.version, first.at, last.at, d.body IS NULL AND d.why IS NULL, d.why FROM {s}.document d"
    " JOIN {s}.event first ON first.scope = d.scope AND first.stream = d.path AND first.version = 1"
    " JOIN {s}.event last ON last.scope = d.scope AND last.stream = d.path AND last.version = d.version"
    " WHERE d.scope = %s AND d.path >= %s AND d.path < %s AND d.path > %s AND "
    + _IS_MAIL.format("d.path")
    + " ORDER BY d.path LIMIT %s"
)
_HISTORY: Final = (
    "SELECT seq, at, actor, scope, stream, version, type, data, key FROM {s}.event WHERE scope = %s AND seq < %s"
    " AND (%s::timestamptz IS NULL OR at::timestamptz >= %s::timestamptz) AND "
    + _IS_MAIL.format("stream")
    + " ORDER BY seq DESC LIMIT %s"
)
#: Each is found behind the one before, however much stands in it.
_SCOPES: Final = (
    "WITH RECURSIVE each (scope) AS ((SELECT scope FROM {s}.document ORDER BY scope LIMIT 1) UNION ALL"
    " SELECT (SELECT d.scope FROM {s}.document d WHERE d.scope > each.scope ORDER BY d.scope LIMIT 1) FROM each"
    " WHERE each.scope IS NOT NULL) SELECT scope FROM each WHERE scope IS NOT NULL"
)
#: A right that is missing on one of the tables is found out by a few appends only, and then by somebody's.
_ONLY_READ: Final = (
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'"
    " OR NOT has_sequence_privilege('{s}.number', 'USAGE') OR NOT has_table_privilege('{s}.meta', 'UPDATE') OR EXISTS"
    " (SELECT FROM pg_class WHERE relnamespace = '{s}'::regnamespace AND relkind = 'r' AND relname <> 'meta'"
    " AND NOT (has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE')"
    " AND has_table_privilege(oid, 'DELETE'))) FROM {s}.meta"
)
#: Behind every text that can begin with a prefix.
_LAST: Final = "\U0010ffff"


def is_only_read(schema: str) -> Ask:
    """Is it a replica, or one that is only read, by everybody or by us?"""
    return Ask(named(_ONLY_READ, schema))


def scopes(schema: str) -> Ask:
    """Every scope there is, by code point."""
    return Ask(named(_SCOPES, schema))


def mail(schema: str, scope: str, prefix: str, after: str | None, limit: int) -> Ask:
    """Messages and links whose path begins with a prefix, in the order of their paths."""
    return Ask(named(_MAIL, schema), (scope, prefix, prefix + _LAST, after or "", limit))


def line(row: Row) -> Filed:
    """One of them."""
    path, version, first, last, erased, why = row
    return Filed(path, version, datetime.fromisoformat(first), datetime.fromisoformat(last), erased, why)


def history(schema: str, scope: str, since: datetime | None, before: int, limit: int) -> Ask:
    """The events of all messages and links of a scope, newest first."""
    return Ask(named(_HISTORY, schema), (scope, before, since, since, limit))
