"""
The options that commands share, and what they open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from fencepost.journal.errors import ErasureUnfinished, ExportIsReadOnly, JournalFull, JournalUnavailable, NoStore
from fencepost.mailbox import errors, shapes
from fencepost.mailbox.addresses import Mode, Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.cli import spool
from fencepost.mailbox.cli.place import (
    DATABASE_VARIABLE,
    URL_VARIABLE,
    elsewhere,
    home,
    login,
    project_scope,
    user_scope,
)
from fencepost.mailbox.cli.show import note
from fencepost.mailbox.store.opening import file_store, memory_store, reading_store
from fencepost.mailbox.store.over_journal import JournalStore
from fencepost.mailbox.store.port import Served, Store

if TYPE_CHECKING:  # what a command does not open it does not import
    from fencepost.mailbox.erasures import Erasures
    from fencepost.mailbox.feed import Changes
    from fencepost.mailbox.mcp.tools import Tools
    from fencepost.mailbox.past import Past
    from fencepost.mailbox.shelf import Documents
    from fencepost.mailbox.talks import Conversations


def journal_folder(root: str | None) -> str:
    """
    The folder whose journal is meant; a store elsewhere has none that could be proven in its place.

    Raises:
        Usage: The environment names a store that is in no folder.
    """
    if root is None and elsewhere():
        why = "the environment names a store in no folder: `fencepost export DIR`, then name that with --root DIR"
        raise errors.Usage(why=why)
    return os.path.abspath(root or home())


#: No number here has more digits; it keeps an error from being as long as what was given.
_DIGITS_MAX = 40
F = TypeVar("F", bound=Callable[..., Any])


root_option = click.option("--root", metavar="DIR", help="The store's folder [~/.fencepost, or $FENCEPOST_HOME].")
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@attrs.frozen
class Where:
    """What the storage options of a command said."""

    root: str | None
    database_url: str | None
    schema: str | None
    url: str | None = None
    scope: str | None = None
    mount: tuple[str, ...] = ()
    actor: str | None = None
    json: bool = False

    def mounts(self) -> list[Mount]:
        """The mounts that were asked for, or the two default ones."""
        if self.scope is not None and self.mount:
            raise errors.Usage(why="--scope and --mount were both given: give one of them")
        if self.scope is not None:
            return [Mount(self.scope, "/project")]
        if self.mount:
            return [_mount(text) for text in self.mount]
        return [Mount(project_scope(), "/project"), Mount(user_scope(), "/user")]

    def open(self, *, to_read: bool) -> Mailbox:
        """
        The mailbox.  Reading makes no store: a home that is not there yet is an empty one.

        Raises:
            FencepostError: It cannot be opened.
        """
        mounts = self.mounts()
        return Mailbox(self._store(to_read=to_read), mounts, actor=self._actor())

    def documents(self, *, to_read: bool) -> Documents:
        """
        The documents beside the mail; otherwise as for `open`.

        Raises:
            FencepostError: They cannot be opened.
        """
        mounts = self.mounts()
        from fencepost.mailbox.shelf import Documents

        return Documents(self._store(to_read=to_read), mounts, actor=self._actor())

    def erasures(self, *, to_read: bool) -> Erasures:
        """
        What an operator erases; otherwise as for `open`.

        Raises:
            FencepostError: It cannot be opened.
        """
        mounts = self.mounts()
        from fencepost.mailbox.erasures import Erasures

        return Erasures(self._store(to_read=to_read), mounts, actor=self._actor())

    def changes(self, *, to_read: bool, everywhere: bool = False) -> Changes:
        """
        The feed of what changed, in the mounts or in every scope; otherwise as for `open`.

        Raises:
            FencepostError: It cannot be opened.
        """
        mounts = self.mounts()
        from fencepost.mailbox.feed import Changes

        return Changes(self._store(to_read=to_read), None if everywhere else mounts, actor=self._actor())

    def conversations(self, *, to_read: bool) -> Conversations:
        """
        The conversations, for which mounts do not matter; otherwise as for `open`.

        Raises:
            FencepostError: They cannot be opened.
        """
        self.mounts()
        from fencepost.mailbox.talks import Conversations

        return Conversations(self._store(to_read=to_read), actor=self._actor())

    def tools(self, session: str | None) -> Tools:
        """
        What a model may ask for; otherwise as for `open`.

        Raises:
            FencepostError: It cannot be opened.
        """
        mounts = self.mounts()
        from fencepost.mailbox.mcp.tools import Tools

        return Tools(self._store(to_read=False), mounts, actor=self._actor(), session=session)

    def past(self) -> Past:
        """
        What was said, to be read; otherwise as for `open`.

        Raises:
            FencepostError: It cannot be opened.
        """
        mounts = self.mounts()
        from fencepost.mailbox.past import Past

        return Past(self._store(to_read=True), mounts, actor=self._actor())

    def _actor(self) -> str:
        return f"cli:{login()}" if self.actor is None else self.actor

    def served(self) -> tuple[Served, str]:
        """
        The store as a state process serves it, which is here or in a database, and what kind it is.

        Raises:
            FencepostError: It cannot be opened.
        """
        database, _ = self._places(remote=False)
        if database:
            from fencepost.mailbox.store.postgres.opening import SCHEMA, postgres_store

            held = self.database_url is None
            return postgres_store(database, schema=self.schema or SCHEMA, may_hold_password=held), "postgres"
        return self._folder(to_read=False), "file"

    def own(self) -> tuple[Served, str]:
        """
        Likewise, for a command that keeps records of its own in the store.

        Raises:
            Usage: Only the environment says where the store is, and names a state process, which takes no such records.
        """
        if self.root is None and self.database_url is None and os.environ.get(URL_VARIABLE):
            what = "a fleet keeps its records in a folder or a database of its own"
            raise errors.Usage(why=f"{what}: unset ${URL_VARIABLE} or give --root or --database-url")
        return self.served()

    def _places(self, *, remote: bool) -> tuple[str | None, str | None]:
        """The database and the state process that were named, by an option or else by the environment."""
        given = {"--root": self.root, "--database-url": self.database_url, "--url": self.url}
        named = [option for option, value in given.items() if value is not None]
        for option in named:
            if given[option] == "" and option != "--root":
                raise errors.Usage(why=f"{option} is empty: say where the store is, or leave it out")
        if len(named) > 1:
            raise errors.Usage(why=f"{named[0]} and {named[1]} were both given: a store is in one place")
        environ = {} if named else os.environ
        database = self.database_url if named else environ.get(DATABASE_VARIABLE)
        url = self.url if named else environ.get(URL_VARIABLE) if remote else None
        if database and url:
            raise errors.Usage(why=f"${DATABASE_VARIABLE} and ${URL_VARIABLE} are both set: say which with an option")
        if self.schema is not None and not database:
            raise errors.Usage(why="--schema is for a store in a database: give --database-url too")
        return database, url

    def elsewhere(self, *, to_read: bool) -> Store | None:
        """
        The store, where it is in no folder.

        Raises:
            FencepostError: It cannot be opened.
        """
        return self._store(to_read=to_read) if any(self._places(remote=True)) else None

    def folder(self) -> str:
        """
        The folder that the store is in, or shall be.

        Raises:
            Usage: It was named, and has no name.
        """
        if self.root == "":
            raise errors.Usage(why="--root is empty: name a folder, or leave it out")
        return os.path.abspath(self.root or home())

    def _store(self, *, to_read: bool) -> Store:
        database, url = self._places(remote=True)
        if database:
            from fencepost.mailbox.store.postgres.opening import SCHEMA, postgres_store

            return postgres_store(database, schema=self.schema or SCHEMA, may_hold_password=self.database_url is None)
        if url:
            from fencepost.mailbox.http.opening import remote_store

            return remote_store(url)
        return self._folder(to_read=to_read)

    def _folder(self, *, to_read: bool) -> JournalStore:
        root = self.folder()
        if to_read and spool.is_alone(root):
            if self.root is not None:
                raise NoStore(path=root, why="it does not exist")
            if not self.json:
                note(f"there is no store at {root} yet; the first send or write makes one")
            return memory_store()
        store = self._open(root, to_read=to_read)
        if not to_read and os.path.isdir(spool.folder_of(root)):
            from fencepost.mailbox.cli.landing import land_if_possible

            land_if_possible(store, root)
        if store.damage is not None and to_read:
            note(str(store.damage))
        return store

    def _open(self, root: str, *, to_read: bool) -> JournalStore:
        try:
            return file_store(root)
        except (ErasureUnfinished, ExportIsReadOnly, JournalFull, JournalUnavailable):
            if not to_read:
                raise
            return reading_store(root)  # an export, a read-only copy or a full disk: fold it in memory


def _mount(text: str) -> Mount:
    fields: dict[str, str] = {}
    mode = Mode.READ_WRITE
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals and name in ("scope", "path") and name not in fields:
            fields[name] = value
        elif part in ("ro", "eo", "rw"):
            mode = Mode(part)
        else:
            raise errors.Usage(why=f"--mount {text!r} is not scope=SCOPE,path=PATH[,ro|,eo]")
    if len(fields) != 2:
        raise errors.Usage(why=f"--mount {text!r} is not scope=SCOPE,path=PATH[,ro|,eo]")
    return Mount(fields["scope"], fields["path"], mode)


_IN_A_DATABASE = [
    click.option(
        "--database-url",
        metavar="URL",
        help="Or the database that it is in, without a password [$FENCEPOST_DATABASE_URL].",
    ),
    click.option("--schema", help="The schema in that database [fencepost]."),
]
_ANYWHERE = [
    root_option,
    *_IN_A_DATABASE,
    click.option(
        "--url",
        help="Or the state process that keeps it [$FENCEPOST_URL]; $FENCEPOST_CLIENT_TOKEN is its token.",
    ),
]
_AS_SOMEBODY = [
    click.option("--scope", help="Mount this one scope, at /project."),
    click.option(
        "--mount",
        multiple=True,
        metavar="scope=…,path=…[,ro|,eo]",
        help="Mount a scope at a path; ro reads only, eo changes only what is there. Repeatable.",
    ),
    click.option("--actor", help="Who writes: kind:id [cli:<login>]."),
]


def _where(command: F, options: list[Any], *, printed: bool) -> F:
    """Options of these, which the command receives as `where`."""
    names = [field.name for field in attrs.fields(Where)]

    def with_where(**given: Any) -> Any:
        given["json"] = given.pop("as_json", False)
        said = {name: given.pop(name) for name in names if name in given}
        return command(where=Where(**{"root": None, "database_url": None, "schema": None} | said), **given)

    with_where.__name__ = command.__name__
    with_where.__doc__ = command.__doc__
    with_where.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated = json_flag(with_where) if printed else with_where
    for decorate in reversed(options):
        decorated = decorate(decorated)
    return decorated  # type: ignore[return-value]


def storage(command: F) -> F:
    """The options that say where to work and as whom; the command receives them as `where`."""
    return _where(command, [*_ANYWHERE, *_AS_SOMEBODY], printed=True)


def whole_store(command: F) -> F:
    """The options that say which store, for a command that is about all of it; it receives them as `where`."""
    return _where(command, _ANYWHERE, printed=True)


def served_store(command: F) -> F:
    """Likewise, for one that serves it, so that it is not with a state process itself."""
    return _where(command, [root_option, *_IN_A_DATABASE, *_AS_SOMEBODY[:2]], printed=False)


def own_store(*, printed: bool) -> Callable[[F], F]:
    """Likewise, for a command that keeps records of its own in the store, which is not with a state process."""
    return lambda command: _where(command, [root_option, *_IN_A_DATABASE], printed=printed)


def whole(text: str | None, field: str, least: int = 1, most: int = shapes.NUMBER_MAX) -> int | None:
    """A whole number from the command line; its range is checked further in."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS_MAX):
        raise errors.InvalidNumber(field=field, value=text[:_DIGITS_MAX], least=least, most=most)
    return int(text)


def said(inline: str | None, file: str | None, field: str) -> str | None:
    """
    Text from the command line or, for what is too long or too odd for a shell, from a file or `-`.

    Raises:
        Usage: Both were given.
        InvalidText: The file is not UTF-8.
        UnreadableFile: The file cannot be read.
    """
    if inline is not None and file is not None:
        raise errors.Usage(why=f"--{field} and --{field}-file were both given: give one of them")
    if file is None:
        return inline
    try:
        if file == "-":
            raw = sys.stdin.buffer.read()
        else:
            with open(file, "rb") as handle:
                raw = handle.read()
        return raw.decode("utf-8")
    except OSError as error:
        raise errors.UnreadableFile(path=file, why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise errors.InvalidText(field=field, what="bytes that are not UTF-8", position=error.start) from error


def needed(value: str | None, option: str, why: str) -> str:
    """
    An option that a command cannot do without.

    Raises:
        MissingField: It was not given.
    """
    if value is None:
        raise errors.MissingField(field=option, rule=why)
    return value
