"""
Documents on the wire: their shapes, as values from JSON and as JSON from values.

Times go out in UTC with `Z` and come in with any offset; whoever writes the
JSON out leaves them to orjson, with `OPT_UTC_Z`.

Rules for this file: pure.  What is read is checked type by type and raises a
kind of `BadInput`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.mailbox import codec, shapes
from fencepost.mailbox.codec import Json
from fencepost.mailbox.records import Action, Entry, MemoryDocument, Version
from fencepost.mailbox.wire.parameters import FLAG, NUMBER, TEXT, Parameter, moment, needed, optional, read


def _action(value: Any, field: str) -> Action:
    text: str = TEXT(value, field)
    return shapes.choice(text, field, Action)


DOCUMENT: Final[Mapping[str, Parameter]] = {
    "scope": needed(TEXT),
    "path": needed(TEXT),
    "content": needed(TEXT),
    "version": needed(NUMBER),
    "created_at": needed(moment),
    "updated_at": needed(moment),
    "actor": optional(TEXT),
    "redacted": optional(FLAG, False),
}
ENTRY: Final[Mapping[str, Parameter]] = {
    "path": needed(TEXT),
    "version": needed(NUMBER),
    "created_at": needed(moment),
    "updated_at": needed(moment),
    "redacted": optional(FLAG, False),
}
VERSION: Final[Mapping[str, Parameter]] = {
    "path": needed(TEXT),
    "version": needed(NUMBER),
    "action": needed(_action),
    "content": needed(TEXT),
    "actor": optional(TEXT),
    "created_at": needed(moment),
    "redacted": optional(FLAG, False),
}
REDACTION: Final[Mapping[str, Parameter]] = {
    "path": optional(TEXT),
    "actor": optional(TEXT),
    "created_at": needed(moment),
    "count": needed(NUMBER),
}


def document(found: MemoryDocument | None) -> Json | None:
    """A document as JSON; null where there is none."""
    return None if found is None else codec.shape(found)


def document_of(given: Mapping[str, Any]) -> MemoryDocument:
    """A document from JSON."""
    return MemoryDocument(**read(DOCUMENT, given))


def entry(found: Entry) -> Json:
    """The line of a document in a listing as JSON."""
    return codec.shape(found)


def entry_of(given: Mapping[str, Any]) -> Entry:
    """The line of a document in a listing from JSON."""
    return Entry(**read(ENTRY, given))


def version(found: Version) -> Json:
    """A version as JSON."""
    return codec.shape(found)


def version_of(given: Mapping[str, Any]) -> Version:
    """A version from JSON."""
    return Version(**read(VERSION, given))
