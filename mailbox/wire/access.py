"""
Who may ask a state process, and for what.

Rules for this file: pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import Forbidden

SCOPES: Final = "scopes"
CONVERSATIONS: Final = "conversations"


@attrs.frozen
class Client:
    """
    Whoever holds one token.

    Attributes:
        name: The token's actor without what it is kind of: `client:NAME` writes.
        prefixes: What every scope and every conversation that it names must begin with one of; None for whatever
            there is.
        free: `scopes` or `conversations`, where the prefixes are for the other alone.
    """

    name: str
    prefixes: tuple[str, ...] | None = None
    free: str | None = None

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
                    raise self._refusal(name)

    def allow_scope(self, name: str) -> None:
        """
        Check a name that is the name of a scope.

        Raises:
            Forbidden: It is outside the allowance.
        """
        if self.free != SCOPES:
            self.allow([name])

    def allow_conversation(self, name: str) -> None:
        """
        Check a name that is the name of a conversation.

        Raises:
            Forbidden: It is outside the allowance.
        """
        if self.free != CONVERSATIONS:
            self.allow([name])

    def allow_everything(self, what: str) -> None:
        """
        Check a request that names nothing, because it is about all there is.

        Args:
            what: All of what, for a sentence.

        Raises:
            Forbidden: There is an allowance.
        """
        if self.prefixes is not None:
            raise self._refusal(what)

    def _refusal(self, asked: str) -> Forbidden:
        kinds = {SCOPES: "every scope, and conversations", CONVERSATIONS: "every conversation, and scopes"}
        begin = " or ".join(map(repr, self.prefixes or ()))
        return Forbidden(
            name=asked, allowed=f"{kinds.get(self.free or '', 'scopes and conversations')} that begin with {begin}"
        )
