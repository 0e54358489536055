"""
Who may ask a state process, and for what.

Rules for this file: pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import Forbidden


@attrs.frozen
class Client:
    """
    Whoever holds one token.

    Attributes:
        name: The token's actor without what it is kind of: `client:NAME` writes.
        prefixes: What every scope and every conversation that it names must begin with one of; None for whatever
            there is.
    """

    name: str
    prefixes: tuple[str, ...] | None = None

    def actor(self, said: str | None) -> str:
        """
        Who writes, as the token knows it, and behind a slash as the client says.

        Raises:
            InvalidName: What it says is not well formed.
        """
        return shapes.actor(f"client:{self.name}" if said is None else f"client:{self.name}/{said}")

    def allow(self, names: Iterable[str]) -> None:
        """
        Check every scope and conversation that a request names.

        Raises:
            Forbidden: One of them is outside the allowance.
        """
        if self.prefixes is not None:
            for name in names:
                if not name.startswith(self.prefixes):
                    raise Forbidden(name=name)

    def allow_everything(self, what: str) -> None:
        """
        Check a request that names nothing, because it is about all there is.

        Raises:
            Forbidden: There is an allowance.
        """
        if self.prefixes is not None:
            raise Forbidden(name=what)
