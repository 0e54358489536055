"""
One caller of a store: what it may use, who it is, and how its questions are answered.

The mailbox and the documents are doors of this one kind.  Every answer, a
refusal or a repeat included, waits until what it was based on is durable, so
nothing that anybody was told can be taken back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

import attrs

from fencepost.journal.errors import JournalConflict, JournalUnavailable
from fencepost.mailbox import errors, shapes, times
from fencepost.mailbox.addresses import Mount, Mounts
from fencepost.mailbox.store.port import Store

#: Others were quicker so many times in a row before a command gives up.
ATTEMPTS_MAX: Final = 64
#: How often whoever waits looks at the shared watermark, which is memory and not disk.
LOOK_S: Final = 0.025
#: How much longer to wait before each attempt.
_PAUSE_S: Final = 0.000_1

T = TypeVar("T")


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


@attrs.define
class Told:
    """Whether what an answer is based on is durable."""

    stands: bool = False


class Caller:
    """
    A store, the scopes of it that may be used, and who uses them.

    Args:
        store: Where everything is kept.
        mounts: The scopes that may be used, in order.
        actor: Who writes, as the transport knows it: `kind:id`.
        clock: Gives the time, aware, in UTC.

    Raises:
        BadInput: The actor or a mount is not well formed.
    """

    def __init__(
        self,
        store: Store,
        mounts: Iterable[Mount],
        *,
        actor: str = "host:local",
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store: Final = store
        self.mounts: Final = Mounts(mounts)
        self._actor = store.actor(shapes.actor(actor))
        self._read_clock = clock

    def _clock(self) -> datetime:
        """One reading of the clock, which must say where it is."""
        return times.utc(self._read_clock(), "clock")

    def _resolved(self, path: str, target: str | None) -> tuple[Mount, str]:
        """The mount that a path begins with, or the target's, and what follows."""
        if target is not None:
            return self.mounts.find(target), path
        if not shapes.text(path, "path", 2 * shapes.PATH_BYTES_MAX).startswith("/"):
            rule = "a mounted path, such as /project/notes/plan.md; or name the target it is in"
            raise errors.InvalidName(field="path", value=path, rule=rule)
        return self.mounts.resolve(path)

    def _until_it_stands(self, attempt: Callable[[], T | None]) -> T:
        """Try again while others were quicker, or what was looked at has been taken back."""
        conflict: JournalConflict | None = None
        for count in range(ATTEMPTS_MAX):
            try:
                answer = attempt()
            except JournalConflict as error:
                conflict = error
                time.sleep(count * _PAUSE_S)  # whoever was quicker may be in the middle of more
            else:
                if answer is not None:
                    return answer
        self.store.settle(self.store.epoch())
        raise conflict or JournalUnavailable(path="the store", why="what it shows is taken back again and again")

    @contextlib.contextmanager
    def _told_when_durable(self) -> Iterator[Told]:
        """An answer that is based on what the store shows: a refusal leaves the block only once that is durable."""
        told = Told()
        epoch = self.store.epoch()
        try:
            yield told
        except (errors.Refused, errors.ReadOnlyMount):  # what is mounted eo is refused where nothing stands
            if self.store.settle(epoch):
                raise
        else:
            told.stands = told.stands or self.store.settle(epoch)
