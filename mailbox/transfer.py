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
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import attrs

from fencepost.journal.audit import Head, verify
from fencepost.journal.copying import (
    Manifest,
    check_apart,
    check_copy,
    check_target,
    check_vacant,
    make_copy,
    put_in_place,
    staged,
    take_copy,
)
from fencepost.journal.disk import Disk
from fencepost.journal.errors import CopyDamaged, JournalUnavailable, TargetOccupied
from fencepost.journal.event import Batch, Checkpoint, Commit, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.journal.port import Stream
from fencepost.journal.reader import FileReader
from fencepost.journal.recovery import BEGINNING
from fencepost.journal.root import MANIFEST, STORE_LOCK, SYNC_LOCK, WATERMARK
from fencepost.mailbox import codec, foreign
from fencepost.mailbox.addresses import REDACTIONS
from fencepost.mailbox.digest import replay_digest
from fencepost.mailbox.events import Redacted, TurnsRedacted
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.store.replay import recordable
from fencepost.mailbox.turns import TURNS


@attrs.frozen
class Transfer:
    """
    What was exported or imported.

    Attributes:
        head: The end of the journal; None where a new one is made, which is another each time.
        events: How many there are.
        erased: How many of them were erased.
        documents, versions: What they fold to.
        replay_digest: See `fencepost.mailbox.digest`.
    """

    head: Head | None
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
    Make a store of an export, or of a store or an export of the public reference implementation.

    Args:
        folder: The export; see `fencepost.mailbox.foreign` for the other layout.
        root: Where the store shall be: nothing, an empty folder, or a store in which nothing has ever been written.
        dry_run: Prove everything, answer the same, and write nothing.
        each: Called with every batch, in order, while the export is proven.
        disk: The calls that touch the disk.

    Raises:
        NotACopy: The folder is no export.
        CopyDamaged, ForeignDamaged: It is not what it was, or cannot be.
        TargetOccupied: Something is in the root.
        JournalError: The store cannot be made.
    """
    folder, root = os.path.abspath(folder), os.path.realpath(root)
    check_apart(root, folder, "it is within the export")
    check_target(root)
    if not os.path.lexists(os.path.join(folder, MANIFEST)) and foreign.is_layout(folder):
        return _import_foreign(folder, root, dry_run=dry_run, each=each, disk=disk or Disk())
    manifest, reader = check_copy(folder, each=each)
    with contextlib.closing(reader):
        if _facts(reader) != manifest.facts:
            raise CopyDamaged(path=folder, file=MANIFEST, why="the history is not the one it describes")
    if not dry_run:
        take_copy(folder, root, disk=disk)
    return _transfer(manifest)


def export_from(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    each: Callable[[Commit], None] | None = None,
    disk: Disk | None = None,
) -> Transfer:
    """
    Export a store of whatever kind, while others use it too: its history is recorded again, in a folder.

    Args:
        store: The store.
        folder: Where the export shall be; it is not there yet, or empty.
        each: Called with every batch, in order, while the copy is proven.
        disk: The calls that touch the disk.

    Raises:
        TargetOccupied: Something is in the folder.
        JournalError: The store cannot be read, or the export not be written.
    """
    folder = os.path.realpath(folder)
    check_vacant(folder)
    for _ in range(_ATTEMPTS_MAX):
        with staged(folder, disk or Disk()) as stage:
            end = store.feed_bounds()[1]
            _record_again(recordable(_through(store, end), "the store"), stage, store.secret())
            with contextlib.closing(FileReader(stage)) as reader:
                built = replay_digest(reader.read)
            if built == replay_digest(partial(_through, store, end)):  # nothing was erased meanwhile
                return export_store(stage, folder, each=each, disk=disk)
    raise JournalUnavailable(path=folder, why="erasures keep the store changing")


def import_into(
    folder: str | os.PathLike[str],
    store: Store,
    *,
    dry_run: bool = False,
    each: Callable[[Commit], None] | None = None,
) -> Transfer:
    """
    Fill an empty store of whatever kind from an export; see `import_store` for what an export is.

    Unlike a folder, which is put in place whole, such a store may be left with a part of it by an interruption.

    Raises:
        NotACopy: The folder is no export.
        CopyDamaged, ForeignDamaged: It is not what it was, or cannot be.
        TargetOccupied: Something has been recorded in the store.
        JournalError: It cannot be written.
    """
    if store.feed_bounds()[1]:
        raise TargetOccupied(path="the store", why="it has a history of its own")
    with tempfile.TemporaryDirectory(prefix="fencepost-") as above:
        source = os.path.abspath(folder)
        if not os.path.lexists(os.path.join(source, MANIFEST)) and foreign.is_layout(source):
            source = os.path.join(above, "store")
            done = import_store(folder, source, each=each)
        else:
            done = import_store(source, os.path.join(above, "nowhere"), dry_run=True, each=each)
        if not dry_run:
            with contextlib.closing(FileReader(source)) as reader:
                behind = 0
                for batches in _some(recordable(reader.read(), source)):
                    behind = store.restore(batches, behind, reader.secret())
    return done


#: Something was erased while the store was exported so many times in a row before that is given up.
_ATTEMPTS_MAX: Final = 5
#: Batches that are asked for at once, and events and bytes that are recorded again at once.
_BATCHES_AT_ONCE: Final = 500
_EVENTS_AT_ONCE: Final = 1_000
_BYTES_AT_ONCE: Final = 8 << 20


def _through(store: Store, end: int) -> Iterator[Commit]:
    """All batches of a store up to that event."""
    place = 0
    while place < end and (found := store.batches(place, _BATCHES_AT_ONCE)):
        if place == 0 and found[0].events[0].seq != 1:
            why = "its beginning is in an archive: export the folder that it is in"
            raise JournalUnavailable(path="the store", why=why)
        for commit in found:
            place = commit.seq
            if place > end:
                return
            yield commit


def _some(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches, some at a time."""
    waiting: list[Batch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch.events)
        size += sum(len(event.data) for event in batch.events)
        if count >= _EVENTS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield waiting
            waiting = []
            count = size = 0
    if waiting:
        yield waiting


def _record_again(batches: Iterable[Batch], stage: str, secret: bytes) -> None:
    with _staging(stage) as (journal, taken):
        journal.adopt(secret)
        for batch in batches:
            taken.take_in(journal.append(batch, {}))
            journal.trim()


def _import_foreign(
    folder: str, root: str, *, dry_run: bool, each: Callable[[Commit], None] | None, disk: Disk
) -> Transfer:
    found = foreign.rows(folder)
    with contextlib.ExitStack() as after:
        if dry_run:
            stage = after.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-"))
        else:
            stage = after.enter_context(staged(root, disk))
        _build(found, stage)
        reader = FileReader(stage)
        with contextlib.closing(reader):
            report = verify(reader, each=each)
            if report.damage is not None:
                raise report.damage
            facts = _facts(reader)
        if not dry_run:
            put_in_place(stage, root, disk)
    return Transfer(None, report.events, report.erased, **facts)


_WHY: Final = "It had been erased where it was imported from."


class _Unsynced(Disk):
    """While a store is staged nobody relies on it, so its files are synced once, at the end."""

    def __init__(self) -> None:
        self.written: set[str] = set()

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        """See `Disk.open`."""
        if write:
            self.written.add(path)
        return super().open(path, create=create, write=write)

    def sync_data(self, fd: int) -> None:
        """Not now."""

    def sync(self, fd: int) -> None:
        """Not now."""

    def sync_folder(self, path: str) -> None:
        """Not now: whoever puts it in place does."""


def _build(found: Sequence[foreign.Row], stage: str) -> None:
    """Record the rows in a new store."""
    with _staging(stage) as (journal, taken):
        versions: dict[Stream, int] = {}
        to_erase: dict[Stream, dict[int, int]] = {}
        for row in found:
            stream = (row.scope, row.stream)
            erases = _due(row, to_erase)
            commit = _record(journal, row, stream, versions, erases)
            taken.take_in(commit)
            journal.trim()
            if row.erased:
                to_erase.setdefault(stream, {})[versions[stream]] = commit.seq
        for (scope, path), places in sorted(to_erase.items()):  # the source does not say when, nor by whom
            act = TurnsRedacted(tuple(places), _WHY) if path == TURNS else Redacted(path, 1, _WHY)
            row = foreign.Row(found[-1].at, "host:import", scope, REDACTIONS, act)
            _record(journal, row, (scope, REDACTIONS), versions, tuple(places.values()))


class _Taken:
    """What has been recorded so far, so that an erasure does not make the journal read all of itself again."""

    def __init__(self) -> None:
        self._place = BEGINNING
        self._versions: dict[Stream, int] = {}
        self._keys: set[str] = set()

    def take_in(self, commit: Commit) -> None:
        """One more batch."""
        for event in commit.events:
            self._versions[event.scope, event.stream] = event.version
            if event.key is not None:
                self._keys.add(event.key)
        self._place = commit.end

    def checkpoint(self) -> Checkpoint:
        """See `fencepost.journal.port.Heads`."""
        return self._place

    def version(self, stream: Stream) -> int:
        """See `fencepost.journal.port.Heads`."""
        return self._versions.get(stream, 0)

    def knows_key(self, digest: str) -> bool:
        """See `fencepost.journal.port.Heads`."""
        return digest in self._keys


@contextlib.contextmanager
def _staging(stage: str) -> Iterator[tuple[FileJournal, _Taken]]:
    """A new store that is written in one go, by whoever says what has been recorded."""
    disk = _Unsynced()
    with contextlib.closing(FileJournal(stage, disk=disk)) as journal:
        taken = _Taken()
        journal.attach(taken)
        yield journal, taken
    for name in (STORE_LOCK, SYNC_LOCK, WATERMARK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(stage, name))
    for path in disk.written:
        if os.path.exists(path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _record(
    journal: FileJournal, row: foreign.Row, stream: Stream, versions: dict[Stream, int], erases: tuple[int, ...]
) -> Commit:
    event = NewEvent(*stream, *codec.encode(row.event))
    commit = journal.append(Batch(row.at, row.actor, (event,), erases), {stream: versions.get(stream, 0)})
    versions[stream] = commit.events[-1].version
    return commit


def _due(row: foreign.Row, to_erase: dict[Stream, dict[int, int]]) -> tuple[int, ...]:
    """What a redaction of the source has erased of what was recorded so far."""
    found: list[int] = []
    if isinstance(row.event, Redacted):
        for stream in [each for each in to_erase if each[0] == row.scope and row.event.path in (None, each[1])]:
            found += to_erase.pop(stream).values()
    elif isinstance(row.event, TurnsRedacted):
        there = to_erase.get((row.scope, TURNS), {})
        found += [there.pop(turn) for turn in row.event.turns if turn in there]
        if not there:
            to_erase.pop((row.scope, TURNS), None)
    return tuple(sorted(found))


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
