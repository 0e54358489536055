"""
The routes `memory/…`: documents, with messages and links among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Final

import attrs

from fencepost.mailbox import cursors, shapes, times
from fencepost.mailbox.addresses import is_reserved
from fencepost.mailbox.codec import Json
from fencepost.mailbox.erasures import RedactionRecord
from fencepost.mailbox.errors import UnknownDocument
from fencepost.mailbox.records import Action, Entry, Version
from fencepost.mailbox.server.desk import Answer, Asked, Desk, gathered, rows
from fencepost.mailbox.store.port import Filed, Unsupported
from fencepost.mailbox.wire import documents
from fencepost.mailbox.wire.access import Client


def _read(desk: Desk, who: Client, asked: Asked) -> Json:
    path = asked["path"]
    if is_reserved(path):
        return {"document": documents.document(desk.letters(who, asked).read(path))}
    try:
        found = desk.documents(who, asked).read(path, target=asked["scope"])
    except UnknownDocument:
        return {"document": None}
    return {"document": documents.document(found)}


def _write(desk: Desk, who: Client, asked: Asked) -> Json:
    path, content, expected = asked["path"], asked["content"], asked["expected_version"]
    if is_reserved(path):
        return {"document": documents.document(desk.letters(who, asked).write(path, content, expected))}
    shelf = desk.documents(who, asked)
    return {
        "document": documents.document(shelf.write(path, content, expected_version=expected, target=asked["scope"]))
    }


def _delete(desk: Desk, who: Client, asked: Asked) -> Json:
    try:
        desk.documents(who, asked).delete(asked["path"], target=asked["scope"])
    except UnknownDocument:
        return {"deleted": False}
    return {"deleted": True}


def _rename(desk: Desk, who: Client, asked: Asked) -> Json:
    moved = desk.documents(who, asked).rename(asked["src"], asked["dst"], target=asked["scope"])
    return {"document": documents.document(moved)}


# --- listings -----------------------------------------------------------------------------------------


def _list(desk: Desk, _: Client, asked: Asked) -> Json:
    scope, prefix = shapes.scope(asked["scope"]), shapes.text(asked["prefix"], "prefix", shapes.PATH_BYTES_MAX)
    question = ("list", scope, prefix)
    after = cursors.path(asked["cursor"], question)
    wanted = rows(asked)
    entries, unsupported = desk.store.entries(scope, prefix, after, wanted + 1)
    mail = desk.store.mail(scope, prefix, after, wanted + 1)
    found = list(islice(merge(entries, map(_entry, mail), key=lambda entry: entry.path), wanted + 1))
    page: Json = {
        "entries": [documents.entry(each) for each in found[:wanted]],
        "next_cursor": cursors.give(question, found[wanted - 1].path) if len(found) > wanted > 0 else None,
    }
    unread = list(_unread(mail[:wanted], unsupported[:wanted] if after is None else ()))
    return {**page, "unsupported": unread} if unread else page


def _entry(filed: Filed) -> Entry:
    return Entry(filed.path, filed.version, filed.created_at, filed.updated_at, filed.redacted)


def _unread(mail: Sequence[Filed], unsupported: Sequence[Unsupported]) -> Iterator[Json]:
    found = [(each.path, each.version, each.why) for each in mail if each.why is not None]
    for path, version, why in found + [(each.path, each.version, each.why) for each in unsupported]:
        yield {"path": path, "version": version, "why": why}


def _versions(desk: Desk, who: Client, asked: Asked) -> Json:
    scope, path = shapes.scope(asked["scope"]), shapes.path(asked["path"])
    question = ("versions", scope, path)
    before = cursors.number(asked["cursor"], question)
    wanted = rows(asked)
    if is_reserved(path):
        letters = desk.letters(who, asked)
        found, more = gathered(wanted, lambda last, n: letters.versions(path, _older(last, before), n), _length)
    else:
        if desk.store.find((scope, path)) is None:
            return {"versions": [], "next_cursor": None}
        desk.documents(who, asked).versions(path, target=scope, limit=0)  # it says what cannot be read
        stream = (scope, path)
        found, more = gathered(wanted, lambda last, n: desk.store.versions(stream, _older(last, before), n), _length)
    return {
        "versions": [documents.version(each) for each in _with_deleted(desk, scope, found)],
        "next_cursor": cursors.give(question, found[-1].version) if more else None,
    }


def _older(last: Version | None, before: int) -> int:
    return before if last is None else last.version


def _length(version: Version) -> int:
    return len(version.content)


def _history(desk: Desk, who: Client, asked: Asked) -> Json:
    scope, since = shapes.scope(asked["scope"]), times.earliest(asked["since"])
    question = ("history", scope, since)
    first = cursors.number(asked["cursor"], question)
    letters = desk.letters(who, asked)

    def some(last: tuple[int, Version] | None, count: int) -> list[tuple[int, Version]]:
        before = first if last is None else last[0]
        noted = desk.store.history(scope, since, before, count)
        mail = desk.store.mail_history(scope, since, before, count)
        numbered = zip((event.seq for event in mail), letters.told(mail), strict=True)
        return sorted([*noted, *numbered], key=lambda each: -each[0])[:count]

    found, more = gathered(rows(asked), some, lambda each: _length(each[1]))
    shown = _with_deleted(desk, scope, [version for _, version in found])
    return {
        "versions": [documents.version(each) for each in shown],
        "next_cursor": cursors.give(question, found[-1][0]) if more else None,
    }


def _with_deleted(desk: Desk, scope: str, found: Sequence[Version]) -> Iterator[Version]:
    """The versions, of which a deletion has the content that it took away: on the wire each row has all of it."""
    for version in found:
        before = None
        if version.action is Action.DELETED and not version.redacted:
            before = desk.store.record_at((scope, version.path), version.version - 1)
        yield version if before is None else attrs.evolve(version, content=before.content)


# --- erasing ------------------------------------------------------------------------------------------


def _redact(desk: Desk, who: Client, asked: Asked) -> Json:
    erasures = desk.erasures(who, asked)
    if asked["path"] is None:
        return {"count": erasures.scope(asked["scope"]).count}
    try:
        return {"count": erasures.document(asked["path"], target=asked["scope"]).count}
    except UnknownDocument:
        return {"count": 0}


def _redactions(desk: Desk, who: Client, asked: Asked) -> Json:
    page = desk.erasures(who, asked).list(
        asked["scope"], since=asked["since"], cursor=asked["cursor"], limit=rows(asked)
    )
    return {"redactions": [_redaction(each) for each in page.redactions], "next_cursor": page.next_cursor}


def _redaction(record: RedactionRecord) -> Json:
    return {
        "path": record.path,
        "actor": record.actor,
        "created_at": record.created_at,
        "count": record.count,
    }


ANSWERS: Final[Mapping[str, Answer]] = {
    "memory/read": _read,
    "memory/write": _write,
    "memory/delete": _delete,
    "memory/rename": _rename,
    "memory/list_documents": _list,
    "memory/versions": _versions,
    "memory/redact": _redact,
    "memory/history": _history,
    "memory/redactions": _redactions,
}
