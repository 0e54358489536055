"""
What a journal promises, whichever backend keeps it.

`fencepost.mailbox.testing` holds the contract suite that a backend is run
through; the docstrings here are what it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from fencepost.journal.event import Batch, Checkpoint, Commit, Event
from fencepost.journal.recovery import BEGINNING

#: A stream: its scope and its name within the scope.
Stream: TypeAlias = tuple[str, str]


class Heads(Protocol):
    """What somebody who folds the journal knows of its streams, up to a checkpoint."""

    def checkpoint(self) -> Checkpoint:
        """The place up to which the events have been taken in."""

    def version(self, stream: Stream, /) -> int:
        """The version of a stream at the checkpoint last asked for, or at a later one; 0 where it has no event."""

    def knows_key(self, digest: str, /) -> bool:
        """Does an event there carry the idempotency key of that digest?"""


class NoHeads:
    """Nobody folds the journal, so it keeps all of itself in mind."""

    def checkpoint(self) -> Checkpoint:
        """The beginning."""
        return BEGINNING

    def version(self, _: Stream, /) -> int:
        """Nothing was taken in."""
        return 0

    def knows_key(self, _: str, /) -> bool:
        """Nothing was taken in."""
        return False


class Journal(Protocol):
    """An ordered log of batches."""

    def attach(self, heads: Heads) -> None:
        """Let the journal ask `heads` for versions, so that it need not read itself from the beginning."""

    def append(
        self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True, looked: int | None = None
    ) -> Commit:
        """
        Append a batch whole, and return once it is durable and what it erases is overwritten.

        Args:
            batch: The events.
            expect: The version that each stream of the batch must be at before it; 0 for a new stream.
            settle: Wait until it is durable.  Where not, it becomes so with whatever is made durable next, and may be
                lost until then; never of a batch that erases.
            looked: The generation before the batch was decided on; None for the one of the last look.

        Raises:
            JournalConflict: A stream is at another version, an idempotency key has been used, or it follows on a
                stream and something was erased since that generation.  Nothing was written.
            NotErasable: It erases an event that is not there, or the record of an erasure.
            ErasureUnfinished: It was appended, and what it erases will be overwritten by the next call.
            JournalError: It could not be written, or (`SyncFailed`) its outcome is unknown.
        """

    def check(self) -> None:
        """
        Could a batch be appended now?  It looks, and puts in order, as an append does first, and adds nothing.

        Raises:
            JournalError: It could not, and why.
        """

    def refresh(self) -> int:
        """Learn what others have appended; the sequence number of the last event, durable or not."""

    def generation(self) -> int:
        """A number that changes, with `refresh`, when what was folded holds something that has been erased since."""

    def pending(self) -> Sequence[Commit]:
        """The batches behind the heads' checkpoint that this handle knows of, durable or not."""

    def pending_of(self, stream: Stream) -> Sequence[Event]:
        """The events among them of one stream, in order."""

    def owed(self) -> Sequence[Commit]:
        """The durable batches behind the heads' checkpoint: what is still to be taken in."""

    def trim(self) -> None:
        """Forget the pending batches that the heads have taken in."""

    def epoch(self) -> int:
        """A number that changes when something that was shown and not durable has been taken back."""

    def settle(self, epoch: int) -> bool:
        """
        Wait until everything that this handle has shown is durable.

        Args:
            epoch: The epoch before the first of it was looked at.

        Returns:
            False where some of it was taken back, so that whatever was concluded from it must be thought over.
        """

    def durable(self) -> int:
        """The sequence number of the last durable event."""

    def news(self) -> int:
        """A number that changes when something has become durable, by whomever; cheap, and takes no lock."""

    def read(self, after: Checkpoint | None = None) -> Iterator[Commit]:
        """
        The durable batches behind a place, in order; all of them where none is given.

        Raises:
            JournalCorrupt: At the first damaged byte, after everything intact before it.
        """

    def place_before(self, seq: int) -> Checkpoint:
        """
        Where to `read` from so that the first batch is the one with the event behind `seq`, if it is durable.

        What this costs does not depend on how much is stored.
        """

    def kept_from(self) -> int:
        """The first event that retention has left where it was; 1 where nothing was moved to an archive."""

    def commit_at(self, segment: int, offset: int) -> Commit:
        """
        The batch at a place that a `Commit` named.

        Raises:
            JournalCorrupt: It is not there.
        """

    def key_digest(self, scope: str, key: str) -> str:
        """The keyed digest under which an idempotency key of that scope is recorded."""

    def secret(self) -> bytes:
        """The 32 bytes under which idempotency keys are digested."""

    def adopt(self, secret: bytes) -> None:
        """
        Digest idempotency keys under that secret: those of another journal are about to be recorded here.

        Raises:
            TargetOccupied: Something has been recorded already.
        """

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
