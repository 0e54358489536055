"""
`fencepost setup` and `fencepost status`: the clients of this machine, and whether they know of us.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click

from fencepost.journal.errors import FencepostError
from fencepost.mailbox import times
from fencepost.mailbox.cli import show, spool
from fencepost.mailbox.cli.options import json_flag, root_option
from fencepost.mailbox.cli.place import DATABASE_VARIABLE, URL_VARIABLE, elsewhere, home
from fencepost.mailbox.clients import CLIENTS
from fencepost.mailbox.errors import Usage
from fencepost.mailbox.registration import PLACES, File, Own, Unmergeable

_LEVELS = ("user", "project")
_PARTS = ("mail", "tools")
#: The program that an entry of ours starts.
_PROGRAM = re.compile(r"([^\s\"']*fencepost)['\"]*(?: hook --client|\",|\"\n)")


@attrs.frozen
class _Target:
    """A file of a client, where it would be here."""

    client: str
    file: File
    path: Path

    def text(self) -> str | None:
        """
        What stands in it; None where there is none.

        Raises:
            Unmergeable: It cannot be read, or is no text.
        """
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise Unmergeable("it is no file")
            return self.path.read_bytes().decode("utf-8")  # with the ends of lines that it has
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unmergeable(error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise Unmergeable("it is not in UTF-8") from error


@attrs.frozen
class _Change:
    """What stands in a file, or None where there is none, and what shall."""

    target: _Target
    before: str | None
    after: str


@click.command()
@click.option("--client", multiple=True, type=click.Choice(list(PLACES)), help="Only this client. Repeatable.")
@click.option("--write", is_flag=True, help="Write what is shown; otherwise nothing is written.")
@click.option("--yes", is_flag=True, help="Do not ask before writing.")
@click.option("--remove", is_flag=True, help="Take our entries out again.")
@click.option("--at", multiple=True, metavar="CLIENT=DIR", help="A client's folder is there. Repeatable.")
@click.option(
    "--level", type=click.Choice(_LEVELS), default="user", show_default=True, help="For all projects, or here."
)
def setup(client: tuple[str, ...], write: bool, yes: bool, remove: bool, at: tuple[str, ...], level: str) -> None:
    """
    Tell the coding agents of this machine of their mail: hooks that show it, and tools to work on it.

    A client is found by its configuration folder, which is never made. What would change is shown as a difference;
    with --write it is changed, and nothing else in those files is. A file that cannot be written again without losing
    something, such as one with comments, is left alone, and the lines for it are shown. Doing it again changes nothing,
    or brings our entries up to date; what you have added to them stays. It ends with 1 where a file was left alone.
    """
    program, folders = _program(), _at(at)
    for name in (*client, *folders):
        if not (folder := _folder(name, folders)).is_dir():
            raise Usage(why=f"{name} has no folder {str(folder)!r}: name another with --at {name}=DIR")
    targets = list(_targets(client or tuple(PLACES), folders, level))
    if not targets:
        places = ", ".join(str(_folder(name, folders)) for name in PLACES)
        click.echo(
            f"No client was found: there is none of {show.visible(places)}. Name its folder with --at CLIENT=DIR."
        )
        return
    changes: list[_Change] = []
    whole = True
    for target in targets:
        try:
            before = target.text()
            after = _after(target, before, program, remove=remove)
        except Unmergeable as why:
            _leave_alone(target, why, program, remove=remove)
            whole = False
            continue
        if after != (before or ""):
            changes.append(_Change(target, before, after))
            _print_difference(target.path, before or "", after)
    if not changes:
        click.echo("Nothing to change." if whole else "Nothing else to change.")
    elif not (write and (yes or _is_wanted())):
        click.echo("Nothing was written." if write else "Nothing was written. Add --write to do this.")
        return
    else:
        whole &= _write(changes, program, remove=remove)
    for name in dict.fromkeys(target.client for target in targets):
        for note in _left_to_do(name, folders, level, program, remove=remove):
            show.note(f"{name}: {note}")
    if write and not whole:
        raise SystemExit(1)


def _is_wanted() -> bool:
    try:
        return click.confirm("Write this?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise Usage(why="nobody answers whether to write: add --yes to write without being asked") from None


def _left_to_do(name: str, folders: dict[str, Path], level: str, program: str, *, remove: bool) -> Iterator[str]:
    """What only the user may do, or can."""
    place, own = PLACES[name], PLACES[name].own
    known = own is not None and _has_ours(_own(name, own, folders))
    if remove:
        if known and own is not None and level == "user":
            yield f"to take the tools out, run: {own.remove}"
        return
    if place.trust is not None:
        yield place.trust
    if level == "user" and own is not None and not known:
        yield f"for the tools, run: {own.add.format(program=program)}"
    elif level == "project" and all(file.gives != "tools" for file in place.project):
        yield "it has no tools for one project alone: run fencepost setup without --level project too"
    if importlib.util.find_spec("mcp") is None:
        yield "the tools need one more package: run pip install 'fencepost[mcp]' where this program is"


def _leave_alone(target: _Target, why: Unmergeable, program: str, *, remove: bool) -> None:
    """Say what there is to do by hand."""
    if remove:
        show.note(f"{target.path} is left alone ({why}); take our entries out of it yourself")
        return
    show.note(f"{target.path} is left alone ({why}); put this into it yourself:")
    click.echo(target.file.merged(None, program))


def _write(changes: list[_Change], program: str, *, remove: bool) -> bool:
    """Write what is to change; returns whether all of it was."""
    whole = True
    for change in changes:
        path = change.target.path
        try:
            if change.target.text() != change.before:
                raise Unmergeable("somebody has changed it meanwhile")
            if change.before is not None and not os.access(path, os.W_OK):
                raise Unmergeable("it is read-only")
            if change.after:
                _replace(path, change.after)
            else:
                path.unlink()
        except OSError as error:
            _leave_alone(change.target, Unmergeable(error.strerror or str(error)), program, remove=remove)
            whole = False
        except Unmergeable as why:
            _leave_alone(change.target, why, program, remove=remove)
            whole = False
        else:
            click.echo(f"{'written' if change.after else 'removed'}: {show.visible(str(path))}")
    return whole


def _after(target: _Target, before: str | None, program: str, *, remove: bool) -> str:
    if not remove:
        return target.file.merged(before, program)
    after = "" if before is None else target.file.removed(before)
    # A file with nothing but ours in it goes; one that stands elsewhere, behind a link, is somebody's.
    return after if after.strip("{} \r\n") or after == before or target.path.is_symlink() else ""


def _program() -> str:
    """The file that starts us."""
    found = shutil.which(sys.argv[0]) or shutil.which("fencepost")
    if found is None:
        raise Usage(why="setup has to be started as the installed program, so that it can be named")
    return str(Path(found).absolute())


def _at(given: tuple[str, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given:
        client, equals, folder = text.partition("=")
        if not equals or client not in PLACES or not folder:
            raise Usage(why=f"--at {text!r} is not CLIENT=DIR, with one of {', '.join(PLACES)}")
        found[client] = Path(folder)
    return found


def _named(client: str, at: dict[str, Path]) -> Path | None:
    """The folder of a client, where somebody has named it."""
    variable = PLACES[client].variable
    named = os.environ.get(variable) if variable is not None else None
    return at.get(client) or (Path(named) if named else None)


def _folder(client: str, at: dict[str, Path]) -> Path:
    return _named(client, at) or Path.home() / PLACES[client].folder


def _own(client: str, own: Own, at: dict[str, Path]) -> _Target:
    """What only the client itself writes."""
    return _Target(client, own.file, (_named(client, at) or Path.home()) / own.file.name)


def _targets(clients: tuple[str, ...], at: dict[str, Path], level: str) -> Iterator[_Target]:
    """The files of every client whose folder is there."""
    for client in clients:
        place, folder = PLACES[client], _folder(client, at)
        if not folder.is_dir():
            continue
        if level == "user":
            yield from (_Target(client, file, folder / file.name) for file in place.user)
        else:
            yield from (_Target(client, file, Path.cwd() / file.name) for file in place.project)


def _print_difference(path: Path, before: str, after: str) -> None:
    name = show.visible(str(path))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    for line in lines:
        click.echo(show.visible(line))


def _replace(path: Path, text: str) -> None:
    """The whole file at once, with the mode that it had; a link stays a link."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    fd, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "wb") as handle:
            handle.write(text.encode())
            handle.flush()
            os.fsync(fd)
        os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


@click.command()
@root_option
@json_flag
def status(root: str | None, as_json: bool) -> None:
    """
    Show for each client whether it is there, what it has of us, and when it was last heard of; and the store.
    """
    where = os.path.abspath(root or home())
    clients = [_client(name, where) for name in PLACES]
    health = _health(where, away=root is None and elsewhere())
    if as_json:
        show.print_json({"clients": clients, "store": health})
        return
    for found in clients:
        click.secho(found["client"], bold=True, nl=False)
        click.echo(f"  {_line(found)}")
    click.echo(show.visible(f"store: {health['place']}: {health['says']}, {health['spooled']} to be recorded"))


def _client(name: str, root: str) -> dict[str, Any]:
    registered: dict[str, list[str]] = {}
    given: dict[str, list[str]] = {"mail": [], "tools": []}
    programs: set[str] = set()
    own = PLACES[name].own
    for level in _LEVELS:
        targets = [*_targets((name,), {}, level), *([_own(name, own, {})] if own and level == "user" else ())]
        for target in filter(_has_ours, targets):
            registered.setdefault(level, []).append(str(target.path))
            given[target.file.gives].append(level)
            programs |= set(_PROGRAM.findall(target.text() or ""))
    seen = spool.last_seen(root, name)
    return {
        "client": name,
        "found": _folder(name, {}).is_dir(),
        "registered": registered,
        **given,
        "program_found": all(os.access(program, os.X_OK) for program in programs) if programs else None,
        "delivers": sorted(CLIENTS[name].delivers),
        "qualified": CLIENTS[name].qualified,
        "last_seen": None if seen is None else times.show(seen),
    }


def _has_ours(target: _Target) -> bool:
    """Does the file hold entries of ours?"""
    try:
        text = target.text()
    except Unmergeable:
        return False
    try:
        return text is not None and target.file.removed(text) != text
    except Unmergeable:
        return text is not None and "fencepost hook --client" in text


def _line(found: dict[str, Any]) -> str:
    if not found["found"]:
        return "not found"
    words = [f"{part} registered for the {' and the '.join(found[part])}" for part in _PARTS if found[part]]
    words += [f"{part} NOT registered" for part in _PARTS if found["registered"] and not found[part]]
    words = words or ["not registered"]
    if found["program_found"] is False:
        words.append("BUT THE PROGRAM IS NOT WHERE IT SAYS: run `fencepost setup --write` again")
    words.append("shows mail at " + ", ".join(found["delivers"]))
    words.append(f"tried with {found['qualified']}" if found["qualified"] else "not qualified")
    words.append("never heard of" if found["last_seen"] is None else f"last heard of {found['last_seen']}")
    return "; ".join(words)


def _health(root: str, *, away: bool) -> dict[str, Any]:
    """What the store says of itself."""
    from fencepost.mailbox import open_store
    from fencepost.mailbox.store.opening import file_store

    spooled = len(spool.entries(root))
    place = _elsewhere() if away else root
    if away:
        try:
            with contextlib.closing(open_store(os.environ.get(DATABASE_VARIABLE) or os.environ[URL_VARIABLE])) as store:
                store.feed_bounds()
        except FencepostError as error:
            return {"root": None, "place": place, "good": False, "says": str(error), "spooled": spooled}
        return {"root": None, "place": place, "good": True, "says": "good", "spooled": spooled}
    if spool.is_alone(root):
        return {"root": root, "place": place, "good": True, "says": "no store yet", "spooled": spooled}
    try:
        with contextlib.closing(file_store(root)) as store:
            damage = store.damage
    except FencepostError as error:
        return {"root": root, "place": place, "good": False, "says": str(error), "spooled": spooled}
    says = "good" if damage is None else str(damage)
    return {"root": root, "place": place, "good": damage is None, "says": says, "spooled": spooled}


def _elsewhere() -> str:
    """Where the store is that the environment names, without a secret; what is not well formed is not repeated."""
    database = os.environ.get(DATABASE_VARIABLE)
    try:
        if not database:
            from fencepost.mailbox.http.opening import checked_url

            return f"the state process at {checked_url(os.environ[URL_VARIABLE])} (${URL_VARIABLE})"
        from fencepost.mailbox.store.postgres.address import address
        from fencepost.mailbox.store.postgres.schema import SCHEMA

        return f"{address(database, SCHEMA, may_hold_password=True).where} (${DATABASE_VARIABLE})"
    except (FencepostError, ModuleNotFoundError):
        return f"what ${DATABASE_VARIABLE if database else URL_VARIABLE} names"
