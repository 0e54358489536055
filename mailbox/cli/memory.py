"""
`fencepost memory`: the documents beside the mail.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs
import click

from fencepost.mailbox import codec
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, needed, said, storage, whole
from fencepost.mailbox.cli.past import search_memory
from fencepost.mailbox.errors import Usage
from fencepost.mailbox.records import MemoryDocument, Version
from fencepost.mailbox.shelf import Documents, EntryPage, VersionPage
from fencepost.mailbox.times import show as time

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def memory() -> None:
    """
    Read and write documents beside the mail, of which every version is kept.

    A path begins with a mount, as in /project/notes/plan.md; with --target it is what follows. Where the mailbox keeps
    its own, messages/ and message-links/, nothing can be read or written here.
    """


_target = click.option("--target", help="A mounted path or scope; PATH is then what follows.")
_expected = click.option(
    "--expected-version", metavar="N", help="Only if it is at this version; 0: only if there is none."
)
_page = [
    click.option("--cursor", help="Go on behind an earlier page."),
    click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most, 0 to 500."),
]


def _paged(command: F) -> F:
    for decorator in reversed(_page):
        command = decorator(command)
    return command


@contextlib.contextmanager
def _opened(where: Where, *, to_read: bool) -> Iterator[Documents]:
    """The documents for the length of a command; the index is fed before the program ends."""
    documents = where.documents(to_read=to_read)
    with contextlib.closing(documents.store):
        yield documents


memory.add_command(search_memory)


@memory.command()
@click.argument("path")
@_target
@click.option("--version", metavar="N", help="As of this version; as it stands where none is given.")
@storage
def read(where: Where, path: str, target: str | None, version: str | None) -> None:
    """
    Show a document. What cannot be printed is shown escaped; --json has it as it is.

    \b
    fencepost memory read /project/notes/plan.md
    fencepost memory read /project/notes/plan.md --version 3
    """
    with _opened(where, to_read=True) as documents:
        found = documents.read(path, target=target, version=whole(version, "version"))
        if where.json:
            show.print_json(codec.shape(found))
        else:
            _print_document(found)


@memory.command()
@click.argument("path")
@_target
@click.option("--content", help="The text. For long or odd text use --content-file.")
@click.option("--content-file", metavar="FILE", help="The text from a file, or - for standard input.")
@_expected
@storage
def write(
    where: Where,
    path: str,
    target: str | None,
    content: str | None,
    content_file: str | None,
    expected_version: str | None,
) -> None:
    """
    Write a document as its next version. The same text again is a version as well.

    It is stored durably when the command returns.

    \b
    fencepost memory write /project/notes/plan.md --content "First the tests." --expected-version 0
    fencepost memory write /project/notes/plan.md --content-file - < plan.md
    """
    text = needed(said(content, content_file, "content"), "content", "give the text with --content or --content-file")
    with _opened(where, to_read=False) as documents:
        expected = whole(expected_version, "expected_version", 0)
        _tell(where, "Wrote", documents.write(path, text, target=target, expected_version=expected))


@memory.command()
@click.argument("path")
@_target
@_expected
@storage
def delete(where: Where, path: str, target: str | None, expected_version: str | None) -> None:
    """Delete a document. All of its versions can still be read, and whoever writes it anew goes on from there."""
    with _opened(where, to_read=False) as documents:
        expected = whole(expected_version, "expected_version", 0)
        version = documents.delete(path, target=target, expected_version=expected)
        if where.json:
            show.print_json(codec.shape(version))
        else:
            click.echo(f"Deleted {show.visible(version.path)}, as version {version.version}.")


@memory.command()
@click.argument("source")
@click.argument("destination")
@_target
@_expected
@storage
def rename(where: Where, source: str, destination: str, target: str | None, expected_version: str | None) -> None:
    """
    Move a document. It is deleted at the source and written at the destination, both or neither.

    Each path keeps its own versions. A document that stands at the destination is never overwritten.
    """
    with _opened(where, to_read=False) as documents:
        expected = whole(expected_version, "expected_version", 0)
        _tell(where, "Moved to", documents.rename(source, destination, target=target, expected_version=expected))


@memory.command("list")
@click.argument("prefix", required=False)
@_target
@_paged
@storage
def list_documents(where: Where, prefix: str | None, target: str | None, cursor: str | None, limit: str) -> None:
    """
    List documents by the beginning of their paths, in the order of the paths, without their content.

    \b
    fencepost memory list
    fencepost memory list /project/notes/
    """
    with _opened(where, to_read=True) as documents:
        found = documents.list(prefix, target=target, cursor=cursor, limit=_limit(limit))
        if where.json:
            show.print_json(_entries_json(found))
        else:
            _print_entries(found)


@memory.command()
@click.argument("path")
@_target
@_paged
@storage
def versions(where: Where, path: str, target: str | None, cursor: str | None, limit: str) -> None:
    """List the versions of a document with their content, newest first; of a deleted one too."""
    with _opened(where, to_read=True) as documents:
        _tell_versions(where, documents.versions(path, target=target, cursor=cursor, limit=_limit(limit)))


@memory.command()
@_target
@click.option("--since", metavar="TIME", help="Leave out what is older, with an offset: 2026-11-30T14:00:00Z.")
@_paged
@storage
def history(where: Where, target: str | None, since: str | None, cursor: str | None, limit: str) -> None:
    """List the versions of all documents of a scope with their content, newest first."""
    with _opened(where, to_read=True) as documents:
        _tell_versions(where, documents.history(target, since=since, cursor=cursor, limit=_limit(limit)))


@memory.command()
@click.argument("path", required=False)
@_target
@click.option("--whole-scope", is_flag=True, help="Everything in the target, mail included.")
@click.option("--reason", help="Why, for the record. It must not repeat what is to be erased.")
@click.option("--yes", is_flag=True, help="Do not ask, even on a terminal.")
@storage
def redact(
    where: Where, path: str | None, target: str | None, whole_scope: bool, reason: str | None, yes: bool
) -> None:
    """
    Erase what a document says, with all its versions. It cannot be brought back.

    Afterwards no file of the store holds what stood at this path. Who wrote when stays on record, and so does that it
    was erased. Each path keeps its own versions: what was moved here is erased at its old path too only by another
    redact. Copies that were made of the store hold it still.

    \b
    fencepost memory redact /project/notes/plan.md --reason "It held a password"
    fencepost memory redact --target /project --whole-scope
    """
    if (path is None) != whole_scope or (whole_scope and target is None):
        raise Usage(why="name the PATH to erase, or a --target with --whole-scope")
    what = f"everything in {target}" if path is None else path
    if not (yes or where.json) and sys.stdin.isatty():
        click.confirm(f"Erase {show.visible(what)} for good?", abort=True, err=True)
    erasures = where.erasures(to_read=False)
    with contextlib.closing(erasures.store):
        if path is not None:
            done = erasures.document(path, reason=reason, target=target)
        else:
            done = erasures.scope(str(target), reason=reason)
        if where.json:
            show.print_json(show.redaction_json(done))
        else:
            click.echo(f"Erased {show.visible(what)}: {done.count} in all.")
            show.print_referring(done)


@memory.command()
@_target
@click.option("--since", metavar="TIME", help="Leave out what is older, with an offset: 2026-11-30T14:00:00Z.")
@_paged
@storage
def redactions(where: Where, target: str | None, since: str | None, cursor: str | None, limit: str) -> None:
    """List what was erased in a scope, newest first: what, by whom, when and why."""
    erasures = where.erasures(to_read=True)
    with contextlib.closing(erasures.store):
        found = erasures.list(target, since=since, cursor=cursor, limit=_limit(limit))
    if where.json:
        listed = [{**attrs.asdict(each), "created_at": time(each.created_at)} for each in found.redactions]
        show.print_json({"scope": found.scope, "redactions": listed, "next_cursor": found.next_cursor})
        return
    if not found.redactions:
        click.echo(f"Nothing was erased in {show.visible(found.scope)}.")
    for each in found.redactions:
        why = "" if each.reason is None else f": {each.reason}"
        what = each.path or "everything"
        click.echo(show.visible(f"{what}  {time(each.created_at)}  by {each.actor}  {each.count} in all{why}"))
    _print_cursor(found.next_cursor)


def _limit(text: str) -> int:
    number = whole(text, "limit", 0)
    assert number is not None, "the option has a default"
    return number


# --- answers ----------------------------------------------------------------------------------------------------


def _tell(where: Where, done: str, document: MemoryDocument) -> None:
    if where.json:
        show.print_json(codec.shape(document))
    else:
        click.echo(
            f"{done} {show.visible(document.path)} in {show.visible(document.scope)}, version {document.version}."
        )


def _print_document(document: MemoryDocument) -> None:
    """Where it stands and who wrote it, and its text."""
    now = utc_now()
    click.secho(f"{show.visible(document.path)}  version {document.version}", bold=True)
    for title, value in (
        ("scope", document.scope),
        ("created", f"{time(document.created_at)} ({show.relative(document.created_at, now)})"),
        ("updated", f"{time(document.updated_at)} ({show.relative(document.updated_at, now)})"),
        ("by", document.actor),
        ("redacted", "its text was erased" if document.redacted else None),
    ):
        if value is not None:
            click.echo(f"  {title}: {show.visible(value)}")
    click.echo()
    for line in document.content.splitlines():
        click.echo(f"  | {show.visible(line)}")


def _entries_json(found: EntryPage) -> dict[str, Any]:
    return {
        "scope": found.scope,
        "entries": [codec.shape(entry) for entry in found.entries],
        "next_cursor": found.next_cursor,
        "unsupported": show.unsupported_json(found.unsupported),
    }


def _print_entries(found: EntryPage) -> None:
    if not found.entries:
        click.echo(f"No documents there in {show.visible(found.scope)}.")
    now = utc_now()
    for entry in found.entries:
        erased = "  redacted" if entry.redacted else ""
        when = show.relative(entry.updated_at, now)
        click.echo(f"{show.visible(entry.path)}  version {entry.version}  {when}{erased}")
    show.print_unsupported(found.unsupported)
    _print_cursor(found.next_cursor)


def _tell_versions(where: Where, found: VersionPage) -> None:
    if where.json:
        listed = [codec.shape(version) for version in found.versions]
        show.print_json({"scope": found.scope, "versions": listed, "next_cursor": found.next_cursor})
        return
    if not found.versions:
        click.echo(f"No versions there in {show.visible(found.scope)}.")
    for version in found.versions:
        click.echo(_version_line(version))
    _print_cursor(found.next_cursor)


def _version_line(version: Version) -> str:
    text = " (erased)" if version.redacted else f": {show.clip(version.content, 100)}" if version.content else ""
    head = f"{version.path}  version {version.version}  {version.action.value}  {time(version.created_at)}"
    return show.visible(f"{head}  by {version.actor}") + text


def _print_cursor(cursor: str | None) -> None:
    if cursor is not None:
        show.note(f"there is more: go on with --cursor {cursor}")
