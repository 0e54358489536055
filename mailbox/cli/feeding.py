"""
An index that is not fed, for a hook: feed it, but make none anew.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from fencepost.journal.errors import JournalUnavailable
from fencepost.journal.root import read_identity
from fencepost.mailbox.cli.quick import fed_index
from fencepost.mailbox.store.index import Index, file_name
from fencepost.mailbox.store.opening import file_store
from fencepost.mailbox.store.troubles import Unusable


def fed(root: str) -> sqlite3.Connection:
    """
    The index of a store, fed up to the end.

    Raises:
        JournalUnavailable: There is none that can be fed; making one takes too long for a hook.
        FencepostError: The store cannot be opened.
    """
    identity = read_identity(root)
    path = os.path.join(root, file_name(identity.generation))
    try:
        Index.open(path, identity.id, identity.generation).close()
    except Unusable as error:
        why = "its index has to be made anew: run `fencepost journal rebuild-index`"
        raise JournalUnavailable(path=root, why=why) from error
    with contextlib.closing(file_store(root)) as store:
        if store.damage is not None:
            raise store.damage
    db = fed_index(root)
    if db is None:
        raise JournalUnavailable(path=root, why="others write to it too fast")
    return db
