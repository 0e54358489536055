"""
Which messages are about which turns, in the index: a table and its questions.

Rules for this file: sqlite3 and plain values.  What is kept here is derived
from the fold alone and carries nothing of its own.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from fencepost.mailbox.events import Annotated
from fencepost.mailbox.message import Message
from fencepost.mailbox.store.documents import Document, content_of, kept

#: Turn 0 stands for the conversation.
TABLES: Final = """
CREATE TABLE about (conversation TEXT, turn INTEGER, document INTEGER,
    PRIMARY KEY (conversation, turn, document)) WITHOUT ROWID;
"""
ADD: Final = "INSERT OR IGNORE INTO about VALUES (?, ?, ?)"
_ABOUT: Final = (
    "SELECT scope, path, version, body, why FROM about JOIN document ON document = id"
    " WHERE about.conversation = ? AND turn = ? ORDER BY id"
)
_LEGIBLE: Final = (
    "SELECT path, body FROM document WHERE scope = :scope AND body IS NOT NULL AND standing IS NOT NULL"
    " AND path BETWEEN coalesce(:path, '') AND coalesce(:path, char(0x10FFFF)) ORDER BY path"
)


def about(db: sqlite3.Connection, conversation: str, turn: int | None) -> list[Document]:
    """The messages that are about a turn of a conversation, or about all of it; the first sent first."""
    rows = db.execute(_ABOUT, (conversation, turn or 0)).fetchall()
    return [Document(scope, path, version, kept(*told)) for scope, path, version, *told in rows]


def annotating(db: sqlite3.Connection, scope: str, path: str | None) -> list[Annotated]:
    """What the message of that path is about, or all of the scope that can still be read where there is no path."""
    found = [(path, content_of(body)) for path, body in db.execute(_LEGIBLE, {"scope": scope, "path": path})]
    letters = [(path, content.letter) for path, content in found if isinstance(content, Message)]
    return [Annotated(path, each.about, each.about_turn) for path, each in letters if each.about is not None]
