"""
The routes `store/…`: what there is, and bringing back what was taken from another store.

What is restored keeps its versions, its times and its actors.  It is read whole
and checked before anything is written, and written in order; where that is cut
short, what was written stays, and the target is not empty any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import CHECKPOINTS_SCOPE, REDACTIONS
from fencepost.mailbox.codec import Json
from fencepost.mailbox.errors import ConversationOccupied, ScopeOccupied
from fencepost.mailbox.events import Event, Redacted, TurnsRedacted
from fencepost.mailbox.foreign import Row, rows_of_conversation, rows_of_scope
from fencepost.mailbox.server.desk import Answer, Asked, Desk
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.turns import TURNS, conversation_of, scope_of
from fencepost.mailbox.wire.access import Client

_OCCUPIED: Final = "target_occupied"
#: Events of one batch, which is checked and written at once.
_RUN_MAX: Final = 200
_WHY: Final = "It had been erased where it was restored from."


def _scopes(desk: Desk, _: Client, __: Asked) -> Json:
    found = (scope for scope in desk.store.scopes() if conversation_of(scope) is None)
    return {"scopes": [scope for scope in found if scope != CHECKPOINTS_SCOPE]}


def _conversations(desk: Desk, _: Client, __: Asked) -> Json:
    return {"conversations": sorted(filter(None, map(conversation_of, desk.store.scopes())))}


def _restore_scope(desk: Desk, who: Client, asked: Asked) -> Json:
    scope = asked["scope"]
    rows = rows_of_scope(scope, asked["versions"], asked["redactions"], asked["documents"])
    if scope in desk.store.scopes():
        raise ScopeOccupied(scope=scope, reason=_OCCUPIED)
    _record(desk, who, rows)
    return {}


def _restore_conversation(desk: Desk, who: Client, asked: Asked) -> Json:
    talk = asked["conversation_id"]
    rows = rows_of_conversation(talk, asked["turns"], asked["projections"], asked["redactions"])
    if scope_of(talk) in desk.store.scopes():
        raise ConversationOccupied(conversation_id=talk, reason=_OCCUPIED)
    _record(desk, who, rows)
    return {}


def _record(desk: Desk, who: Client, rows: Sequence[Row]) -> None:
    """Record the rows; what was erased there is written empty, and erased with the last act that says so."""
    said = [row for row in rows if row.stream != REDACTIONS]
    acts = [row for row in rows if row.stream == REDACTIONS]
    versions: dict[Stream, int] = {}
    erased: dict[Stream, list[int]] = {}
    for run in _runs(said):
        _append(desk.store, run, versions)
        for row, version in zip(run, _numbers(run, versions), strict=True):
            if row.erased:
                erased.setdefault((row.scope, row.stream), []).append(version)
    if erased and not acts:  # nobody says when, nor by whom
        acts = [_unknown_act(desk, who, *each) for each in erased.items()]
    for place, act in enumerate(acts, 1):
        erases = _sequence_numbers(desk.store, erased) if place == len(acts) else ()
        _append(desk.store, [act], versions, erases)
    if rows and not acts:
        desk.store.settle(desk.store.epoch())


def _runs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """What was done by one actor at one time, in pieces that a batch can hold."""
    for _, run in groupby(rows, lambda row: (row.at, row.actor)):
        together = list(run)
        for begin in range(0, len(together), _RUN_MAX):
            yield together[begin : begin + _RUN_MAX]


def _append(store: Store, run: Sequence[Row], versions: dict[Stream, int], erases: tuple[int, ...] = ()) -> None:
    expect = {(row.scope, row.stream): versions.get((row.scope, row.stream), 0) for row in run}
    new = tuple(NewEvent(row.scope, row.stream, *codec.encode(row.event), meaning=row.event) for row in run)
    store.append(Batch(run[0].at, run[0].actor, new, erases), expect, settle=False)
    for row in run:
        stream = (row.scope, row.stream)
        versions[stream] = versions.get(stream, 0) + 1


def _numbers(run: Sequence[Row], versions: Mapping[Stream, int]) -> list[int]:
    """The version that each row of a run has just got."""
    latest = dict(versions)
    numbers: list[int] = []
    for row in reversed(run):
        stream = (row.scope, row.stream)
        numbers.append(latest[stream])
        latest[stream] -= 1
    return numbers[::-1]


def _unknown_act(desk: Desk, who: Client, stream: Stream, versions: Sequence[int]) -> Row:
    scope, path = stream
    act: Event = TurnsRedacted(tuple(versions), _WHY) if path == TURNS else Redacted(path, 1, _WHY)
    return Row(desk.clock(), who.actor(None), scope, REDACTIONS, act)


def _sequence_numbers(store: Store, erased: Mapping[Stream, Sequence[int]]) -> tuple[int, ...]:
    return tuple(
        sorted(
            event.seq
            for stream, versions in erased.items()
            for event in store.events(stream)
            if event.version in set(versions)
        )
    )


ANSWERS: Final[Mapping[str, Answer]] = {
    "store/scopes": _scopes,
    "store/conversations": _conversations,
    "store/restore_scope": _restore_scope,
    "store/restore_conversation": _restore_conversation,
}
