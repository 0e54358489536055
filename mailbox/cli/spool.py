"""
The spool: what hooks want recorded, until somebody has the time to.

A hook must not keep its client waiting, and what it wants recorded needs the
store's lock and a sync of its own.  So it leaves a small file with a name that
is never used twice, and goes.  Whoever writes to the store next records it, or
a process of its own that the hook has started; `fencepost.mailbox.cli.landing`
does.  A file that was recorded and not removed is known by its name, and lands
once.

    <root>/spool/<time>-<random>.json   something to be recorded
    <root>/spool/session-<id>.json      what a hook knows of a session from its last call

Rules for this file: like those of the hook, which is its only writer.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fencepost.mailbox import clients

if TYPE_CHECKING:
    from datetime import datetime

_FOLDER = "spool"
_SESSION = "session-"
_SEEN = "seen-"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
_PLAIN_MAX = 80
#: A hook that has not finished a file by then is no more.
_UNFINISHED_S = 3_600
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_LANDING = "import sys; from fencepost.mailbox.cli.main import main; sys.argv[0] = 'fencepost'; sys.exit(main())"


def folder_of(root: str) -> str:
    """Where a store's spool is."""
    return os.path.join(root, _FOLDER)


def is_alone(root: str) -> bool:
    """Is there no store in a folder, nor anything else but what hooks have left?"""
    try:
        return os.listdir(root) == [_FOLDER]
    except FileNotFoundError:
        return True
    except OSError:
        return False


def sweep(root: str) -> None:
    """Remove what hooks that were killed have left unfinished."""
    folder = folder_of(root)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if name.startswith(".") and ".json." in name and os.stat(path).st_mtime < time.time() - _UNFINISHED_S:
                os.unlink(path)


def entries(root: str) -> list[str]:
    """The names of what is to be recorded, oldest first."""
    try:
        names = os.listdir(folder_of(root))
    except OSError:
        return []
    return sorted(name for name in names if name[:1].isdigit() and name.endswith(".json"))


def seen(root: str, client: str) -> None:
    """Remember that a client has called, where there is a spool to remember it in."""
    try:
        fd = os.open(
            os.path.join(folder_of(root), f"{_SEEN}{client}"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE
        )
    except OSError:
        return
    os.utime(fd)
    os.close(fd)


def turn(root: str, at: clients.Boundary) -> None:
    """Take notice of a boundary: a turn begins with a prompt and ends with a stop, or with whatever comes instead."""
    if at.moment == clients.TOOL:
        return
    state = _session(root, at.session)
    prompt, name = state.pop("prompt", None), state.pop("entry", None)
    if prompt is not None or at.answer is not None:
        messages = [{"role": "user", "content": prompt}] if prompt else []
        messages += [{"role": "assistant", "content": at.answer}] if at.answer else []
        if messages:
            entry = {"turn": messages, "session": at.session, "client": at.client, "at": state.get("at", _now())}
            _leave(root, entry, name)
    if at.prompt is not None:
        # The turn has its name from its beginning, so a hook that is killed below leaves it once and not twice.
        state["prompt"], state["at"], state["entry"] = at.prompt, _now(), _new_name()
    if prompt is not None or at.prompt is not None:
        _write(root, _session_name(at.session), state)


def last_seen(root: str, client: str) -> datetime | None:
    """When a client has last called; None where it never has."""
    from datetime import UTC, datetime  # which takes long to import

    try:
        at = os.stat(os.path.join(folder_of(root), f"{_SEEN}{client}")).st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(at, UTC)


def shown(root: str, session: str, messages: list[tuple[str, int]], scopes: list[str]) -> None:
    """Leave word that these occurrences of messages, which are in these scopes, were shown to a session."""
    state = _session(root, session)
    before = {(name, number) for name, number in state.get("shown", ())}
    fresh = [pair for pair in messages if pair not in before]
    if fresh:
        _leave(root, {"shown": fresh, "session": session, "scopes": scopes})
        state["shown"] = [*state.get("shown", ()), *fresh][-200:]
        _write(root, _session_name(session), state)


def is_new(root: str, session: str, messages: Iterable[dict[str, Any]]) -> bool:
    """Is there anything among them that the session was not shown?"""
    before = {(name, number) for name, number in _session(root, session).get("shown", ())}
    return any((each["id"], each["occurrence"]) not in before for each in messages)


def start_landing(root: str) -> None:
    """Have what was left recorded by a process of its own, which nobody waits for."""
    if not entries(root):
        return
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-c", _LANDING, "hook", "--land", root],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)],
            setsid=True,
        )
    finally:
        os.close(null)


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06d}Z"


def _session_name(session: str) -> str:
    """The file of a session: its id where that is a plain word, as clients have them."""
    if len(session) <= _PLAIN_MAX and _PLAIN.issuperset(session) and not session.startswith("."):
        return f"{_SESSION}{session}.json"
    from hashlib import blake2b  # which takes long to import

    return f"{_SESSION}_{blake2b(session.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}.json"


def _session(root: str, session: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder_of(root), _session_name(session)), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _new_name() -> str:
    return f"{time.time_ns():020d}-{os.urandom(8).hex()}.json"


def _leave(root: str, entry: dict[str, Any], name: str | None = None) -> None:
    """Have something recorded; what was left under a name before stays as it was left."""
    if name is None or not os.path.exists(os.path.join(folder_of(root), name)):
        _write(root, name or _new_name(), entry)


def _write(root: str, name: str, content: dict[str, Any]) -> None:
    """A whole file or none, also where the power fails."""
    folder = folder_of(root)
    if not os.path.isdir(folder):
        os.makedirs(root, _PRIVATE_FOLDER, exist_ok=True)
        os.makedirs(folder, _PRIVATE_FOLDER, exist_ok=True)
    unfinished = os.path.join(folder, f".{name}.{os.getpid()}")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE_FILE)
    with open(fd, "w", encoding="utf-8") as handle:
        json.dump(content, handle)
        handle.flush()
        os.fsync(fd)
    os.replace(unfinished, os.path.join(folder, name))
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
