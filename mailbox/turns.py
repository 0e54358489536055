"""
Conversations: numbered turns, and what somebody has made of them.

A turn is one event, and its number is its place in the stream, so numbers begin
at 1 and have no gaps.  Who appended it and when stand in the envelope of the
event, so that a turn that was erased still tells them.  A projection is a text
that stands for turns: a log line, a digest of some, an epoch.

Rules for this file: pure, and no clock.  `fencepost.mailbox.chat` knows what a
chat message is, `fencepost.mailbox.codec` the JSON of all this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any, Final, TypeAlias

import attrs

#: In the scope of a conversation, the streams of its turns and of its projections.
TURNS: Final = "/turns"
PROJECTIONS: Final = "/projections"
_SCOPE: Final = "conversation:"

ChatMessage: TypeAlias = Mapping[str, Any]


class ProjectionKind(enum.Enum):
    """What a projection is, as its maker says."""

    LOG = "log"
    DIGEST = "digest"
    EPOCH = "epoch"


@attrs.frozen(slots=False)
class Projection:
    """
    A text that stands for turns.

    Attributes:
        turn: The turn at which it stands.
        kind: One of `ProjectionKind`, by its value.
        span: How many turns it covers.
    """

    turn: int
    kind: str
    text: str
    span: int = 1

    def may_tell_of(self, turn: int) -> bool:
        """Can it repeat what that turn said?  Nobody says at which end of its span it stands, so both are meant."""
        return abs(turn - self.turn) < self.span


@attrs.frozen(slots=False)
class Turn:
    """
    One turn of a conversation.

    Attributes:
        turn: Its number, from 1.
        messages: The chat messages as they were appended; none where it was erased.
        redacted: What it said was erased.
    """

    conversation_id: str
    turn: int
    messages: tuple[ChatMessage, ...]
    created_at: datetime
    actor: str
    redacted: bool = False


@attrs.frozen(slots=False)
class TurnRedaction:
    """Turns that were erased together."""

    conversation_id: str
    turns: tuple[int, ...]
    actor: str
    created_at: datetime


def scope_of(conversation: str) -> str:
    """The scope in which the events of a conversation stand."""
    return _SCOPE + conversation


def conversation_of(scope: str) -> str | None:
    """The conversation whose events stand in a scope; None where it is the scope of none."""
    return scope.removeprefix(_SCOPE) if scope.startswith(_SCOPE) else None


def by_turn(entries: Iterable[Projection]) -> Iterator[tuple[Projection, ...]]:
    """Runs of projections that stand at one turn, so that each run can be an event and be erased alone."""
    for _, run in groupby(entries, lambda entry: (entry.turn, entry.span)):
        yield tuple(run)


def page(entries: Iterable[Projection], after: int, limit: int) -> tuple[tuple[Projection, ...], int | None]:
    """
    A page of projections that ends on a whole turn.

    Args:
        entries: All there are, in the order in which they came.
        after: The turn behind which the page begins.
        limit: How many it should have; the projections of its first turn are on it even where they are more.

    Returns:
        The page, by turn, and the turn behind which the next one begins; None where this is the last.
    """
    if limit == 0:
        return (), None
    found: list[Projection] = []
    rest = sorted((entry for entry in entries if entry.turn > after), key=lambda entry: entry.turn)
    for turn, run in groupby(rest, lambda entry: entry.turn):
        there = list(run)
        if found and len(found) + len(there) > limit:
            return tuple(found), found[-1].turn
        found += there
        after = turn
    return tuple(found), None
