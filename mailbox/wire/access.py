"""
Who may ask a state process, and for what.

Rules for this file: pure.
"""

from __future__ import annotations

import attrs

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import Forbidden


@attrs.frozen
class Client:
    """
    Whoever holds one token.

    What is allowed ends where a name ends, so that `user:al` is not for whoever may write to `user:a`: the name itself
    is allowed, and what goes on behind a slash.  Where it ends with a sign itself, whatever begins with it is.

    Attributes:
        name: The token's actor without what it is kind of: `client:NAME` writes.
        scopes: The scope that it may name, and others that begin with it; None for whatever there is.
        conversations: Likewise of conversations.
    """

    name: str
    scopes: str | None = None
    conversations: str | None = None

    def actor(self, said: str | None) -> str:
        """
        Who writes, as the token knows it, and behind a slash as the client says.

        Raises:
            InvalidName: What it says is not well formed.
        """
        return shapes.actor(f"client:{self.name}" if said is None else f"client:{self.name}/{said}")

    def allow_scope(self, name: str) -> None:
        """
        Check a name that is the name of a scope.

        Raises:
            Forbidden: It is outside the allowance.
        """
        self._allow(self.scopes, name)

    def allow_conversation(self, name: str) -> None:
        """
        Check a name that is the name of a conversation.

        Raises:
            Forbidden: It is outside the allowance.
        """
        self._allow(self.conversations, name)

    def allow_everything(self, what: str) -> None:
        """
        Check a request that names nothing, because it is about all there is.

        Args:
            what: All of what, for a sentence.

        Raises:
            Forbidden: There is an allowance.
        """
        if self.scopes is not None or self.conversations is not None:
            raise self._refusal(what)

    def _allow(self, given: str | None, name: str) -> None:
        if given is None or name == given:
            return
        if not name.startswith(given + "/" if given[-1].isalnum() else given):
            raise self._refusal(name)

    def _refusal(self, asked: str) -> Forbidden:
        scopes = "every scope" if self.scopes is None else f"scope {self.scopes!r}"
        talks = "every conversation" if self.conversations is None else f"conversation {self.conversations!r}"
        return Forbidden(name=asked, allowed=f"{scopes} and {talks}")
