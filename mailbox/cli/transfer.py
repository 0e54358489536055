"""
`fencepost export` and `fencepost import`: a whole store, in and out.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import attrs
import click

from fencepost.journal.copying import read_manifest
from fencepost.journal.errors import NotACopy
from fencepost.journal.event import Commit
from fencepost.journal.reader import FileReader
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, whole_store
from fencepost.mailbox.transfer import Transfer, export_from, export_store, import_into, import_store

#: Less is done before a bar could be read.
_BAR_BYTES_MIN = 64 << 20


@click.command("export")
@click.argument("folder")
@whole_store
def export_command(where: Where, folder: str) -> None:
    """
    Copy the whole store to FOLDER, proven, while others use it.

    Versions, actors, times, links, keys and what was erased are there as they were. The copy can be read where it is:
    name it with --root. It holds all mail and the store's secret key, in files that only you can read. What is erased
    in the store later stays in exports that were made before.

    \b
    fencepost export ~/backup/mail-2026-11-30
    fencepost journal verify --root ~/backup/mail-2026-11-30
    """
    store = where.elsewhere(to_read=True)
    if store is not None:
        with contextlib.closing(store):
            done = export_from(store, folder)
    else:
        root = where.folder()
        with contextlib.closing(FileReader(root)) as reader:
            size = sum(os.path.getsize(reader.segments.path(first)) for first in reader.segments.firsts())
        with _bar(size, quiet=where.json) as each:
            done = export_store(root, folder, each=each)
    _tell(done, f"Exported to {show.visible(folder)}", as_json=where.json)


@click.command("import")
@click.argument("folder")
@click.option("--dry-run", is_flag=True, help="Prove everything and write nothing; the answer is the same.")
@whole_store
def import_command(where: Where, folder: str, dry_run: bool) -> None:
    """
    Make a store of an export, all of it or nothing.

    FOLDER may also be a store or an export of the public reference implementation. The store must be one in which
    nothing was ever written. An interruption leaves it so, or leaves no store there; importing again does it. In a
    database or with a state process an interruption may leave a part, and then a new store is needed.

    \b
    fencepost import ~/backup/mail-2026-11-30 --root ~/restored
    """
    store = where.elsewhere(to_read=False)
    with _bar(_size(folder), quiet=where.json) as each:
        if store is None:
            done = import_store(folder, where.folder(), dry_run=dry_run, each=each)
        else:
            with contextlib.closing(store):
                done = import_into(folder, store, dry_run=dry_run, each=each)
    _tell(done, "It can be imported" if dry_run else "Imported", as_json=where.json)


def _size(folder: str) -> int:
    """Bytes to be proven, where an export says so."""
    try:
        return sum(file.size_bytes for file in read_manifest(folder).files)
    except NotACopy:
        return 0  # of another layout, or nothing that can be imported


@contextlib.contextmanager
def _bar(size_bytes: int, *, quiet: bool) -> Iterator[Callable[[Commit], None] | None]:
    """A progress bar, on a terminal and only where there is something to wait for."""
    if quiet or size_bytes < _BAR_BYTES_MIN or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=size_bytes, label="proving", file=sys.stderr) as bar:
        yield lambda commit: bar.update(commit.stop - commit.offset)


def _tell(done: Transfer, what: str, *, as_json: bool) -> None:
    if as_json:
        show.print_json(attrs.asdict(done))
        return
    click.echo(f"{what}: {done.documents} documents in {done.versions} versions, {done.erased} events erased.")
    if done.head is not None:
        click.echo(f"  head: {done.head.seq} {done.head.digest}")
    click.echo(f"  replay digest: {done.replay_digest}")
