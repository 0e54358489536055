"""
Changes: what the feed tells of a recorded event.

The feed is computed from the journal, so nothing more is written when something
changes, and what it says survives an erasure: it holds no content.

Rules for this file: pure.  A kind follows from where an event stands and an
action from its name, so that an event which this version does not know is a
change all the same.
"""

from __future__ import annotations

from typing import Final

import attrs

from fencepost.journal.event import Event
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import LINKS, MESSAGES, REDACTIONS
from fencepost.mailbox.events import AnnotationsRedacted, Redacted, TurnsRedacted
from fencepost.mailbox.turns import TURNS, conversation_of

#: What begins a path -> the kind of what stands there.  Everything else is a memory document.
_KINDS: Final = ((MESSAGES, "state.message"), (LINKS, "state.link"))
_DOCUMENT: Final = "state.document"
_REDACTION: Final = "state.redaction"
#: A stream that is about no document -> the kind of its changes.  What is not here, such as who was shown what and
#: where readers of the feed are, is no change of anything.
_NOTE: Final = codec.EVENT_NAMES[AnnotationsRedacted]
_BESIDE: Final = {REDACTIONS: _REDACTION, TURNS: "state.turn"}


@attrs.frozen(slots=False)
class Change:
    """
    Something that changed, without what it says.

    Attributes:
        id: Its place in the feed, the sequence number of the event.  It only grows, and not by one.
        type: What changed: `state.message`, `state.document`, `state.link`, `state.turn`; or `state.redaction`.
        path: Where in its scope; of a redaction what was erased, `/turns` for turns and None for the whole scope.
        version: The version that it took; None for a redaction, which moves none.
        action: What was done, as the last part of the event's name: `sent`, `claimed`, `written`, `deleted`, …
        actor: Who did it, as the transport knew it.
        at: When, in ISO-8601 with `Z`.  Order is by `id`.
    """

    id: int
    type: str
    scope: str
    path: str | None
    version: int | None
    action: str
    actor: str
    at: str


class WithConversations(frozenset[str]):
    """Some scopes, and those of all conversations."""

    def __contains__(self, scope: object) -> bool:
        return super().__contains__(scope) or (isinstance(scope, str) and conversation_of(scope) is not None)


def change(event: Event) -> Change | None:
    """The change that an event made; None where it made none that the feed tells."""
    if event.stream.startswith("/"):
        kind = _BESIDE.get(event.stream)
        if kind is None:
            return None
    else:
        kind = next((kind for begin, kind in _KINDS if event.stream.startswith(begin)), _DOCUMENT)
    if kind == _REDACTION:
        if event.type == _NOTE:
            return None  # it goes with the redaction that follows
        return Change(event.seq, kind, event.scope, _erased(event), None, "redacted", event.actor, event.at)
    action = event.type.rpartition(".")[2]
    return Change(event.seq, kind, event.scope, event.stream, event.version, action, event.actor, event.at)


def _erased(event: Event) -> str | None:
    """What a redaction has erased; the record of one is never erased itself."""
    try:
        act = None if event.data is None else codec.decode(event.type, event.data)
    except codec.UnknownForm:
        return None
    if isinstance(act, TurnsRedacted):
        return TURNS
    return act.path if isinstance(act, Redacted) else None
