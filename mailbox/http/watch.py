"""
What takes too long, given up from outside.

Whoever waits for an answer waits for each part of it by itself, and a part now
and then is no answer.  So somebody else looks at the clock: one thread for all
that is under way, which is there as long as something is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import attrs


@attrs.define(eq=False)
class Deed:
    """Something under way: until when, how it is given up, and was it."""

    deadline: float
    give_up: Callable[[], None]
    given_up: bool = False


class Watch:
    """
    Gives up what takes too long.

    Args:
        look_s: How often to look.
    """

    def __init__(self, look_s: float) -> None:
        self._look_s: Final = look_s
        self._mutex: Final = threading.Lock()
        self._under_way: Final[set[Deed]] = set()
        self._looking = False

    @contextlib.contextmanager
    def over(self, patience_s: float, give_up: Callable[[], None]) -> Iterator[Deed]:
        """
        Give up what is done within a block once it has taken so long.

        Args:
            patience_s: How long.
            give_up: How; by another thread.
        """
        deed = Deed(time.monotonic() + patience_s, give_up)
        with self._mutex:
            self._under_way.add(deed)
            begin, self._looking = not self._looking, True
        if begin:
            threading.Thread(target=self._look, name="fencepost-watch", daemon=True).start()
        try:
            yield deed
        finally:
            with self._mutex:
                self._under_way.discard(deed)

    def _look(self) -> None:
        while True:
            time.sleep(self._look_s)
            with self._mutex:
                if not self._under_way:
                    self._looking = False
                    return
                now = time.monotonic()
                late = [deed for deed in self._under_way if deed.deadline < now and not deed.given_up]
                for deed in late:
                    deed.given_up = True
            for deed in late:
                deed.give_up()
