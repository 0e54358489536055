"""
What a forked child must not inherit: a mutex that a thread of the parent holds, or a copy of a locked file.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something with mutexes or files of its own."""

    def renew_in_child(self) -> None:
        """In a forked child: replace the mutexes, and let go of the files that would keep something locked."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


#: Files (device and inode) that the parent of this process had open in SQLite.  SQLite remembers locks on them for the
#: whole process, and a child inherits the memory without the locks, so it must not open them again.
inherited: set[tuple[int, int]] = set()


def register(thing: Forkable) -> None:
    """Have it renewed in every child that is forked while it lives."""
    _known.add(thing)


def _renew_all() -> None:
    for thing in list(_known):
        thing.renew_in_child()


os.register_at_fork(after_in_child=_renew_all)
