"""
What `fleet.toml` says: which agents there are, whom they hear where, and within which limits.

`docs/fleet.md` describes every key.  A key that is not known is refused, because a
misspelt grant would otherwise be a grant that is not there, or one too many.
"""

from __future__ import annotations

import difflib
import enum
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs

from fencepost.journal.errors import BadInput
from fencepost.mailbox import shapes
from fencepost.mailbox.errors import InvalidFleet, UnknownAgent
from fencepost.mailbox.fleet.policy import RoomRule
from fencepost.mailbox.fleet.rules import Unfit, number, written

#: UTF-8 bytes of one input that are shown to an agent whole; what is more goes into files.
INLINE_BYTES: Final = 65_536
#: Records that one reading aims at, and how many of each room it takes at least where there are so many.
FETCH_RECORDS: Final = 100
ROOM_RECORDS: Final = 10
_NAME: Final = written(r"[a-z0-9][a-z0-9_-]{0,62}", "1 to 63 small letters, digits, - and _, beginning with no mark")
_USER: Final = written(r"@[^:\s]+:\S+", "@name:server")
_ADDRESS: Final = written(r"https?://[^/\s@]+(/\S*)?", "its address, http://… or https://…")


class Runtime(enum.Enum):
    """The program that an agent is."""

    CODEX = "codex"
    PI = "pi"


def _scope(_: object, field: attrs.Attribute[str], value: str) -> None:
    try:
        shapes.scope(value)
    except BadInput as error:
        raise Unfit(f"{field.name}: {error}") from error


@attrs.frozen
class Limits:
    """
    How much at once.

    Attributes:
        inline_bytes: UTF-8 bytes of one input that are shown whole.
        fetch_records: Records that one reading aims at.
        room_records: Records of each room that it takes at least; ten, or one where fewer are aimed at than usual.
        media_bytes: A file that somebody sent is fetched up to this size.
        files_days: What was put into files stays so many days after it was delivered.
    """

    inline_bytes: int = attrs.field(default=INLINE_BYTES, validator=number(1_024, 1 << 20))
    fetch_records: int = attrs.field(default=FETCH_RECORDS, validator=number(1, 1_000))
    room_records: int = attrs.field(validator=number(1, 100))
    media_bytes: int = attrs.field(default=50 << 20, validator=number(0, 1 << 40))
    files_days: int = attrs.field(default=30, validator=number(1, 36_500))

    @room_records.default
    def _room_records(self) -> int:
        return ROOM_RECORDS if self.fetch_records >= FETCH_RECORDS else 1


@attrs.frozen
class AgentRule:
    """
    One agent.

    Attributes:
        name: As the operator calls it, and in the journal.
        user: Its Matrix user.
        owner: The Matrix user whose agent it is.
        runtime: Which program it is.
        folder: Where that works.
        rooms: What it hears.
        credentials: The file with the access token of its user; without one the environment has it.
        program: How the program is started; the runtime's own name without one.
        arguments: What else it is told there.
        enabled: It is run at all.
        mail: The scopes whose mail may wake it; those of its folder without any.
    """

    name: str = attrs.field(validator=_NAME)
    user: str = attrs.field(validator=_USER)
    owner: str = attrs.field(validator=_USER)
    runtime: Runtime
    folder: str
    rooms: tuple[RoomRule, ...] = ()
    credentials: str | None = None
    program: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    enabled: bool = True
    mail: tuple[str, ...] = attrs.field(default=(), validator=attrs.validators.deep_iterable(_scope))


@attrs.frozen
class Fleet:
    """
    All of it.

    Attributes:
        homeserver: Its address, `http://…` or `https://…`.
        agents: By their names.
        permits: How many agents may work on ordinary input at once.
        state: The folder for what is not in the journal: files for agents, and what is running.
    """

    homeserver: str = attrs.field(validator=_ADDRESS)
    agents: tuple[AgentRule, ...]
    permits: int = attrs.field(default=1, validator=number(1, 10_000))
    state: str = "fleet-state"
    limits: Limits = attrs.field(factory=Limits)

    def agent(self, name: str) -> AgentRule:
        """
        The agent of that name.

        Raises:
            UnknownAgent: There is none.
        """
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise UnknownAgent(agent=name, known=", ".join(each.name for each in self.agents) or "none")


def read(path: str) -> Fleet:
    """
    What a file says.  Paths in it are taken from its folder.

    Raises:
        InvalidFleet: It cannot be read, or says what cannot be.
    """
    try:
        with Path(path).open("rb") as file:
            fields = tomllib.load(file)
    except OSError as error:
        raise InvalidFleet(path=path, why=f"it cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFleet(path=path, why=f"it is no TOML: {error}") from error
    try:
        fleet = _converter.structure(fields, Fleet)
    except cattrs.BaseValidationError as error:
        told = cattrs.transform_error(error, path="", format_exception=_explained)
        raise InvalidFleet(path=path, why="; ".join(each.removesuffix(" @ ") for each in told[:3])) from error
    names = [agent.name for agent in fleet.agents]
    users = [agent.user for agent in fleet.agents]
    if len({*names}) < len(names) or len({*users}) < len(users):
        raise InvalidFleet(path=path, why="two agents have one name or one user")
    for agent in fleet.agents:
        rooms = [rule.room for rule in agent.rooms]
        if len({*rooms}) < len(rooms) or len({*agent.mail}) < len(agent.mail):
            raise InvalidFleet(path=path, why=f"{agent.name} has one room or one scope twice")
    return _placed(fleet, Path(path).absolute().parent)


def _placed(fleet: Fleet, folder: Path) -> Fleet:
    """The same with whole paths."""

    def whole(path: str) -> str:
        return str(folder / Path(path).expanduser())

    agents = tuple(
        attrs.evolve(
            agent,
            folder=whole(agent.folder),
            credentials=None if agent.credentials is None else whole(agent.credentials),
        )
        for agent in fleet.agents
    )
    return attrs.evolve(fleet, agents=agents, state=whole(fleet.state))


def _explained(error: BaseException, kind: Any) -> str:
    """What is wrong with a value, without the words of the library that noticed."""
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return ", ".join(_unknown(key, error.cl) for key in sorted(error.extra_fields))
    if isinstance(error, KeyError):
        return "a key is missing"
    if isinstance(error, (_WrongType, Unfit)):
        return str(error)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"none of {', '.join(each.value for each in kind)}"
    return "a value that cannot be"


def _unknown(key: str, kind: Any) -> str:
    near = difflib.get_close_matches(key, [field.name for field in attrs.fields(kind)], 1)
    return f"unknown key {key}" + (f" (did you mean {near[0]}?)" if near else "")


class _WrongType(ValueError):
    pass


def _strict(kind: type, name: str, structure: Callable[[Any, Any], Any] | None = None) -> Callable[[Any, Any], Any]:
    """Takes what TOML has as that and nothing else, and goes on with it."""

    def checked(value: Any, wanted: Any) -> Any:
        if type(value) is not kind:
            raise _WrongType(f"{name} belongs here")
        return value if structure is None else structure(value, wanted)

    return checked


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind, name in ((str, "a string"), (int, "a whole number"), (bool, "true or false")):
        converter.register_structure_hook(kind, _strict(kind, name))
    listed = _strict(list, "a list", converter.get_structure_hook(tuple[str, ...]))
    converter.register_structure_hook_func(lambda kind: getattr(kind, "__origin__", None) is tuple, listed)

    def table(kind: Any) -> Callable[[Any, Any], Any]:
        needed = ", ".join(field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING)
        structure = converter.gen_structure_attrs_fromdict(kind)
        return _strict(dict, f"a table{' with ' if needed else ''}{needed}", structure)

    converter.register_structure_hook_factory(attrs.has, table)
    return converter


_converter: Final = _make_converter()
