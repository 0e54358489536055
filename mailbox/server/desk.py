"""
Where requests are answered: the store, and the doors to it for one client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from fencepost.mailbox import shapes
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.codec import Json
from fencepost.mailbox.erasures import Erasures
from fencepost.mailbox.server.letters import Letters
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.port import Served
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.contract import ROWS_MAX

#: What scopes are mounted at here; nobody sees it, since each request names its scope.
_MOUNT: Final = "/wire"

Asked: TypeAlias = dict[str, Any]


@attrs.frozen
class Desk:
    """A store that is served, and the clock that its times are from."""

    store: Served
    clock: Callable[[], datetime] = utc_now

    def documents(self, who: Client, asked: Asked) -> Documents:
        """The memory documents of the scope that is asked for."""
        return Documents(self.store, [Mount(asked["scope"], _MOUNT)], actor=_actor(who, asked), clock=self.clock)

    def letters(self, who: Client, asked: Asked) -> Letters:
        """Its messages and links, as documents."""
        return Letters(self.store, [Mount(asked["scope"], _MOUNT)], actor=_actor(who, asked), clock=self.clock)

    def erasures(self, who: Client, asked: Asked) -> Erasures:
        """What is erased there."""
        return Erasures(self.store, [Mount(asked["scope"], _MOUNT)], actor=_actor(who, asked), clock=self.clock)

    def conversations(self, who: Client, asked: Asked) -> Conversations:
        """The conversations."""
        return Conversations(self.store, actor=_actor(who, asked), clock=self.clock)


#: So many rows are looked up at once, and so many characters of text make a page long enough to end it early.
_STEP: Final = 100
#: At first, until it is known that they are short.
_FIRST: Final = 16
_LONG: Final = 32 << 20
T = TypeVar("T")


def gathered(
    wanted: int, some: Callable[[T | None, int], Sequence[T]], size: Callable[[T], int]
) -> tuple[list[T], bool]:
    """
    The rows of a page, and whether there are more: fewer than wanted where they are long.

    Args:
        wanted: How many at most.
        some: Gives rows behind one, or the first, and so many of them at most.
        size: How long a row is.
    """
    found: list[T] = []
    length = 0
    while wanted > len(found):
        step = min(_STEP, wanted + 1 - len(found), max(_FIRST, len(found)))
        rows = some(found[-1] if found else None, step)
        for row in rows:
            if len(found) == wanted or (found and length + size(row) > _LONG):
                return found, True
            found.append(row)
            length += size(row)
        if len(rows) < step:
            return found, False
    return found, wanted > 0 and bool(some(found[-1], 1))


Answer: TypeAlias = Callable[[Desk, Client, Asked], Json]


def _actor(who: Client, asked: Asked) -> str:
    return who.actor(asked.get("actor"))


def rows(asked: Asked) -> int:
    """
    How many rows a listing answers.

    Raises:
        InvalidNumber: Fewer than none were asked for.
    """
    return min(shapes.whole_number(asked["limit"], "limit", 0), ROWS_MAX)
