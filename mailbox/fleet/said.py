"""
What an event of a room says, whatever its form.

Rules for this file: pure.  Nothing of an event is trusted but what the homeserver
vouches for: who sent it, where, when and under which id.
"""

from __future__ import annotations

import enum
from datetime import datetime

import attrs


class Kind(enum.StrEnum):
    """What somebody did in a room."""

    MESSAGE = "message"
    NOTICE = "notice"
    EDIT = "edit"
    REACTION = "reaction"
    REDACTION = "redaction"
    MEDIA = "media"
    REDACTED = "redacted"
    ENCRYPTED = "encrypted"
    MEMBERSHIP = "membership"
    UPGRADE = "upgrade"
    CONTROL = "control"
    OTHER = "other"


@attrs.frozen
class Media:
    """
    A file that somebody sent.

    Attributes:
        url: Where it is, `mxc://…`.
        name: As the sender calls it; hostile.
        type: As the sender says; None where nothing is said.
        size: In bytes, as the sender says; None where nothing is said.
    """

    url: str
    name: str
    type: str | None
    size: int | None


@attrs.frozen
class Said:
    """
    One event of a room.

    Attributes:
        at: When the homeserver says that it was sent.
        body: The text of it: of an edit the new one, of a reply without the quotation, of a reaction its key, of a
            redaction the reason.  Hostile.
        mentions: The users that `m.mentions.user_ids` names freshly; nothing else is a mention.
        target: The event that it edits, redacts or reacts to.
        reply_to: The event that it answers.
        thread: The event that its thread began with.
        membership: Of a membership event the user and what became of it.
    """

    room: str
    event: str
    sender: str
    at: datetime
    kind: Kind
    body: str = ""
    mentions: frozenset[str] = frozenset()
    target: str | None = None
    reply_to: str | None = None
    thread: str | None = None
    media: Media | None = None
    membership: tuple[str, str] | None = None


@attrs.frozen
class RoomFacts:
    """
    What the homeserver says of a room.

    Attributes:
        id: Opaque.
        name, alias: As whoever may call it; hostile; None where it has none.
        direct: It was begun as a talk between two.
        encrypted: What is said in it cannot be read here.
        members: User id -> the name that they show; hostile.
        successor: The room that has taken its place; None where it stands.
    """

    id: str
    name: str | None = None
    alias: str | None = None
    direct: bool = False
    encrypted: bool = False
    members: dict[str, str] = attrs.Factory(dict)
    successor: str | None = None
