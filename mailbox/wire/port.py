"""
The store's port as JSON: what a state process is asked, method for method, and what it answers.

`METHODS` is the whole of it: for each method of `fencepost.mailbox.store.port.Store`
the kinds of what is asked and of the answer.  A client writes the one and reads
the other by it; `answer` is the other end.

Who asks is known by a token.  It must be allowed every scope and conversation
that a request names, and whatever it writes is on record as its own.  What a
message says of sessions and conversations is content, as it is for a program
that writes the document whole.

Nothing is answered before it is durable, so a client need not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from fencepost.journal.errors import JournalConflict, JournalUnavailable, MalformedRequest, UnknownMethod
from fencepost.mailbox.errors import Forbidden
from fencepost.mailbox.store.documents import Document
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.wire import kinds
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.admission import admitted
from fencepost.mailbox.wire.kinds import Kind, many, or_null, rows, whole

#: The wire that this speaks, and the version of what it speaks beside it.
WIRE_VERSION: Final = 6
EXTENSIONS: Final = 1
#: What was looked at has been taken back so many times in a row before a question is given up.
_ATTEMPTS_MAX: Final = 64
#: Most events that one question to the feed looks at.
_LOOK_MAX: Final = 10_000
T = TypeVar("T")


@attrs.frozen
class Method:
    """
    One question of the port.

    Attributes:
        asks: What is asked, by the names of the arguments.
        answer: What is answered.
        everything: It names nothing, because it is about all there is.
        writes: It changes something, so whether it may be repeated is not for the wire to say.
    """

    asks: Mapping[str, Kind]
    answer: Kind
    everything: bool = False
    writes: bool = False


_PAGE: Final = {"before": whole(0), "limit": kinds.LIMIT}
METHODS: Final[Mapping[str, Method]] = {
    "find": Method({"stream": kinds.STREAM}, or_null(kinds.DOCUMENT)),
    "append": Method({"batch": kinds.BATCH, "expect": kinds.EXPECT}, kinds.NOTHING, writes=True),
    "redact": Method(
        {
            "scope": kinds.SCOPE,
            "path": or_null(kinds.PATH),
            "at": kinds.MOMENT,
            "actor": kinds.TEXT,
            "reason": or_null(kinds.SAID),
        },
        kinds.REDACTION,
        writes=True,
    ),
    "inbox": Method({"query": kinds.QUERY}, kinds.INBOX),
    "events": Method({"stream": kinds.STREAM}, rows(kinds.EVENT)),
    "events_from": Method({"stream": kinds.STREAM, "after": whole(0), "limit": kinds.LIMIT}, rows(kinds.EVENT)),
    "annotations": Method(
        {"conversation": kinds.CONVERSATION, "turn": or_null(whole(1))},
        rows(kinds.DOCUMENT),
    ),
    "search": Method(
        {"name": kinds.NAME_OF_TEXTS, "terms": kinds.TERMS, "sight": kinds.SIGHT, "limit": kinds.LIMIT}, kinds.FOUND
    ),
    "search_turns": Method({"terms": kinds.TERMS, "sight": kinds.SIGHT, "limit": kinds.LIMIT}, kinds.TEXTS),
    "entries": Method(
        {"scope": kinds.SCOPE, "prefix": kinds.TEXT, "after": or_null(kinds.TEXT), "limit": kinds.LIMIT}, kinds.ENTRIES
    ),
    "versions": Method({"stream": kinds.STREAM, **_PAGE}, rows(kinds.VERSION)),
    "history": Method({"scope": kinds.SCOPE, "since": or_null(kinds.MOMENT), **_PAGE}, rows(kinds.NUMBERED)),
    "record_at": Method({"stream": kinds.STREAM, "version": whole(1, kinds.WHOLE_MAX)}, or_null(kinds.RECORD)),
    "audience": Method({"session": kinds.CONVERSATION, "scopes": many(kinds.SCOPE)}, kinds.NAMES),
    "sent_under": Method({"scope": kinds.SCOPE, "key": kinds.TEXT}, or_null(kinds.FOUND_STREAM)),
    "has_seen": Method({"session": kinds.CONVERSATION}, kinds.FLAG),
    "feed_bounds": Method({}, kinds.BOUNDS),
    "changes": Method(
        {
            "after": kinds.POSITION,
            "limit": kinds.LIMIT,
            "scopes": kinds.FOLLOWED,
            "look": whole(0, _LOOK_MAX),
        },
        kinds.STRETCH,
    ),
    "batches": Method({"after": kinds.POSITION, "limit": kinds.LIMIT}, rows(kinds.COMMIT), everything=True),
    "secret": Method({}, kinds.SECRET, everything=True),
    "restore": Method(
        {"batches": many(kinds.VERBATIM), "behind": kinds.POSITION, "secret": kinds.SECRET},
        kinds.NUMBER,
        everything=True,
        writes=True,
    ),
    "change_mark": Method({}, kinds.NUMBER),
    "next_change": Method({"query": kinds.QUERY}, or_null(kinds.MOMENT)),
}


@attrs.frozen
class Page:
    """
    A question whose answer may be cut where it is long, because it says where it goes on.

    Attributes:
        key: The argument that says where.
        place: What stands there for what is behind a row.
        size: How long a row is.
    """

    key: str
    place: Callable[[Any], int]
    size: Callable[[Any], int]

    def is_whole(self, rows: Sequence[Any], limit: int) -> bool:
        """Is that all there is, or all that was wanted?"""
        return len(rows) >= limit or sum(map(self.size, rows)) < kinds.LONG


PAGES: Final[Mapping[str, Page]] = {
    "events_from": Page("after", lambda event: event.version, lambda event: len(event.data or b"")),
    "versions": Page("before", lambda version: version.version, lambda version: len(version.content)),
    "history": Page("before", lambda row: row[0], lambda row: len(row[1].content)),
}
#: So many rows are looked up at first; more once they have turned out short.
_STEP: Final = 16


def _page(store: Store, method: str, arguments: dict[str, Any]) -> list[Any]:
    """Rows, up to the one by which they become long."""
    page, limit = PAGES[method], arguments["limit"]
    found: list[Any] = []
    length, step = 0, _STEP
    while len(found) < limit:
        some = min(step, limit - len(found))
        rows = getattr(store, method)(**{**arguments, "limit": some})
        for row in rows:
            found.append(row)
            length += page.size(row)
            if length >= kinds.LONG:
                return found
        if len(rows) < some:
            break
        arguments = {**arguments, page.key: page.place(rows[-1])}
        step *= 2
    return found


def answer(store: Store, method: str, asked: dict[str, Any], who: Client) -> object:
    """
    Answer one request.

    Args:
        store: What is asked.
        method: One of `METHODS`.
        asked: The body of the request, as JSON of whatever shape; what is not known in it is ignored.
        who: Who asks.

    Returns:
        The answer, as JSON.

    Raises:
        UnknownMethod: There is none of that name.
        Forbidden: The client names something outside its allowance.
        BadInput: Something else of the request is not well formed.
        FencepostError: What the store says.
    """
    known = METHODS.get(method)
    if known is None:
        raise UnknownMethod(method=method[:200])
    if not isinstance(asked, dict):
        raise MalformedRequest(field="the body", why="an object belongs here")
    arguments = {name: kind.read(asked.get(name), name) for name, kind in known.asks.items()}
    for name, kind in known.asks.items():
        kind.allow(who, arguments[name])
    if known.everything:
        who.allow_everything(f"the whole store ({method})")
    if known.writes:
        return known.answer.write(_WRITES[method](store, who, **arguments))
    if method in PAGES:
        return known.answer.write(settled(store, lambda: _page(store, method, arguments)))
    found = settled(store, lambda: getattr(store, method)(**arguments))
    return known.answer.write(_allowed(found, who) if method == "annotations" else found)


def settled(store: Store, question: Callable[[], T]) -> T:
    """The answer to a question, or its refusal, once what it is based on is durable."""
    for _ in range(_ATTEMPTS_MAX):
        epoch = store.epoch()
        try:
            found = question()
        except JournalConflict:
            if store.settle(epoch):
                raise
        else:
            if store.settle(epoch):
                return found
    raise JournalUnavailable(path="the store", why="what it shows is taken back again and again")


def _allowed(found: Sequence[Document], who: Client) -> list[Document]:
    """Those documents, in whichever scopes, of which the client may be told."""
    return [document for document in found if _may_name(who, document.scope)]


def _may_name(who: Client, scope: str) -> bool:
    try:
        kinds.SCOPE.allow(who, scope)
    except Forbidden:
        return False
    return True


def _append(store: Store, who: Client, *, batch: Any, expect: Any) -> None:
    actor = store.actor(who.actor(batch.actor))
    checked = settled(store, lambda: admitted(store, batch, expect, actor))
    epoch = store.epoch()
    try:
        store.append(checked, expect)
    except JournalConflict:
        store.settle(epoch)  # whoever is told of it reads again
        raise


def _redact(store: Store, who: Client, *, actor: str, **asked: Any) -> object:
    signed = store.actor(who.actor(actor))
    done = store.redact(**asked, actor=signed)
    return attrs.evolve(done, referring=tuple(each for each in done.referring if _may_name(who, each[0])))


def _restore(store: Store, _: Client, **asked: Any) -> object:
    return store.restore(**asked)


_WRITES: Final[Mapping[str, Callable[..., object]]] = {"append": _append, "redact": _redact, "restore": _restore}
