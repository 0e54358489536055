"""
Reading the file layout of the public reference implementation, or an export of it.

    <root>/<scope>/documents/<path>.md       the live documents, as a check
    <root>/<scope>/versions/<path>.jsonl     every version of every document, one JSON object a line
    <root>/<scope>/redactions.jsonl          what was erased
    <root>/conversations/<id>/turns.jsonl    the turns of a conversation; beside it projections.jsonl, redactions.jsonl

A scope keeps its slashes as folders, and each part is percent-encoded.
Messages are documents there.  Each of their versions becomes the one event of a
message's life that explains it, or else is kept whole.  Continuations that
stand in `sessions/` documents become links.

What was erased there has no content to carry over: it is written empty and
erased here, so that versions, times and actors are those of the source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import unquote

import attrs
import orjson

from fencepost.journal.disk import open_file
from fencepost.journal.errors import BadInput
from fencepost.mailbox import chat, codec, shapes, times
from fencepost.mailbox.addresses import LINKS, MESSAGES, REDACTIONS, continued, link_path
from fencepost.mailbox.errors import ForeignDamaged
from fencepost.mailbox.events import (
    Deleted,
    Event,
    Linked,
    ProjectionsAppended,
    Redacted,
    Rewritten,
    TurnAppended,
    TurnsRedacted,
    Written,
)
from fencepost.mailbox.infer import infer
from fencepost.mailbox.message import Message
from fencepost.mailbox.turns import PROJECTIONS, TURNS, Projection, ProjectionKind, by_turn, scope_of

#: The form of a row that is understood here.
_FORMAT: Final = 1
_CONVERSATIONS: Final = "conversations"
_SESSIONS: Final = "sessions/"
#: Who did what the source does not say who did.
_NOBODY: Final = "host:unknown"


@attrs.frozen
class Row:
    """
    One event to be recorded.

    Attributes:
        erased: Its content was erased in the source, so it shall be erased here.
    """

    at: datetime
    actor: str
    scope: str
    stream: str
    event: Event
    erased: bool = False


def is_layout(folder: str) -> bool:
    """Does the folder look like one of theirs?"""
    return next(_scopes(folder), None) is not None or os.path.isdir(os.path.join(folder, _CONVERSATIONS))


def rows(folder: str) -> list[Row]:
    """
    Everything in it, in the order of its times; the versions of a document in their own, whatever the clocks said.

    Raises:
        ForeignDamaged: A file is not what it must be; nothing can be left out in silence.
    """
    found: list[list[Row]] = []
    for scope, where in _scopes(folder):
        found += _documents(scope, where)
        file = os.path.join(where, "redactions.jsonl")
        found.append(list(_redactions(scope, _lines(file, missing=True), file, "ts")))
    for conversation, where in _conversations(folder):
        found += _talk(conversation, where)
    return sorted((row for stream in found for row in stream), key=_order(found))


def rows_of_scope(
    scope: str, versions: Iterable[dict[str, Any]], redactions: Iterable[dict[str, Any]], live: Iterable[dict[str, Any]]
) -> list[Row]:
    """
    The rows of one scope that somebody has at hand, in the order of their times; nothing is concluded beside them.

    Args:
        scope: Which scope.
        versions: Every version of every document, with its path, in whatever order.
        redactions: What was erased.
        live: The documents that stand there, as a check.

    Raises:
        ForeignDamaged: One of them is not what it must be.
    """
    _well_formed("the scope", lambda: shapes.scope(scope))
    histories: dict[str, list[dict[str, Any]]] = {}
    for fields in versions:
        histories.setdefault(fields["path"], []).append(fields)
    found: list[list[Row]] = []
    for path, history in histories.items():
        file = f"the versions of {path}"
        _well_formed(file, lambda path=path: shapes.path(path))
        found.append(list(_versions(scope, path, sorted(history, key=lambda fields: fields["version"]), file)))
    for fields in live:
        if len(histories.get(fields["path"], ())) != fields["version"]:
            raise ForeignDamaged(file=f"the document {fields['path']}", line=1, why="its versions are others")
    newest_last = sorted(redactions, key=lambda fields: times.parse(fields["created_at"], "created_at"))
    found.append(list(_redactions(scope, newest_last, "the redactions", "created_at")))
    return sorted((row for stream in found for row in stream), key=_order(found))


def rows_of_conversation(
    conversation: str,
    turns: Iterable[dict[str, Any]],
    projections: Iterable[dict[str, Any]],
    redactions: Iterable[dict[str, Any]],
) -> list[Row]:
    """
    The rows of one conversation that somebody has at hand, in the order of their times.

    Raises:
        ForeignDamaged: One of them is not what it must be.
    """
    _well_formed("the conversation", lambda: shapes.name(conversation, "conversation"))
    scope = scope_of(conversation)
    said = list(_turns(scope, turns, "the turns"))
    newest_last = sorted(redactions, key=lambda fields: times.parse(fields["created_at"], "created_at"))
    found = [
        said,
        list(_projections(scope, projections, "the projections", said)),
        list(_erased_turns(scope, newest_last, "the redactions")),
    ]
    return sorted((row for stream in found for row in stream), key=_order(found))


def _order(streams: Iterable[list[Row]]) -> Any:
    """Times that never go back within a stream: what came first there comes first here."""
    latest: dict[int, datetime] = {}
    for stream in streams:
        newest = None
        for row in stream:
            newest = row.at if newest is None else max(newest, row.at)
            latest[id(row)] = newest
    return lambda row: latest[id(row)]


def _scopes(folder: str) -> Iterator[tuple[str, str]]:
    """Each scope, and its folder."""
    for where, names, files in os.walk(folder):
        names.sort()
        parts = os.path.relpath(where, folder).split(os.sep)
        if parts[0] in (".", _CONVERSATIONS):
            names[:] = [name for name in names if parts[0] == "." and "%3A" in name]
            continue
        if "versions" in names or "documents" in names or "redactions.jsonl" in files:
            yield "/".join(map(unquote, parts)), where
        names[:] = [name for name in names if "%3A" in name]


# --- documents ------------------------------------------------------------------------------------------------


def _documents(scope: str, where: str) -> Iterator[list[Row]]:
    """The versions of each document, and the links that sessions continue."""
    _well_formed(where, lambda: shapes.scope(scope))
    linked: set[str] = set()
    continued: list[Row] = []
    histories = dict(_histories(where))
    for path, versions in histories.items():
        stream = list(_versions(scope, path, versions, os.path.join(where, "versions", *path.split("/")) + ".jsonl"))
        if path.startswith(LINKS):
            linked.add(path)
        if path.startswith(_SESSIONS) and stream and isinstance(stream[-1].event, Written):
            continued += _continued(stream[-1], path.removeprefix(_SESSIONS))
        yield stream
    for row in continued:
        if row.stream not in linked:
            linked.add(row.stream)
            yield [row]
    for path, file in _files(os.path.join(where, "documents"), ".md"):
        if path not in histories:
            raise ForeignDamaged(file=file, line=1, why="its versions are missing")


def _histories(where: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for path, file in _files(os.path.join(where, "versions"), ".jsonl"):
        _well_formed(file, lambda path=path: shapes.path(path))
        yield path, list(_lines(file))


def _versions(scope: str, path: str, versions: list[dict[str, Any]], file: str) -> Iterator[Row]:
    message: Message | None = None
    live = False
    for number, fields in enumerate(versions, 1):
        with _Reading(file, number) as reading:
            this = (path, number, int)
            reading.expect(
                (fields["path"], fields["version"], type(fields["version"])) == this, "it is not the next version"
            )
            action, content, erased = fields["action"], fields["content"], bool(fields.get("redacted", False))
            reading.expect(action in ("created", "modified", "deleted"), f"an action {action!r}")
            reading.expect(live or action != "deleted", "nothing stood there to be deleted")
            live = action != "deleted"
            shapes.text(content, "content", shapes.BODY_BYTES_MAX)
            row = Row(*_who(fields), scope, path, Written(content), erased)
            if path.startswith(MESSAGES):
                event, message = _said(message, "" if action == "deleted" else content)
                yield attrs.evolve(row, event=event)
            elif path.startswith(LINKS):
                yield attrs.evolve(row, event=Linked(*_ends(path)), erased=False)
            else:
                yield attrs.evolve(row, event=Deleted()) if action == "deleted" else row


def _said(before: Message | None, body: str) -> tuple[Event, Message | None]:
    """The event that explains a version of a message, and the message after it, if it is one."""
    try:
        after = codec.message(body)
    except codec.UnknownForm:
        return Rewritten(body), None
    event = infer(before, after)
    canonical = codec.document(after).decode() == body
    return (event if event is not None and canonical else Rewritten(body)), after


def _ends(path: str) -> tuple[str, str]:
    session, _, parent = path.removeprefix(LINKS).partition("/")
    return shapes.name(session, "session"), shapes.name(parent, "continues")


def _continued(document: Row, session: str) -> Iterator[Row]:
    """The links that the document of a session speaks of."""
    assert isinstance(document.event, Written)
    for parent in continued(session, document.event.content):
        yield Row(document.at, document.actor, document.scope, link_path(session, parent), Linked(session, parent))


def _redactions(scope: str, lines: Iterable[dict[str, Any]], file: str, at_field: str) -> Iterator[Row]:
    for number, fields in enumerate(lines, 1):
        with _Reading(file, number):
            said = fields.get("actor")
            at, actor = times.parse(fields[at_field], at_field), _NOBODY if said is None else shapes.actor(said)
            path = None if fields["path"] is None else shapes.text(fields["path"], "path", shapes.PATH_BYTES_MAX)
            yield Row(at, actor, scope, REDACTIONS, Redacted(path, shapes.whole_number(fields["count"], "count", 0)))


# --- conversations -----------------------------------------------------------------------------------------------


def _conversations(folder: str) -> Iterator[tuple[str, str]]:
    """Each conversation, and its folder."""
    where = os.path.join(folder, _CONVERSATIONS)
    for name in sorted(os.listdir(where)) if os.path.isdir(where) else ():
        inside = os.path.join(where, name)
        if os.path.isdir(inside) and not name.startswith("."):
            conversation = unquote(name)
            _well_formed(inside, lambda conversation=conversation: shapes.name(conversation, "conversation"))
            yield conversation, inside


def _talk(conversation: str, where: str) -> Iterator[list[Row]]:
    """The turns of a conversation, its projections, and what was erased of it."""
    scope = scope_of(conversation)
    turns, projections, redactions = (
        (_lines(file, missing=True), file)
        for file in (os.path.join(where, f"{name}.jsonl") for name in ("turns", "projections", "redactions"))
    )
    said = list(_turns(scope, *turns))
    yield said
    yield list(_projections(scope, *projections, said))
    yield list(_erased_turns(scope, *redactions))


def _turns(scope: str, lines: Iterable[dict[str, Any]], file: str) -> Iterator[Row]:
    for number, fields in enumerate(lines, 1):
        with _Reading(file, number) as reading:
            reading.expect((fields["turn"], type(fields["turn"])) == (number, int), "it is not the next turn")
            erased = fields.get("redacted", False) is True
            event = TurnAppended(() if erased else chat.turn(fields["messages"]))
            yield Row(*_who(fields), scope, TURNS, event, erased)


def _projections(scope: str, lines: Iterable[dict[str, Any]], file: str, said: list[Row]) -> Iterator[Row]:
    """They have no times of their own: each came when the turn was there at which it stands, or the last there is."""
    entries: list[Projection] = []
    for number, fields in enumerate(lines, 1):
        with _Reading(file, number) as reading:
            turn = shapes.whole_number(fields["turn"], "turn", 1)
            reading.expect(said, "there is no turn that says when it came")
            kind = shapes.choice(fields["kind"], "kind", ProjectionKind).value
            text = shapes.text(fields["text"], "text", shapes.BODY_BYTES_MAX)
            entries.append(Projection(turn, kind, text, shapes.whole_number(fields.get("span", 1), "span", 1)))
    for run in by_turn(entries):
        turn_row = said[min(run[0].turn, len(said)) - 1]
        yield Row(turn_row.at, turn_row.actor, scope, PROJECTIONS, ProjectionsAppended(run))


def _erased_turns(scope: str, lines: Iterable[dict[str, Any]], file: str) -> Iterator[Row]:
    for number, fields in enumerate(lines, 1):
        with _Reading(file, number):
            turns = tuple(shapes.whole_number(turn, "turn", 1) for turn in fields["turns"])
            yield Row(*_who(fields), scope, REDACTIONS, TurnsRedacted(turns))


# --- files and lines -------------------------------------------------------------------------------------------


class _Reading:
    """The line of a file that is being read: whatever is wrong there is told with its place."""

    def __init__(self, file: str, line: int) -> None:
        self._file = file
        self._line = line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, ForeignDamaged):
            return
        if isinstance(error, BadInput | LookupError | TypeError | ValueError):
            raise ForeignDamaged(file=self._file, line=self._line, why=str(error) or "a field is missing") from error

    def expect(self, holds: object, why: str) -> None:
        """Refuse the line unless something holds."""
        if not holds:
            raise ForeignDamaged(file=self._file, line=self._line, why=why)


def _well_formed(file: str, check: Any) -> None:
    with _Reading(file, 0):
        check()


def _who(fields: dict[str, Any]) -> tuple[datetime, str]:
    actor = fields.get("actor")
    return times.parse(fields["created_at"], "created_at"), _NOBODY if actor is None else shapes.actor(actor)


def _files(folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The path that each file stands for, and the file, in the order of the paths."""
    for where, names, files in os.walk(folder):
        names.sort()
        for name in sorted(files):
            if name.endswith(suffix) and not name.startswith("."):
                file = os.path.join(where, name)
                yield os.path.relpath(file, folder).removesuffix(suffix).replace(os.sep, "/"), file


def _lines(file: str, *, missing: bool = False) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one on each line."""
    try:
        with open_file(file) as handle:
            for number, line in enumerate(handle, 1):
                with _Reading(file, number) as reading:
                    fields = orjson.loads(line)
                    reading.expect(isinstance(fields, dict), "no object")
                    form = fields.get("neosian_format", _FORMAT)
                    reading.expect(form == _FORMAT, f"a row of format {form!r}, which is not known here")
                yield fields
    except FileNotFoundError:
        if not missing:
            raise ForeignDamaged(file=file, line=0, why="it is gone") from None
    except OSError as error:
        raise ForeignDamaged(file=file, line=0, why=error.strerror or str(error)) from error
