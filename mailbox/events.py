"""
What happened to a message, a link, a document or a conversation, or was done to the record of it.

Rules for this file: an event carries results, never inputs.  A lease that was
granted until noon is written as "until noon", not as "for thirty minutes", so
that folding events needs no clock.  Their stored names are in
`fencepost.mailbox.codec`, so a class can be renamed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import attrs

from fencepost.mailbox.message import Letter
from fencepost.mailbox.turns import ChatMessage, Projection


@attrs.frozen(slots=False)
class Idempotency:
    """The key under which a message was sent, and a digest of all that the caller asked for."""

    key: str
    fingerprint: str


@attrs.frozen(slots=False)
class Sent:
    letter: Letter
    due_at: datetime
    idempotency: Idempotency | None = None


@attrs.frozen(slots=False)
class Acknowledged:
    by: str
    at: datetime


@attrs.frozen(slots=False)
class Claimed:
    by: str
    at: datetime
    token: str
    until: datetime


@attrs.frozen(slots=False)
class Renewed:
    until: datetime


@attrs.frozen(slots=False)
class Released:
    pass


@attrs.frozen(slots=False)
class Completed:
    outcome: str


@attrs.frozen(slots=False)
class Snoozed:
    due_at: datetime
    outcome: str


@attrs.frozen(slots=False)
class Cancelled:
    outcome: str | None = None


@attrs.frozen(slots=False)
class Reserved:
    by: str
    token: str
    until: datetime


@attrs.frozen(slots=False)
class Accepted:
    pass


@attrs.frozen(slots=False)
class Declined:
    pass


@attrs.frozen(slots=False)
class Linked:
    """Session `session` continues conversation `parent` and receives what is addressed to it."""

    session: str
    parent: str


@attrs.frozen(slots=False)
class Written:
    """Who wrote and when stands in the envelope, so that both outlive the content."""

    content: str


@attrs.frozen(slots=False)
class Deleted:
    pass


@attrs.frozen(slots=False)
class Redacted:
    """
    The content of everything at `path` was erased, or of the whole scope where there is no path.

    It stands in a stream of its own, so that the version of what was erased does not move; `count` is of paths.
    """

    path: str | None
    count: int
    reason: str | None = None


@attrs.frozen(slots=False)
class Rewritten:
    """
    Somebody wrote the whole document of a message, and no event of its life explains what that did.

    `body` is what was written, to the byte; it may be no message at all.
    """

    body: str


@attrs.frozen(slots=False)
class Shown:
    """
    An occurrence of a message was shown to a session, through a door such as a hook.  Nobody has read it for that.

    It stands in a stream of its own beside the message, whose version does not move.
    """

    occurrence: int
    session: str
    door: str


@attrs.frozen(slots=False)
class CheckpointMoved:
    """Whoever reads the feed under this name has taken in everything up to that sequence number."""

    position: int


@attrs.frozen(slots=False)
class TurnAppended:
    """Its number is its place in the stream; who and when stand in the envelope."""

    messages: tuple[ChatMessage, ...]


@attrs.frozen(slots=False)
class ProjectionsAppended:
    entries: tuple[Projection, ...]


@attrs.frozen(slots=False)
class TurnsRedacted:
    """These turns were erased, and what projections said of them; beside the other redactions of the scope."""

    turns: tuple[int, ...]
    reason: str | None = None


@attrs.frozen(slots=False)
class Annotated:
    """Which message was about which turn, or about which conversation."""

    path: str
    about: str
    about_turn: int | None


@attrs.frozen(slots=False)
class AnnotationsRedacted:
    """
    These messages are erased by the redaction that follows.

    What they were about would go with what they said, and whoever recalls it is to see that something was said.
    """

    entries: tuple[Annotated, ...]


MessageEvent: TypeAlias = (
    Sent
    | Acknowledged
    | Claimed
    | Renewed
    | Released
    | Completed
    | Snoozed
    | Cancelled
    | Reserved
    | Accepted
    | Declined
)
DocumentEvent: TypeAlias = Written | Deleted
TalkEvent: TypeAlias = TurnAppended | ProjectionsAppended | TurnsRedacted | AnnotationsRedacted
Event: TypeAlias = MessageEvent | Rewritten | Linked | DocumentEvent | Redacted | Shown | CheckpointMoved | TalkEvent
