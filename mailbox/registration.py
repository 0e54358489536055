"""
How a client is told of the hooks and the tools: what stands in which of its files.

A client has a folder of its own, in which it keeps settings as JSON, and one of
them as TOML.  Our entries are known by their command, so they can be brought up
to date and taken away again, and nothing else in a file is touched.

Rules for this file: pure.  Texts of files in, texts of files out; it asks no
disk.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

#: The name under which the tools are registered.
TOOLS_NAME: Final = "fencepost"
#: A client that waits longer than this for a hook goes on without it.
_TIMEOUT_S: Final = 10
#: Where a session ends, clients grant no more than that.
_LAST_TIMEOUT_S: Final = 3
_LAST: Final = ("Interrupt", "SessionEnd")
#: A word that sets a variable for the command behind it.
_SETS: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_BLOCK: Final = re.compile(r"(\r?\n)*^# fencepost: begin\r?\n.*?^# fencepost: end(\r?\n|\Z)", re.DOTALL | re.MULTILINE)


class Unmergeable(ValueError):
    """A file that cannot be changed without disturbing what stands there; the text says why."""


class File(NamedTuple):
    """
    A file of a client.

    Attributes:
        name: Within the client's folder; for a project, within the project's.
        gives: What the client has by it: its mail shown, or the tools.
        merged: The file's text, or None where there is none, and our program -> the text with our entries.
        removed: The file's text -> the same without our entries.
    """

    name: str
    gives: Literal["mail", "tools"]
    merged: Callable[[str | None, str], str]
    removed: Callable[[str], str]


class Own(NamedTuple):
    """
    The tools of a client that keeps them among things that are none of ours.

    Attributes:
        file: Where they stand, in the folder that the client's variable names, or else in the home.
        add: The command that adds them.
        remove: The command that takes them out.
    """

    file: File
    add: str
    remove: str


class Place(NamedTuple):
    """
    Where a client keeps what it is told.

    Attributes:
        variable: The environment variable that names its folder; None where there is none.
        folder: Its folder in a home otherwise, and in a project.
        user: The files for all projects of the user.
        project: The files for one project; its folder is part of their names.
        trust: What the user still has to do, which is theirs alone to decide; None where there is nothing.
        own: What only a command of the client writes; None where there is nothing of the kind.
    """

    variable: str | None
    folder: str
    user: tuple[File, ...]
    project: tuple[File, ...]
    trust: str | None = None
    own: Own | None = None


def is_ours(command: object) -> bool:
    """Is it a line that starts our hook?"""
    return _split(command) is not None


def _split(command: object) -> tuple[list[str], list[str]] | None:
    """What stands before our program in a line that does nothing but start our hook, and what stands behind it."""
    if not isinstance(command, str):
        return None
    try:
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        if any(set(word) <= set("();<>|&") for word in words if word):
            return None  # the line does more
        words = shlex.split(command)
    except ValueError:
        return None
    place = next((place for place, word in enumerate(words) if not _SETS.fullmatch(word)), len(words))
    program, *rest = words[place:] or [""]
    if re.split(r"[/\\]", program)[-1] not in ("fencepost", "fencepost.exe") or rest[:2] != ["hook", "--client"]:
        return None
    return words[:place], rest


def _line(client: str, program: str, before: list[Any]) -> str:
    """The line that starts our hook; with the words that somebody has added to the one that was there."""
    found = next((line for entry in before for command in _commands(entry) if (line := _split(command))), None)
    sets, rest = ([], []) if found is None else (found[0], found[1][3:])
    quoted = [f"{name}={shlex.quote(value)}" for name, _, value in (each.partition("=") for each in sets)]
    return " ".join([*quoted, shlex.quote(program), f"hook --client {client}", *map(shlex.quote, rest)])


def _commands(entry: Any) -> list[Any]:
    """The commands of an entry, be it a group or one alone."""
    if not isinstance(entry, dict):
        return []
    inner = entry.get("hooks")
    return [
        each.get("command") for each in (entry, *(inner if isinstance(inner, list) else ())) if isinstance(each, dict)
    ]


def _loaded(text: str | None) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(
            text, object_pairs_hook=_no_name_twice, parse_constant=_no_number, parse_float=_the_same_number
        )
        json.dumps(found, ensure_ascii=False).encode()
    except Unmergeable:
        raise
    except json.JSONDecodeError as error:
        raise Unmergeable(f"it has comments, or is no JSON: line {error.lineno}") from error
    except (ValueError, RecursionError) as error:
        raise Unmergeable("it is no JSON") from error
    if not isinstance(found, dict):
        raise Unmergeable("it holds no JSON object")
    return found


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that says something twice would lose half of it."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unmergeable("it says something twice")
    return found


def _no_number(word: str) -> float:
    raise Unmergeable(f"it has {word}, which is no JSON")


def _the_same_number(word: str) -> float:
    """A number, which is written as it was read."""
    number = float(word)
    if not math.isfinite(number) or Decimal(repr(number)) != Decimal(word):
        raise Unmergeable(f"it has {word[:40]}, a number that would not stay what it is")
    return number


def _dumped(value: dict[str, Any], before: str | None) -> str:
    """JSON, with the indentation that was there."""
    indented = None if before is None else re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    indent: int | str = 2 if indented is None else indented[1]
    written = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"
    return written.replace("\n", "\r\n") if before is not None and "\r\n" in before else written


def _part(settings: dict[str, Any], name: str) -> dict[str, Any]:
    part = settings.setdefault(name, {})
    if not isinstance(part, dict):
        raise Unmergeable(f"its {name!r} is no object")
    return part


def _changed(text: str | None, settings: dict[str, Any]) -> str:
    """The text as it stands where nothing changes, whatever its form."""
    if text is not None and _loaded(text) == settings:
        return text
    return _dumped(settings, text)


def _hooks(client: str, events: Mapping[str, str | None], *, grouped: bool) -> tuple[Any, Any]:
    """
    How hooks are merged into settings and taken out of them.

    Args:
        client: Which client.
        events: Its name of an event -> the matcher that it needs; None where it takes none.
        grouped: Commands stand in groups, as Claude Code has them, and not alone.
    """

    def merged(text: str | None, program: str) -> str:
        loaded = _loaded(text)
        there = loaded.get("hooks")
        settings = _without(loaded, grouped=grouped)
        if not grouped:
            settings.setdefault("version", 1)
        hooks = _part(settings, "hooks")
        for event, matcher in events.items():
            before = there.get(event) if isinstance(there, dict) else None
            command = {"command": _line(client, program, before if isinstance(before, list) else [])}
            entry: dict[str, Any] = command
            if grouped:
                patience_s = _LAST_TIMEOUT_S if event in _LAST else _TIMEOUT_S
                entry = {"hooks": [{"type": "command", **command, "timeout": patience_s}]}
                entry |= {} if matcher is None else {"matcher": matcher}
            listed = hooks.setdefault(event, [])
            if not isinstance(listed, list):
                raise Unmergeable(f"its hooks for {event} are no list")
            listed.append(entry)
        return _changed(text, settings)

    def removed(text: str) -> str:
        return _changed(text, _without(_loaded(text), grouped=grouped))

    return merged, removed


def _without(settings: dict[str, Any], *, grouped: bool) -> dict[str, Any]:
    """Settings without our hooks; what is empty for that goes, and all other stays as it is."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return settings
    kept: dict[str, Any] = {}
    for event, listed in hooks.items():
        left = listed
        if isinstance(listed, list):
            left = [each for each in listed if not _is_ours_alone(each, grouped=grouped)]
            left = [_grouped(each) if grouped else each for each in left]
        if left or left == listed:
            kept[event] = left
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return rest | ({"hooks": kept} if kept or not hooks else {})


def _is_ours_alone(entry: Any, *, grouped: bool) -> bool:
    """Is there nothing in an entry but hooks of ours?"""
    if not isinstance(entry, dict):
        return False
    if not grouped:
        return is_ours(entry.get("command"))
    inner = entry.get("hooks")
    return isinstance(inner, list) and bool(inner) and all(_is_ours_alone(each, grouped=False) for each in inner)


def _grouped(group: Any) -> Any:
    """A group without our hooks among others."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    left = [each for each in group["hooks"] if not _is_ours_alone(each, grouped=False)]
    return group if len(left) == len(group["hooks"]) else {**group, "hooks": left}


def _tools(extra: Mapping[str, Any]) -> tuple[Any, Any]:
    """How the tools are registered in a JSON file, and taken out of it."""

    def merged(text: str | None, program: str) -> str:
        settings = _loaded(text)
        servers = _part(settings, "mcpServers")
        before = servers.get(TOOLS_NAME, {"command": program})
        if not _starts_us(before):
            raise Unmergeable(f"somebody else has written {TOOLS_NAME!r} into its mcpServers")
        servers[TOOLS_NAME] = {**extra, "args": ["mcp"], **before, "command": program}
        return _changed(text, settings)

    def removed(text: str) -> str:
        settings = _loaded(text)
        servers = settings.get("mcpServers")
        if isinstance(servers, dict) and _starts_us(servers.get(TOOLS_NAME)):
            del servers[TOOLS_NAME]
            if not servers:
                del settings["mcpServers"]
        return _changed(text, settings)

    return merged, removed


def _starts_us(server: Any) -> bool:
    """Is it an entry of ours, perhaps with what somebody has added to it?"""
    command = server.get("command") if isinstance(server, dict) else None
    return isinstance(command, str) and re.split(r"[/\\]", command)[-1] in ("fencepost", "fencepost.exe")


def _toml_tools() -> tuple[Any, Any]:
    """The same in a TOML file: a block of our own at its end, so that comments stay."""

    def merged(text: str | None, program: str) -> str:
        rest = removed(text or "")
        there = _loaded_toml(rest)
        servers = there.get("mcp_servers", {})
        if not isinstance(servers, dict) or TOOLS_NAME in servers:
            raise Unmergeable(f"somebody else has written [mcp_servers.{TOOLS_NAME}]")
        block = (
            f"# fencepost: begin\n[mcp_servers.{TOOLS_NAME}]\ncommand = {json.dumps(program)}\n"
            'args = ["mcp"]\n# fencepost: end\n'
        )
        kept = rest.rstrip("\r\n")
        whole = f"{kept}\n\n{block}" if kept else block
        whole = whole.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in rest else whole
        ours = {TOOLS_NAME: {"command": program, "args": ["mcp"]}}
        try:
            if tomllib.loads(whole) == {**there, "mcp_servers": {**servers, **ours}}:
                return whole
        except tomllib.TOMLDecodeError:
            pass
        raise Unmergeable("its mcp_servers are written in a way that takes no more")

    def removed(text: str) -> str:
        """Nothing but our table goes; a block that holds anything else, or stands in a text, is nobody's to take."""
        if not _BLOCK.search(text):
            return text
        rest = _BLOCK.sub("\r\n" if "\r\n" in text else "\n", text).lstrip("\r\n")
        there = _loaded_toml(text)
        servers = there.get("mcp_servers")
        expected = {name: value for name, value in there.items() if name != "mcp_servers"}
        if isinstance(servers, dict) and (others := {k: v for k, v in servers.items() if k != TOOLS_NAME}):
            expected["mcp_servers"] = others
        if _loaded_toml(rest) not in (expected, {**expected, "mcp_servers": {}}):
            raise Unmergeable("between the marks of fencepost there is something else")
        return rest

    return merged, removed


def _loaded_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unmergeable("it is no TOML") from error


_CLAUDE_EVENTS: Final = {
    "SessionStart": None,
    "UserPromptSubmit": None,
    "PostToolUse": "*",
    "Stop": None,
    "SessionEnd": None,
}
_CODEX_EVENTS: Final = {**_CLAUDE_EVENTS, "PostToolUse": ".*", "Interrupt": None}
_CURSOR_EVENTS: Final = {"sessionStart": None, "beforeSubmitPrompt": None, "stop": None, "sessionEnd": None}

PLACES: Final[Mapping[str, Place]] = {
    "claude-code": Place(
        "CLAUDE_CONFIG_DIR",
        ".claude",
        (File("settings.json", "mail", *_hooks("claude-code", _CLAUDE_EVENTS, grouped=True)),),
        (
            File(".claude/settings.json", "mail", *_hooks("claude-code", _CLAUDE_EVENTS, grouped=True)),
            File(".mcp.json", "tools", *_tools({"type": "stdio"})),
        ),
        own=Own(
            File(".claude.json", "tools", *_tools({"type": "stdio"})),
            "claude mcp add --scope user fencepost -- {program} mcp",
            "claude mcp remove --scope user fencepost",
        ),
    ),
    "codex": Place(
        "CODEX_HOME",
        ".codex",
        (
            File("hooks.json", "mail", *_hooks("codex", _CODEX_EVENTS, grouped=True)),
            File("config.toml", "tools", *_toml_tools()),
        ),
        (File(".codex/hooks.json", "mail", *_hooks("codex", _CODEX_EVENTS, grouped=True)),),
        trust="it passes over a hook in silence until you trust it: start `codex`, type /hooks, and look at each first",
    ),
    "cursor": Place(
        None,
        ".cursor",
        (
            File("hooks.json", "mail", *_hooks("cursor", _CURSOR_EVENTS, grouped=False)),
            File("mcp.json", "tools", *_tools({})),
        ),
        (
            File(".cursor/hooks.json", "mail", *_hooks("cursor", _CURSOR_EVENTS, grouped=False)),
            File(".cursor/mcp.json", "tools", *_tools({})),
        ),
    ),
    "muse-code": Place(
        None,
        ".muse-code",
        (File("settings.json", "mail", *_hooks("muse-code", {"SessionStart": None}, grouped=True)),),
        (File(".muse-code/settings.json", "mail", *_hooks("muse-code", {"SessionStart": None}, grouped=True)),),
    ),
}
