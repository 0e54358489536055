"""
Where a listing goes on: an opaque text that is good for the same question only.

Rules for this file: pure.  A cursor names the last row that was answered, so
what others write in the meantime makes no row come twice or go missing.  It is
no secret and proves nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import orjson

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import InvalidCursor, InvalidText, TextTooLong

#: No version and no sequence number is larger: those who count in an index have 63 bits.
NUMBER_MAX: Final = 2**63 - 1


def give(question: Sequence[object], place: str | int) -> str:
    """
    A cursor.

    Args:
        question: All that was asked but how many rows a page may have.
        place: The last row that was answered.
    """
    raw = orjson.dumps([_digest(question), place])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def path(cursor: str | None, question: Sequence[object]) -> str | None:
    """
    The path that was answered last; None where no page came before.

    Raises:
        InvalidCursor: The cursor was given for another question, or not given at all.
    """
    if cursor is None:
        return None
    try:
        return shapes.text(_take(cursor, question), "cursor", shapes.PATH_BYTES_MAX)
    except (InvalidText, TextTooLong) as error:
        raise _refusal(cursor) from error


def number(cursor: str | None, question: Sequence[object]) -> int:
    """
    The version or sequence number that was answered last; one beyond all of them where no page came before.

    Raises:
        InvalidCursor: As for `path`.
    """
    if cursor is None:
        return NUMBER_MAX
    place = _take(cursor, question)
    if type(place) is not int or not 0 < place <= NUMBER_MAX:
        raise _refusal(cursor)
    return place


def _take(cursor: str, question: Sequence[object]) -> Any:
    try:
        digest, place = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError) as error:
        raise _refusal(cursor) from error
    if digest != _digest(question):
        raise _refusal(cursor)
    return place


def _refusal(cursor: str) -> InvalidCursor:
    return InvalidCursor(cursor=str(cursor)[:40])


def _digest(question: Sequence[object]) -> str:
    return hashlib.sha256(orjson.dumps(question, option=orjson.OPT_UTC_Z)).hexdigest()[:16]
