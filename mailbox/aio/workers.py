"""
The mailbox and everything beside it, for async callers.

Each call runs in a worker thread of its own pool, so the loop is never
blocked.  A cancelled call is waited for before the cancellation goes on: its
worker finishes what it writes and lets go of the lock, and only then does the
caller move on.  Whether it was done is for the caller to look up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from fencepost.mailbox.caller import Caller

P = ParamSpec("P")
T = TypeVar("T")

#: Threads that calls may wait in at once; more calls queue.
WORKERS_DEFAULT = 8


class Workers:
    """Threads in which the calls of one caller run."""

    def __init__(self, caller: Caller, workers: int) -> None:
        self._store = caller.store
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="fencepost")

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                try:
                    await asyncio.wait([work])
                except asyncio.CancelledError:
                    continue  # cancelled again while waiting: the worker still has the lock
            if not work.cancelled():
                work.exception()  # the caller has gone; nobody else will look at it
            raise

    async def aclose(self) -> None:
        """Wait for the calls under way and close the store."""
        await self._run(self._store.close)
        self._pool.shutdown(wait=False)
