"""
Folding a whole journal into an index that is empty.
"""

from __future__ import annotations

from typing import Final

from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.event import Commit
from fencepost.journal.port import Journal
from fencepost.mailbox.store.index import Index

#: Batches fed to a new index in one transaction.
_FEED_CHUNK: Final = 2_000


def folded(journal: Journal, store: str) -> tuple[Index, JournalCorrupt | None]:
    """What is intact of a journal, folded in memory, and what is wrong with the rest."""
    index = Index.in_memory(store, journal.generation())
    try:
        fill(index, journal)
    except JournalCorrupt as damage:
        return index, damage
    return index, None


def fill(index: Index, journal: Journal) -> None:
    """
    Feed all of a journal to an empty index.

    Raises:
        JournalCorrupt: After everything before the damage was fed.
    """
    chunk: list[Commit] = []
    try:
        for commit in journal.read():
            chunk.append(commit)
            if len(chunk) == _FEED_CHUNK:
                index.take_in(chunk)
                chunk.clear()
    finally:
        index.take_in(chunk)
