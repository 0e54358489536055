"""
What the state folder of an agent is known by in the records.

A lock in the folder keeps two controllers apart, and a note in it finds the program
that one has left behind.  Neither says anything to whoever has another folder, so
an agent is fed with the one that is on record.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import Final

from fencepost.journal.disk import PRIVATE_FILE
from fencepost.mailbox.errors import FilesFailed

_FILE: Final = "holder"


def of(folder: Path) -> str:
    """
    What the folder is known by: where it was made, for whoever looks for it, and a number that no other has.

    Whoever calls this has the folder.

    Raises:
        FilesFailed: It cannot be read or written.
    """
    path = folder / _FILE
    try:
        if not path.exists():
            _write(path, f"{socket.gethostname()}:{folder} {secrets.token_hex(8)}")
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise FilesFailed(path=str(path), why=error.strerror or str(error)) from error


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and durably: without it, nobody could feed the agent."""
    staged = path.with_suffix(".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(staged, flags, PRIVATE_FILE), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
