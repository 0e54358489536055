"""
Where a reader of the feed has come to: what the stream of a checkpoint folds to.

Rules for this file: pure.  Who moved it and when are taken from the envelope.
"""

from __future__ import annotations

import attrs
import orjson


@attrs.frozen(slots=False)
class Reached:
    """
    Where a checkpoint stands.

    Attributes:
        position: Everything up to it has been taken in.
        at: When it was moved to there, in ISO-8601 with `Z`.
        actor: Who did.
    """

    position: int
    at: str
    actor: str

    def body(self) -> bytes:
        """It as JSON on one line, as indexes keep it."""
        return orjson.dumps({"position": self.position, "at": self.at, "actor": self.actor})

    @classmethod
    def of(cls, raw: str) -> Reached:
        """It from what `body` made of it."""
        return cls(**orjson.loads(raw))
