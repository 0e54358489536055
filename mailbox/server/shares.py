"""
Shares: of what there is for all, only so much is taken under one name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final


class Shares:
    """
    Lets so many in at once under one name; more wait, and those under other names do not wait for them.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = max(1, most)
        self._gates: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def held(self, name: str | None) -> AsyncIterator[None]:
        """One share of that name, for the length of a block; what has no name waits for nobody."""
        if name is None:
            yield
            return
        gate, count = self._gates.get(name) or (asyncio.Semaphore(self._most), 0)
        self._gates[name] = gate, count + 1
        try:
            async with gate:
                yield
        finally:
            _, count = self._gates.pop(name)
            if count > 1:
                self._gates[name] = gate, count - 1
