"""
Export and import: a whole store as a folder, and a store from such a folder.

An export is a copy of the journal with a manifest (see
`fencepost.journal.copying`).  It can be read where it is, as a store.  Nothing is
translated on the way, so nothing is lost: versions, actors, times, links,
idempotency keys and what was erased are there as they were, under the sequence
numbers that they had.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import attrs

from fencepost.journal.audit import Head
from fencepost.journal.copying import Manifest, check_copy, check_target, make_copy, take_copy
from fencepost.journal.disk import Disk
from fencepost.journal.errors import CopyDamaged
from fencepost.journal.event import Commit
from fencepost.journal.reader import FileReader
from fencepost.mailbox.digest import replay_digest


@attrs.frozen
class Transfer:
    """
    What was exported or imported.

    Attributes:
        head: The end of the journal.
        events: How many there are.
        erased: How many of them were erased.
        documents, versions: What they fold to.
        replay_digest: See `fencepost.mailbox.digest`.
    """

    head: Head
    events: int
    erased: int
    documents: int
    versions: int
    replay_digest: str


def export_store(
    root: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    each: Callable[[Commit], None] | None = None,
    disk: Disk | None = None,
) -> Transfer:
    """
    Export a store, while others use it too.

    Args:
        root: The store.
        folder: Where the export shall be; it is not there yet, or empty.
        each: Called with every batch, in order, while the copy is proven.
        disk: The calls that touch the disk.

    Raises:
        TargetOccupied: Something is in the folder.
        JournalError: The store is none, is damaged, or the export cannot be written.
    """
    reader = FileReader(root)
    with contextlib.closing(reader):
        return _transfer(make_copy(reader, os.fspath(folder), _facts, each=each, disk=disk))


def import_store(
    folder: str | os.PathLike[str],
    root: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    each: Callable[[Commit], None] | None = None,
    disk: Disk | None = None,
) -> Transfer:
    """
    Make a store of an export.

    Args:
        folder: The export.
        root: Where the store shall be: nothing, an empty folder, or a store in which nothing has ever been written.
        dry_run: Prove everything, answer the same, and write nothing.
        each: Called with every batch, in order, while the export is proven.
        disk: The calls that touch the disk.

    Raises:
        NotACopy: The folder is no export.
        CopyDamaged: It is not what it was.
        TargetOccupied: Something is in the root.
        JournalError: The store cannot be made.
    """
    check_target(os.fspath(root))
    manifest, reader = check_copy(os.fspath(folder), each=each)
    with contextlib.closing(reader):
        if _facts(reader) != manifest.facts:
            raise CopyDamaged(
                path=os.fspath(folder), file="manifest.json", why="the history is not the one it describes"
            )
    if not dry_run:
        take_copy(os.fspath(folder), os.fspath(root), disk=disk)
    return _transfer(manifest)


def _facts(copy: FileReader) -> dict[str, Any]:
    """What the manifest says of the documents."""
    found = replay_digest(copy.read)
    return {"documents": found.documents, "versions": found.versions, "replay_digest": found.digest}


def _transfer(manifest: Manifest) -> Transfer:
    facts = manifest.facts
    return Transfer(
        manifest.head,
        manifest.events,
        manifest.erased,
        facts["documents"],
        facts["versions"],
        facts["replay_digest"],
    )
