"""
Where requests are answered: the store, and the doors to it for one client.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias

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
