"""
The replay digest: two stores with the same one hold the same history.

It is the SHA-256 of the digests of all versions of all documents, in the order
of scope, path and version.  The digest of a version is the SHA-256 of the JSON
array `[scope, path, version, body, actor, time]`, in which the body is the
document's as of that version, as JSON text, and null where it was erased or
cannot be read; of a series, such as the turns of a conversation, it is what that
one event says.  Sequence numbers, the chain and the types of events are left
out: a store that got the same history in another way has the same digest.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import orjson

from fencepost.journal.event import Commit
from fencepost.journal.port import Stream
from fencepost.mailbox.store.documents import Content, Series, after, body

_ROWS: Final = 1_000


@attrs.frozen
class ReplayDigest:
    """
    What a history comes to.

    Attributes:
        digest: 64 hex digits.
        documents, versions: How many there are, erased ones included.
    """

    digest: str
    documents: int
    versions: int


def replay_digest(read: Callable[[], Iterable[Commit]]) -> ReplayDigest:
    """
    Fold a history and digest it.

    It is read twice: a document is kept in memory only until its last version.  The digests wait in a temporary file.

    Args:
        read: Gives all batches, in order, each time that it is called.
    """
    last: dict[bytes, int] = {}
    for commit in read():
        for event in commit.events:
            last[_name((event.scope, event.stream))] = event.version
    contents: dict[bytes, Content] = {}
    rows: list[tuple[str, str, int, bytes]] = []
    db = sqlite3.connect("")
    try:
        db.execute(
            "CREATE TABLE line (scope TEXT, path TEXT, version INTEGER, digest BLOB,"
            " PRIMARY KEY (scope, path, version)) WITHOUT ROWID"
        )
        for commit in read():
            for event in commit.events:
                stream = (event.scope, event.stream)
                name = _name(stream)
                content = after(contents.pop(name, None), event)
                if last[name] != event.version:
                    contents[name] = content
                raw = event.data if isinstance(content, Series) else body(content)
                line = orjson.dumps(
                    [*stream, event.version, None if raw is None else raw.decode(), event.actor, event.at]
                )
                rows.append((*stream, event.version, hashlib.sha256(line).digest()))
            if len(rows) >= _ROWS:
                db.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", rows)
                rows.clear()
        db.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", rows)
        whole = hashlib.sha256()
        versions = 0
        for (digest,) in db.execute("SELECT digest FROM line ORDER BY scope, path, version"):
            whole.update(digest)
            versions += 1
    finally:
        db.close()
    return ReplayDigest(whole.hexdigest(), len(last), versions)


def _name(stream: Stream) -> bytes:
    """A stream in little room: there may be a million."""
    return hashlib.blake2b(f"{stream[0]}\0{stream[1]}".encode(), digest_size=16).digest()
