"""
The routes of wire 6: what each is asked, whichever end asks.

Rules for this file: a table.  What a route answers is said where it is
answered; the shapes are in `documents` and `talks` beside this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.mailbox.wire.documents import DOCUMENT, REDACTION, VERSION
from fencepost.mailbox.wire.parameters import (
    LIST,
    NUMBER,
    NUMBERS,
    TEXT,
    TEXTS,
    Parameter,
    like,
    needed,
    optional,
    several,
    with_fields,
)
from fencepost.mailbox.wire.talks import PROJECTION, TURN, TURN_REDACTION

#: The version of the wire, and of what is spoken beside it.
WIRE_VERSION: Final = 6
EXTENSIONS: Final = 1
#: Longest body of a request.
REQUEST_BYTES_MAX: Final = 64 << 20
#: So many rows a listing answers at most, and so many where the wire names a smaller number.
ROWS_MAX: Final = 500
ROWS: Final = 50

_SCOPE: Final = {"scope": needed(TEXT)}
_DOCUMENT: Final = {**_SCOPE, "path": needed(TEXT)}
_TALK: Final = {"conversation_id": needed(TEXT)}
_ACTOR: Final = {"actor": optional(TEXT)}
_PAGE: Final = {"cursor": optional(TEXT), "limit": optional(NUMBER, ROWS_MAX)}
_BEHIND: Final = {"after": optional(NUMBER, 0), "limit": optional(NUMBER, ROWS_MAX)}
_TALKS: Final = {"conversations": optional(TEXTS)}
#: Route -> its parameters.
ROUTES: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "memory/read": _DOCUMENT,
    "memory/write": {**_DOCUMENT, "content": needed(TEXT), **_ACTOR, "expected_version": optional(NUMBER)},
    "memory/delete": {**_DOCUMENT, **_ACTOR},
    "memory/rename": {**_SCOPE, "src": needed(TEXT), "dst": needed(TEXT), **_ACTOR},
    "memory/list_documents": {**_SCOPE, "prefix": optional(TEXT, ""), **_PAGE},
    "memory/versions": {**_DOCUMENT, "cursor": optional(TEXT), "limit": optional(NUMBER, ROWS)},
    "memory/redact": {**_SCOPE, "path": optional(TEXT), **_ACTOR},
    "memory/history": {**_SCOPE, "since": optional(TEXT), **_PAGE},
    "memory/redactions": {**_SCOPE, "since": optional(TEXT), **_PAGE},
    "conversation/append_turn": {**_TALK, "messages": needed(LIST), **_ACTOR},
    "conversation/read_turns": {**_TALK, **_BEHIND},
    "conversation/last_turn_number": _TALK,
    "conversation/search_turns": {"query": needed(TEXT), **_TALKS, "limit": optional(NUMBER, ROWS)},
    "conversation/append_projections": {**_TALK, "entries": needed(several(with_fields(PROJECTION)))},
    "conversation/read_projections": {**_TALK, **_BEHIND},
    "conversation/redact_turns": {**_TALK, "through": optional(NUMBER), "turns": optional(NUMBERS), **_ACTOR},
    "conversation/turn_redactions": {**_TALKS, "since": optional(TEXT), "limit": optional(NUMBER, ROWS)},
    "store/scopes": {},
    "store/conversations": {},
    "store/restore_scope": {
        **_SCOPE,
        "documents": needed(several(like(DOCUMENT))),
        "versions": needed(several(like(VERSION))),
        "redactions": needed(several(like(REDACTION))),
    },
    "store/restore_conversation": {
        **_TALK,
        "turns": needed(several(like(TURN))),
        "projections": needed(several(like(PROJECTION))),
        "redactions": optional(several(like(TURN_REDACTION)), ()),
    },
}
