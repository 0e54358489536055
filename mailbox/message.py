"""
The message: what was sent, and where it stands.

A message document has format 1.  Its flat JSON form lives in
`fencepost.mailbox.codec`; here it is grouped by what changes together, so that
a half lease or a half receipt cannot be written down.
"""

from __future__ import annotations

import enum
from datetime import datetime

import attrs

#: The format of the message document written and understood here.
FORMAT = 1


class Delivery(enum.Enum):
    """When the recipient is to get it: at its next activity, or by waking an attached receiver."""

    NEXT_ACTIVITY = "next_activity"
    WAKE = "wake"


class Status(enum.Enum):
    """Where the work stands.  Whether a lease is running or a time has come is not a status."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"


@attrs.frozen(slots=False)
class Context:
    """A reference to a document at one version.  It copies no content and grants no access."""

    scope: str
    path: str
    version: int
    change_id: str | None = None


@attrs.frozen(slots=False)
class Letter:
    """What was sent.  It never changes for the life of the message."""

    id: str
    scope: str
    conversation: str | None
    turn: int | None
    source: str | None
    about: str | None
    about_turn: int | None
    actor: str
    body: str
    created_at: datetime
    delivery: Delivery
    actionable: bool
    context: Context | None = None


@attrs.frozen(slots=False)
class Reading:
    """The read receipt: which session acknowledged or claimed it, and when."""

    by: str
    at: datetime


@attrs.frozen(slots=False)
class Lease:
    """The claim: one session may work on it while `until` is in the future and its token matches."""

    owner: str
    token: str
    until: datetime


@attrs.frozen(slots=False)
class Reservation:
    """A receiver is about to hand the message to an idle client."""

    owner: str
    token: str
    until: datetime


@attrs.frozen(slots=False)
class Message:
    """A message as of one version of its document."""

    letter: Letter
    due_at: datetime
    occurrence: int = 1
    status: Status = Status.OPEN
    reading: Reading | None = None
    lease: Lease | None = None
    outcome: str | None = None
    reservation: Reservation | None = None
    wake_accepted: bool = False

    @property
    def id(self) -> str:
        """The message id, a uuid in its canonical text form."""
        return self.letter.id


@attrs.frozen(slots=False)
class Receipt:
    """
    The answer to a command: the document and its version.

    The version grows with every event, so the version of a claim's receipt is
    the number to hand to an outside resource that wants a monotonic fence.
    """

    version: int
    message: Message
    #: True where the command had been done before and nothing was written.
    repeated: bool = False
