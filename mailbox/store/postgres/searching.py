"""
Search: candidates from the database, and the word of `fencepost.mailbox.matching` on each.

What may be told and which pieces a text must have is asked of the database; what
matches is not, so every store finds the same.  `before` and `reach` bound how
far a search for short terms looks, as `texts.SCAN_MAX` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.mailbox import matching
from fencepost.mailbox.store import texts
from fencepost.mailbox.store.postgres.asking import Ask, Database, Row
from fencepost.mailbox.store.postgres.folding import PIECE, pieces
from fencepost.mailbox.store.postgres.schema import named
from fencepost.mailbox.store.texts import NOTED, SAID, Found, Sight, Text
from fencepost.mailbox.turns import TURNS, scope_of

#: So many pieces of a query narrow the search as far as it goes; more only cost.
_PIECES_MAX: Final = 24
_COLUMNS: Final = "t.seq, t.scope, t.stream, t.version, t.at, t.actor, t.text"
#: What search tells of: of memory documents only those that stand, as they stand.
_TOLD: Final = {
    SAID: "{s}.said t",
    NOTED: "{s}.noted t JOIN {s}.entry e ON e.scope = t.scope AND e.path = t.stream AND e.version = t.version",
}
_SEEN: Final = (
    " CASE WHEN t.stream = %s THEN t.scope ^@ %s AND (%s::boolean OR t.scope = ANY(%s::text[]))"
    " ELSE t.scope = ANY(%s::text[]) END"
)
_PIECES: Final = " AND t.pieces @> %s::integer[]"


def find(database: Database, schema: str, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
    """The newest texts that match; see `fencepost.mailbox.store.port.Store.search`."""
    wanted = _pieces(terms)
    statement = f"SELECT {_COLUMNS} FROM {_TOLD[name]} WHERE{_SEEN}"
    values: list[object] = [*_sight(sight)]
    reach: int | None = None
    if wanted:
        statement += _PIECES
        values.append(wanted)
    else:
        last = f"SELECT t.seq FROM {_TOLD[name]} ORDER BY t.seq DESC OFFSET %s LIMIT 1"
        (found,) = database.ask(Ask(named(last, schema), (texts.SCAN_MAX,)))
        reach = found[0][0] if found else None
        statement += " AND t.seq > %s"
        values.append(-1 if reach is None else reach)
    rows = database.stream(Ask(named(f"{statement} ORDER BY t.seq DESC", schema), values))
    matching_texts = _matching(rows, terms, limit)
    return Found(matching_texts, complete=reach is None or len(matching_texts) == limit)


def find_turns(database: Database, schema: str, terms: Sequence[str], sight: Sight, limit: int) -> tuple[Text, ...]:
    """The turns that match, by their times; see `fencepost.mailbox.store.port.Store.search_turns`."""
    wanted = _pieces(terms)
    statement = f"SELECT {_COLUMNS} FROM {_TOLD[SAID]} WHERE t.stream = '{TURNS}' AND{_SEEN}"
    values: list[object] = [*_sight(sight)]
    if wanted:
        statement += _PIECES
        values.append(wanted)
    order = " ORDER BY t.at DESC, t.scope DESC, t.version DESC"
    return _matching(database.stream(Ask(named(statement + order, schema), values)), terms, limit)


def _matching(rows: Iterator[Row], terms: Sequence[str], limit: int) -> tuple[Text, ...]:
    found: list[Text] = []
    for text in map(Text._make, rows):
        if matching.matches(terms, text.text):
            found.append(text)
            if len(found) == limit:
                break
    return tuple(found)


def _sight(sight: Sight) -> tuple[object, ...]:
    talks = sight.conversations
    return TURNS, scope_of(""), talks is None, [scope_of(talk) for talk in talks or ()], list(sight.scopes)


def _pieces(terms: Sequence[str]) -> list[int]:
    first = [term[at : at + PIECE] for term in terms for at in range(len(term) - PIECE + 1)][:_PIECES_MAX]
    return sorted({number for piece in first for number in pieces(piece)})
