"""
What the history that a program keeps says of a delivery.

Both programs append lines of JSON to a file.  Nothing is believed but a whole
line: one that has no end yet may be the half of what a crash left.  What is no
JSON, or no user's entry of that delivery, is passed over, whoever wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

import orjson

from fencepost.journal.disk import open_file
from fencepost.mailbox.errors import EntryAltered, NativeHistoryLost, NativeHistoryUnreadable
from fencepost.mailbox.fleet.engine import Entry, Matcher

#: A line beyond that is no delivery: 65,536 bytes of text grow sixfold in JSON at most.
LINE_LIMIT_BYTES: Final = 8 << 20


def size(path: str) -> int:
    """
    Where a history ends, in bytes; 0 where it has not begun.

    Raises:
        NativeHistoryUnreadable: The operating system does not say.
    """
    try:
        return os.stat(path).st_size  # noqa: PTH116 - it is a name that a program gave
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise NativeHistoryUnreadable(path=path, why=error.strerror or str(error)) from error


def find(path: str, offset: int, matcher: Matcher, delivery: str, text: str) -> str | None:
    """
    The id of the entry that proves a delivery; None where there is none behind that place yet.

    Raises:
        NativeHistoryLost: The history is shorter than it was.
        NativeHistoryUnreadable: The operating system does not let it be read.
        EntryAltered: There is one with the identity of the delivery and another text, and none with the right one.
    """
    ends = size(path)
    if ends < offset:
        raise NativeHistoryLost(path=path, offset=offset, size_bytes=ends)
    if not ends:
        return None
    altered = None
    try:
        with open_file(path) as file:
            file.seek(offset)
            for line in _lines(file):
                entry = _matched(line, matcher, delivery, text)
                if entry is not None and entry.text == text:
                    return entry.id
                altered = altered or entry
    except OSError as error:
        raise NativeHistoryUnreadable(path=path, why=error.strerror or str(error)) from error
    if altered is not None:
        raise EntryAltered(path=path, delivery=delivery, entry=altered.id)
    return None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The whole lines of a file, but those that are too long."""
    whole = True
    while line := file.readline(LINE_LIMIT_BYTES):
        ends = line.endswith(b"\n")
        if ends and whole:
            yield line
        whole = ends


def _matched(line: bytes, matcher: Matcher, delivery: str, text: str) -> Entry | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return matcher(document, delivery, text) if isinstance(document, dict) else None
