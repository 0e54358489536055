"""
The feed: what changed, for whoever follows along.

    feed = Changes(store, [Mount("user:me/proj:app", "/project")], actor="host:indexer")
    news = feed.poll(checkpoint="indexer", wait_s=30)
    for item in news.items:
        ...
    if news.items:
        feed.advance("indexer", news.position)

An item says what changed where, in which version, by whom and when, and never
what it says.  A position is a sequence number: what stands behind it has not
been seen.  Whoever moves a checkpoint only after the items are dealt with loses
none of them, and sees some again after a crash.

What retention has moved to an archive is in the feed no more.  A reader that
was further back is told so, by a gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, errors, shapes
from fencepost.mailbox.addresses import CHECKPOINTS, CHECKPOINTS_SCOPE, Mount
from fencepost.mailbox.caller import LOOK_S, Caller, utc_now
from fencepost.mailbox.events import CheckpointMoved
from fencepost.mailbox.store.changes import Change, WithConversations
from fencepost.mailbox.store.checkpoints import Reached
from fencepost.mailbox.store.documents import Erased
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX

#: One poll looks at so many events at most; where few of them are in the scopes asked for it answers with fewer items
#: and goes on from there next time.  Reading that many takes a few hundredths of a second.
EVENTS_MAX: Final = 10_000


@attrs.frozen
class Gap:
    """What changed behind the position `after` and up to `through` is in the archive, and not in the feed any more."""

    after: int
    through: int


Item: TypeAlias = Change | Gap


@attrs.frozen
class News:
    """
    The answer to a poll.

    Attributes:
        items: What changed, in order; a gap comes first and alone of its kind.
        position: Where to poll from next.
        more: There may be more behind it already.
        end: The last durable event; a reader of only what comes from now on begins there.
    """

    items: tuple[Item, ...]
    position: int
    more: bool
    end: int


@attrs.frozen
class Checkpoint:
    """
    A named place in the feed, kept with the store.

    Attributes:
        position: Everything up to it has been taken in; 0 where nobody has moved it yet.
        at: When it was moved to there, in ISO-8601 with `Z`; None where nobody has.
        actor: Who did.
    """

    name: str
    position: int
    at: str | None
    actor: str | None


class Changes(Caller):
    """
    The feed of one caller: a store, the scopes it may see, and who it is.  Threads may share it.

    Args:
        store: What is followed; see `open_store`.
        mounts: The scopes whose changes are told, and those of conversations, for which mounts do not matter; None for
            every scope of the store, as whoever operates it sees it.
        actor: Who moves checkpoints, as the transport knows it: `kind:id`.
        clock: Gives the time, aware, in UTC.

    Raises:
        BadInput: The actor or a mount is not well formed.
    """

    def __init__(
        self,
        store: Store,
        mounts: Iterable[Mount] | None,
        *,
        actor: str = "host:local",
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(store, () if mounts is None else mounts, actor=actor, clock=clock)
        self._everywhere = mounts is None

    def poll(
        self,
        after: int | None = None,
        *,
        checkpoint: str | None = None,
        target: str | None = None,
        limit: int = LIMIT_DEFAULT,
        wait_s: float = 0,
        gaps: bool = True,
    ) -> News:
        """
        What changed behind a position, oldest first.  Polling moves no checkpoint.

        Args:
            after: The position; the beginning where neither it nor a checkpoint is given.
            checkpoint: Or the name of the checkpoint that stands there.
            target: Only what changed in this mounted path or scope.
            limit: How many changes at most, 1 to 500.
            wait_s: Wait so long for something to change if nothing has.  What another process does is noticed within
                100 ms, without reading the disk meanwhile.
            gaps: Take a gap for what was moved to the archive; refuse otherwise.

        Raises:
            Ahead: The position is beyond the end.
            Expired: What stood behind it is in the archive, and the caller takes no gap.
            BadInput: Something is not well formed, not mounted, or given twice.
            JournalCorrupt: What stands right behind the position is damaged.
        """
        deadline = time.monotonic() + max(0, wait_s)  # in this order no-number is no time
        while True:
            mark = self.store.change_mark()
            news = self.look(after, checkpoint=checkpoint, target=target, limit=limit, gaps=gaps)
            if news.items or time.monotonic() >= deadline:
                return news
            after, checkpoint = news.position, None
            while not news.more and time.monotonic() < deadline and self.store.change_mark() == mark:
                time.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))

    def look(
        self,
        after: int | None = None,
        *,
        checkpoint: str | None = None,
        target: str | None = None,
        limit: int = LIMIT_DEFAULT,
        gaps: bool = True,
    ) -> News:
        """What `poll` answers at once."""
        if after is not None and checkpoint is not None:
            raise errors.Usage(why="a position and a checkpoint were both given: give one of them")
        wanted = shapes.whole_number(limit, "limit", 1, LIMIT_MAX)
        scopes = None if self._everywhere and target is None else self._scopes(target)
        position = 0 if after is None else shapes.whole_number(after, "after", 0)
        if checkpoint is not None:
            position = self.checkpoint(checkpoint).position
        kept_from, end = self.store.feed_bounds()
        if position > end:
            self.store.changes(end, 1, (), 1)  # where there is damage behind the end, that is what to say
            raise errors.Ahead(position=position, end=end)
        items: tuple[Item, ...] = ()
        if position < kept_from - 1:
            if not gaps:
                raise errors.Expired(position=position, through=kept_from - 1)
            items = (Gap(position, kept_from - 1),)
            position = kept_from - 1
        found = self.store.changes(position, wanted, scopes, EVENTS_MAX)
        return News((*items, *found.changes), found.position, found.more, end)

    def _scopes(self, target: str | None) -> Collection[str]:
        if self._everywhere and target is not None:
            return (shapes.scope(target, "target"),)
        mounted = self.mounts.readable(target)
        return mounted if target is not None else WithConversations(mounted)

    # --- checkpoints --------------------------------------------------------------------------------------

    def checkpoint(self, name: str) -> Checkpoint:
        """
        Where a checkpoint stands; one that nobody has moved stands at the beginning.

        Raises:
            InvalidName: The name is not well formed.
        """
        stream = _stream(name)

        def attempt() -> Checkpoint | None:
            with self._told_when_durable() as told:
                found = self._at(name, stream)[0]
            return found if told.stands else None

        return self._until_it_stands(attempt)

    def advance(self, name: str, position: int) -> Checkpoint:
        """
        Move a checkpoint forward, durably.  To where it stands already is no move, and nothing is written.

        Raises:
            MovesBack: It stands further on, for instance because another reader of the name was quicker.
            Ahead: Nothing has happened there yet.
            BadInput: The name or the number is not well formed.
        """
        stream = _stream(name)
        shapes.whole_number(position, "position", 0)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_advance(name, stream, position, now))

    def _try_advance(self, name: str, stream: Stream, position: int, now: datetime) -> Checkpoint | None:
        with self._told_when_durable() as told:
            found, version = self._at(name, stream)
            if position < found.position:
                raise errors.MovesBack(position=position, name=name, current=found.position)
            end = self.store.feed_bounds()[1]
            if position > end:
                raise errors.Ahead(position=position, end=end)
            if position > found.position:
                told.stands = True
                moved = CheckpointMoved(position)
                event = NewEvent(*stream, *codec.encode(moved), meaning=moved)
                self.store.append(Batch(now, self._actor, (event,)), {stream: version})
                found = Checkpoint(name, position, now.isoformat()[:-6] + "Z", self._actor)
        return found if told.stands else None

    def _at(self, name: str, stream: Stream) -> tuple[Checkpoint, int]:
        """Where a checkpoint stands, and the version of its stream."""
        document = self.store.find(stream)
        if document is None or isinstance(document.content, Erased):
            return Checkpoint(name, 0, None, None), 0 if document is None else document.version
        if not isinstance(document.content, Reached):
            why = document.why or "it is no checkpoint"
            raise errors.UnsupportedDocument(scope=document.scope, path=document.path, why=why)
        reached = document.content
        return Checkpoint(name, reached.position, reached.at, reached.actor), document.version


def _stream(name: str) -> Stream:
    return CHECKPOINTS_SCOPE, CHECKPOINTS + shapes.name(name, "checkpoint")
