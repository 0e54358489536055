"""
Moving sealed segments to an archive.

Nothing is dropped: an archived segment is verified, read and answers history as
before, from where it is now.  The folder is named before anything is copied
there, and each segment is copied and synced before the original goes, so an
interruption leaves it in one place or in both, with the same bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from datetime import datetime

from fencepost.journal.disk import Disk, failure, remove_staged, write_whole
from fencepost.journal.errors import JournalCorrupt, JournalUnavailable
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
    where = archive_folder(journal, archive)
    moved: list[int] = []
    with contextlib.suppress(JournalCorrupt):  # what is intact before the damage can be moved
        journal.durable()  # an erasure that is half done is finished first
    with journal.locked():
        segments = journal.segments
        try:
            for first in segments.firsts()[:-1]:
                if os.path.dirname(segments.path(first)) != segments.folder:
                    continue
                data = segments.read(first)
                if not _all_before(data, before):
                    break
                if not moved:
                    disk.make_folder(where)
                    remove_staged(disk, where)
                # Named before there is anything in it, so that an erasure finds every copy.
                _remember(journal.root, segments.folder, where, disk)
                _copy(os.path.join(where, segment_name(first)), data, disk)
                disk.remove(os.path.join(segments.folder, segment_name(first)))
                disk.sync_folder(segments.folder)
                moved.append(first)
        except OSError as error:
            raise failure(error, where) from error
    return moved


def archive_folder(journal: FileJournal, archive: str | None) -> str:
    """
    The folder that sealed segments go to.  It is one store's: what another has put there is not written over.

    Raises:
        JournalUnavailable: The path cannot be remembered, or is the journal itself.
    """
    where = default_archive(journal.root) if archive is None else os.path.abspath(archive)
    why = None
    try:
        where.encode()
    except UnicodeEncodeError:
        why = "a path that is not UTF-8 cannot be remembered"
    if "\n" in where:
        why = "a path with a line break cannot be remembered"
    if os.path.realpath(where).startswith(os.path.realpath(journal.segments.folder)):
        why = "it is the journal itself"
    if why is not None:
        raise JournalUnavailable(path=where, why=why)
    return where


def _copy(path: str, data: bytes, disk: Disk) -> None:
    """Have a copy there; what an interrupted call has copied is not copied again."""
    if os.path.exists(path):
        with open(path, "rb") as handle:
            if handle.read() == data:
                disk.sync_folder(os.path.dirname(path))
                return
        raise OSError(errno.EEXIST, "another file of that name is there", path)
    write_whole(disk, path, data)


def _all_before(data: bytes, before: datetime) -> bool:
    first = header_at(data, 0)
    found = ([first] if first is not None else []) + list(headers(data, 0))
    return bool(found) and all(datetime.fromisoformat(header.fields["at"]) < before for header in found)


def _remember(root: str, folder: str, where: str, disk: Disk) -> None:
    """Say where segments are from now on; a folder within the root is remembered as such, so that both can be moved."""
    if where in archives(folder):
        return
    kept = [*archives(folder), where]
    inside = root + os.sep
    lines = [path.removeprefix(inside) for path in kept]
    write_whole(disk, os.path.join(folder, ARCHIVES), "".join(f"{line}\n" for line in lines).encode())
    disk.sync_folder(os.path.dirname(where))
