"""
Where a message is: what is on record of it, and of whom it was shown to, as facts.

Storing, showing, acknowledging, claiming and finishing are separate facts, each
with its time and its actor.  None follows from another: what was shown has not
been read for that, and what was claimed need not have been shown.

Rules for this file: pure.  Of an event whose data were erased its name tells
what happened, and nothing tells to whom.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from fencepost.journal.event import Event
from fencepost.mailbox import codec, events
from fencepost.mailbox.message import Message
from fencepost.mailbox.store.documents import Content, Erased, after

#: The stored name of an event -> the fact.  A name that is not here is a fact under its own last part.
_NAMES: Final = {
    "message.sent": "stored",
    "message.completed": "finished",
    "message.cancelled": "finished",
}
_BY_HOLDER: Final = (events.Renewed, events.Released, events.Completed, events.Snoozed)
_BY_RECEIVER: Final = (events.Accepted, events.Declined)
_NAMED: Final = (events.Acknowledged, events.Claimed, events.Reserved)


@attrs.frozen(slots=False)
class Fact:
    """
    One thing that is on record.

    Attributes:
        fact: `stored`, `shown`, `acknowledged`, `claimed`, `finished`; or what else happened to it: `renewed`,
            `released`, `snoozed`, `reserved`, `accepted`, `declined`.
        at: When, in ISO-8601 with `Z`.
        actor: Who, as the transport knew it.
        occurrence: Which coming of the message; None where that was erased.
        session: Which session; None where none is on record.
        door: Through which door it was shown.
        outcome: How it was finished: `done` or `cancelled`.
    """

    fact: str
    at: str
    actor: str
    occurrence: int | None
    session: str | None = None
    door: str | None = None
    outcome: str | None = None


@attrs.frozen(slots=False)
class ReceiptFacts:
    """
    Where a message is.

    Attributes:
        version: Of the message; showing it adds none.
        status: `open`, `done` or `cancelled`; None where it was erased or cannot be read.
        occurrence: The present one; likewise.
        erased: A redaction has erased what it said, and to whom it was shown.
        facts: In the order in which they were recorded.
    """

    id: str
    scope: str
    version: int
    status: str | None
    occurrence: int | None
    erased: bool
    facts: tuple[Fact, ...]


def facts(message_id: str, scope: str, recorded: Iterable[Event], shown: Iterable[Event]) -> ReceiptFacts:
    """
    Where a message is.

    Args:
        message_id: Which.
        scope: Where it stands.
        recorded: The events of the message, oldest first; at least one.
        shown: Those of the stream beside it.
    """
    found: list[tuple[int, Fact]] = []
    content: Content | None = None
    version = 0
    for event in recorded:
        before, content, version = content, after(content, event), event.version
        found.append((event.seq, _step(event, before, content)))
    found += [(event.seq, _showing(event)) for event in shown]
    found.sort(key=lambda each: each[0])
    message = content if isinstance(content, Message) else None
    return ReceiptFacts(
        message_id,
        scope,
        version,
        None if message is None else message.status.value,
        None if message is None else message.occurrence,
        isinstance(content, Erased),
        tuple(fact for _, fact in found),
    )


def _step(event: Event, before: Content | None, content: Content) -> Fact:
    name = _NAMES.get(event.type, event.type.rpartition(".")[2])
    message = before if isinstance(before, Message) else content if isinstance(content, Message) else None
    outcome = None
    if name == "finished":
        outcome = "done" if event.type == codec.EVENT_NAMES[events.Completed] else "cancelled"
    session = _session(event, message)
    occurrence = None if message is None else message.occurrence
    return Fact(name, event.at, event.actor, occurrence, session, None, outcome)


def _session(event: Event, before: Message | None) -> str | None:
    """The session that did it, where the event names it or could only be of whom the message was held by."""
    happened = _meaning(event)
    if happened is None or before is None:
        return None
    if isinstance(happened, events.Sent):
        return happened.letter.source
    if isinstance(happened, _NAMED):
        return happened.by
    if isinstance(happened, _BY_HOLDER):
        return None if before.lease is None else before.lease.owner
    if isinstance(happened, _BY_RECEIVER):
        return None if before.reservation is None else before.reservation.owner
    return None


def _showing(event: Event) -> Fact:
    happened = _meaning(event)
    if not isinstance(happened, events.Shown):
        return Fact("shown", event.at, event.actor, None)
    return Fact("shown", event.at, event.actor, happened.occurrence, happened.session, happened.door)


def _meaning(event: Event) -> events.Event | None:
    """What an event says; None where it was erased or is of a form that this version does not know."""
    try:
        return None if event.data is None else codec.decode(event.type, event.data)
    except codec.UnknownForm:
        return None
