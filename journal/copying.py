"""
Whole copies of a journal: a folder that is a store of its own, and a manifest that says what must be in it.

    <folder>/
      manifest.json             what was copied: head, counts, size and SHA-256 of each file
      store.json                as in the root that was copied
      journal/<first seq>.log   every segment, archived ones too; the last ends with its last frame

A copy is staged beside its place, synced, and put there by one rename, so an
interruption leaves the place as it was.  What it has left in the stage is
removed by the next copy to that place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import orjson

from fencepost.journal.audit import Head, Report, verify
from fencepost.journal.disk import Disk, failure, open_file
from fencepost.journal.errors import CopyDamaged, JournalUnavailable, NotACopy, TargetOccupied
from fencepost.journal.event import Commit
from fencepost.journal.file import FileJournal
from fencepost.journal.lock import lock_folder
from fencepost.journal.reader import FileReader
from fencepost.journal.recovery import end_at, find_end
from fencepost.journal.root import JOURNAL, MANIFEST, STORE_FILE, TORN
from fencepost.journal.segments import segment_name

#: The form of the manifest that is written and understood here.
MANIFEST_FORMAT: Final = 1
_STAGE: Final = ".staged-"
_PIECE_BYTES: Final = 1 << 20
#: An erasure that meets a copy makes it begin again, so many times.
_ATTEMPTS_MAX: Final = 5


@attrs.frozen
class CopiedFile:
    """One file of a copy, by its path within it."""

    name: str
    size_bytes: int
    sha256: str


@attrs.frozen
class Manifest:
    """
    What a copy must be.

    Attributes:
        head: The end of the journal that was copied.
        files: Every file but the manifest itself.
        facts: What whoever made the copy knows of its content; opaque here.
    """

    head: Head
    batches: int
    events: int
    erased: int
    files: tuple[CopiedFile, ...]
    facts: dict[str, Any]


def make_copy(
    reader: FileReader,
    folder: str,
    facts: Callable[[FileReader], dict[str, Any]],
    *,
    each: Callable[[Commit], None] | None = None,
    disk: Disk | None = None,
) -> Manifest:
    """
    Copy a journal, beside a running writer too, and prove the copy before it gets its name.

    Args:
        reader: The journal.
        folder: Where the copy shall be; it is not there yet, or empty.
        facts: Told the copy, says what else to note of it.
        each: Called with every batch of the copy while it is proven, in order.
        disk: The calls that touch the disk.

    Raises:
        TargetOccupied: Something is in the folder.
        JournalCorrupt: The journal is damaged.
        JournalUnavailable: It cannot be read, or the copy not written.
    """
    disk = disk or Disk()
    folder = os.path.realpath(folder)  # what is a link to a folder is that folder, and is not replaced
    check_apart(folder, reader.root, "it is within the store")
    check_vacant(folder)
    with staged(folder, disk) as stage:
        for _ in range(_ATTEMPTS_MAX):
            before = reader.generation()
            names = _copy_store(reader, stage, disk)
            if reader.generation() == before:
                break
            _empty(stage)  # something was erased meanwhile, and may stand in the copy
        else:
            raise JournalUnavailable(path=reader.root, why="erasures keep it changing")
        copy = FileReader(stage)
        report = verify(copy, each=each)
        if report.damage is not None:
            raise report.damage
        files = tuple(_described(stage, name) for name in names)
        manifest = Manifest(report.head, report.batches, report.events, report.erased, files, facts(copy))
        copy.close()
        _write(
            os.path.join(stage, MANIFEST), orjson.dumps(_as_json(manifest), option=orjson.OPT_INDENT_2) + b"\n", disk
        )
        put_in_place(stage, folder, disk)
    return manifest


def read_manifest(folder: str) -> Manifest:
    """
    What a copy says of itself.

    Raises:
        NotACopy: There is no manifest, or one of a form that is not known here.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        with open_file(path) as handle:
            fields = orjson.loads(handle.read())
        if fields["format"] != MANIFEST_FORMAT:
            raise NotACopy(path=folder, why=f"its manifest has format {fields['format']!r}")
        files = tuple(
            CopiedFile(str(each["name"]), int(each["size_bytes"]), str(each["sha256"])) for each in fields["files"]
        )
        head = Head(int(fields["head"]["seq"]), str(fields["head"]["digest"]))
        counts = (int(fields["batches"]), int(fields["events"]), int(fields["erased"]))
        return Manifest(head, *counts, files, dict(fields["facts"]))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotACopy(path=folder, why=f"it has no {MANIFEST}") from error
    except OSError as error:
        raise failure(error, path) from error
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
        raise NotACopy(path=folder, why=f"its {MANIFEST} is damaged") from error


def check_copy(folder: str, *, each: Callable[[Commit], None] | None = None) -> tuple[Manifest, FileReader]:
    """
    Prove that a copy is what its manifest says.

    Args:
        folder: Where it is.
        each: Called with every batch, in order.

    Returns:
        Its manifest, and its journal.

    Raises:
        NotACopy: There is no manifest that can be read.
        CopyDamaged: A file is not what it was.
        JournalCorrupt: The journal is damaged.
    """
    folder = os.path.abspath(folder)
    manifest = read_manifest(folder)
    names = {each.name for each in manifest.files}
    if STORE_FILE not in names or len(names) != len(manifest.files) or not all(map(_is_ours, names)):
        raise NotACopy(path=folder, why=f"its {MANIFEST} names files that no copy has")
    for file in manifest.files:
        try:
            found = _described(folder, file.name)
        except FileNotFoundError as error:
            raise CopyDamaged(path=folder, file=file.name, why="it is missing") from error
        except OSError as error:
            raise failure(error, os.path.join(folder, file.name)) from error
        if found != file:
            raise CopyDamaged(path=folder, file=file.name, why="it is not what was copied")
    reader = FileReader(folder)
    if names != {STORE_FILE, *(_segment(first) for first in reader.segments.firsts())}:
        raise CopyDamaged(path=folder, file=JOURNAL, why="it has other segments than were copied")
    report = verify(reader, expect=manifest.head, each=each)
    if report.damage is not None:
        raise report.damage
    if _facts_of(report) != (manifest.head, manifest.batches, manifest.events, manifest.erased):
        raise CopyDamaged(path=folder, file=MANIFEST, why="the journal is not the one that it describes")
    return manifest, reader


def take_copy(folder: str, root: str, *, disk: Disk | None = None) -> None:
    """
    Make a store of a copy that was proven.

    Args:
        folder: The copy.
        root: Where the store shall be: nothing, an empty folder, or a store in which nothing has ever been written.
        disk: The calls that touch the disk.

    Raises:
        TargetOccupied: Something is in the root.
        JournalError: It cannot be written.
    """
    disk = disk or Disk()
    folder, root = os.path.abspath(folder), os.path.realpath(root)
    manifest = read_manifest(folder)
    check_apart(root, folder, "it is within the export")
    check_target(root)
    with staged(root, disk) as stage:
        _make_folders(stage, disk)
        for file in manifest.files:
            _copy_file(os.path.join(folder, file.name), os.path.join(stage, file.name), file.size_bytes, disk)
            if _described(stage, file.name) != file:
                raise CopyDamaged(path=folder, file=file.name, why="it changed while it was read")
        put_in_place(stage, root, disk)


def check_target(root: str) -> None:
    """
    Can a store be made there without anything being lost?

    Raises:
        TargetOccupied: No.
    """
    root = os.path.realpath(root)
    if os.path.lexists(os.path.join(root, STORE_FILE)):
        reader = FileReader(root)
        with contextlib.closing(reader):
            if reader.durable():
                raise TargetOccupied(path=root, why="a store with a history of its own")
    else:
        check_vacant(root)


# --- the stage ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def staged(target: str, disk: Disk) -> Iterator[str]:
    """
    A new folder beside the target, which goes unless it becomes the target.

    It is locked as long as whoever makes it lives, so that what a dead one has left can be told from what is made now.
    """
    parent, name = os.path.split(target)
    try:
        os.makedirs(parent, exist_ok=True)
        for left in disk.names(parent):
            if left.startswith(f".{name}{_STAGE}"):
                _remove_left(os.path.join(parent, left))
        stage = os.path.join(parent, f".{name}{_STAGE}{secrets.token_hex(4)}")
        disk.make_folder(stage)
        lock = lock_folder(stage)
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)
            if lock is not None:
                os.close(lock)
    except OSError as error:
        raise failure(error, target) from error


def _remove_left(path: str) -> None:
    """Remove a stage whose maker is dead."""
    with contextlib.suppress(OSError):  # it has become the target, or somebody else is removing it
        lock = lock_folder(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def put_in_place(stage: str, target: str, disk: Disk) -> None:
    """
    Let what was staged, and whose files were synced, be there: by one rename.

    Raises:
        TargetOccupied: The target was filled meanwhile.
    """
    for folder in (os.path.join(stage, JOURNAL, TORN), os.path.join(stage, JOURNAL), stage):
        disk.sync_folder(folder)
    if os.path.lexists(os.path.join(target, STORE_FILE)):
        _put_in_place_of_store(stage, target, disk)
        return
    try:
        disk.rename(stage, target)
    except OSError as error:
        if os.path.isdir(target) and os.listdir(target):
            raise TargetOccupied(path=target, why="it was filled meanwhile") from error
        raise
    disk.sync_folder(os.path.dirname(target))


def _put_in_place_of_store(stage: str, root: str, disk: Disk) -> None:
    """In the place of an empty store, whose lock keeps everybody from filling it meanwhile."""
    journal = FileJournal(root, disk=disk)
    with contextlib.closing(journal):
        with journal.locked():
            if find_end(journal.segments, None, 0).place.seq:
                raise TargetOccupied(path=root, why="it was filled meanwhile")
            aside = f"{stage}-replaced"
            disk.rename(root, aside)
            disk.rename(stage, root)
            disk.sync_folder(os.path.dirname(root))
        shutil.rmtree(aside, ignore_errors=True)


def check_apart(target: str, source: str, why: str) -> None:
    """
    Is the target no part of what is copied, which is not to be added to?

    Raises:
        TargetOccupied: It is.
    """
    real = os.path.realpath(source)
    if os.path.commonpath((target, real)) == real:
        raise TargetOccupied(path=target, why=why)


def check_vacant(folder: str) -> None:
    """
    Can a folder be put there without anything being lost?

    Raises:
        TargetOccupied: No.
    """
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise TargetOccupied(path=folder, why="it is not a folder")
    try:
        if os.path.isdir(folder) and os.listdir(folder):
            raise TargetOccupied(path=folder, why="it is not empty")
    except OSError as error:
        raise failure(error, folder) from error


# --- files ---------------------------------------------------------------------------------------------------


def _copy_store(reader: FileReader, stage: str, disk: Disk) -> list[str]:
    """Copy what is durable; the names of the files."""
    _make_folders(stage, disk)
    end = end_at(reader.segments, reader.durable()).place
    names = [STORE_FILE]
    _copy_file(os.path.join(reader.root, STORE_FILE), os.path.join(stage, STORE_FILE), None, disk)
    for first in reader.segments.firsts():
        if first > end.segment:
            break
        name = _segment(first)
        data = reader.segments.read(first, 0, end.offset if first == end.segment else None)
        _write(os.path.join(stage, name), data, disk)
        names.append(name)
    return names


def _make_folders(stage: str, disk: Disk) -> None:
    disk.make_folder(os.path.join(stage, JOURNAL))
    disk.make_folder(os.path.join(stage, JOURNAL, TORN))


def _empty(stage: str) -> None:
    for name in os.listdir(stage):
        path = os.path.join(stage, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def _copy_file(source: str, target: str, size: int | None, disk: Disk) -> None:
    with open_file(source) as handle:
        _write(target, handle.read() if size is None else handle.read(size), disk)


def _write(path: str, data: bytes, disk: Disk) -> None:
    fd = disk.open(path, create=True)
    try:
        disk.write(fd, data, 0)
        disk.sync(fd)
    finally:
        disk.close(fd)


def _described(folder: str, name: str) -> CopiedFile:
    digest = hashlib.sha256()
    size = 0
    with open_file(os.path.join(folder, name)) as handle:
        while piece := handle.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return CopiedFile(name, size, digest.hexdigest())


def _segment(first: int) -> str:
    """The name of a segment within a copy, on every system."""
    return f"{JOURNAL}/{segment_name(first)}"


def _is_ours(name: str) -> bool:
    """A name that a copy can have; a manifest may have been written by anybody, and leads nowhere else."""
    folder, _, last = name.partition("/")
    return name == STORE_FILE or (
        folder == JOURNAL and len(last) == 20 and last[:16].isdecimal() and last[16:] == ".log"
    )


def _facts_of(report: Report) -> tuple[Head, int, int, int]:
    return report.head, report.batches, report.events, report.erased


def _as_json(manifest: Manifest) -> dict[str, Any]:
    return {"format": MANIFEST_FORMAT, **attrs.asdict(manifest)}
