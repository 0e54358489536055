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


# --- agents whose programs are fed here, and the rooms that they hear ------------------------------------


@attrs.frozen(slots=False)
class AgentBound:
    """
    An agent goes on in a session of its program, whose own history is that file.

    What was saved and not yet confirmed goes there too; it has never been in another.
    """

    session: str
    history: str


@attrs.frozen(slots=False)
class AgentHeld:
    """
    An agent is fed with one state folder from here on, and with no other.

    Attributes:
        holder: What that folder is known by.
        runtime: Which program the agent is there.
    """

    holder: str
    runtime: str


@attrs.frozen(slots=False)
class AgentReleased:
    """Whoever fed an agent has ended, by the word of an operator, so that another state folder may have it."""


@attrs.frozen(slots=False)
class AgentUnbound:
    """
    An agent goes on in a session that is yet to begin, by the word of an operator.

    What was saved and not yet confirmed goes there too; what the history before has of it counts no more.
    """


@attrs.frozen(slots=False)
class RoomFound:
    """What the rules of an agent call so, by its id or an alias, is that room."""

    rule: str
    room: str


@attrs.frozen(slots=False)
class Passed:
    """An event of a room that was not for the agent, and why."""

    event: str
    why: str


@attrs.frozen(slots=False)
class Read:
    """What a delivery takes of a room, and from where reading goes on then."""

    room: str
    token: str
    taken: tuple[str, ...]
    passed: tuple[Passed, ...]


@attrs.frozen(slots=False)
class DeliverySaved:
    """
    Input for an agent, before any of it is submitted.

    Attributes:
        history: The native history that it is for.
        offset: Where that ended, in bytes: an entry that proves it stands behind.
        reads: What it takes of rooms.
        mail: What it takes of the mailbox: the id of each message, a slash and the occurrence.
    """

    id: str
    text: str
    history: str
    offset: int
    reads: tuple[Read, ...] = ()
    mail: tuple[str, ...] = ()


@attrs.frozen(slots=False)
class DeliverySubmitted:
    """It is about to be handed to the program, for the so-many-th time."""

    attempt: int


@attrs.frozen(slots=False)
class DeliveryConfirmed:
    """The native history has it: under that id of its own."""

    entry: str


@attrs.frozen(slots=False)
class DeliveryCheckpointed:
    """Where it came from is read up to there."""


@attrs.frozen(slots=False)
class DeliveryAcknowledged:
    """Nothing of it is left to do."""


@attrs.frozen(slots=False)
class RoomOpened:
    """An agent hears a room from here on; what was said before is not for it."""

    token: str
    at: datetime


@attrs.frozen(slots=False)
class RoomRead:
    """These were taken in or passed over, and reading goes on from the token."""

    token: str
    taken: tuple[str, ...]
    passed: tuple[Passed, ...] = ()


@attrs.frozen(slots=False)
class RoomResynced:
    """The room's history was not what it had been, and reading goes on from the token."""

    token: str
    why: str


@attrs.frozen(slots=False)
class RoomClosed:
    """The agent hears the room no more."""

    why: str


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
AgentEvent: TypeAlias = (
    AgentBound
    | AgentHeld
    | AgentReleased
    | AgentUnbound
    | RoomFound
    | DeliverySaved
    | DeliverySubmitted
    | DeliveryConfirmed
    | DeliveryCheckpointed
    | DeliveryAcknowledged
)
RoomEvent: TypeAlias = RoomOpened | RoomRead | RoomResynced | RoomClosed
FleetEvent: TypeAlias = AgentEvent | RoomEvent
Event: TypeAlias = (
    MessageEvent
    | Rewritten
    | Linked
    | DocumentEvent
    | Redacted
    | Shown
    | CheckpointMoved
    | TalkEvent
    | AgentEvent
    | RoomEvent
)
