"""
`fencepost hook`: what a client runs at the boundaries of its sessions.

It reads the client's document, puts unread mail before the model in the one
shape that this client takes, and is gone.  It never blocks the client: whatever
goes wrong costs at most the deadline and one line on stderr, and the exit
status is 0.  Nothing is marked as read.  What is to be recorded, that mail was
shown and what was said in the turn, is spooled and lands later.

Rules for this file: it starts at each prompt, so nothing is imported that is
not needed; the environment and the document are never shown to anybody.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from fencepost.mailbox import clients, notice
from fencepost.mailbox.cli import spool
from fencepost.mailbox.cli.place import elsewhere, home, project_scope, user_scope
from fencepost.mailbox.cli.quick import fed_index
from fencepost.mailbox.store import inbox

#: How long a store may keep a client waiting.
DEADLINE_MS = 250
#: The share of that in which a store is brought up to date; in the rest it is read as it is.
_FRESH = 0.7
#: A client's document may hold a whole answer of its model.
_DOCUMENT_BYTES_MAX = 64 << 20
#: Counting goes so far; more is told as that many or more.
_COUNT_MAX = 1_000
_VALUES = ("--client", "--root", "--deadline-ms")
_FLAGS = ("--at-stop", "--no-turns")
HELP = """\
Usage: fencepost hook --client CLIENT [OPTIONS]

  Put unread mail before a client's model, at the boundaries of its sessions. The client's document is read from
  standard input. `fencepost setup` writes the lines that start this.

Options:
  --client [claude-code|codex|cursor|muse-code]
                       Whose hook this is.
  --root DIR           The store's folder [~/.fencepost, or $FENCEPOST_HOME].
  --deadline-ms N      For how long a store may keep the client waiting [250].
  --at-stop            Also at the end of a turn, where something new has come; once in a chain (claude-code).
  --no-turns           Record no turns.
"""


class _Late(Exception):
    """The deadline is over."""


def run(words: list[str]) -> int:
    """Do what a hook does; always 0, but for words that do not fit: never 2, which clients take for a veto."""
    if "--help" in words or "-h" in words:
        sys.stdout.write(HELP)
        return 0
    if words[:1] == ["--land"] and len(words) == 2:
        from fencepost.mailbox.cli.landing import land_here

        return land_here(words[1])
    options = _options(words)
    if options is None:
        _tell("these words do not fit: see `fencepost hook --help`")
        return 1
    try:
        _with_deadline(options)
    except _Late:
        _tell(f"the store took longer than {options['--deadline-ms']} ms, so no mail is shown here")
    except Exception as error:  # noqa: BLE001 - whatever it is, the client goes on
        _tell(str(error)[:300] or type(error).__name__)
    return 0


def _options(words: list[str]) -> dict[str, str] | None:
    options = {"--deadline-ms": str(DEADLINE_MS)}
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            options[word] = "yes"
        elif word in _VALUES and (value := next(rest, None)) is not None:
            options[word] = value
        else:
            return None
    client, deadline = options.get("--client"), options["--deadline-ms"]
    if client not in clients.CLIENTS or not (deadline.isascii() and deadline.isdecimal() and int(deadline[:9]) > 0):
        return None
    return options


def _document() -> dict[str, Any]:
    """What the client tells."""
    text = sys.stdin.buffer.read(_DOCUMENT_BYTES_MAX + 1)
    if len(text) > _DOCUMENT_BYTES_MAX:
        raise ValueError(f"the client's document has more than {_DOCUMENT_BYTES_MAX} bytes")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ValueError("the client's document is no JSON object, or too deep a one")  # noqa: TRY004
    return told


def _with_deadline(options: dict[str, str]) -> None:
    told = _document()
    at = clients.boundary(options["--client"], told)
    if at is None:
        return
    root = os.path.abspath(options.get("--root") or home())
    mounts = {project_scope(at.folder): "/project", user_scope(): "/user"}
    unspooled = None
    try:
        if "--no-turns" not in options:
            spool.turn(root, at)
    except OSError as error:  # where nothing can be left, mail can be read all the same
        unspooled = error
    spool.seen(root, at.client)
    if clients.delivers(at, at_stop="--at-stop" in options) and sys.__stdout__ is not None:
        deadline_s = int(options["--deadline-ms"]) / 1000
        away = elsewhere() and "--root" not in options
        try:
            with _no_longer_than(deadline_s * _FRESH):
                text, shown = _notice(root, at, mounts, away=away)
        except _Late:  # what was fed is there, and some new mail may be shown the next time
            with _no_longer_than(deadline_s * (1 - _FRESH)):
                text, shown = _notice(root, at, mounts, away=away, behind=True)
        if text is not None:
            _say(json.dumps(clients.answer(at, text)) + "\n")
            spool.shown(root, at.session, shown, list(mounts))  # only what the client can have read
    if unspooled is not None:
        raise unspooled
    spool.start_landing(root)


@contextlib.contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _late(_: int, __: FrameType | None) -> NoReturn:
    raise _Late


def _notice(
    root: str, at: clients.Boundary, mounts: dict[str, str], *, away: bool, behind: bool = False
) -> tuple[str | None, list[tuple[str, int]]]:
    """The text, and the messages and occurrences of which it shows something."""
    if away:
        if behind:
            raise _Late
        from fencepost.mailbox.cli.away import unread

        found, waiting = unread(at.session, list(mounts))
    elif spool.is_alone(root):
        found, waiting = [], 0
    else:
        found, waiting = _here(root, at.session, list(mounts), behind=behind)
    if at.moment == clients.STOP and not spool.is_new(root, at.session, found):
        return None, []
    text = notice.notice(
        found, session=at.session, mounts=mounts, waiting=min(waiting, _COUNT_MAX), capped=waiting > _COUNT_MAX
    )
    if text is None:
        return notice.greeting(at.session) if at.moment == clients.START else None, []
    return text, [(each["id"], each["occurrence"]) for each in found if f" {each['id']} in " in text]


def _here(root: str, session: str, scopes: list[str], *, behind: bool) -> tuple[list[dict[str, Any]], int]:
    """The first unread messages in a folder, and how many there are."""
    db = fed_index(root, behind=behind)
    if db is None:
        if behind:
            raise _Late
        from fencepost.mailbox.cli.feeding import fed

        db = fed(root)
    try:
        db.execute("BEGIN")
        conversations = inbox.audience(db, session, scopes)
        now = time.time_ns() // 1000
        items = inbox.select(db, "unread", scopes, conversations, now, notice.ITEMS_MAX)
        waiting = len(items)
        if waiting == notice.ITEMS_MAX:
            waiting = inbox.count_unread(db, scopes, conversations, now, _COUNT_MAX + 1)
    finally:
        db.close()
    return [json.loads(body) for _, body in items], waiting


def _say(answer: str) -> None:
    """Give it to the client; what could not be given is not tried again when the program ends."""
    rest = memoryview(answer.encode())
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]


def _tell(why: str) -> None:
    """One line for whoever looks, if anybody can."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"fencepost hook: {' '.join(why.split())}\n".encode(errors="backslashreplace"))
