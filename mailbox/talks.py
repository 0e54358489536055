"""
Conversations beside the mail: turns appended, read and erased, and their projections.

    talks = Conversations(store, actor="host:scheduler")
    first = talks.append_turn("s-42", [{"role": "user", "content": "Look at the build."}])
    talks.read_turns("s-42").turns[0].messages

A conversation begins with its first turn.  Turns are numbered from 1 without
gaps, come back as they were given, and are never deleted; a turn that was
erased keeps its number, its time and who appended it.  No mount is needed: who
may use which conversation is for the host to say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from fencepost.journal.event import Batch, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import chat, codec, errors, shapes, turns
from fencepost.mailbox.addresses import REDACTIONS
from fencepost.mailbox.caller import Caller, utc_now
from fencepost.mailbox.events import ProjectionsAppended, TurnAppended, TurnsRedacted
from fencepost.mailbox.store.documents import Series
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.turns import PROJECTIONS, TURNS, Projection, ProjectionKind, Turn, TurnRedaction, scope_of
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX

#: Projections that are appended at once; each may be an event, and a batch has so many.
PROJECTIONS_MAX: Final = 1_000


@attrs.frozen
class TurnPage:
    """
    Turns, oldest first.

    Attributes:
        next_after: Goes on behind this turn; None where the page is the last.
    """

    conversation_id: str
    turns: tuple[Turn, ...]
    next_after: int | None


@attrs.frozen
class ProjectionPage:
    """
    Projections by their turns, ending on a whole turn.

    Attributes:
        next_after: Goes on behind this turn; None where the page is the last.
    """

    conversation_id: str
    entries: tuple[Projection, ...]
    next_after: int | None


class Conversations(Caller):
    """
    The conversations of a store, for one caller.  Threads may share it.

    Args:
        store: Where they are kept; see `open_store`.
        actor: Who writes, as the transport knows it: `kind:id`.
        clock: Gives the time, aware, in UTC.

    Raises:
        BadInput: The actor is not well formed.
    """

    def __init__(self, store: Store, *, actor: str = "host:local", clock: Callable[[], datetime] = utc_now) -> None:
        super().__init__(store, (), actor=actor, clock=clock)

    # --- turns -------------------------------------------------------------------------------------------

    def append_turn(self, conversation: str, messages: Sequence[Any]) -> Turn:
        """
        Append a turn.  It is stored durably when this returns, and is never repeated by itself.

        Args:
            conversation: Which conversation; it begins with its first turn.
            messages: Chat messages, as JSON: `role`, and `content`, `reasoning`, `tool_calls`, `tool_call_id` and
                `extra` where they are given.  Other keys are dropped.

        Raises:
            BadInput: They are no chat messages, or the conversation is no name.
            JournalError: It could not be stored, or (`SyncFailed`) that is not known.
        """
        name = shapes.name(conversation, "conversation")
        event = TurnAppended(chat.turn(messages))
        now = self._clock()

        def attempt() -> Turn:
            number = self._last((scope_of(name), TURNS)) + 1
            new = NewEvent(scope_of(name), TURNS, *codec.encode(event), meaning=event)
            self.store.append(Batch(now, self._actor, (new,)), {(scope_of(name), TURNS): number - 1})
            return Turn(name, number, event.messages, now, self._actor)

        return self._until_it_stands(attempt)

    def append_once(self, conversation: str, messages: Sequence[Any], *, key: str) -> bool:
        """
        Append a turn unless one was appended under that key, so that doing it again is safe.

        Returns:
            False where it had been appended before.

        Raises:
            BadInput, JournalError: As for `append_turn`.
        """
        name = shapes.name(conversation, "conversation")
        event = TurnAppended(chat.turn(messages))
        now = self._clock()

        def attempt() -> bool | None:
            with self._told_when_durable() as told:
                if self.store.sent_under(scope_of(name), key) is None:
                    expect = {(scope_of(name), TURNS): self._last((scope_of(name), TURNS))}
                    new = NewEvent(scope_of(name), TURNS, *codec.encode(event), key=key, meaning=event)
                    self.store.append(Batch(now, self._actor, (new,)), expect)
                    return True
            return False if told.stands else None

        return self._until_it_stands(attempt)

    def read_turns(self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> TurnPage:
        """
        The turns of a conversation, oldest first; none where there is no such conversation.

        Args:
            conversation: Which conversation.
            after: Begin behind this turn.
            limit: How many at most, 0 to 500.

        Raises:
            BadInput: Something is not well formed.
            UnsupportedDocument: One of them is stored in a form that this version does not know.
        """
        name = shapes.name(conversation, "conversation")
        shapes.whole_number(after, "after", 0)
        wanted = shapes.whole_number(limit, "limit", 0, LIMIT_MAX)

        def attempt() -> TurnPage | None:
            with self._told_when_durable() as told:
                events = self.store.events_from((scope_of(name), TURNS), after, wanted + 1)
                found = tuple(turn_of(name, event) for event in events[:wanted])
            more = found[-1].turn if len(events) > wanted > 0 else None
            return TurnPage(name, found, more) if told.stands else None

        return self._until_it_stands(attempt)

    def read_turn(self, conversation: str, turn: int) -> Turn:
        """
        One turn.

        Raises:
            UnknownTurn: There is none of that number.
            BadInput, UnsupportedDocument: As for `read_turns`.
        """
        number = shapes.whole_number(turn, "turn", 1)
        found = self.read_turns(conversation, after=number - 1, limit=1).turns
        if not found:
            latest = self.last_turn_number(conversation)
            raise errors.UnknownTurn(scope=scope_of(conversation), path=TURNS, turn=number, latest=latest)
        return found[0]

    def last_turn_number(self, conversation: str) -> int:
        """
        The number of the last turn; 0 where there is none.

        Raises:
            BadInput: The conversation is no name.
        """
        stream = (scope_of(shapes.name(conversation, "conversation")), TURNS)

        def attempt() -> int | None:
            with self._told_when_durable() as told:
                number = self._last(stream)
            return number if told.stands else None

        return self._until_it_stands(attempt)

    # --- projections -------------------------------------------------------------------------------------

    def append_projections(self, conversation: str, entries: Iterable[Projection]) -> None:
        """
        Append projections, all of them or none.

        Args:
            conversation: Which conversation.
            entries: At most 1,000.

        Raises:
            BadInput: One of them is not well formed.
            JournalError: As for `append_turn`.
        """
        name = shapes.name(conversation, "conversation")
        checked = [_projection(entry) for entry in entries]
        shapes.whole_number(len(checked), "entries", 0, PROJECTIONS_MAX)
        if not checked:
            return
        stream = (scope_of(name), PROJECTIONS)
        events = [ProjectionsAppended(run) for run in turns.by_turn(checked)]
        new = tuple(NewEvent(*stream, *codec.encode(event), meaning=event) for event in events)
        now = self._clock()

        def attempt() -> bool:
            self.store.append(Batch(now, self._actor, new), {stream: self._last(stream)})
            return True

        self._until_it_stands(attempt)

    def read_projections(self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> ProjectionPage:
        """
        The projections of a conversation, by their turns; a page ends on a whole turn.

        Those that were erased with a turn are left out.

        Args:
            conversation: Which conversation.
            after: Begin behind this turn.
            limit: How many there should be, 0 to 500; those of one turn are never taken apart.

        Raises:
            BadInput, UnsupportedDocument: As for `read_turns`.
        """
        name = shapes.name(conversation, "conversation")
        shapes.whole_number(after, "after", 0)
        wanted = shapes.whole_number(limit, "limit", 0, LIMIT_MAX)

        def attempt() -> ProjectionPage | None:
            with self._told_when_durable() as told:
                events = self.store.events((scope_of(name), PROJECTIONS))
                found = [entry for event, entries in _understood(events) for entry in _legible(event, entries)]
            return ProjectionPage(name, *turns.page(found, after, wanted)) if told.stands else None

        return self._until_it_stands(attempt)

    # --- erasing -----------------------------------------------------------------------------------------

    def redact_turns(
        self,
        conversation: str,
        *,
        through: int | None = None,
        turns: Iterable[int] | None = None,
        reason: str | None = None,
    ) -> int:
        """
        Erase what turns say, and every projection that may repeat it.  It is in no file of the store any more.

        Their numbers, their times and who appended them stay, and the act is recorded beside them.

        Args:
            conversation: Which conversation.
            through: All turns up to this one.
            turns: Or these.
            reason: Why, for the record; it must not repeat what is to be erased.

        Returns:
            How many turns there were to be erased, those included that had been erased before.

        Raises:
            WhichTurns: Both were given, or neither.
            BadInput: Something else is not well formed.
            ErasureUnfinished: It has happened, and a later call has to do the rest of it.
            JournalError: It could not be done.
        """
        name = shapes.name(conversation, "conversation")
        said = None if reason is None else shapes.said(reason, "reason", shapes.OUTCOME_BYTES_MAX)
        wanted = _wanted(through, turns)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_redact(name, wanted, said, now))

    def _try_redact(self, name: str, wanted: Callable[[int], bool], reason: str | None, now: datetime) -> int | None:
        with self._told_when_durable() as told:
            scope = scope_of(name)
            talk, beside = (self.store.events((scope, stream)) for stream in (TURNS, PROJECTIONS))
            found = [event for event in talk if wanted(event.version)]
            numbers = tuple(event.version for event in found)
            telling = [
                event
                for event, entries in _understood(beside)
                if entries is None or any(entry.may_tell_of(number) for entry in entries for number in numbers)
            ]
            if numbers:
                told.stands = True
                act = TurnsRedacted(numbers, reason)
                new = NewEvent(scope, REDACTIONS, *codec.encode(act), meaning=act)
                erases = tuple(sorted(event.seq for event in (*found, *telling)))
                # What was appended since they were read may be meant as well.
                expect = {(scope, TURNS): len(talk), (scope, PROJECTIONS): len(beside)}
                self.store.append(Batch(now, self._actor, (new,), erases), expect)
        return len(numbers) if told.stands else None

    def turn_redactions(self, conversation: str) -> tuple[TurnRedaction, ...]:
        """
        The times that turns of a conversation were erased, newest first.

        Raises:
            BadInput: The conversation is no name.
        """
        name = shapes.name(conversation, "conversation")

        def attempt() -> tuple[TurnRedaction, ...] | None:
            with self._told_when_durable() as told:
                events = self.store.events((scope_of(name), REDACTIONS))
            acts = [(event, _meaning(event)) for event in reversed(events)]
            listed = tuple(
                TurnRedaction(name, act.turns, event.actor, datetime.fromisoformat(event.at))
                for event, act in acts
                if isinstance(act, TurnsRedacted)
            )
            return listed if told.stands else None

        return self._until_it_stands(attempt)

    def _last(self, stream: Stream) -> int:
        """The version of a stream of a conversation."""
        document = self.store.find(stream)
        assert document is None or isinstance(document.content, Series), "its name says what stands there"
        return 0 if document is None else document.version


def turn_of(conversation: str, event: Event) -> Turn:
    """
    The turn that an event of its stream is.

    Raises:
        UnsupportedDocument: It is in a form that this version does not know.
    """
    at = datetime.fromisoformat(event.at)
    if event.data is None:
        return Turn(conversation, event.version, (), at, event.actor, redacted=True)
    happened = _meaning(event)
    if not isinstance(happened, TurnAppended):
        raise errors.UnsupportedDocument(scope=event.scope, path=event.stream, why=f"an event {event.type!r}")
    return Turn(conversation, event.version, happened.messages, at, event.actor)


def _meaning(event: Event) -> object:
    assert event.data is not None, "what was erased means nothing"
    try:
        return codec.decode(event.type, event.data)
    except codec.UnknownForm as error:
        raise errors.UnsupportedDocument(scope=event.scope, path=event.stream, why=str(error)) from error


def _understood(events: Iterable[Event]) -> Iterator[tuple[Event, tuple[Projection, ...] | None]]:
    """Every event of projections that was not erased, with what it says; None where that is not known."""
    for event in events:
        if event.data is not None:
            happened = None
            with contextlib.suppress(codec.UnknownForm):
                happened = codec.decode(event.type, event.data)
            yield event, happened.entries if isinstance(happened, ProjectionsAppended) else None


def _legible(event: Event, entries: tuple[Projection, ...] | None) -> tuple[Projection, ...]:
    if entries is None:
        raise errors.UnsupportedDocument(scope=event.scope, path=event.stream, why=f"an event {event.type!r}")
    return entries


def _projection(entry: Projection) -> Projection:
    if not isinstance(entry, Projection):
        raise errors.InvalidTurn(where="entries", why="a projection belongs here")
    kind = shapes.choice(entry.kind, "kind", ProjectionKind)
    text = shapes.text(entry.text, "text", shapes.OUTCOME_BYTES_MAX)
    numbers = (shapes.whole_number(getattr(entry, field), field, 1) for field in ("turn", "span"))
    turn, span = numbers
    return Projection(turn, kind.value, text, span)


def _wanted(through: int | None, turns: Iterable[int] | None) -> Callable[[int], bool]:
    """Which turns are meant."""
    if (through is None) == (turns is None):
        raise errors.WhichTurns()
    if through is not None:
        last = shapes.whole_number(through, "through", 0)
        return lambda number: number <= last
    chosen = frozenset(shapes.whole_number(turn, "turns", 1) for turn in turns or ())
    return chosen.__contains__
