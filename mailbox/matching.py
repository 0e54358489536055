"""
What a search finds: one predicate, which every index only saves asking.

A query is split at white space.  Each term must be found in the text as it
stands, as a substring and without regard to case: both sides are folded as
Unicode says (`str.casefold`), without regard to a language.  So `strasse` finds
`Straße` and `STRASSE`; `i` finds `I` and `İ`, which folds to an `i` with a dot
above, and not the dotless one, which is a letter of its own.  Quotes, signs and
wildcards stand for themselves.

Rules for this file: pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import BlankQuery

#: Longest query: a paragraph, not a report.
QUERY_BYTES_MAX: Final = 10_000
#: What a snippet shows before the first term that it found, and in all.
_BEFORE, _WIDTH = 40, 160


def fold(text: str) -> str:
    """The text without regard to case."""
    return text.casefold()


def terms(query: str) -> tuple[str, ...]:
    """
    The folded terms of a query.

    Raises:
        BlankQuery: There are none.
        InvalidText, TextTooLong: It is no text, or too long.
    """
    found = tuple(dict.fromkeys(fold(term) for term in shapes.text(query, "query", QUERY_BYTES_MAX).split()))
    if not found:
        raise BlankQuery()
    return found


def matches(wanted: Sequence[str], text: str) -> bool:
    """Does a text hold every one of these folded terms?"""
    folded = fold(text)
    return all(term in folded for term in wanted)


def snippet(wanted: Sequence[str], text: str) -> str:
    """A piece of a text around the first place where one of these folded terms is; all of it where it is short."""
    folded = fold(text)
    first = min((place for place in map(folded.find, wanted) if place >= 0), default=0)
    begin = max(0, _unfolded(text, folded, first) - _BEFORE)
    begin = max(0, min(begin, len(text) - _WIDTH))
    piece = text[begin : begin + _WIDTH]
    return "…" * (begin > 0) + piece + "…" * (begin + _WIDTH < len(text))


def _unfolded(text: str, folded: str, place: int) -> int:
    """The character of the text that a place in its folded form comes from; folding makes no text shorter."""
    if len(text) == len(folded):
        return place
    for number, character in enumerate(text):
        place -= len(fold(character))
        if place < 0:
            return number
    return len(text)
