"""
Recording what hooks have left in the spool: once, whoever does it and however often it is interrupted.

What was shown is recorded once for a message, an occurrence and a session
anyway.  A turn is appended under the name of its file as its key, so a file
that is still there after it was recorded changes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from datetime import datetime
from typing import Any

from fencepost.journal.errors import BadInput, FencepostError
from fencepost.mailbox import open_store
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.cli import spool
from fencepost.mailbox.cli.place import DATABASE_VARIABLE, URL_VARIABLE
from fencepost.mailbox.errors import Refused
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.talks import Conversations

_DOOR = "hook"
_LOCK = ".lock"
#: What cannot be recorded is kept aside.
_REFUSED = "refused"


def land(store: Store, root: str) -> int:
    """
    Record what is in the spool.

    Args:
        store: Where.
        root: The folder that the spool is in.

    Returns:
        How many files were recorded; 0 where another process is at it.

    Raises:
        JournalError: The store cannot record it now; what was not recorded stays.
    """
    if not spool.entries(root):
        return 0
    done = 0
    with contextlib.ExitStack() as after:
        lock = os.open(os.path.join(spool.folder_of(root), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        after.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        spool.sweep(root)
        for name in spool.entries(root):
            path = os.path.join(spool.folder_of(root), name)
            try:
                with open(path, encoding="utf-8") as handle:
                    _record(store, name, json.load(handle))
            except FileNotFoundError:
                continue
            except (BadInput, LookupError, TypeError, ValueError):
                _keep_aside(root, name)
                continue
            os.unlink(path)
            done += 1
    return done


def land_here(root: str) -> int:
    """Record what is in the spool of a folder, in the store that the environment names or else in that folder."""
    where = os.environ.get(DATABASE_VARIABLE) or os.environ.get(URL_VARIABLE) or root
    with contextlib.suppress(FencepostError, OSError), contextlib.closing(open_store(where)) as store:
        land(store, root)
    return 0


def land_if_possible(store: Store, root: str) -> None:
    """The same, beside something else that matters more."""
    with contextlib.suppress(FencepostError, OSError):
        land(store, root)


def _record(store: Store, name: str, entry: dict[str, Any]) -> None:
    session = entry["session"]
    if "turn" in entry:
        at = datetime.fromisoformat(entry["at"])
        talks = Conversations(store, actor=f"agent:{entry['client']}", clock=lambda: at)
        talks.append_once(session, entry["turn"], key=name)
        return
    mounts = [Mount(scope, f"/{number}") for number, scope in enumerate(entry["scopes"])]
    box = Mailbox(store, mounts, actor="host:hook")
    for message_id, occurrence in entry["shown"]:
        with contextlib.suppress(Refused):  # it was erased, or is not for this session any more
            box.shown([(message_id, occurrence)], session=session, door=_DOOR)


def _keep_aside(root: str, name: str) -> None:
    folder = os.path.join(spool.folder_of(root), _REFUSED)
    os.makedirs(folder, 0o700, exist_ok=True)
    os.replace(os.path.join(spool.folder_of(root), name), os.path.join(folder, name))
