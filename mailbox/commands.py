"""
What a caller asks of a message.

Rules for this file: a command carries everything that deciding needs, the
clock reading, new ids and new tokens included.  Shapes are checked before a
command is made (`fencepost.mailbox.shapes`); whether it fits the message is
decided later (`fencepost.mailbox.decide`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from fencepost.mailbox.events import Idempotency
from fencepost.mailbox.message import Letter


@attrs.frozen
class Reference:
    """
    The document that a message is about.

    Attributes:
        path: Its mounted path.
        version: The version that the sender has seen; None: as it stands now.
        change_id: What the sender calls the change.  Nobody verifies it.
    """

    path: str
    version: int | None = None
    change_id: str | None = None


@attrs.frozen
class Send:
    """A new message.  What it refers to is looked up when it is sent: until then the letter has no context."""

    letter: Letter
    due_at: datetime
    idempotency: Idempotency | None = None
    reference: Reference | None = None


@attrs.frozen
class _Step:
    """What every step of the lifecycle says: who, when, and which occurrence it read."""

    session: str
    now: datetime
    occurrence: int


@attrs.frozen
class _Addressed(_Step):
    """A step for recipients; `audience` is the session and every conversation it continues."""

    audience: frozenset[str]


@attrs.frozen
class _Fenced(_Step):
    """A step for the holder of a token."""

    token: str


@attrs.frozen
class Ack(_Addressed):
    """I have read it."""


@attrs.frozen
class Claim(_Addressed):
    """Let me alone work on it for `lease`, under `token`."""

    token: str
    lease: timedelta


@attrs.frozen
class Renew(_Fenced):
    """I am still at it: the lease runs for `lease` from now."""

    lease: timedelta


@attrs.frozen
class Release(_Fenced):
    """I give it back, unread again."""


@attrs.frozen
class Complete(_Fenced):
    """It is done, and this came of it.  The outcome may be left out when repeating."""

    outcome: str | None


@attrs.frozen
class Snooze(_Fenced):
    """Not now: this is what I found, bring it back at `due_at`."""

    outcome: str
    due_at: datetime


@attrs.frozen
class Cancel(_Addressed):
    """Nobody needs to do it any more."""

    outcome: str | None


@attrs.frozen
class Reserve(_Addressed):
    """I am about to hand it to an idle client; let nobody else, for `hold`."""

    token: str
    hold: timedelta


@attrs.frozen
class Accept(_Fenced):
    """The client took it.  That a model read it is not claimed."""


@attrs.frozen
class Decline(_Fenced):
    """The client did not take it."""


Step: TypeAlias = Ack | Claim | Renew | Release | Complete | Snooze | Cancel | Reserve | Accept | Decline
Command: TypeAlias = Send | Step
