"""
Erasing a document or a scope: what its events said, what was derived from it, and that it happened.

All of it is one transaction, which waits for the turn of the scope first, so
nobody can add to what is being erased.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import MESSAGES, REDACTIONS, SHOWN
from fencepost.mailbox.events import Annotated, AnnotationsRedacted, Redacted
from fencepost.mailbox.message import Message
from fencepost.mailbox.store.documents import content_of
from fencepost.mailbox.store.port import Redaction
from fencepost.mailbox.store.postgres.asking import Transaction
from fencepost.mailbox.store.postgres.writing import Writer

_TARGETS: Final = "SELECT path FROM {s}.document WHERE scope = %s AND path <> %s ORDER BY path"
_TARGET: Final = "SELECT path FROM {s}.document WHERE scope = %s AND path = ANY(%s::text[]) ORDER BY path"
_REFERRING: Final = (
    "SELECT DISTINCT d.scope, d.path FROM {s}.reference r JOIN {s}.document d ON r.document = d.id"
    " WHERE r.scope = %s AND (r.path = %s OR %s::boolean) ORDER BY d.scope, d.path"
)
_LEGIBLE: Final = (
    "SELECT path, body FROM {s}.document WHERE scope = %s AND (path = %s OR %s::boolean) AND body IS NOT NULL"
    " AND standing IS NOT NULL ORDER BY path"
)
#: Everything that stands in a scope but the record of erasures, or some streams of it.
_OF: Final = f"scope = %s AND (stream = ANY(%s::text[]) OR (%s::boolean AND stream <> '{REDACTIONS}'))"
_ERASE: Final = (
    f"UPDATE {{s}}.event SET data = NULL WHERE {_OF} AND data IS NOT NULL",
    f"DELETE FROM {{s}}.said WHERE {_OF}",
    f"DELETE FROM {{s}}.noted WHERE {_OF}",
)


def redact(
    writer: Writer, tx: Transaction, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None
) -> tuple[Redaction, int | None]:
    """
    Erase a document, or all of a scope where there is no path, and commit.

    Returns:
        What was erased, and how often something has been by now; None where nothing was.
    """
    whole = path is None
    shown = [] if path is None or not path.startswith(MESSAGES) else [SHOWN + path.removeprefix(MESSAGES)]
    targets_asked = (
        writer.ask(_TARGETS, scope, REDACTIONS) if path is None else writer.ask(_TARGET, scope, [path, *shown])
    )
    _, found, referring = tx.ask(
        writer.locks.turn([scope]), targets_asked, writer.ask(_REFERRING, scope, path or "", whole)
    )
    targets = [each for (each,) in found]
    if not whole and path not in targets:
        targets = []
    told = tuple((row[0], row[1]) for row in referring)
    if not targets:
        return Redaction(scope, path, 0, told), None
    count = sum(not each.startswith("/") for each in targets)  # the rest is no document
    noted = _annotating(writer, tx, scope, path)
    act = Redacted(path, count, reason)
    acts = (AnnotationsRedacted(tuple(noted)), act) if noted else (act,)
    tx.ask(*(writer.ask(each, scope, [] if whole else targets, whole) for each in _ERASE))
    writer.refold(tx, scope, targets)
    new = tuple(NewEvent(scope, REDACTIONS, *codec.encode(each), meaning=each) for each in acts)
    return Redaction(scope, path, count, told), writer.record(tx, Batch(at, actor, new))


def _annotating(writer: Writer, tx: Transaction, scope: str, path: str | None) -> list[Annotated]:
    """What the messages are about: that would go with what they say."""
    found = []
    for name, body in tx.stream(writer.ask(_LEGIBLE, scope, path or "", path is None)):
        content = content_of(body)
        if isinstance(content, Message) and content.letter.about is not None:
            found.append(Annotated(name, content.letter.about, content.letter.about_turn))
    return found
