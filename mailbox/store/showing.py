"""
Who was shown a message: what the stream beside it folds to.

Rules for this file: pure.
"""

from __future__ import annotations

import attrs
import orjson

from fencepost.mailbox.events import Shown


@attrs.frozen(slots=False)
class ShownTo:
    """The occurrences that were shown and the sessions that saw them, in order; each of these is recorded once."""

    shown: tuple[tuple[int, str], ...] = ()

    def has(self, occurrence: int, session: str) -> bool:
        """Was the session shown that occurrence?"""
        return (occurrence, session) in self.shown

    def after(self, event: Shown) -> ShownTo:
        """The same with one more."""
        return ShownTo((*self.shown, (event.occurrence, event.session)))

    def body(self) -> bytes:
        """It as JSON on one line, as indexes keep it."""
        return orjson.dumps({"shown": self.shown})

    @classmethod
    def of(cls, raw: str) -> ShownTo:
        """It from what `body` made of it."""
        return cls(tuple((occurrence, session) for occurrence, session in orjson.loads(raw)["shown"]))
