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
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

#: The name under which the tools are registered.
TOOLS_NAME: Final = "fencepost"
#: A client that waits longer than this for a hook goes on without it.
_TIMEOUT_S: Final = 10
#: Where a session ends, clients grant no more than that.
_LAST_TIMEOUT_S: Final = 3
_LAST: Final = ("Interrupt", "SessionEnd")
_OUR_HOOK: Final = re.compile(r"(^|[/\\'\" ])fencepost['\"]? hook --client ")
_BLOCK: Final = re.compile(r"\n*# fencepost: begin\n.*?# fencepost: end\n", re.DOTALL)


class Unmergeable(ValueError):
    """A file that cannot be changed without disturbing what stands there; the text says why."""


class File(NamedTuple):
    """
    A file of a client.

    Attributes:
        name: Within the client's folder; for a project, within the project's.
        merged: The file's text, or None where there is none, and our program -> the text with our entries.
        removed: The file's text -> the same without our entries.
    """

    name: str
    merged: Callable[[str | None, str], str]
    removed: Callable[[str], str]


class Place(NamedTuple):
    """
    Where a client keeps what it is told.

    Attributes:
        variable: The environment variable that names its folder; None where there is none.
        folder: Its folder in a home otherwise, and in a project.
        user: The files for all projects of the user.
        project: The files for one project; its folder is part of their names.
        trust: What the user still has to do, which is theirs alone to decide; None where there is nothing.
    """

    variable: str | None
    folder: str
    user: tuple[File, ...]
    project: tuple[File, ...]
    trust: str | None


def is_ours(command: object) -> bool:
    """Is it a line that starts our hook?"""
    return isinstance(command, str) and _OUR_HOOK.search(command) is not None


def _loaded(text: str | None) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Unmergeable("it has comments, or is no JSON") from error
    if not isinstance(found, dict):
        raise Unmergeable("it holds no JSON object")
    return found


def _dumped(value: dict[str, Any], before: str | None) -> str:
    """JSON, with the indentation that was there."""
    indented = None if before is None else re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    indent: int | str = 2 if indented is None else indented[1]
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


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
        settings = _without(_loaded(text), grouped=grouped)
        if not grouped:
            settings.setdefault("version", 1)
        hooks = _part(settings, "hooks")
        for event, matcher in events.items():
            command = {"command": f"{shlex.quote(program)} hook --client {client}"}
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
            left = [each for each in map(_grouped if grouped else _alone, listed) if each is not None]
        if left or left == listed:
            kept[event] = left
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return rest | ({"hooks": kept} if kept or not hooks else {})


def _alone(entry: Any) -> Any:
    return None if isinstance(entry, dict) and is_ours(entry.get("command")) else entry


def _grouped(group: Any) -> Any:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    left = [each for each in group["hooks"] if _alone(each) is not None]
    if len(left) == len(group["hooks"]):
        return group
    return {**group, "hooks": left} if left else None


def _tools(extra: Mapping[str, Any]) -> tuple[Any, Any]:
    """How the tools are registered in a JSON file, and taken out of it."""

    def merged(text: str | None, program: str) -> str:
        settings = _loaded(text)
        _part(settings, "mcpServers")[TOOLS_NAME] = {**extra, "command": program, "args": ["mcp"]}
        return _changed(text, settings)

    def removed(text: str) -> str:
        settings = _loaded(text)
        servers = settings.get("mcpServers")
        if isinstance(servers, dict) and TOOLS_NAME in servers:
            del servers[TOOLS_NAME]
            if not servers:
                del settings["mcpServers"]
        return _changed(text, settings)

    return merged, removed


def _toml_tools() -> tuple[Any, Any]:
    """The same in a TOML file: a block of our own at its end, so that comments stay."""

    def merged(text: str | None, program: str) -> str:
        rest = removed(text or "")
        try:
            there = tomllib.loads(rest)
        except tomllib.TOMLDecodeError as error:
            raise Unmergeable("it is no TOML") from error
        servers = there.get("mcp_servers", {})
        if not isinstance(servers, dict) or TOOLS_NAME in servers:
            raise Unmergeable(f"somebody else has written [mcp_servers.{TOOLS_NAME}]")
        block = (
            f"# fencepost: begin\n[mcp_servers.{TOOLS_NAME}]\ncommand = {json.dumps(program)}\n"
            'args = ["mcp"]\n# fencepost: end\n'
        )
        rest = rest.rstrip("\n")
        return f"{rest}\n\n{block}" if rest else block

    def removed(text: str) -> str:
        return _BLOCK.sub("\n", text).lstrip("\n") if _BLOCK.search(text) else text

    return merged, removed


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
        (File("settings.json", *_hooks("claude-code", _CLAUDE_EVENTS, grouped=True)),),
        (
            File(".claude/settings.json", *_hooks("claude-code", _CLAUDE_EVENTS, grouped=True)),
            File(".mcp.json", *_tools({"type": "stdio"})),
        ),
        "for the tools in every project, run: claude mcp add --scope user fencepost -- {program} mcp",
    ),
    "codex": Place(
        "CODEX_HOME",
        ".codex",
        (
            File("hooks.json", *_hooks("codex", _CODEX_EVENTS, grouped=True)),
            File("config.toml", *_toml_tools()),
        ),
        (File(".codex/hooks.json", *_hooks("codex", _CODEX_EVENTS, grouped=True)),),
        "Codex passes over a hook in silence until you trust it: start `codex`, type /hooks, and look at each first",
    ),
    "cursor": Place(
        None,
        ".cursor",
        (File("hooks.json", *_hooks("cursor", _CURSOR_EVENTS, grouped=False)), File("mcp.json", *_tools({}))),
        (
            File(".cursor/hooks.json", *_hooks("cursor", _CURSOR_EVENTS, grouped=False)),
            File(".cursor/mcp.json", *_tools({})),
        ),
        None,
    ),
    "muse-code": Place(
        None,
        ".muse-code",
        (File("settings.json", *_hooks("muse-code", {"SessionStart": None}, grouped=True)),),
        (File(".muse-code/settings.json", *_hooks("muse-code", {"SessionStart": None}, grouped=True)),),
        None,
    ),
}
