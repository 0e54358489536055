"""
Who is heard in which room, and what wakes the agent.

Nothing is heard without a grant.  Where several fit, the one that names the
sender counts, so that one person can be muted in a room that is open to all.
Agents and people are alike.

Rules for this file: pure.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Final

import attrs

from fencepost.mailbox.fleet.rules import written
from fencepost.mailbox.fleet.said import Kind, Said

#: A grant for whoever is in the room.
ANYBODY: Final = "*"


class Wake(enum.Enum):
    """What is said in a room wakes the agent: all of it, what mentions it, or nothing."""

    ALL = "all"
    MENTIONS = "mentions"
    NONE = "none"


@attrs.frozen
class Grant:
    """
    Somebody may be heard.

    Attributes:
        sender: A Matrix user, or `*` for whoever is in the room.
        muted: Not now.
    """

    sender: str = attrs.field(
        validator=written(r"\*|@[^:\s]+:\S+", "a Matrix user, @name:server, or * for whoever is in the room")
    )
    muted: bool = False


@attrs.frozen
class RoomRule:
    """
    A room that an agent hears.

    Attributes:
        room: Its id, `!…`, or an alias, `#…`.
        grants: Who may be heard in it.
        wake: What wakes the agent.
    """

    room: str = attrs.field(validator=written(r"[!#]\S+", "the room's id, !…, or an alias, #…"))
    grants: tuple[Grant, ...] = ()
    wake: Wake = Wake.ALL


class Verdict(enum.Enum):
    """What becomes of what somebody said.  All but the first two are passed over, for that reason."""

    WAKES = "wakes"
    CONTEXT = "context"
    OWN = "own"
    CONTROL = "control"
    NOTHING_SAID = "nothing said"
    REDACTED = "redacted"
    ENCRYPTED = "encrypted"
    UNGRANTED = "no grant"
    MUTED = "muted"
    BANNED = "banned"
    FORGED = "edit of what somebody else said"

    @property
    def heard(self) -> bool:
        """The agent is to get it."""
        return self in (Verdict.WAKES, Verdict.CONTEXT)


#: What is no input whoever says it.
_NEVER: Final = {
    Kind.CONTROL: Verdict.CONTROL,
    Kind.REDACTED: Verdict.REDACTED,
    Kind.ENCRYPTED: Verdict.ENCRYPTED,
    Kind.MEMBERSHIP: Verdict.NOTHING_SAID,
    Kind.UPGRADE: Verdict.NOTHING_SAID,
    Kind.OTHER: Verdict.NOTHING_SAID,
}
#: What is to be read with the next input, and begins none: programs must not answer notices, and nobody has said
#: anything anew with the others.
_QUIET: Final = frozenset((Kind.NOTICE, Kind.REACTION, Kind.REDACTION))


def judge(said: Said, rule: RoomRule, user: str, *, banned: Collection[str] = (), author: str | None = None) -> Verdict:
    """
    What becomes of one event.

    Args:
        said: The event.
        rule: What is granted in its room.
        user: The agent's Matrix user.
        banned: Whom the room has banned.
        author: Of an edit, who said what it changes; None where that is not known.
    """
    if said.sender == user:
        return Verdict.OWN
    if said.kind in _NEVER:
        return _NEVER[said.kind]
    grant = _grant(said.sender, rule)
    if grant is None:
        return Verdict.UNGRANTED
    if grant.muted:
        return Verdict.MUTED
    if said.sender in banned:
        return Verdict.BANNED
    if said.kind is Kind.EDIT and author is not None and author != said.sender:
        return Verdict.FORGED
    if said.kind in _QUIET or rule.wake is Wake.NONE:
        return Verdict.CONTEXT
    return Verdict.WAKES if rule.wake is Wake.ALL or user in said.mentions else Verdict.CONTEXT


def _grant(sender: str, rule: RoomRule) -> Grant | None:
    named = [grant for grant in rule.grants if grant.sender == sender]
    return next(iter(named or [grant for grant in rule.grants if grant.sender == ANYBODY]), None)
