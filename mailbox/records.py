"""
Memory documents: texts under paths, of which every version is kept.

A document is the fold of its events, written and deleted.  Its version is their
number, so it begins at 1 and only grows: writing the same text again takes the
next number, so does a deletion, and whoever writes after that goes on from
there.  Who wrote and when are taken from the envelope of an event, and a
deletion is known by its name, so that a document whose content was erased
still tells all the rest.

Rules for this file: pure, and no clock.  What is answered has the shapes here;
`fencepost.mailbox.codec` knows their JSON.
"""

from __future__ import annotations

import enum
from datetime import datetime

import attrs

from fencepost.mailbox.errors import MemoryConflict, UnknownDocument
from fencepost.mailbox.events import Deleted, DocumentEvent
from fencepost.mailbox.evolve import Impossible


class Action(enum.Enum):
    """What a version did, as seen from the one before it; it follows from the fold and is not stored."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


@attrs.frozen(slots=False)
class Record:
    """
    What the events of a memory document fold to.

    Attributes:
        action: What the last of them did.
        content: The text; empty where it was deleted or erased.
        created_at: When it was written for the first time, or for the first time since it was deleted.
        updated_at: When the last of them happened.
        actor: Who did it.
        redacted: The content was erased.
    """

    action: Action
    content: str
    created_at: datetime
    updated_at: datetime
    actor: str
    redacted: bool = False

    @property
    def live(self) -> bool:
        """Is there a document to be read?"""
        return self.action is not Action.DELETED


@attrs.frozen(slots=False)
class MemoryDocument:
    """A memory document that can be read, as of one version."""

    scope: str
    path: str
    content: str
    version: int
    created_at: datetime
    updated_at: datetime
    actor: str
    redacted: bool


@attrs.frozen(slots=False)
class Entry:
    """The line of a document in a listing."""

    path: str
    version: int
    created_at: datetime
    updated_at: datetime
    redacted: bool


@attrs.frozen(slots=False)
class Version:
    """One version: what was done, by whom, when; a version whose content was erased keeps all the rest."""

    path: str
    version: int
    action: Action
    content: str
    actor: str
    created_at: datetime
    redacted: bool


@attrs.frozen(slots=False)
class Standing:
    """
    What stands at an address.

    Attributes:
        version: The number of events there.
        record: What they fold to; None where there are none.
    """

    scope: str
    path: str
    version: int
    record: Record | None

    @property
    def stream(self) -> tuple[str, str]:
        """Where its events are."""
        return self.scope, self.path

    @property
    def live(self) -> bool:
        """Is there a document to be read?"""
        return self.record is not None and self.record.live

    @property
    def seen(self) -> int:
        """The version as callers count it: 0 where there is nothing to be read."""
        return self.version if self.live else 0

    def there(self) -> Record:
        """
        The document that can be read.

        Raises:
            UnknownDocument: There is none.
        """
        if self.record is None or not self.record.live:
            raise UnknownDocument(scope=self.scope, path=self.path)
        return self.record

    def expect(self, version: int | None) -> None:
        """
        Is it at the version that the caller has seen?

        Raises:
            MemoryConflict: It is not.
        """
        if version is not None and version != self.seen:
            raise self.conflict("version_mismatch", version)

    def conflict(self, reason: str, expected: int) -> MemoryConflict:
        """Why the caller has to read again."""
        return MemoryConflict(
            scope=self.scope, path=self.path, reason=reason, expected_version=expected, actual_version=self.seen
        )


def after(before: Record | None, event: DocumentEvent, at: datetime, actor: str, *, erased: bool = False) -> Record:
    """
    The document after one more event.

    Args:
        before: The document before; None before the first event.
        event: What happened.
        at: When, as its envelope says.
        actor: Who did it, as its envelope says.
        erased: The data of the event are gone; `event` is what its name alone says.

    Raises:
        Impossible: What is not there cannot be deleted.
    """
    live = before is not None and before.live
    if isinstance(event, Deleted):
        if before is None or not live:
            raise Impossible("Deleted of a document that is not there")
        return Record(Action.DELETED, "", before.created_at, at, actor, erased)
    if before is None or not live:
        return Record(Action.CREATED, event.content, at, at, actor, erased)
    return Record(Action.MODIFIED, event.content, before.created_at, at, actor, erased)


def document(scope: str, path: str, version: int, record: Record) -> MemoryDocument:
    """The document at its address."""
    return MemoryDocument(
        scope, path, record.content, version, record.created_at, record.updated_at, record.actor, record.redacted
    )


def version(path: str, number: int, record: Record) -> Version:
    """The version that the last event of the record made."""
    return Version(path, number, record.action, record.content, record.actor, record.updated_at, record.redacted)
