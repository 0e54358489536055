"""
The journal in files, opened to be read.

No lock is taken and nothing is written, so it works on a read-only mounted
copy, beside a running writer, and on a damaged journal as far as that is
intact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fencepost.journal.disk import Disk
from fencepost.journal.erasing import planned
from fencepost.journal.errors import ReadOnlyStore
from fencepost.journal.event import Batch, Checkpoint, Commit, Event
from fencepost.journal.places import place_before
from fencepost.journal.port import Heads, Stream
from fencepost.journal.reading import read_commit, read_durable
from fencepost.journal.recovery import BEGINNING, find_end
from fencepost.journal.root import WATERMARK, read_identity
from fencepost.journal.segments import Segments
from fencepost.journal.watermark import Watermark


class FileReader:
    """
    A journal in a folder, for reading only; see `fencepost.journal.port.Journal`.

    Args:
        root: The store's folder.
        witness: A sequence number known from elsewhere to have been on the disk.

    Raises:
        NotAStore: The folder is no store.
        NewerStore: A newer fencepost made it.
    """

    def __init__(self, root: str | os.PathLike[str], *, witness: int = 0) -> None:
        self.witness = witness
        self.root: Final = os.path.abspath(os.fspath(root))
        self.identity = read_identity(self.root)
        self.segments: Final = Segments(self.root, Disk(), write=False)
        self._heads: Heads | None = None

    def generation(self) -> int:
        """See `fencepost.journal.port.Journal`; an erasure that binds and is not finished counts as one of its own."""
        return 2 * self.identity.generation + bool(planned(self.segments, self.durable))

    def attach(self, heads: Heads) -> None:
        """See `fencepost.journal.port.Journal`."""
        self._heads = heads

    def append(
        self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True, looked: int | None = None
    ) -> Commit:
        """
        Nothing is written here.

        Raises:
            ReadOnlyStore: Always.
        """
        raise ReadOnlyStore(path=self.root)

    def check(self) -> None:
        """
        Nothing is written here.

        Raises:
            ReadOnlyStore: Always.
        """
        raise ReadOnlyStore(path=self.root)

    def refresh(self) -> int:
        """See `fencepost.journal.port.Journal`; what is not durable is not shown."""
        self.identity = read_identity(self.root)
        return self.durable()

    def pending(self) -> Sequence[Commit]:
        """See `fencepost.journal.port.Journal`."""
        after = BEGINNING if self._heads is None else self._heads.checkpoint()
        return tuple(self.read(after))

    def trim(self) -> None:
        """See `fencepost.journal.port.Journal`; there is nothing to forget."""

    def pending_of(self, stream: Stream) -> Sequence[Event]:
        """See `fencepost.journal.port.Journal`."""
        events = (event for commit in self.pending() for event in commit.events)
        return [event for event in events if (event.scope, event.stream) == stream]

    def owed(self) -> Sequence[Commit]:
        """See `fencepost.journal.port.Journal`."""
        return self.pending()

    def epoch(self) -> int:
        """See `fencepost.journal.port.Journal`; nothing that was shown is taken back."""
        return 0

    def settle(self, epoch: int) -> bool:
        """See `fencepost.journal.port.Journal`; nothing else was shown."""
        return True

    def durable(self) -> int:
        """
        The last durable event: what a running writer says, else what stands there.

        Raises:
            JournalCorrupt: The end of the journal is damaged.
        """
        said, known = self._said()
        if said and known >= self.witness:
            return known
        return find_end(self.segments, None, max(self.witness, known)).place.seq

    def _said(self) -> tuple[bool, int]:
        """What a watermark of this boot says was durable, and whether its segment still stands there."""
        try:
            watermark = Watermark(os.path.join(self.root, WATERMARK), self.identity.id, write=False)
        except (OSError, ValueError):
            return False, 0
        try:
            mark = watermark.mark
            there = mark is not None and self.segments.is_file(mark.segment, mark.inode)
            return there, watermark.durable if watermark.belongs else 0
        finally:
            watermark.close()

    def news(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self.durable()

    def read(self, after: Checkpoint | None = None) -> Iterator[Commit]:
        """See `fencepost.journal.port.Journal`."""
        yield from read_durable(self.segments, after, self.durable)

    def place_before(self, seq: int) -> Checkpoint:
        """See `fencepost.journal.port.Journal`."""
        return place_before(self.segments, seq)

    def kept_from(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self.segments.kept()

    def commit_at(self, segment: int, offset: int) -> Commit:
        """See `fencepost.journal.port.Journal`."""
        return read_commit(self.segments, segment, offset, self.durable)

    def key_digest(self, scope: str, key: str) -> str:
        """See `fencepost.journal.port.Journal`."""
        return self.identity.digest(scope, key)

    def secret(self) -> bytes:
        """See `fencepost.journal.port.Journal`."""
        return self.identity.key

    def adopt(self, secret: bytes) -> None:
        """See `fencepost.journal.port.Journal`; never."""
        raise ReadOnlyStore(path=self.root)

    def close(self) -> None:
        """See `fencepost.journal.port.Journal`."""
        self.segments.close()
