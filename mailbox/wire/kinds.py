"""
Kinds of values, and how each is carried as JSON.

A kind says three things: how a value is written, how it is read with every type
in it checked, and which scopes and conversations it names, for whoever has to
allow them.

Rules for this file: pure.  What is read as part of a request raises a kind of
`BadInput` for whatever JSON there is; what is read as part of an answer comes
from a state process, and whoever reads it takes any exception for a strange
answer.  A bool is never an int.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from fencepost.journal.errors import MalformedRequest
from fencepost.journal.event import Batch, Commit, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, shapes, times
from fencepost.mailbox.cursors import NUMBER_MAX
from fencepost.mailbox.matching import QUERY_BYTES_MAX
from fencepost.mailbox.records import Action, Entry, Record, Version
from fencepost.mailbox.store import documents
from fencepost.mailbox.store.changes import Change, WithConversations
from fencepost.mailbox.store.documents import Document
from fencepost.mailbox.store.port import Query, Redaction, Stretch, Unsupported
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.turns import conversation_of
from fencepost.mailbox.views import LIMIT_MAX, Listing
from fencepost.mailbox.wire.access import Client

#: Longest name of a stream: what stands before the name of a document in it is shorter than that.
_STREAM_BYTES_MAX: Final = 2 * shapes.PATH_BYTES_MAX
#: A page asks for one row more than it shows, so as to know whether there are more.
_ROWS_MAX: Final = LIMIT_MAX + 1
#: The row by which an answer becomes so long is its last, so that neither end has to hold whatever there is.
LONG: Final = 16 << 20
#: Longest term of a search: a query folded, which may make it three times as long.
_TERM_BYTES_MAX: Final = 3 * QUERY_BYTES_MAX
#: Whole numbers of requests stay below what those who count in an index have.
WHOLE_MAX: Final = shapes.NUMBER_MAX
#: Most names, terms or expectations in one request.
_MANY: Final = 10_000


def _same(value: Any) -> Any:
    return value


def _allow_nothing(_who: Client, _value: Any) -> None:
    """It names nothing."""


@attrs.frozen
class Kind:
    """
    How a value is carried.

    Attributes:
        write: The value as JSON.
        read: The value from JSON, and the name of the field that it is in.
        allow: Checks that a client may name what it names.
    """

    write: Callable[[Any], Any] = _same
    read: Callable[[Any, str], Any] = lambda raw, _: raw
    allow: Callable[[Client, Any], None] = _allow_nothing


# --- parts of a request -------------------------------------------------------------------------------


def _fields(raw: Any, field: str) -> dict[str, Any]:
    if type(raw) is not dict:
        raise MalformedRequest(field=field, why="an object belongs here")
    return raw


def _list(raw: Any, field: str) -> list[Any]:
    if type(raw) is not list:
        raise MalformedRequest(field=field, why="a list belongs here")
    return raw


def _few(raw: Any, field: str) -> list[Any]:
    shapes.whole_number(len(_list(raw, field)), f"the length of {field}", 0, _MANY)
    return _list(raw, field)


def _row(raw: Any, field: str, length: int) -> list[Any]:
    if len(_list(raw, field)) != length:
        raise MalformedRequest(field=field, why=f"a list of {length} belongs here")
    return _list(raw, field)


def _text(raw: Any, field: str) -> str:
    return shapes.text(raw, field, _STREAM_BYTES_MAX)


def _moment(raw: Any, field: str) -> datetime:
    return times.parse(shapes.text(raw, field, 100), field)


def or_null(kind: Kind) -> Kind:
    """That, or nothing."""
    return Kind(
        lambda value: None if value is None else kind.write(value),
        lambda raw, field: None if raw is None else kind.read(raw, field),
        lambda who, value: None if value is None else kind.allow(who, value),
    )


def _allow_each(kind: Kind, who: Client, values: Collection[Any]) -> None:
    for value in values:
        kind.allow(who, value)


def many(kind: Kind) -> Kind:
    """A list of them."""
    return Kind(
        lambda values: [kind.write(value) for value in values],
        lambda raw, field: tuple(kind.read(each, field) for each in _few(raw, field)),
        lambda who, values: _allow_each(kind, who, values),
    )


def whole(least: int, most: int = NUMBER_MAX) -> Kind:
    """A whole number within its range."""
    return Kind(read=lambda raw, field: shapes.whole_number(raw, field, least, most))


def _allow_scope(who: Client, scope: str) -> None:
    talk = conversation_of(scope)
    if talk is None:
        who.allow_scope(scope)
    else:
        who.allow_conversation(talk)


def _stream(raw: Any, field: str) -> Stream:
    scope, stream = _row(raw, field, 2)
    return shapes.scope(scope, field), _text(stream, field)


TEXT: Final = Kind(read=_text)
TERMS: Final = many(Kind(read=lambda raw, field: shapes.text(raw, field, _TERM_BYTES_MAX)))
SAID: Final = Kind(read=lambda raw, field: shapes.said(raw, field, shapes.OUTCOME_BYTES_MAX))
LIMIT: Final = whole(0, _ROWS_MAX)
ALL: Final = _ROWS_MAX
POSITION: Final = whole(0)
MOMENT: Final = Kind(times.show, _moment)
SCOPE: Final = Kind(read=shapes.scope, allow=_allow_scope)
#: A conversation, or a session, which is one.
CONVERSATION: Final = Kind(read=shapes.name, allow=lambda who, name: who.allow_conversation(name))
#: The path of a document; what is kept beside documents is not erased by its name.
PATH: Final = Kind(read=shapes.path)
STREAM: Final = Kind(list, _stream, lambda who, stream: _allow_scope(who, stream[0]))
NAME_OF_TEXTS: Final = Kind(read=lambda raw, field: _one_of(raw, field, ("said", "noted")))


def _one_of(raw: Any, field: str, choices: Collection[str]) -> str:
    if _text(raw, field) not in choices:
        raise MalformedRequest(field=field, why=f"one of {', '.join(choices)} belongs here")
    return str(raw)


def _query(raw: Any, field: str) -> Query:
    flat = _fields(raw, field)
    session = flat.get("session")
    return Query(
        shapes.choice(_text(flat.get("listing"), "listing"), "listing", Listing),
        _SCOPES.read(flat.get("scopes"), "scopes"),
        None if session is None else shapes.name(session, "session"),
        _moment(flat.get("now"), "now"),
        shapes.whole_number(flat.get("limit"), "limit", 0, LIMIT_MAX),  # type: ignore[arg-type]  # it checks
        _SCOPES.read(flat.get("links"), "links"),
        LONG,
    )


def _write_query(query: Query) -> dict[str, Any]:
    return {
        "listing": query.listing.value,
        "scopes": list(query.scopes),
        "session": query.session,
        "now": times.show(query.now),
        "limit": query.limit,
        "links": list(query.links),
    }


def _allow_query(who: Client, query: Query) -> None:
    for scope in (*query.scopes, *query.links):
        _allow_scope(who, scope)
    if query.session is not None:
        who.allow_conversation(query.session)


_SCOPES: Final = many(SCOPE)
QUERY: Final = Kind(_write_query, _query, _allow_query)


def _sight(raw: Any, field: str) -> Sight:
    flat = _fields(raw, field)
    talks = flat.get("conversations")
    return Sight(
        frozenset(_SCOPES.read(flat.get("scopes"), "scopes")),
        None if talks is None else frozenset(many(CONVERSATION).read(talks, "conversations")),
    )


def _write_sight(sight: Sight) -> dict[str, Any]:
    talks = sight.conversations
    return {"scopes": sorted(sight.scopes), "conversations": None if talks is None else sorted(talks)}


def _allow_sight(who: Client, sight: Sight) -> None:
    for scope in sight.scopes:
        _allow_scope(who, scope)
    if sight.conversations is None:
        who.allow_everything("all conversations")
    else:
        for talk in sight.conversations:
            who.allow_conversation(talk)


SIGHT: Final = Kind(_write_sight, _sight, _allow_sight)


def _followed(raw: Any, field: str) -> Collection[str] | None:
    flat = _fields(raw, field)
    if flat.get("all") is True:
        return None
    scopes = _SCOPES.read(flat.get("scopes"), field)
    talks = shapes.flag(flat.get("conversations"), "conversations")
    return WithConversations(scopes) if talks else frozenset(scopes)


def _write_followed(scopes: Collection[str] | None) -> dict[str, Any]:
    if scopes is None:
        return {"all": True}
    return {"scopes": sorted(scopes), "conversations": isinstance(scopes, WithConversations)}


def _allow_followed(who: Client, scopes: Collection[str] | None) -> None:
    if scopes is None:
        who.allow_everything("all scopes")
    if isinstance(scopes, WithConversations):
        who.allow_everything("all conversations")
    for scope in scopes or ():
        _allow_scope(who, scope)


#: The scopes of which a reader of the feed is told.
FOLLOWED: Final = Kind(_write_followed, _followed, _allow_followed)


# --- what is appended -----------------------------------------------------------------------------------


def _new_event(raw: Any, field: str) -> NewEvent:
    flat = _fields(raw, field)
    key = flat.get("key")
    return NewEvent(
        shapes.scope(flat.get("scope"), "scope"),  # type: ignore[arg-type]  # it checks
        _text(flat.get("stream"), "stream"),
        _text(flat.get("type"), "type"),
        _data(flat.get("data")),
        None if key is None else shapes.said(key, "key", shapes.PATH_BYTES_MAX),
    )


def _data(raw: Any) -> bytes:
    if type(raw) is not str:
        raise MalformedRequest(field="data", why="text belongs here")
    return raw.encode("utf-8", "surrogatepass")  # decoding it refuses what is no UTF-8


def _write_new_event(event: NewEvent) -> dict[str, Any]:
    return {
        "scope": event.scope,
        "stream": event.stream,
        "type": event.type,
        "data": event.data.decode(),
        "key": event.key,
    }


def _batch(raw: Any, field: str) -> Batch:
    flat = _fields(raw, field)
    events = tuple(_new_event(each, "events") for each in _list(flat.get("events"), "events"))
    erases = tuple(POSITION.read(each, "erases") for each in _list(flat.get("erases"), "erases"))
    return Batch(_moment(flat.get("at"), "at"), _text(flat.get("actor"), "actor"), events, erases)


def _write_batch(batch: Batch) -> dict[str, Any]:
    return {
        "at": times.show(batch.at),
        "actor": batch.actor,
        "events": [_write_new_event(event) for event in batch.events],
        "erases": list(batch.erases),
    }


def _allow_batch(who: Client, batch: Batch) -> None:
    for event in batch.events:
        _allow_scope(who, event.scope)


BATCH: Final = Kind(_write_batch, _batch, _allow_batch)


def _verbatim(raw: Any, field: str) -> Batch:
    """A batch as another store has recorded it, who wrote it and the digests of its keys included."""
    batch = _batch(raw, field)
    digests = [
        _secret(each, "digests").hex() if each is not None else None for each in _list(raw.get("digests"), field)
    ]
    if len(digests) != len(batch.events):
        raise MalformedRequest(field="digests", why="one for each event belongs here")
    signed = [attrs.evolve(event, key=None, digest=each) for event, each in zip(batch.events, digests, strict=True)]
    return attrs.evolve(batch, actor=shapes.actor(batch.actor), events=tuple(signed))


def _write_verbatim(batch: Batch) -> dict[str, Any]:
    return _write_batch(batch) | {"digests": [event.digest for event in batch.events]}


def _secret(raw: Any, field: str) -> bytes:
    text = shapes.text(raw, field, 64)
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise MalformedRequest(field=field, why="64 hex digits belong here")
    return bytes.fromhex(text)


VERBATIM: Final = Kind(_write_verbatim, _verbatim, _allow_batch)
SECRET: Final = Kind(lambda secret: secret.hex(), _secret)


def _expect(raw: Any, field: str) -> dict[Stream, int]:
    expect: dict[Stream, int] = {}
    for each in _list(raw, field):
        scope, stream, version = _row(each, field, 3)
        expect[_stream([scope, stream], field)] = POSITION.read(version, field)
    return expect


def _write_expect(expect: Mapping[Stream, int]) -> list[list[Any]]:
    return [[*stream, version] for stream, version in expect.items()]


def _allow_expect(who: Client, expect: Mapping[Stream, int]) -> None:
    for scope, _ in expect:
        _allow_scope(who, scope)


EXPECT: Final = Kind(_write_expect, _expect, _allow_expect)


# --- answers ----------------------------------------------------------------------------------------------


def _write_document(document: Document) -> dict[str, Any]:
    body = documents.body(document.content)
    return {
        "scope": document.scope,
        "path": document.path,
        "version": document.version,
        "body": None if body is None else body.decode(),
        "why": document.why,
    }


def _document(raw: Any, _: str) -> Document:
    content = documents.kept(raw["body"], raw["why"])
    return Document(raw["scope"], raw["path"], _whole(raw["version"]), content)


def _whole(raw: Any) -> int:
    return shapes.whole_number(raw, "a number", -NUMBER_MAX, NUMBER_MAX)


def _write_event(event: Event) -> dict[str, Any]:
    return {**event._asdict(), "data": None if event.data is None else event.data.decode()}


def _event(raw: Any, _: str) -> Event:
    flat = {name: raw[name] for name in Event._fields}
    for name in ("seq", "version"):
        _whole(flat[name])
    flat["data"] = None if flat["data"] is None else flat["data"].encode()
    return Event(**flat)


def _write_commit(commit: Commit) -> dict[str, Any]:
    return {
        "events": [_write_event(event) for event in commit.events],
        "prev": commit.prev,
        "digest": commit.digest,
        "segment": commit.segment,
        "offset": commit.offset,
        "stop": commit.stop,
    }


def _commit(raw: Any, field: str) -> Commit:
    events = tuple(_event(event, field) for event in raw["events"])
    segment, offset, stop = (_whole(raw[name]) for name in ("segment", "offset", "stop"))
    return Commit(events, raw["prev"], raw["digest"], segment, offset, stop)


def _write_version(version: Version) -> dict[str, Any]:
    flat: dict[str, Any] = attrs.asdict(version)
    return {**flat, "action": version.action.value, "created_at": times.show(version.created_at)}


def _version(raw: Any, field: str) -> Version:
    flat = {each.name: raw[each.name] for each in attrs.fields(Version)}
    return Version(**{**flat, "action": Action(flat["action"]), "created_at": _moment(flat["created_at"], field)})


def _write_entry(entry: Entry) -> dict[str, Any]:
    shown = {name: times.show(getattr(entry, name)) for name in ("created_at", "updated_at")}
    return {**attrs.asdict(entry), **shown}


def _entry(raw: Any, field: str) -> Entry:
    flat = {each.name: raw[each.name] for each in attrs.fields(Entry)}
    return Entry(**{**flat, **{name: _moment(flat[name], field) for name in ("created_at", "updated_at")}})


def _write_record(record: Record) -> str | None:
    body = documents.body(record)
    return None if body is None else body.decode()


def _record(raw: Any, _: str) -> Record:
    content = documents.content_of(raw)
    if not isinstance(content, Record):
        raise TypeError(raw)
    return content


def _write_redaction(done: Redaction) -> dict[str, Any]:
    return {
        "scope": done.scope,
        "path": done.path,
        "count": done.count,
        "referring": [list(stream) for stream in done.referring],
    }


def _redaction(raw: Any, field: str) -> Redaction:
    referring = tuple(_stream(each, field) for each in raw["referring"])
    return Redaction(raw["scope"], raw["path"], _whole(raw["count"]), referring)


def _write_found(found: Found) -> dict[str, Any]:
    return {"texts": [list(text) for text in found.texts], "complete": found.complete}


def _write_stretch(stretch: Stretch) -> dict[str, Any]:
    changes = [attrs.asdict(change) for change in stretch.changes]
    return {"changes": changes, "position": stretch.position, "more": stretch.more}


def _change(raw: Any) -> Change:
    return Change(**{each.name: raw[each.name] for each in attrs.fields(Change)})


def _stretch(raw: Any, _: str) -> Stretch:
    return Stretch(tuple(_change(each) for each in raw["changes"]), _whole(raw["position"]), raw["more"] is True)


def _unsupported(raw: Any) -> list[Unsupported]:
    return [Unsupported(scope, path, _whole(version), why) for scope, path, version, why in raw]


def _body(raw: Any) -> str:
    """The body of a message, which whoever lists it takes for granted."""
    codec.kept(raw)
    return str(raw)


def _with_unsupported(items: Callable[[Any], Any], read: Callable[[Any], Any]) -> Kind:
    """A pair of rows and of what could not be read among them."""
    return Kind(
        lambda pair: {
            "items": [items(each) for each in pair[0]],
            "unsupported": [list(attrs.astuple(each)) for each in pair[1]],
        },
        lambda raw, _: ([read(each) for each in raw["items"]], _unsupported(raw["unsupported"])),
    )


def rows(kind: Kind) -> Kind:
    """A list of them in an answer, however long."""
    return Kind(
        lambda values: [kind.write(value) for value in values],
        lambda raw, field: [kind.read(each, field) for each in raw],
    )


NOTHING: Final = Kind(lambda _: None, lambda _, __: None)
NUMBER: Final = Kind(read=lambda raw, _: _whole(raw))
FLAG: Final = Kind(read=shapes.flag)
DOCUMENT: Final = Kind(_write_document, _document)
EVENT: Final = Kind(_write_event, _event)
COMMIT: Final = Kind(_write_commit, _commit)
VERSION: Final = Kind(_write_version, _version)
RECORD: Final = Kind(_write_record, _record)
#: A version with its sequence number.
NUMBERED: Final = Kind(
    lambda pair: [pair[0], _write_version(pair[1])], lambda raw, field: (_whole(raw[0]), _version(raw[1], field))
)
REDACTION: Final = Kind(_write_redaction, _redaction)
INBOX: Final = _with_unsupported(list, lambda raw: (_whole(raw[0]), _body(raw[1])))
ENTRIES: Final = _with_unsupported(_write_entry, lambda raw: _entry(raw, "entries"))
TEXTS: Final = rows(Kind(list, lambda raw, _: Text(*raw)))
FOUND: Final = Kind(
    _write_found, lambda raw, field: Found(tuple(TEXTS.read(raw["texts"], field)), raw["complete"] is True)
)
STRETCH: Final = Kind(_write_stretch, _stretch)
NAMES: Final = Kind(sorted, lambda raw, _: frozenset(raw))
BOUNDS: Final = Kind(list, lambda raw, _: (_whole(raw[0]), _whole(raw[1])))
FOUND_STREAM: Final = Kind(list, _stream)
