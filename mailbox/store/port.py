"""
What the mailbox asks of the place where its documents are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import attrs

from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.port import Stream
from fencepost.mailbox.records import Entry, Record, Version
from fencepost.mailbox.store.changes import Change
from fencepost.mailbox.store.documents import Document
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.views import Listing


@attrs.frozen
class Unsupported:
    """A document in a form that this version does not know, and where it is."""

    scope: str
    path: str
    version: int
    why: str


@attrs.frozen
class Query:
    """
    A listing, asked by somebody at some time.

    Attributes:
        scopes: The scopes to read.
        session: Whose conversations to include; None for mail to everybody only.
        links: The scopes whose links say what the session continues: all that are mounted, whichever are read.
        long: The message by which the listing becomes so long is its last; None where it may be of any length.
    """

    listing: Listing
    scopes: tuple[str, ...]
    session: str | None
    now: datetime
    limit: int
    links: tuple[str, ...]
    long: int | None = None


@attrs.frozen
class Redaction:
    """
    What was erased.

    Attributes:
        scope: In which scope.
        path: At which path; None for the whole scope.
        count: How many documents, those included that had been erased before.
        referring: The messages whose context names one of them: scope and path.  They keep the reference.
    """

    scope: str
    path: str | None
    count: int
    referring: tuple[Stream, ...]


@attrs.frozen
class Stretch:
    """
    A part of the feed.

    Attributes:
        changes: In order.
        position: Where the next part begins: the last change that was looked at, of whatever scope.
        more: There may be more behind it already.
    """

    changes: tuple[Change, ...]
    position: int
    more: bool


@attrs.frozen
class Filed:
    """
    A message or a link as a document that stands in its scope.

    Attributes:
        version: The number of its events.
        created_at: When the first of them was recorded.
        updated_at: When the last was.
        redacted: What it said was erased.
        why: Why it cannot be read; None where it can.
    """

    path: str
    version: int
    created_at: datetime
    updated_at: datetime
    redacted: bool
    why: str | None


class Store(Protocol):
    """Documents and their events.  Everything it shows in listings is durable."""

    def actor(self, said: str) -> str:
        """
        Who is on record for what a caller does who says that they are that.

        A state process knows its clients by their tokens, and puts what they say of themselves behind that.
        """

    def find(self, stream: Stream) -> Document | None:
        """The document as it stands, with everything that was appended, durable or not."""

    def append(self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True) -> None:
        """
        Append events whole, durably.

        Args:
            batch: The events.
            expect: The version that each stream must be at before.
            settle: Wait until they are durable.  Where not, a power cut may lose them.

        Raises:
            JournalConflict: A stream is not at the version expected.
            JournalError: It could not be done.
        """

    def redact(self, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None = None) -> Redaction:
        """
        Erase what every event of a document says, or of all documents of a scope where there is no path.

        With a message goes the record of who was shown it.  Afterwards it is in no file of the store.  What stays is
        who did when what kind of thing to which version of it.  The act is recorded in the stream `/redactions` of the
        scope.  Erasing again counts the same.

        Args:
            scope: Where.
            path: Which document.
            at: When, for the record.
            actor: Who, for the record.
            reason: Why, for the record.

        Raises:
            ErasureUnfinished: It has happened, and a later call has to do the rest of it.
            JournalError: It could not be done.
        """

    def epoch(self) -> int:
        """A number that changes when something that was shown and not durable has been taken back."""

    def settle(self, epoch: int) -> bool:
        """
        Wait until everything that `find` has shown since the epoch was asked is durable, so that it can be told.

        Returns:
            False where some of it was taken back, so that whatever was concluded from it must be thought over.
        """

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """Version and compact body of each message of a listing, and what could not be read."""

    def events(self, stream: Stream) -> list[Event]:
        """The events of a document, oldest first, durable or not."""

    def events_from(self, stream: Stream, after: int, limit: int) -> Sequence[Event]:
        """Some events of a stream behind a version, oldest first, durable or not."""

    def annotations(self, conversation: str, turn: int | None) -> Sequence[Document]:
        """The messages that are about a turn of a conversation, or about all of it, in all scopes; the oldest first."""

    def search(self, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
        """
        The newest texts in which every term is found, as `fencepost.mailbox.matching` says.

        Args:
            name: `said` for messages, outcomes and turns, `noted` for memory documents.
            terms: Folded terms.
            sight: What whoever asks may be told of.
            limit: How many at most.
        """

    def search_turns(self, terms: Sequence[str], sight: Sight, limit: int) -> Sequence[Text]:
        """The turns among them by their times, latest first, then by conversation and number, both from the end."""

    def entries(
        self, scope: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
        """
        Memory documents whose path begins with the prefix, in the order of their paths, behind the path `after`.

        Returns:
            At most `limit` of them, and as many of those that cannot be read, wherever they stand.
        """

    def versions(self, stream: Stream, before: int, limit: int) -> Sequence[Version]:
        """The versions of a memory document that are older than one, newest first."""

    def history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[tuple[int, Version]]:
        """
        The versions of all memory documents of a scope, newest first, each with its sequence number.

        Args:
            scope: Which scope.
            since: Leave out what happened earlier.
            before: Leave out this sequence number and all later ones.
            limit: How many at most.
        """

    def record_at(self, stream: Stream, version: int) -> Record | None:
        """A memory document as of one version; None where it had no such version."""

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """The session and every conversation it continues, as links in these scopes say."""

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """The message that an idempotency key has sent to a scope."""

    def has_seen(self, session: str) -> bool:
        """Has anything been heard of the session?"""

    def feed_bounds(self) -> tuple[int, int]:
        """The first event that the feed still tells of, behind what retention has moved away, and the last durable."""

    def changes(self, after: int, limit: int, scopes: Collection[str] | None, look: int) -> Stretch:
        """
        What changed behind a position, durably, in the order in which it did.

        Args:
            after: The position.
            limit: How many at most.
            scopes: Only what changed in these; everywhere where None.
            look: How many events to look at for it at most.

        Raises:
            JournalCorrupt: What stands right behind the position is damaged.
        """

    def batches(self, after: int, limit: int) -> Sequence[Commit]:
        """
        What was recorded behind a position, durably and in order, as it was recorded; what was erased is told as such.

        What retention has moved to an archive is told no more; `feed_bounds` says from where on there is everything.

        Args:
            after: The position: the first batch is the one that holds the event behind it.
            limit: How many batches at most.  There are fewer where they are large, and none only at the end.

        Raises:
            JournalCorrupt: What stands right behind the position is damaged.
        """

    def change_mark(self) -> int:
        """A number that grows when something durable was added, by whomever; cheap to ask often."""

    def next_change(self, query: Query) -> datetime | None:
        """When the passing of time alone will next add to the listing."""

    def secret(self) -> bytes:
        """The 32 bytes under which idempotency keys are digested; only for whoever takes the whole store away."""

    def restore(self, batches: Sequence[Batch], behind: int, secret: bytes) -> int:
        """
        Record again what another store has recorded; see `fencepost.mailbox.store.replay`.

        Args:
            batches: Some of it, in order.
            behind: The number of events that were recorded again before; 0 to begin, in a store that is empty.
            secret: The other store's.

        Returns:
            The number of events that were recorded again.

        Raises:
            TargetOccupied: Something else has been recorded here.
            JournalError: It could not be done; some of the batches may be there.
        """

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""


class Served(Store, Protocol):
    """A store that a state process can serve: it also says what there is, and whether it can be written."""

    def check(self) -> None:
        """
        Could something be appended now?  It looks as whoever appends does first, and writes nothing.

        Raises:
            JournalError: It could not, and why.
        """

    def scopes(self) -> Sequence[str]:
        """Every scope in which anything was ever recorded, by code point; those of conversations are among them."""

    def mail(self, scope: str, prefix: str, after: str | None, limit: int) -> Sequence[Filed]:
        """
        Messages and links whose path begins with the prefix, in the order of their paths, behind the path `after`.

        Those that were erased or cannot be read are among them.
        """

    def mail_history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[Event]:
        """
        The events of all messages and links of a scope, newest first.

        Args:
            scope: Which scope.
            since: Leave out what happened earlier.
            before: Leave out this sequence number and all later ones.
            limit: How many at most.
        """
