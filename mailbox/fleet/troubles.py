"""
What is not in order with an agent, as long as that is so.

It is told once, and again when it is something else or is over.  What stands is
kept in a private file, because `fencepost fleet status` is another process.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs
import orjson

from fencepost.journal.disk import PRIVATE_FILE
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.times import show

_FILE: Final = "troubles.json"
_NUMBERS: Final = re.compile(r"\d+")


@attrs.frozen
class Trouble:
    """
    Something that is not in order.

    Attributes:
        what: In a sentence, which was told as well and has no secret in it.
        since: The second from which on it was not in order, however often it was something else since then.
    """

    what: str
    since: str

    def same(self, other: Trouble) -> bool:
        """Whether nobody has to be told of one who knows the other: they differ in numbers at most."""
        return _NUMBERS.sub("", self.what) == _NUMBERS.sub("", other.what)


class Troubles:
    """
    The troubles of one agent, none at first.  Threads may share it.

    Args:
        folder: Of the agent.
        say: Tells the operator something, in a sentence.
        clock: Gives the time, aware, in UTC.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], *, clock: Callable[[], datetime] = utc_now) -> None:
        self._path: Final = folder / _FILE
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._standing: dict[str, Trouble] = {}
        self._rooms: dict[str, Trouble] = {}
        self._keep()

    def begin(self, about: str, what: str) -> None:
        """This is not in order, in place of what was not in order about the same before."""
        with self._lock:
            new = self._trouble(what, self._standing.get(about))
            known = any(new.same(each) for each in self._standing.values())
            self._standing[about] = new
            self._keep()
        if not known:
            self._say(what)

    def over(self, about: str, what: str) -> None:
        """Whatever was not in order about this is; it is told unless the same still stands about something else."""
        with self._lock:
            gone = self._standing.pop(about, None)
            if gone is None:
                return
            self._keep()
            stands = any(gone.same(each) for each in self._standing.values())
        if not stands:
            self._say(what)

    def rooms(self, unheard: Mapping[str, str]) -> None:
        """These rooms are not heard, each for a reason that was told already, and no others."""
        with self._lock:
            new = {room: self._trouble(why, self._rooms.get(room)) for room, why in unheard.items()}
            if new != self._rooms:
                self._rooms = new
                self._keep()

    def end(self) -> None:
        """Nobody looks any more, so nothing is known to stand."""
        with self._lock:
            self._standing.clear()
            self._rooms.clear()
            self._keep()

    def _trouble(self, what: str, before: Trouble | None) -> Trouble:
        return Trouble(what, show(self._clock().replace(microsecond=0)) if before is None else before.since)

    def _keep(self) -> None:
        """A disk that does not take it is told of by those whose files matter."""
        standing = [*self._standing.values(), *self._rooms.values()]
        with contextlib.suppress(OSError):
            if not standing:
                self._path.unlink(missing_ok=True)
                return
            staged = self._path.with_suffix(".part")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(staged, flags, PRIVATE_FILE), "wb") as file:
                file.write(orjson.dumps([attrs.asdict(each) for each in standing]))
            staged.replace(self._path)


def standing(folder: Path) -> list[Trouble]:
    """What the controller of an agent has said last that is not in order."""
    try:
        found = orjson.loads((folder / _FILE).read_bytes())
        return [Trouble(str(each["what"]), str(each["since"])) for each in found]
    except (OSError, ValueError, LookupError, TypeError):
        return []
