"""
Moving sealed segments to an archive.

Nothing is dropped: an archived segment is verified, read and answers history as
before, from where it is now.  Each segment is copied, synced and named before
the original goes, so an interruption leaves it in one place or in both, with
the same bytes.
"""

from __future__ import annotations

import contextlib
import os
from datetime import datetime

from fencepost.journal.disk import Disk, failure, write_whole
from fencepost.journal.errors import JournalUnavailable
from fencepost.journal.file import FileJournal
from fencepost.journal.frame import header_at, headers
from fencepost.journal.segments import ARCHIVES, archives, segment_name


def default_archive(root: str) -> str:
    """Where sealed segments go if nobody says: beside the journal, in the store's folder."""
    return os.path.join(root, "archive")


def retain(journal: FileJournal, before: datetime, archive: str | None = None, disk: Disk | None = None) -> list[int]:
    """
    Move every sealed segment whose events are all older than a time, oldest first, to an archive.

    Args:
        journal: The journal, open for writing.
        before: Aware; a segment with an event at or after it stays, and so does everything behind it.
        archive: The folder; made if it is not there.  `<root>/archive` where None.
        disk: The calls that touch the disk.

    Returns:
        The segments that were moved, by their first sequence numbers.

    Raises:
        JournalUnavailable: The archive cannot be written.
    """
    disk = disk or Disk()
    where = os.path.abspath(archive or default_archive(journal.root))
    if "\n" in where:
        raise JournalUnavailable(path=where, why="a path with a line break cannot be remembered")
    moved = []
    try:
        with journal.locked():
            segments = journal.segments
            for first in segments.firsts()[:-1]:
                if os.path.dirname(segments.path(first)) != segments.folder:
                    continue
                data = segments.read(first)
                if not _all_before(data, before):
                    break
                disk.make_folder(where)
                _remember(segments.folder, where, disk)
                write_whole(disk, os.path.join(where, segment_name(first)), data)
                disk.remove(os.path.join(segments.folder, segment_name(first)))
                disk.sync_folder(segments.folder)
                moved.append(first)
    except OSError as error:
        raise failure(error, where) from error
    return moved


def _all_before(data: bytes, before: datetime) -> bool:
    first = header_at(data, 0)
    found = ([first] if first is not None else []) + list(headers(data, 0))
    return bool(found) and all(datetime.fromisoformat(header.fields["at"]) < before for header in found)


def _remember(folder: str, where: str, disk: Disk) -> None:
    known = archives(folder)
    if where not in known:
        lines = "".join(f"{path}\n" for path in [*known, where])
        write_whole(disk, os.path.join(folder, ARCHIVES), lines.encode())
    with contextlib.suppress(FileNotFoundError):
        disk.sync_folder(os.path.dirname(where))
