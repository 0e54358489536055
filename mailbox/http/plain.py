"""
A store at a state process that is another program, and speaks wire 6 and nothing beside it.

There a message is a document that everybody writes whole, on condition that it
is at the version that was read; what each write did to the message is inferred
from the versions.  Whatever the wire has no words for is refused by name.

Listings are computed here: mail is read from the other end, and what was read
once is kept in mind as long as its version stands.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NoReturn

from fencepost.journal import forks
from fencepost.journal.errors import JournalConflict, NoExpectedVersion, NotCarried, OutcomeUnknown
from fencepost.journal.event import Batch, Commit, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import chat, codec, errors, shapes, times
from fencepost.mailbox.addresses import CHECKPOINTS_SCOPE, LINKS, MESSAGES, REDACTIONS, SHOWN, continued, is_reserved
from fencepost.mailbox.events import (
    Deleted,
    Linked,
    MessageEvent,
    ProjectionsAppended,
    Redacted,
    Rewritten,
    Sent,
    TurnAppended,
    TurnsRedacted,
    Written,
)
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.http.transport import Transport
from fencepost.mailbox.http.wire6 import Wire6
from fencepost.mailbox.infer import infer
from fencepost.mailbox.message import Message
from fencepost.mailbox.records import Action, Entry, MemoryDocument, Record, Version
from fencepost.mailbox.store.documents import Content, Document, Erased, Series, Unreadable, fold
from fencepost.mailbox.store.port import Query, Redaction, Stretch, Unsupported
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.turns import PROJECTIONS, TURNS, Turn, by_turn, conversation_of, scope_of
from fencepost.mailbox.views import order, shows

#: So many messages are kept in mind, and none that is longer than that.
_KNOWN_MAX: Final = 10_000
_KNOWN_BYTES_MAX: Final = 20_000
#: Where the other program keeps what a session continues, beside the links.
_SESSIONS: Final = "sessions/"
_SENT: Final = codec.EVENT_NAMES[Sent]
#: A listing asks for one row more than the wire answers at once.
_SEARCH_MAX: Final = 500


class PlainStore:
    """
    A store at another program.  Threads may share it.

    Args:
        transport: The connections.
        client: Who its client is, as the state process says.
        compares: It can write on condition of a version.
    """

    def __init__(self, transport: Transport, client: str, *, compares: bool) -> None:
        self._transport = transport
        self._wire = Wire6(transport)
        self._client = client
        self._compares = compares
        self._mutex = threading.Lock()
        self._known: dict[tuple[str, str, int], Message | Unreadable] = {}
        forks.register(self)

    def renew_in_child(self) -> None:
        """In a forked child: a thread of the parent may have held the mutex."""
        self._mutex = threading.Lock()

    def _cannot(self, what: str) -> NoReturn:
        raise NotCarried(url=self._wire.url, what=what)

    # --- who, and what is durable -----------------------------------------------------------------------

    def actor(self, said: str) -> str:
        """See `fencepost.mailbox.store.port.Store`."""
        return shapes.actor(f"{self._client}/{said}")

    def _said(self, actor: str) -> str:
        return actor.removeprefix(f"{self._client}/")

    def epoch(self) -> int:
        """See `fencepost.mailbox.store.port.Store`; what the other end answers it has."""
        return 0

    def settle(self, epoch: int) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        return True

    # --- documents ----------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> Document | None:
        """See `fencepost.mailbox.store.port.Store`."""
        scope, path = stream
        if scope == CHECKPOINTS_SCOPE:
            self._cannot("checkpoints of the feed")
        if path.startswith(SHOWN):
            return None  # nobody can have recorded it there
        conversation = conversation_of(scope)
        if conversation is not None and path == TURNS:
            last = self._wire.last_turn(conversation)
            return Document(scope, path, last, Series()) if last else None
        if path.startswith("/"):
            return _folded(self.events(stream))
        try:
            found = self._wire.document(scope, path)
        except errors.UnsupportedDocument as error:
            return Document(scope, path, self._last(stream), Unreadable(error.why))
        if found is None:
            return None if is_reserved(path) else self._deleted(stream)
        return Document(scope, path, found.version, self._content(found))

    def _content(self, found: MemoryDocument) -> Content:
        if found.path.startswith(LINKS):
            ends = found.path.removeprefix(LINKS).split("/")
            return Linked(*ends) if len(ends) == 2 else Unreadable("its path is that of no link")
        if found.path.startswith(MESSAGES):
            return Erased() if found.redacted else self._message(found.scope, found.path, found.version, found.content)
        action = Action.CREATED if found.version == 1 else Action.MODIFIED
        return Record(action, found.content, found.created_at, found.updated_at, found.actor, found.redacted)

    def _message(self, scope: str, path: str, version: int, raw: str) -> Message | Unreadable:
        """The message of a document, which is kept in mind."""
        content: Message | Unreadable
        try:
            content = codec.message(raw)
            if (content.letter.scope, MESSAGES + content.id) != (scope, path):
                content = Unreadable("it says that it is another message")
        except codec.UnknownForm as error:
            content = Unreadable(str(error))
        if len(raw) <= _KNOWN_BYTES_MAX:
            with self._mutex:
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[scope, path, version] = content
        return content

    def _last(self, stream: Stream) -> int:
        """The last version of a document that is not there to be read."""
        newest = next(self._wire.versions(*stream), None)
        return 0 if newest is None else newest.version

    def _deleted(self, stream: Stream) -> Document | None:
        newest = next(self._wire.versions(*stream), None)
        if newest is None:
            return None
        at = newest.created_at
        return Document(*stream, newest.version, Record(Action.DELETED, "", at, at, newest.actor, newest.redacted))

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True) -> None:
        """See `fencepost.mailbox.store.port.Store`; one change of one document, or one turn."""
        meanings = [_meaning(event) for event in batch.events]
        actor = self._said(batch.actor)
        if meanings and all(isinstance(each, ProjectionsAppended) for each in meanings):
            entries = [entry for each in meanings if isinstance(each, ProjectionsAppended) for entry in each.entries]
            self._wire.append_projections(_conversation(batch.events[0]), entries)
            return
        if [type(each) for each in meanings] == [Deleted, Written]:
            self._rename(batch.events[0], batch.events[1], expect, actor)
            return
        if len(meanings) != 1:
            self._cannot("several changes at once")
        event, happened = batch.events[0], meanings[0]
        stream = (event.scope, event.stream)
        if event.key is not None:
            self._cannot("idempotency keys")
        if isinstance(happened, TurnAppended):
            self._append_turn(event, happened, expect[stream], actor)
        elif isinstance(happened, TurnsRedacted):
            self._check_reason(happened.reason)
            self._wire.redact_turns(_conversation(event), happened.turns, actor)
        elif isinstance(happened, Deleted):
            self._delete(stream, expect[stream], actor)
        elif isinstance(happened, Written):
            self._write(stream, expect[stream], happened.content, actor)
        elif isinstance(happened, Linked):
            self._write_first(stream, codec.link_body(happened).decode(), actor)
        elif isinstance(happened, Sent):
            message = evolve(None, happened)
            self._write_first(stream, codec.document(message).decode(), actor)
        elif isinstance(happened, MessageEvent):
            self._step(stream, expect[stream], happened, actor)
        else:
            self._cannot(f"an event {event.type!r}")

    def _write_first(self, stream: Stream, content: str, actor: str) -> None:
        """Write what has a path of its own, so that nobody else can have written there."""
        self._check_number(self._wire.write(*stream, content, actor, None), 1, stream)

    def _step(self, stream: Stream, expected: int, happened: MessageEvent, actor: str) -> None:
        if not self._compares:
            self._cannot_compare("a step of a message")
        with self._mutex:
            before = self._known.get((*stream, expected))
        if not isinstance(before, Message):
            found = self.find(stream)
            _check_version(stream, expected, found)
            before = found.content if found is not None and isinstance(found.content, Message) else None
        if before is None:
            raise JournalConflict(scope=stream[0], stream=stream[1], expected_version=expected, actual_version=0)
        content = codec.document(evolve(before, happened)).decode()
        self._check_number(self._wire.write(*stream, content, actor, expected), expected + 1, stream)

    def _write(self, stream: Stream, expected: int, content: str, actor: str) -> None:
        found = self.find(stream)
        _check_version(stream, expected, found)
        live = found is not None and isinstance(found.content, Record) and found.content.live
        if live and not self._compares:
            self._cannot_compare("a change of a document")
        # What is not there cannot be named by a version on every such wire; the number of the answer tells.
        written = self._wire.write(*stream, content, actor, expected if live else None)
        self._check_number(written, expected + 1, stream)

    def _delete(self, stream: Stream, expected: int, actor: str) -> None:
        _check_version(stream, expected, self.find(stream))
        if not self._wire.delete(*stream, actor):
            raise JournalConflict(scope=stream[0], stream=stream[1], expected_version=expected, actual_version=0)

    def _rename(self, gone: NewEvent, new: NewEvent, expect: Mapping[Stream, int], actor: str) -> None:
        if gone.scope != new.scope:
            self._cannot("moving a document from one scope to another")
        source, destination = (gone.scope, gone.stream), (new.scope, new.stream)
        for stream in (source, destination):
            _check_version(stream, expect[stream], self.find(stream))
        taken = self._wire.rename(gone.scope, gone.stream, new.stream, actor)
        self._check_number(taken, expect[destination] + 1, destination)

    def _append_turn(self, event: NewEvent, happened: TurnAppended, expected: int, actor: str) -> None:
        conversation = _conversation(event)
        number = self._wire.append_turn(conversation, happened.messages, actor)
        self._check_number(number, expected + 1, (event.scope, event.stream))

    def _check_number(self, taken: int, expected: int, stream: Stream) -> None:
        """What could not be made a condition is looked at afterwards, so that nobody is told a wrong number."""
        if taken != expected:
            why = f"somebody else was quicker at {stream[1]}, and it took number {taken} instead of {expected}"
            raise OutcomeUnknown(path=self._wire.url, why=why)

    def _cannot_compare(self, what: str) -> NoReturn:
        raise NoExpectedVersion(url=self._wire.url, what=what)

    def _check_reason(self, reason: str | None) -> None:
        if reason is not None:
            self._cannot("the reason of an erasure")

    def redact(self, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None = None) -> Redaction:
        """See `fencepost.mailbox.store.port.Store`; which messages refer to it is not known there."""
        self._check_reason(reason)
        count = self._wire.redact(scope, path, self._said(actor))
        with self._mutex:
            self._known.clear()
        return Redaction(scope, path, count, ())

    # --- events ---------------------------------------------------------------------------------------------

    def events(self, stream: Stream) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`; they are inferred from what stands there."""
        scope, path = stream
        conversation = conversation_of(scope)
        if path.startswith(SHOWN):
            return []
        if conversation is not None and path == TURNS:
            return [_turn_event(stream, turn) for turn in self._wire.turns(conversation)]
        if conversation is not None and path == PROJECTIONS:
            runs = by_turn(self._wire.projections(conversation))
            acts = [(ProjectionsAppended(run), self._client, times.EPOCH) for run in runs]
            return _numbered(stream, acts)
        if conversation is not None and path == REDACTIONS:
            erased = self._wire.turn_redactions(conversation)
            return _numbered(
                stream, [(TurnsRedacted(each.turns), each.actor, each.created_at) for each in erased[::-1]]
            )
        if path == REDACTIONS:
            gone = [*self._wire.redactions(scope)][::-1]
            return _numbered(stream, [(Redacted(each.path, each.count), each.actor, each.created_at) for each in gone])
        versions = [*self._wire.versions(scope, path)][::-1]
        return list(_message_events(stream, versions) if path.startswith(MESSAGES) else _events(stream, versions))

    def events_from(self, stream: Stream, after: int, limit: int) -> Sequence[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        conversation = conversation_of(stream[0])
        if conversation is not None and stream[1] == TURNS:
            return [_turn_event(stream, turn) for turn in islice(self._wire.turns(conversation, after, limit), limit)]
        return [event for event in self.events(stream) if event.version > after][:limit]

    # --- listings -------------------------------------------------------------------------------------------

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        receives = frozenset[str]() if query.session is None else self.audience(query.session, query.links)
        found: list[tuple[int, Message]] = []
        unread: list[Unsupported] = []
        for scope in query.scopes:
            for version, path, content in self._mail(scope):
                if isinstance(content, Unreadable):
                    unread.append(Unsupported(scope, path, version, content.why))
                elif content.letter.conversation is None or content.letter.conversation in receives:
                    found.append((version, content))
        shown = [each for each in found if shows(query.listing, each[1], query.now)]
        shown.sort(key=lambda each: order(each[1]))
        items = [(version, codec.compact(message).decode()) for version, message in shown[: query.limit]]
        return items, unread[: query.limit]

    def _mail(self, scope: str) -> Iterator[tuple[int, str, Message | Unreadable]]:
        """Every message of a scope that was not erased."""
        for entry in self._wire.entries(scope, MESSAGES):
            if entry.redacted:
                continue
            with self._mutex:
                known = self._known.get((scope, entry.path, entry.version))
            if known is not None:
                yield entry.version, entry.path, known
                continue
            found = self.find((scope, entry.path))
            if found is not None and isinstance(found.content, Message | Unreadable):
                yield found.version, entry.path, found.content

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """See `fencepost.mailbox.store.port.Store`."""
        reached = {session}
        waiting = [session]
        while waiting:
            child = waiting.pop()
            for parent in {parent for scope in scopes for parent in self._parents(child, scope)} - reached:
                reached.add(parent)
                waiting.append(parent)
        return frozenset(reached)

    def _parents(self, session: str, scope: str) -> Iterator[str]:
        for entry in self._wire.entries(scope, f"{LINKS}{session}/"):
            yield entry.path.removeprefix(f"{LINKS}{session}/")
        document = self._wire.document(scope, _SESSIONS + session)
        yield from continued(session, "" if document is None else document.content)

    def entries(
        self, scope: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        listed = (each for each in self._wire.entries(scope, prefix) if not is_reserved(each.path))
        found = [each for each in listed if after is None or each.path > after]
        return sorted(found, key=lambda each: each.path)[:limit], []

    def versions(self, stream: Stream, before: int, limit: int) -> Sequence[Version]:
        """See `fencepost.mailbox.store.port.Store`."""
        return [*islice((each for each in self._wire.versions(*stream) if each.version < before), limit)]

    def history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[tuple[int, Version]]:
        """See `fencepost.mailbox.store.port.Store`; the numbers are counted from the oldest, so they stay."""
        listed = [*self._wire.history(scope)]
        numbered = ((len(listed) - place, version) for place, version in enumerate(listed))
        wanted = (
            (number, version)
            for number, version in numbered
            if number < before and not is_reserved(version.path) and (since is None or version.created_at >= since)
        )
        return [*islice(wanted, limit)]

    def record_at(self, stream: Stream, version: int) -> Record | None:
        """See `fencepost.mailbox.store.port.Store`."""
        rows = [each for each in self._wire.versions(*stream) if each.version <= version]
        if not rows or rows[0].version != version:
            return None
        row = rows[0]
        made = next((each.created_at for each in rows if each.action is Action.CREATED), row.created_at)
        return Record(row.action, row.content, made, row.created_at, row.actor, row.redacted)

    def search_turns(self, terms: Sequence[str], sight: Sight, limit: int) -> Sequence[Text]:
        """See `fencepost.mailbox.store.port.Store`."""
        talks = None if sight.conversations is None else sorted(sight.conversations)
        if talks == []:
            return []
        return [_text(turn) for turn in self._wire.search_turns(" ".join(terms), talks, min(limit, _SEARCH_MAX))]

    def has_seen(self, session: str) -> bool:
        """See `fencepost.mailbox.store.port.Store`; nobody can tell there, so nobody is warned."""
        return True

    # --- what the wire has no words for ---------------------------------------------------------------------

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("idempotency keys")

    def annotations(self, conversation: str, turn: int | None) -> Sequence[Document]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("what messages say about turns")

    def search(self, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("a search of anything but turns")

    def feed_bounds(self) -> tuple[int, int]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("the feed of changes")

    def changes(self, after: int, limit: int, scopes: Collection[str] | None, look: int) -> Stretch:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("the feed of changes")

    def batches(self, after: int, limit: int) -> Sequence[Commit]:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("reading the journal")

    def secret(self) -> bytes:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("taking the whole store away")

    def restore(self, batches: Sequence[Batch], behind: int, secret: bytes) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("recording a history again")

    def change_mark(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("waiting for a change")

    def next_change(self, query: Query) -> datetime | None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._cannot("waiting for a change")

    def close(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._transport.close()


def _meaning(event: NewEvent) -> object:
    return event.meaning if event.meaning is not None else codec.decode(event.type, event.data)


def _conversation(event: NewEvent) -> str:
    conversation = conversation_of(event.scope)
    assert conversation is not None, "a turn stands in a conversation"
    return conversation


def _check_version(stream: Stream, expected: int, found: Document | None) -> None:
    actual = 0 if found is None else found.version
    if actual != expected:
        raise JournalConflict(scope=stream[0], stream=stream[1], expected_version=expected, actual_version=actual)


def _folded(events: Iterable[Event]) -> Document | None:
    document: Document | None = None
    for event in events:
        document = fold(document, event)
    return document


# --- what stands there, as events ---------------------------------------------------------------------


def _event(stream: Stream, version: int, at: datetime, actor: str, happened: Any, *, erased: bool = False) -> Event:
    name, data = codec.encode(happened)
    return Event(version, times.show(at), actor, *stream, version, name, None if erased else data)


def _numbered(stream: Stream, acts: Iterable[tuple[object, str, datetime]]) -> list[Event]:
    return [_event(stream, number, at, actor, act) for number, (act, actor, at) in enumerate(acts, 1)]


def _turn_event(stream: Stream, turn: Turn) -> Event:
    happened = TurnAppended(turn.messages)
    return _event(stream, turn.turn, turn.created_at, turn.actor, happened, erased=turn.redacted)


def _message_events(stream: Stream, versions: Iterable[Version]) -> Iterator[Event]:
    """What explains each version of a message; where nothing does, that it was written whole."""
    before: Message | None = None
    for row in versions:
        explained: MessageEvent | None = None
        try:
            after = None if row.redacted or row.action is Action.DELETED else codec.message(row.content)
        except codec.UnknownForm:
            after = None
        if after is not None and (before is not None or row.version == 1):
            explained = infer(before, after)
        before = after
        happened = explained or Rewritten(row.content)
        event = _event(stream, row.version, row.created_at, row.actor, happened, erased=row.redacted)
        yield event._replace(type=_SENT) if row.redacted and row.version == 1 else event  # that much is sure


def _events(stream: Stream, versions: Iterable[Version]) -> Iterator[Event]:
    for row in versions:
        happened = Deleted() if row.action is Action.DELETED else Written(row.content)
        yield _event(stream, row.version, row.created_at, row.actor, happened, erased=row.redacted)


def _text(turn: Turn) -> Text:
    at = times.micros(turn.created_at)
    return Text(turn.turn, scope_of(turn.conversation_id), TURNS, turn.turn, at, turn.actor, chat.text(turn.messages))
