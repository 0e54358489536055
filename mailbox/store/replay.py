"""
Recorded batches as another store can record them again.

Nothing is translated: times, actors, versions and the digests of idempotency
keys are as they were.  What was erased has nothing to carry over.  It is
recorded with a filling and erased by the next redaction of its scope, which is
at the latest the one that erased it.

Rules for this file: pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from fencepost.journal.errors import CopyDamaged
from fencepost.journal.event import Batch, Commit, NewEvent
from fencepost.mailbox.addresses import REDACTIONS

_FILLING: Final = b"{}"


def recordable(commits: Iterable[Commit], source: str) -> Iterator[Batch]:
    """
    The same batches, to be recorded one after the other where nothing is yet.

    Args:
        commits: All batches of a store, in order.
        source: What they are of, for the error.

    Raises:
        CopyDamaged: Something was erased, and nothing on record has erased it.
    """
    erased: dict[str, list[int]] = {}
    done = 0
    for commit in commits:
        erases: list[int] = []
        for event in commit.events:
            if event.stream == REDACTIONS:
                erases += erased.pop(event.scope, ())
        for seq, event in enumerate(commit.events, done + 1):
            if event.data is None:
                erased.setdefault(event.scope, []).append(seq)
        done += len(commit.events)
        first = commit.events[0]
        events = tuple(
            NewEvent(event.scope, event.stream, event.type, event.data or _FILLING, digest=event.key)
            for event in commit.events
        )
        yield Batch(datetime.fromisoformat(first.at), first.actor, events, tuple(erases))
    for scope, seqs in erased.items():
        why = f"{len(seqs)} events of {scope} were erased, and no record says so"
        raise CopyDamaged(path=source, file="the journal", why=why)
