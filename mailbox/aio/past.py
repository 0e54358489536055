"""
Conversations, and what was said, for async callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.mailbox.aio.workers import WORKERS_DEFAULT, Workers
from fencepost.mailbox.past import Hits, MemoryHits, Past, Recalled
from fencepost.mailbox.talks import Conversations, ProjectionPage, TurnPage
from fencepost.mailbox.turns import Projection, Turn, TurnRedaction
from fencepost.mailbox.views import LIMIT_DEFAULT


class AsyncConversations(Workers):
    """
    `Conversations` whose methods are coroutines; arguments and errors are the same.

    Args:
        talks: The conversations to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, talks: Conversations, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(talks, workers)
        self._talks = talks

    async def append_turn(self, conversation: str, messages: Sequence[Any]) -> Turn:
        """See `Conversations.append_turn`."""
        return await self._run(self._talks.append_turn, conversation, messages)

    async def read_turns(self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> TurnPage:
        """See `Conversations.read_turns`."""
        return await self._run(self._talks.read_turns, conversation, after=after, limit=limit)

    async def read_turn(self, conversation: str, turn: int) -> Turn:
        """See `Conversations.read_turn`."""
        return await self._run(self._talks.read_turn, conversation, turn)

    async def last_turn_number(self, conversation: str) -> int:
        """See `Conversations.last_turn_number`."""
        return await self._run(self._talks.last_turn_number, conversation)

    async def append_projections(self, conversation: str, entries: Iterable[Projection]) -> None:
        """See `Conversations.append_projections`."""
        await self._run(self._talks.append_projections, conversation, entries)

    async def read_projections(
        self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT
    ) -> ProjectionPage:
        """See `Conversations.read_projections`."""
        return await self._run(self._talks.read_projections, conversation, after=after, limit=limit)

    async def redact_turns(
        self,
        conversation: str,
        *,
        through: int | None = None,
        turns: Iterable[int] | None = None,
        reason: str | None = None,
    ) -> int:
        """See `Conversations.redact_turns`."""
        return await self._run(self._talks.redact_turns, conversation, through=through, turns=turns, reason=reason)

    async def turn_redactions(self, conversation: str) -> tuple[TurnRedaction, ...]:
        """See `Conversations.turn_redactions`."""
        return await self._run(self._talks.turn_redactions, conversation)


class AsyncPast(Workers):
    """
    `Past` whose methods are coroutines; arguments and errors are the same.

    Args:
        past: The past to ask.
        workers: How many calls may be under way at once.
    """

    def __init__(self, past: Past, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(past, workers)
        self._past = past

    async def search(
        self,
        query: str,
        *,
        target: str | None = None,
        conversations: Iterable[str] | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Hits:
        """See `Past.search`."""
        return await self._run(self._past.search, query, target=target, conversations=conversations, limit=limit)

    async def search_turns(
        self, query: str, *, conversations: Iterable[str] | None = None, limit: int = LIMIT_DEFAULT
    ) -> tuple[Turn, ...]:
        """See `Past.search_turns`."""
        return await self._run(self._past.search_turns, query, conversations=conversations, limit=limit)

    async def search_memory(self, query: str, *, target: str | None = None, limit: int = LIMIT_DEFAULT) -> MemoryHits:
        """See `Past.search_memory`."""
        return await self._run(self._past.search_memory, query, target=target, limit=limit)

    async def recall(
        self, conversation: str, *, turn: int | None = None, after: int = 0, limit: int = LIMIT_DEFAULT
    ) -> Recalled:
        """See `Past.recall`."""
        return await self._run(self._past.recall, conversation, turn=turn, after=after, limit=limit)
