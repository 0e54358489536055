"""
Appending in one round trip.

Who decides has just found what it decides on, and says at which versions.  So
what a batch folds to is known before anything is locked, and one statement
waits for its turn, compares the versions, takes numbers and writes; see
`append` in `schema`.

Two who write to one scope this way do not wait for each other, but only two who
write to one document, or under one idempotency key.  So they share a sync.
Whoever writes in any other way waits for all of them, and they for it.

A statement whose answer is lost is done again: if it was carried out, then the
versions that it expects are past, and it changes nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from fencepost.journal.errors import JournalConflict
from fencepost.journal.event import Batch
from fencepost.journal.port import Stream
from fencepost.mailbox.store.documents import check_not_erased
from fencepost.mailbox.store.postgres.asking import Ask, Own
from fencepost.mailbox.store.postgres.folding import Kept, Known, as_json, numbers
from fencepost.mailbox.store.postgres.horizon import places
from fencepost.mailbox.store.postgres.writing import (
    NEVER,
    Stale,
    Writer,
    check_size,
    content_in,
    events_of,
    folding_of,
    key_used,
)

_APPEND: Final = (
    "SELECT verdict, erased, heard, in_scope, at_path, expected, actual FROM {s}.append(%s::integer, %s::integer,"
    " %s::integer[], %s::integer[], %s::bigint, %s::jsonb)"
)
#: Larger batches take their time anyway.
_BYTES_MAX: Final = 1 << 20
_EVENTS_MAX: Final = 100
#: Whoever would need more locks than these takes the scope's alone: a server has room for so many.
_LOCKS_MAX: Final = 8
#: So many documents are remembered, and none that is larger.
_REMEMBERED_MAX: Final = 256
_REMEMBERED_CHARS_MAX: Final = 1 << 16


class Memory:
    """Documents as they were found last, and how often something had been erased by then.  Threads may share it."""

    def __init__(self) -> None:
        self._mutex: Final = threading.Lock()
        self._found: Final[OrderedDict[Stream, tuple[int, Known]]] = OrderedDict()

    def keep(self, stream: Stream, erasures: int, found: Known, chars: int) -> None:
        """Remember one."""
        if chars <= _REMEMBERED_CHARS_MAX:
            with self._mutex:
                self._found[stream] = (erasures, found)
                self._found.move_to_end(stream)
                if len(self._found) > _REMEMBERED_MAX:
                    self._found.popitem(last=False)

    def recall(self, stream: Stream) -> tuple[int, Known] | None:
        """What was found there."""
        with self._mutex:
            return self._found.get(stream)


@attrs.frozen
class Quick:
    """
    How batches are appended whose documents are known.

    Attributes:
        own: Where.
        writer: How all others are appended.
        memory: The documents.
    """

    own: Own
    writer: Writer
    memory: Memory

    def append(self, batch: Batch, expect: Mapping[Stream, int], erasures: int) -> int | None:
        """
        Append a batch.

        Args:
            batch: The events.
            expect: The version that each stream must be at.
            erasures: How often something had been erased when this handle looked last.

        Returns:
            How often something has been erased by now; None where the batch has to be appended in the other way.

        Raises:
            Stale, JournalConflict: As for `Writer.append`.
        """
        check_size(batch)
        known = self._known(batch, expect)
        if known is None:
            return None
        macs = self.writer.macs(batch)
        keys = [mac for mac in macs if mac is not None]
        if keys and erasures == NEVER:
            return None  # they may be digested with something else by now
        if len(set(keys)) < len(keys):
            raise key_used(batch)
        documents = {stream: each for stream, (_, each) in known.items()}
        check_not_erased(batch, expect, lambda stream: content_in(documents, stream))
        events = events_of(batch, expect, range(-1, -1 - len(batch.events), -1), macs)
        rows = folding_of(documents, batch, events, erasing=False).rows()
        rows["expect"] = [{"scope": scope, "path": path, "version": at} for (scope, path), at in expect.items()]
        looked = min([erasures, *(seen for seen, _ in known.values())])
        ((verdict, erased, heard, *odd), again) = self.own.once(self._asked(rows, expect, keys, looked))
        if verdict == "level":
            return None
        if verdict == "done" or (again and self.own.ask(self.writer.proof(events[0]))[0]):
            if heard or again:
                self.own.tell(self.writer.locks.tell())
            return int(erased)
        if verdict == "erased":
            raise Stale(erased)
        if verdict == "key":
            raise key_used(batch)
        scope, path, expected, actual = odd
        raise JournalConflict(scope=scope, stream=path, expected_version=expected, actual_version=actual)

    def _known(self, batch: Batch, expect: Mapping[Stream, int]) -> dict[Stream, tuple[int, Known]] | None:
        """The documents that the batch follows on, where all are known."""
        size_bytes = sum(len(event.data) for event in batch.events)
        if batch.erases or len(batch.events) > _EVENTS_MAX or size_bytes > _BYTES_MAX:
            return None
        known = {}
        for stream in {*expect, *((event.scope, event.stream) for event in batch.events)}:
            version = expect.get(stream)
            if version == 0:
                continue
            found = self.memory.recall(stream)
            if found is None or found[1].version != version:
                return None
            known[stream] = found
        return known

    def _asked(
        self, rows: dict[str, list[Kept]], expect: Mapping[Stream, int], keys: Sequence[str], looked: int
    ) -> Ask:
        locks = places([*map("\0".join, expect), *keys])
        # An act on a document tells which time the acts before it have reached, so it has to see them all.
        alone = len(locks) > _LOCKS_MAX or "act" in rows
        scopes = places({scope for scope, _ in expect})
        own = self.own
        return self.writer.ask(
            _APPEND,
            self.writer.locks.tag,
            own.lock_wait_ms,
            numbers(scopes),
            None if alone else numbers(locks),
            looked,
            as_json(rows),
        )
