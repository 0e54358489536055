"""
What was said: search, and recall of turns with what was said about them since.

    past = Past(store, [Mount("user:me/proj:app", "/project")])
    past.search("POL-358 don't").hits
    past.recall("s-42", turn=7)

A search looks in what messages say, in every outcome they ever had, and in the
turns of conversations; `fencepost.mailbox.matching` says what it finds.  Recall
gives a turn as it was appended, and behind it the messages that are about it:
whoever mounts their scope reads them, nobody consumes them, and what became of
them takes none away.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from fencepost.mailbox import matching, shapes
from fencepost.mailbox.addresses import MESSAGES, Mount
from fencepost.mailbox.caller import Caller, utc_now
from fencepost.mailbox.message import Message
from fencepost.mailbox.store.documents import Document, Erased
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.store.texts import NOTED, SAID, Sight, Text
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.times import EPOCH
from fencepost.mailbox.turns import TURNS, Turn, conversation_of
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX

#: Why an annotation says nothing, where it was erased.
ERASED: Final = "erased"


class Source(enum.Enum):
    """Where a text was found."""

    BODY = "body"
    OUTCOME = "outcome"
    TURN = "turn"


@attrs.frozen
class Annotation:
    """
    A message that is about a turn, or about a whole conversation.

    Attributes:
        version: The message's version.
        message: The message as it stands; None where it cannot be read.
        why: Why it cannot; `erased` where a redaction has erased it.
    """

    scope: str
    message_id: str
    version: int
    message: Message | None
    why: str | None


@attrs.frozen
class Hit:
    """
    A text that a search has found.

    Attributes:
        scope: The scope of the message; None for a turn.
        message_id: The message that says it, or of which it is an outcome; None for a turn.
        version: The version of the message that said it; None for a turn.
        status: Where the message stands now; None for a turn.
        conversation_id: The conversation of the turn; None for a message.
        turn: The number of the turn; None for a message.
        created_at: When it was said.
        actor: Who said it.
        snippet: A piece of it, around the first term that was found.
        annotations: The messages that are about the turn; none for a message.
    """

    source: Source
    scope: str | None
    message_id: str | None
    version: int | None
    status: str | None
    conversation_id: str | None
    turn: int | None
    created_at: datetime
    actor: str
    snippet: str
    annotations: tuple[Annotation, ...]


@attrs.frozen
class MemoryHit:
    """A memory document as it stands, in which a search has found something."""

    scope: str
    path: str
    version: int
    updated_at: datetime
    actor: str
    snippet: str


@attrs.frozen
class Hits:
    """
    What a search has found, newest first.

    Attributes:
        complete: False where there may be older ones: terms of one or two characters alone are only looked for in the
            newest 100,000 texts.
    """

    hits: tuple[Hit, ...]
    complete: bool


@attrs.frozen
class MemoryHits:
    """What a search of the documents has found, last written first; see `Hits`."""

    hits: tuple[MemoryHit, ...]
    complete: bool


@attrs.frozen
class RecalledTurn:
    """A turn as it was appended, and the messages that are about it, oldest first."""

    turn: Turn
    annotations: tuple[Annotation, ...]


@attrs.frozen
class Recalled:
    """
    Turns of a conversation.

    Attributes:
        annotations: The messages that are about the conversation and no turn of it; none where one turn was asked for.
        next_after: Goes on behind this turn; None where there are no more.
    """

    conversation_id: str
    turns: tuple[RecalledTurn, ...]
    annotations: tuple[Annotation, ...]
    next_after: int | None


class Past(Caller):
    """
    What was said, for one caller.  Threads may share it.  Nothing here marks anything as read.

    Args:
        store: Where it is kept; see `open_store`.
        mounts: The scopes whose messages and documents may be read.
        actor: Who asks.
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
        super().__init__(store, mounts, actor=actor, clock=clock)
        self._talks = Conversations(store, actor=actor, clock=clock)

    def search(
        self,
        query: str,
        *,
        target: str | None = None,
        conversations: Iterable[str] | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Hits:
        """
        What messages, their outcomes and turns have said, newest first: by sequence, whatever the clocks said.

        Args:
            query: Terms, parted by white space.  Each must be in the text, in any case; see `matching`.
            target: A mounted path or scope whose messages to search; all mounts where None.
            conversations: The conversations whose turns to search; all of them where None.
            limit: How many at most, 1 to 500.

        Raises:
            BlankQuery: There is nothing to look for.
            BadInput: Something else is not well formed, or not mounted.
        """
        terms = matching.terms(query)
        scopes = frozenset(self.mounts.readable(target)) if target is not None or tuple(self.mounts) else frozenset()
        chosen = _chosen(conversations)
        wanted = shapes.whole_number(limit, "limit", 1, LIMIT_MAX)
        sight = Sight(scopes, chosen)

        def attempt() -> Hits | None:
            with self._told_when_durable() as told:
                found = self.store.search(SAID, terms, sight, wanted)
                hits = tuple(self._hit(text, terms) for text in found.texts)
            return Hits(hits, found.complete) if told.stands else None

        return self._until_it_stands(attempt)

    def _hit(self, text: Text, terms: Sequence[str]) -> Hit:
        at, piece = _moment(text), matching.snippet(terms, text.text)
        if text.stream == TURNS:
            talk = conversation_of(text.scope) or ""
            notes = self._annotations(talk, text.version)
            return Hit(Source.TURN, None, None, None, None, talk, text.version, at, text.actor, piece, notes)
        source = Source.BODY if text.version == 1 else Source.OUTCOME
        document = self.store.find((text.scope, text.stream))
        message = None if document is None else document.content
        status = message.status.value if isinstance(message, Message) else None
        name = text.stream.removeprefix(MESSAGES)
        return Hit(source, text.scope, name, text.version, status, None, None, at, text.actor, piece, ())

    def search_turns(
        self, query: str, *, conversations: Iterable[str] | None = None, limit: int = LIMIT_DEFAULT
    ) -> tuple[Turn, ...]:
        """
        Turns alone and whole, by their times: the latest first, then by conversation and number, both from the end.

        It costs what matches, and not what is answered.

        Args:
            query: Terms, as for `search`; short ones are looked for in all turns.
            conversations: The conversations to search; all of them where None.
            limit: How many at most, 1 to 500.

        Raises:
            BlankQuery: There is nothing to look for.
            UnsupportedDocument: A turn is stored in a form that this version does not know.
            BadInput: Something else is not well formed.
        """
        terms = matching.terms(query)
        chosen = _chosen(conversations)
        wanted = shapes.whole_number(limit, "limit", 1, LIMIT_MAX)
        found = self.store.search_turns(terms, Sight(frozenset(), chosen), wanted)
        turns = (self._talks.read_turn(conversation_of(text.scope) or "", text.version) for text in found)
        return tuple(turn for turn in turns if not turn.redacted)  # somebody may have been quick

    def search_memory(self, query: str, *, target: str | None = None, limit: int = LIMIT_DEFAULT) -> MemoryHits:
        """
        Memory documents as they stand, the last written first; neither mail nor turns.

        Args:
            query: Terms, as for `search`.
            target: A mounted path or scope; all mounts where None.
            limit: How many at most, 1 to 500.

        Raises:
            BlankQuery: There is nothing to look for.
            BadInput: Something else is not well formed, or not mounted.
        """
        terms = matching.terms(query)
        scopes = frozenset(self.mounts.readable(target))
        wanted = shapes.whole_number(limit, "limit", 1, LIMIT_MAX)
        found = self.store.search(NOTED, terms, Sight(scopes, frozenset()), wanted)
        hits = tuple(
            MemoryHit(
                text.scope,
                text.stream,
                text.version,
                _moment(text),
                text.actor,
                matching.snippet(terms, text.text),
            )
            for text in found.texts
        )
        return MemoryHits(hits, found.complete)

    def recall(
        self, conversation: str, *, turn: int | None = None, after: int = 0, limit: int = LIMIT_DEFAULT
    ) -> Recalled:
        """
        Turns as they were appended, each with the messages that are about it.

        Args:
            conversation: Which conversation.
            turn: This turn alone; otherwise all of them, and what is said about the whole.
            after: Begin behind this turn, where none is named.
            limit: How many turns at most, 0 to 500.

        Raises:
            UnknownTurn: There is none of that number.
            UnsupportedDocument: A turn is stored in a form that this version does not know.
            BadInput: Something is not well formed.
        """
        if turn is not None:
            found: tuple[Turn, ...] = (self._talks.read_turn(conversation, turn),)
            about: tuple[Annotation, ...] = ()
            more = None
        else:
            page = self._talks.read_turns(conversation, after=after, limit=limit)
            found, more = page.turns, page.next_after
            about = self._annotations(conversation, None)
        recalled = tuple(RecalledTurn(each, self._annotations(conversation, each.turn)) for each in found)
        return Recalled(conversation, recalled, about, more)

    def _annotations(self, conversation: str, turn: int | None) -> tuple[Annotation, ...]:
        scopes = frozenset(mount.scope for mount in self.mounts)
        found = self.store.annotations(conversation, turn)
        return tuple(_annotation(document) for document in found if document.scope in scopes)


def _moment(text: Text) -> datetime:
    return EPOCH + timedelta(microseconds=text.at)


def _chosen(conversations: Iterable[str] | None) -> frozenset[str] | None:
    if conversations is None:
        return None
    return frozenset(shapes.name(each, "conversations") for each in conversations)


def _annotation(document: Document) -> Annotation:
    content = document.content
    message = content if isinstance(content, Message) else None
    why = ERASED if isinstance(content, Erased) else document.why
    return Annotation(document.scope, document.path.removeprefix(MESSAGES), document.version, message, why)
