"""
The feed: what changed behind a position, never told before all that has a smaller number is decided.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from fencepost.journal.errors import JournalUnavailable
from fencepost.journal.event import Event
from fencepost.mailbox.store.changes import Change, change
from fencepost.mailbox.store.port import Stretch
from fencepost.mailbox.store.postgres.asking import Ask, Database, Row
from fencepost.mailbox.store.postgres.horizon import Locks
from fencepost.mailbox.store.postgres.schema import named

#: What the record of an erasure says is needed, and of other events nothing is.
_BEHIND: Final = (
    "SELECT seq, at, actor, scope, stream, version, type, CASE WHEN stream = '/redactions' THEN data END, NULL"
    " FROM {s}.event WHERE seq > %s ORDER BY seq LIMIT %s"
)
_END: Final = "SELECT coalesce(max(seq), 0) FROM {s}.event"
_END_UP_TO: Final = "SELECT coalesce(max(seq), 0) FROM {s}.event WHERE seq <= %s"
_PART: Final = 500
#: For how long to wait for a transaction to say which numbers it took: it does so at once, unless its process stands.
_SURE_S: Final = 1.0
_SURE_PAUSE_S: Final = 0.002


class Feed:
    """The part of a store in a database that answers what changed."""

    _db: Database
    _schema: str
    _locks: Locks

    def feed_bounds(self) -> tuple[int, int]:
        """See `fencepost.mailbox.store.port.Store`."""
        horizon, ((end,),) = self._as_far_as_decided(Ask(named(_END, self._schema)))
        if end > horizon:
            (((end,),),) = self._db.ask(Ask(named(_END_UP_TO, self._schema), (horizon,)))
        return 1, end

    def changes(self, after: int, limit: int, scopes: Collection[str] | None, look: int) -> Stretch:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Change] = []
        position = seen = after
        looked = 0
        while looked < look:
            part = min(_PART, look - looked)
            horizon, rows = self._as_far_as_decided(Ask(named(_BEHIND, self._schema), (seen, part)))
            events = [Event._make(row) for row in rows if row[0] <= horizon]
            for event in events:
                seen = event.seq
                looked += 1
                happened = change(event)
                if happened is None:
                    continue
                if scopes is None or event.scope in scopes:
                    if len(found) == limit:
                        return Stretch(tuple(found), position, more=True)
                    found.append(happened)
                position = event.seq
            if len(events) < part:
                break
        cut = looked >= look
        return Stretch(tuple(found), seen if cut else position, more=cut)

    def _as_far_as_decided(self, question: Ask) -> tuple[int, list[Row]]:
        """The number up to which nothing will be added, and the answer to a question that was asked afterwards."""
        deadline = time.monotonic() + _SURE_S
        while True:
            ((last, replica, level),), held, answer = self._db.ask(*self._locks.asks(), question, apart=True)
            if replica:
                why = "it is a replica, which does not know what is still under way: follow the feed on the primary"
                raise JournalUnavailable(path=self._db.where, why=why)
            if level != "read committed":
                why = f"the transaction is {level}, which cannot see what others have written: use read committed"
                raise JournalUnavailable(path=self._db.where, why=why)
            horizon = self._locks.horizon(last, held)
            if horizon.sure or time.monotonic() >= deadline:
                return horizon.seq, answer
            time.sleep(_SURE_PAUSE_S)
