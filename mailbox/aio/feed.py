"""
The feed of changes for async callers.
"""

from __future__ import annotations

import asyncio
import time

from fencepost.mailbox.aio.workers import WORKERS_DEFAULT, Workers
from fencepost.mailbox.caller import LOOK_S
from fencepost.mailbox.feed import Changes, Checkpoint, News
from fencepost.mailbox.views import LIMIT_DEFAULT


class AsyncChanges(Workers):
    """
    `Changes` whose methods are coroutines; arguments and errors are the same.

    Args:
        changes: The feed to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, changes: Changes, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(changes, workers)
        self._changes = changes

    async def poll(
        self,
        after: int | None = None,
        *,
        checkpoint: str | None = None,
        target: str | None = None,
        limit: int = LIMIT_DEFAULT,
        wait_s: float = 0,
        gaps: bool = True,
    ) -> News:
        """See `Changes.poll`; no thread is held while waiting, and cancelling takes effect at once."""
        deadline = time.monotonic() + max(0, wait_s)
        while True:
            mark = await self._run(self._store.change_mark)
            news = await self._run(
                self._changes.look, after, checkpoint=checkpoint, target=target, limit=limit, gaps=gaps
            )
            if news.items or time.monotonic() >= deadline:
                return news
            after, checkpoint = news.position, None
            seen = news.more
            while not seen and time.monotonic() < deadline:
                await asyncio.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))
                seen = await self._run(self._store.change_mark) != mark

    async def checkpoint(self, name: str) -> Checkpoint:
        """See `Changes.checkpoint`."""
        return await self._run(self._changes.checkpoint, name)

    async def advance(self, name: str, position: int) -> Checkpoint:
        """See `Changes.advance`."""
        return await self._run(self._changes.advance, name, position)
