"""
The journal in memory: the promises of `fencepost.journal.port`, written to be read.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fencepost.journal.errors import ClosedHandle, JournalConflict, JournalCorrupt, TargetOccupied
from fencepost.journal.event import Batch, Checkpoint, Commit, Event
from fencepost.journal.frame import encode, recorded
from fencepost.journal.port import Heads, Stream
from fencepost.journal.recovery import BEGINNING


class MemoryJournal:
    """A journal that lasts as long as the object.  Everything appended is durable at once."""

    def __init__(self) -> None:
        self._mutex: Final = threading.Lock()
        self._commits: list[Commit] = []
        self._versions: dict[Stream, int] = {}
        self._keys: set[str] = set()
        self._heads: Heads | None = None
        self._closed = False
        self._erasures = 0
        self._secret = secrets.token_bytes(32)

    def generation(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self._erasures

    def attach(self, heads: Heads) -> None:
        """See `fencepost.journal.port.Journal`; a journal that knows everything asks nobody."""
        self._heads = heads

    def append(
        self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True, looked: int | None = None
    ) -> Commit:
        """See `fencepost.journal.port.Journal`."""
        with self._mutex:
            if self._closed:
                raise ClosedHandle(path="memory")
            for stream, expected in expect.items():
                actual = self._versions.get(stream, 0)
                stale = looked not in (None, self._erasures)
                if actual != expected or (stale and expected):
                    raise JournalConflict(
                        scope=stream[0], stream=stream[1], expected_version=expected, actual_version=actual
                    )
            last = self._commits[-1].end if self._commits else BEGINNING
            versions = []
            after = dict(self._versions)
            for event in batch.events:
                stream = (event.scope, event.stream)
                after[stream] = after.get(stream, 0) + 1
                versions.append(after[stream])
            macs = [
                event.digest if event.key is None else self.key_digest(event.scope, event.key) for event in batch.events
            ]
            used = [mac for mac in macs if mac is not None]
            if self._keys.intersection(used) or len(set(used)) < len(used):
                raise JournalConflict(
                    scope=batch.events[0].scope, stream="an idempotency key", expected_version=0, actual_version=1
                )
            salts = ["0" * 32] * len(batch.events)
            frame = encode(batch, last.seq + 1, last.digest, last.seq, versions, salts, macs)
            commit = recorded(batch, last, frame, 1, last.offset, versions, macs)
            self._commits.append(commit)
            self._versions = after
            self._keys.update(mac for mac in macs if mac is not None)
            if batch.erases:
                self._erase(frozenset(batch.erases))
            return commit

    def _erase(self, erased: frozenset[int]) -> None:
        self._erasures += 1
        for place, commit in enumerate(self._commits):
            if any(event.seq in erased for event in commit.events):
                events = tuple(event._replace(data=None) if event.seq in erased else event for event in commit.events)
                self._commits[place] = commit._replace(events=events, meanings=None)

    def check(self) -> None:
        """See `fencepost.journal.port.Journal`; nothing is ever in the way."""

    def refresh(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self._commits[-1].seq if self._commits else 0

    def pending(self) -> Sequence[Commit]:
        """See `fencepost.journal.port.Journal`."""
        seq = self._heads.checkpoint().seq if self._heads is not None else 0
        return tuple(commit for commit in self._commits if commit.seq > seq)

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
        """See `fencepost.journal.port.Journal`; nothing is ever taken back."""
        return 0

    def settle(self, epoch: int) -> bool:
        """See `fencepost.journal.port.Journal`; it is durable already."""
        return True

    def durable(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self.refresh()

    def news(self) -> int:
        """See `fencepost.journal.port.Journal`."""
        return self.durable()

    def read(self, after: Checkpoint | None = None) -> Iterator[Commit]:
        """See `fencepost.journal.port.Journal`."""
        seq = after.seq if after is not None else 0
        yield from self._commits[bisect_right(self._commits, seq, key=lambda commit: commit.seq) :]

    def place_before(self, seq: int) -> Checkpoint:
        """See `fencepost.journal.port.Journal`."""
        place = bisect_right(self._commits, seq, key=lambda commit: commit.seq)
        return self._commits[place - 1].end if place else BEGINNING

    def kept_from(self) -> int:
        """See `fencepost.journal.port.Journal`; there is no archive."""
        return 1

    def commit_at(self, segment: int, offset: int) -> Commit:
        """See `fencepost.journal.port.Journal`."""
        for commit in self._commits:
            if (commit.segment, commit.offset) == (segment, offset):
                return commit
        raise JournalCorrupt(file="memory", offset=offset, why="no batch begins here")

    def key_digest(self, scope: str, key: str) -> str:
        """See `fencepost.journal.port.Journal`."""
        return hmac.new(self._secret, f"{scope}\0{key}".encode(), hashlib.sha256).hexdigest()

    def secret(self) -> bytes:
        """See `fencepost.journal.port.Journal`."""
        return self._secret

    def adopt(self, secret: bytes) -> None:
        """See `fencepost.journal.port.Journal`."""
        with self._mutex:
            if self._commits:
                raise TargetOccupied(path="memory", why="a store with a history of its own")
            self._secret = secret

    def close(self) -> None:
        """See `fencepost.journal.port.Journal`."""
        self._closed = True
