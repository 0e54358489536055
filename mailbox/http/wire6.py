"""
The routes of wire 6, as far as a store of documents and turns needs them.

What is answered is read here and nowhere else: a listing is followed from page
to page, times and numbers are checked, and whatever is not as the contract says
is a strange answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

import attrs

from fencepost.journal.errors import FencepostError, JournalConflict, OutcomeUnknown, StrangeAnswer
from fencepost.mailbox import errors, shapes, times
from fencepost.mailbox.http.transport import Refusal, Transport
from fencepost.mailbox.records import Action, Entry, MemoryDocument, Version
from fencepost.mailbox.turns import Projection, Turn, TurnRedaction

_PAGE: Final = 500
#: Who appended a turn of which the other program does not say it.
_NOBODY: Final = "host:unknown"
T = TypeVar("T")
P = TypeVar("P", Turn, Projection)


@attrs.frozen
class Erasure:
    """That documents were erased; the whole scope where there is no path."""

    path: str | None
    actor: str
    created_at: datetime
    count: int


class Wire6:
    """A state process that speaks wire 6 and nothing beside it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.url: Final = transport.url

    # --- documents --------------------------------------------------------------------------------------

    def document(self, scope: str, path: str) -> MemoryDocument | None:
        """
        What stands at a path.

        Raises:
            UnsupportedDocument: The other program cannot read it.
        """
        try:
            flat = self._transport.ask("memory/read", {"scope": scope, "path": path})
        except Refusal as refusal:
            if refusal.code == "memory_format_unsupported":
                raise errors.UnsupportedDocument(scope=scope, path=path, why=refusal.said) from refusal
            raise self._error(refusal, scope) from refusal
        found = self._read(flat, "document", lambda raw: None if raw is None else (_document(raw),))
        return None if found is None else found[0]

    def entries(self, scope: str, prefix: str) -> Iterator[Entry]:
        """The documents whose path begins with a prefix."""
        return self._pages("memory/list_documents", {"scope": scope, "prefix": prefix}, scope, "entries", _entry)

    def versions(self, scope: str, path: str) -> Iterator[Version]:
        """The versions of a document, newest first."""
        return self._pages("memory/versions", {"scope": scope, "path": path}, scope, "versions", _version)

    def history(self, scope: str) -> Iterator[Version]:
        """The versions of everything in a scope, newest first."""
        return self._pages("memory/history", {"scope": scope}, scope, "versions", _version)

    def redactions(self, scope: str) -> Iterator[Erasure]:
        """What was erased in a scope, newest first."""
        return self._pages("memory/redactions", {"scope": scope}, scope, "redactions", _erasure)

    def write(self, scope: str, path: str, content: str, actor: str, expected: int | None) -> int:
        """
        Write a document.

        Args:
            scope: Where.
            path: At which path.
            content: The text.
            actor: Who, as the client says.
            expected: Only if it is at this version.

        Returns:
            The version that it took.

        Raises:
            JournalConflict: It is at another version.
        """
        asked = {"scope": scope, "path": path, "content": content, "actor": actor, "expected_version": expected}
        flat = self._tell("memory/write", asked, (scope, path), expected or 0)
        return self._read_written(flat, "document", lambda raw: shapes.whole_number(raw["version"], "version", 1))

    def delete(self, scope: str, path: str, actor: str) -> bool:
        """Delete a document; was there one?"""
        flat = self._tell("memory/delete", {"scope": scope, "path": path, "actor": actor}, (scope, path), 0)
        return self._read_written(flat, "deleted", lambda raw: shapes.flag(raw, "deleted"))

    def rename(self, scope: str, source: str, destination: str, actor: str) -> int:
        """
        Move a document.

        Returns:
            The version that it took where it is now.

        Raises:
            JournalConflict: Something stands there, or nothing where it should be.
        """
        asked = {"scope": scope, "src": source, "dst": destination, "actor": actor}
        flat = self._tell("memory/rename", asked, (scope, destination), 0)
        return self._read_written(flat, "document", lambda raw: shapes.whole_number(raw["version"], "version", 1))

    def redact(self, scope: str, path: str | None, actor: str) -> int:
        """Erase a document, or a whole scope; how many there were."""
        flat = self._tell("memory/redact", {"scope": scope, "path": path, "actor": actor}, (scope, path or ""), 0)
        return self._read_written(flat, "count", lambda raw: shapes.whole_number(raw, "count", 0))

    # --- conversations ------------------------------------------------------------------------------------

    def last_turn(self, conversation: str) -> int:
        """The number of the last turn; 0 where there is none."""
        flat = self._ask("conversation/last_turn_number", {"conversation_id": conversation}, conversation)
        return self._read(flat, "turn", lambda raw: shapes.whole_number(raw, "turn", 0))

    def turns(self, conversation: str, after: int = 0, limit: int | None = None) -> Iterator[Turn]:
        """The turns behind one, oldest first; all of them, or as many as are wanted at least."""
        route = "conversation/read_turns"
        return self._numbered(route, conversation, after, "turns", lambda raw: _placed(_turn(raw)), limit)

    def projections(self, conversation: str) -> Iterator[Projection]:
        """The projections of a conversation, by their turns."""
        route = "conversation/read_projections"
        return self._numbered(route, conversation, 0, "entries", lambda raw: _placed(_projection(raw)))

    def append_turn(self, conversation: str, messages: Sequence[Any], actor: str) -> int:
        """Append a turn; the number that it took."""
        asked = {"conversation_id": conversation, "messages": list(messages), "actor": actor}
        flat = self._tell("conversation/append_turn", asked, (conversation, ""), 0)
        return self._read_written(flat, "turn", lambda raw: shapes.whole_number(raw["turn"], "turn", 1))

    def append_projections(self, conversation: str, entries: Sequence[Projection]) -> None:
        """Append projections."""
        flat = [{"turn": entry.turn, "kind": entry.kind, "text": entry.text, "span": entry.span} for entry in entries]
        asked = {"conversation_id": conversation, "entries": flat}
        self._tell("conversation/append_projections", asked, (conversation, ""), 0)

    def search_turns(self, query: str, conversations: Sequence[str] | None, limit: int) -> list[Turn]:
        """The turns in which every term is found, by their times, the latest first."""
        asked = {"query": query, "conversations": conversations, "limit": limit}
        flat = self._ask("conversation/search_turns", asked, "all conversations")
        return self._read(flat, "turns", lambda raw: [_turn(each) for each in raw])

    def redact_turns(self, conversation: str, turns: Sequence[int], actor: str) -> None:
        """Erase turns."""
        asked = {"conversation_id": conversation, "turns": list(turns), "actor": actor}
        self._tell("conversation/redact_turns", asked, (conversation, ""), 0)

    def turn_redactions(self, conversation: str) -> list[TurnRedaction]:
        """The times that turns were erased, newest first; no more than one answer holds."""
        asked = {"conversations": [conversation], "limit": _PAGE}
        flat = self._ask("conversation/turn_redactions", asked, conversation)
        return self._read(flat, "redactions", lambda raw: [_turn_redaction(each) for each in raw])

    # --- asking ---------------------------------------------------------------------------------------------

    def _ask(self, route: str, asked: dict[str, Any], name: str) -> dict[str, Any]:
        try:
            return self._transport.ask(route, asked)
        except Refusal as refusal:
            raise self._error(refusal, name) from refusal

    def _tell(self, route: str, asked: dict[str, Any], stream: tuple[str, str], expected: int) -> dict[str, Any]:
        try:
            return self._transport.tell(route, asked)
        except Refusal as refusal:
            if refusal.code != "memory_conflict":
                raise self._error(refusal, stream[0]) from refusal
            actual = refusal.details.get("actual_version")
            raise JournalConflict(
                scope=stream[0],
                stream=stream[1],
                expected_version=expected,
                actual_version=actual if type(actual) is int else 0,
            ) from refusal

    def _error(self, refusal: Refusal, name: str) -> FencepostError:
        if refusal.code == "forbidden" and refusal.ours is None:
            return errors.Forbidden(name=name, allowed="what its operator has said")
        return self._transport.error(refusal)

    def _pages(self, route: str, asked: dict[str, Any], name: str, key: str, read: Callable[[Any], T]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            flat = self._ask(route, {**asked, "cursor": cursor, "limit": _PAGE}, name)
            yield from self._read(flat, key, lambda raw: [read(each) for each in raw])
            before, cursor = cursor, flat.get("next_cursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or cursor == before:
                self._strange(f"the next cursor of {route} leads nowhere")

    def _numbered(
        self,
        route: str,
        conversation: str,
        after: int,
        key: str,
        read: Callable[[Any], tuple[int, T]],
        limit: int | None = None,
    ) -> Iterator[T]:
        """Rows behind a turn.  A page that is full may be followed by another, even where nothing says so."""
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(limit, _PAGE)
            asked = {"conversation_id": conversation, "after": after, "limit": size}
            flat = self._ask(route, asked, conversation)
            rows = self._read(flat, key, lambda raw: [read(each) for each in raw])
            yield from (row for _, row in rows)
            following = flat.get("next_after")
            if not rows or (following is None and len(rows) < size):
                return
            place = rows[-1][0] if following is None else following
            if type(place) is not int or place <= after:
                self._strange(f"the next page of {route} leads nowhere")
            after = place
            limit = None if limit is None else limit - len(rows)

    def _read(self, flat: dict[str, Any], key: str, read: Callable[[Any], T]) -> T:
        try:
            return read(flat[key])
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is not what the contract says
            self._strange(f"{key} is not as the contract says", error)

    def _strange(self, why: str, error: Exception | None = None) -> NoReturn:
        raise StrangeAnswer(url=self.url, why=why) from error

    def _read_written(self, flat: dict[str, Any], key: str, read: Callable[[Any], T]) -> T:
        try:
            return read(flat[key])
        except Exception as error:
            raise OutcomeUnknown(path=self.url, why=f"{key} in its answer is not as the contract says") from error


# --- shapes -------------------------------------------------------------------------------------------


def _moment(raw: Any) -> datetime:
    return times.parse(raw, "a time")


def _whole(raw: Any) -> int:
    return shapes.whole_number(raw, "a number", 0)


def _text(raw: Any) -> str:
    if type(raw) is not str:
        raise TypeError(type(raw))
    return raw


def _flag(raw: Any) -> bool:
    return shapes.flag(raw, "redacted")


def _document(raw: Any) -> MemoryDocument:
    return MemoryDocument(
        _text(raw["scope"]),
        _text(raw["path"]),
        _text(raw["content"]),
        _whole(raw["version"]),
        _moment(raw["created_at"]),
        _moment(raw["updated_at"]),
        _actor(raw["actor"]),
        _flag(raw["redacted"]),
    )


def _actor(raw: Any) -> str:
    return _NOBODY if raw is None else _text(raw)


def _entry(raw: Any) -> Entry:
    made, told = _moment(raw["created_at"]), _moment(raw["updated_at"])
    return Entry(_text(raw["path"]), _whole(raw["version"]), made, told, _flag(raw["redacted"]))


def _version(raw: Any) -> Version:
    action = Action(raw["action"])
    return Version(
        _text(raw["path"]),
        _whole(raw["version"]),
        action,
        "" if action is Action.DELETED else _text(raw["content"]),  # others repeat what was deleted
        _actor(raw["actor"]),
        _moment(raw["created_at"]),
        _flag(raw["redacted"]),
    )


def _erasure(raw: Any) -> Erasure:
    path = None if raw["path"] is None else _text(raw["path"])
    return Erasure(path, _actor(raw["actor"]), _moment(raw["created_at"]), _whole(raw["count"]))


def _turn(raw: Any) -> Turn:
    messages = raw["messages"]
    if not all(type(message) is dict for message in messages):
        raise TypeError(messages)
    return Turn(
        _text(raw["conversation_id"]),
        _whole(raw["turn"]),
        tuple(messages),
        _moment(raw["created_at"]),
        _actor(raw["actor"]),
        _flag(raw["redacted"]),
    )


def _placed(row: P) -> tuple[int, P]:
    return row.turn, row


def _turn_redaction(raw: Any) -> TurnRedaction:
    turns = tuple(_whole(turn) for turn in raw["turns"])
    return TurnRedaction(_text(raw["conversation_id"]), turns, _actor(raw["actor"]), _moment(raw["created_at"]))


def _projection(raw: Any) -> Projection:
    return Projection(_whole(raw["turn"]), _text(raw["kind"]), _text(raw["text"]), _whole(raw.get("span", 1)))
