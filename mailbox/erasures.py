"""
What an operator erases, and the record of it.

    erasures = Erasures(store, [Mount("user:me/proj:app", "/project")], actor="host:console")
    erasures.document("/project/notes/plan.md", reason="It held a password.")

Erasing is the one thing that takes content out of a store.  It is for whoever
answers for the store: every path of a mounted scope can be erased, those
included at which the mailbox keeps its own.  Versions, times and actors stay, and so
does the record of the act, which is in a stream beside what was erased.
"""

from __future__ import annotations

from datetime import datetime

import attrs

from fencepost.journal.event import Event
from fencepost.mailbox import codec, cursors, errors, shapes, times
from fencepost.mailbox.addresses import REDACTIONS, Mount
from fencepost.mailbox.caller import Caller
from fencepost.mailbox.events import Redacted
from fencepost.mailbox.store.port import Redaction
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX


@attrs.frozen
class RedactionRecord:
    """
    That something was erased.

    Attributes:
        number: Its place in the record of the scope; a later one has a greater number.
        path: What; None for the whole scope.
        count: How many documents, those included that had been erased before.
        reason: Why, if somebody said so.
    """

    number: int
    path: str | None
    actor: str
    created_at: datetime
    count: int
    reason: str | None


@attrs.frozen
class RedactionPage:
    """
    Redactions of a scope, newest first.

    Attributes:
        next_cursor: Continues them; None where they end.
    """

    scope: str
    redactions: tuple[RedactionRecord, ...]
    next_cursor: str | None


class Erasures(Caller):
    """
    The redactions of one operator.  Threads may share it.

    Args:
        store: Where everything is kept; see `open_store`.
        mounts: The scopes that may be used.
        actor: Who erases, as the transport knows it: `kind:id`.
        clock: Gives the time, aware, in UTC.

    Raises:
        BadInput: The actor or a mount is not well formed.
    """

    def document(self, path: str, *, reason: str | None = None, target: str | None = None) -> Redaction:
        """
        Erase what stands at a path, with all its versions.  Doing it again is harmless and answers the same.

        Args:
            path: A mounted path; within the target's scope where there is a target.
            reason: Why, for the record; it must not repeat what is to be erased.
            target: A mounted path or scope.

        Raises:
            UnknownDocument: Nothing has ever stood there.
            BadInput: Something is not well formed, or not mounted for writing.
            ErasureUnfinished: It has happened, and a later call has to do the rest of it.
        """
        mount, rest = self._resolved(path, target)
        done = self._erase(mount, shapes.path(rest), reason)
        if done.count == 0:
            raise errors.UnknownDocument(scope=mount.scope, path=rest)
        return done

    def scope(self, target: str, *, reason: str | None = None) -> Redaction:
        """
        Erase everything in a scope: documents, messages and links.

        Raises:
            BadInput, ErasureUnfinished: As for `document`.
        """
        return self._erase(self.mounts.find(target), None, reason)

    def _erase(self, mount: Mount, path: str | None, reason: str | None) -> Redaction:
        said = None if reason is None else shapes.said(reason, "reason", shapes.OUTCOME_BYTES_MAX)
        self.mounts.writable(mount.path, new=False)
        return self.store.redact(mount.scope, path, at=self._clock(), actor=self._actor, reason=said)

    def list(
        self,
        target: str | None = None,
        *,
        since: datetime | str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> RedactionPage:
        """
        What was erased in a scope, newest first.

        Args:
            target: A mounted path or scope; the first mount where None.
            since: Leave out what has an earlier time.
            cursor: Goes on behind an earlier page.  It is good for the same scope and time only.
            limit: How many at most, 0 to 500.

        Raises:
            BadInput: Something is not well formed, or not mounted.
        """
        scope = self.mounts.find(target).scope
        begin = times.earliest(since)
        question = ("redactions", scope, begin)
        before = cursors.number(cursor, question)
        wanted = shapes.whole_number(limit, "limit", 0, LIMIT_MAX)
        found = [
            record
            for record in self._until_it_stands(lambda: self._try_records(scope))
            if _is_wanted(record, before, begin)
        ]
        more = cursors.give(question, found[wanted - 1].number) if len(found) > wanted > 0 else None
        return RedactionPage(scope, tuple(found[:wanted]), more)

    def _try_records(self, scope: str) -> tuple[RedactionRecord, ...] | None:
        with self._told_when_durable() as told:
            events = self.store.events((scope, REDACTIONS))
        found = (_record(event) for event in reversed(events))
        return tuple(record for record in found if record is not None) if told.stands else None


def _record(event: Event) -> RedactionRecord | None:
    """The record of an erased document or scope; None for what else is recorded there, such as of turns."""
    assert event.data is not None, "the record of an erasure is never erased"
    act = codec.decode(event.type, event.data)
    if not isinstance(act, Redacted):
        return None
    return RedactionRecord(event.version, act.path, event.actor, times.parse(event.at, "at"), act.count, act.reason)


def _is_wanted(record: RedactionRecord, before: int, begin: datetime | None) -> bool:
    return record.number < before and (begin is None or record.created_at >= begin)
