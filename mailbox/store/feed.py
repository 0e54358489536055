"""
The feed over a journal: what changed behind a position.

Only what is durable is told.  The journal finds the place by its number, so a
poll costs what it looks at and not what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Final

from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Commit
from fencepost.journal.port import Journal
from fencepost.mailbox.store.changes import Change, change
from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.port import Stretch

#: So many bytes of data are answered at once before the rest waits for the next question.
_BATCHES_BYTES: Final = 16 << 20


class Feed:
    """The part of a store over a journal that answers what changed."""

    _journal: Journal
    _index: Index

    def change_mark(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._intact(self._journal.news)

    def feed_bounds(self) -> tuple[int, int]:
        """See `fencepost.mailbox.store.port.Store`."""
        kept_from = self._journal.kept_from()  # in this order: the end only grows
        return kept_from, self._intact(self._journal.durable)

    def _intact(self, end: Callable[[], int]) -> int:
        """The end of the journal, or of what is intact of it, which was folded."""
        try:
            return end()
        except JournalCorrupt:
            return self._index.checkpoint().seq

    def changes(self, after: int, limit: int, scopes: Collection[str] | None, look: int) -> Stretch:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Change] = []
        position = seen = after
        batches = self._journal.read(self._journal.place_before(after))
        events = (event for commit in batches for event in commit.events if event.seq > after)
        try:
            for event in islice(events, look):
                seen = event.seq
                happened = change(event)
                if happened is None:
                    continue
                if scopes is None or event.scope in scopes:
                    if len(found) == limit:
                        return Stretch(tuple(found), position, more=True)
                    found.append(happened)
                position = event.seq
        except JournalCorrupt:
            if not found:
                raise
            return Stretch(tuple(found), position, more=True)  # the damage is told to whoever asks for what follows
        cut = seen - after >= look
        return Stretch(tuple(found), seen if cut else position, more=cut)

    def batches(self, after: int, limit: int) -> Sequence[Commit]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Commit] = []
        size = 0
        try:
            for commit in islice(self._journal.read(self._journal.place_before(after)), limit):
                found.append(commit._replace(meanings=None))
                size += sum(len(event.data or b"") for event in commit.events)
                if size >= _BATCHES_BYTES:
                    break
        except JournalCorrupt:
            if not found:
                raise
        return found  # damage is told to whoever asks for what follows
