"""
How many agents work on ordinary input at once.
"""

from __future__ import annotations

import threading


class Permits:
    """
    Permits, given in the order in which they were asked for.  Threads share them.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._holders: set[str] = set()
        self._waiting: dict[str, None] = {}

    def take(self, name: str) -> bool:
        """
        Ask for one, or go on asking.

        Returns:
            Whether that agent has one now.
        """
        with self._lock:
            if name in self._holders:
                return True
            self._waiting[name] = None
            if name not in list(self._waiting)[: self._count - len(self._holders)]:
                return False
            del self._waiting[name]
            self._holders.add(name)
            return True

    def give_back(self, name: str) -> None:
        """Need none, or none any more."""
        with self._lock:
            self._holders.discard(name)
            self._waiting.pop(name, None)
