"""
JSON at the edge: events and documents to bytes and back.

Event names are chosen, never import paths, and each event carries the number
of its own schema, so that a class can be renamed or grow while every byte ever
written stays readable.  `assets/contracts/state-v1.schema.json` describes the
same shapes for those who do not use this package.

A form that is not known here raises `UnknownForm`.  Whoever folds a document
turns that into "unsupported": it is reported and never rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, get_args, get_type_hints

import attrs
import orjson
from cattrs import BaseValidationError
from cattrs.gen import make_dict_structure_fn
from cattrs.preconf.orjson import make_converter

from fencepost.mailbox.events import (
    Accepted,
    Acknowledged,
    Cancelled,
    Claimed,
    Completed,
    Declined,
    Event,
    Idempotency,
    Linked,
    Released,
    Renewed,
    Reserved,
    Sent,
    Snoozed,
)
from fencepost.mailbox.message import FORMAT, Context, Delivery, Lease, Letter, Message, Reading, Reservation, Status

Json: TypeAlias = dict[str, Any]


class UnknownForm(Exception):
    """Bytes that were written in a form this version does not know."""


#: The stored name of each event.  A name is never used again for something else.
EVENT_NAMES: Final[Mapping[type[Event], str]] = {
    Sent: "message.sent",
    Acknowledged: "message.acknowledged",
    Claimed: "message.claimed",
    Renewed: "message.renewed",
    Released: "message.released",
    Completed: "message.completed",
    Snoozed: "message.snoozed",
    Cancelled: "message.cancelled",
    Reserved: "message.reserved",
    Accepted: "message.accepted",
    Declined: "message.declined",
    Linked: "session.linked",
}
_DELIVERIES: Final = {each.value: each for each in Delivery}
#: The schema number that each event is written with.
SCHEMA: Final = 1
_OPTIONS: Final = orjson.OPT_UTC_Z

# Values are checked on the way in (`shapes`) and every byte of the journal is proven by its digest, so a full report on
# each field would only make replay slower.
_converter = make_converter(detailed_validation=False, forbid_extra_keys=True)
_converter.register_structure_hook(datetime, lambda value, _: _moment(value))
_converter.register_unstructure_hook(datetime, lambda value: value)  # orjson writes it, with OPT_UTC_Z


def _structure(kind: Any) -> Any:
    if kind is Sent:
        return _sent
    hook = make_dict_structure_fn(kind, _converter, _cattrs_detailed_validation=False)
    _converter.register_structure_hook(kind, hook)
    return hook


def _json_types(kind: Any) -> tuple[tuple[str, frozenset[type]], ...]:
    """For each field of a class the types that its JSON may have; nothing is turned from one into another."""
    hints = get_type_hints(kind)
    return tuple((field.name, _json_type(hints[field.name])) for field in attrs.fields(kind))


def _json_type(hint: Any) -> frozenset[type]:
    if isinstance(hint, UnionType):
        return frozenset().union(*(_json_type(part) for part in get_args(hint)))
    if attrs.has(hint):
        return frozenset((dict,))
    return frozenset((hint if hint in (int, bool, NoneType) else str,))


_LETTER_TYPES: Final = _json_types(Letter)
_CONTEXT_TYPES: Final = _json_types(Context)
_KEY_TYPES: Final = _json_types(Idempotency)
#: The keys of a format-1 body, beside those of a letter.
_BODY_TYPES: Final = (
    *_LETTER_TYPES,
    *(
        (name, _json_type(hint))
        for name, hint in {
            "format": int,
            "due_at": str,
            "occurrence": int,
            "status": str,
            "read_by": str | None,
            "read_at": str | None,
            "owner": str | None,
            "claim_token": str | None,
            "claim_until": str | None,
            "outcome": str | None,
            "wake_owner": str | None,
            "wake_token": str | None,
            "wake_until": str | None,
            "wake_accepted": bool,
        }.items()
    ),
)
#: Keys that are all there or all null.
_TOGETHER: Final = (
    ("read_by", "read_at"),
    ("owner", "claim_token", "claim_until"),
    ("wake_owner", "wake_token", "wake_until"),
)


def encode(event: Event) -> tuple[str, bytes]:
    """The stored name of an event and its data as JSON."""
    data: Json = {"schema": SCHEMA}
    data.update(_converter.unstructure(event))
    return EVENT_NAMES[type(event)], orjson.dumps(data, option=_OPTIONS)


def decode(name: str, data: bytes) -> Event:
    """
    An event from its stored name and data.

    Raises:
        UnknownForm: The name, the schema or the shape is not one that this version knows.
    """
    known = _EVENT_TYPES.get(name)
    if known is None:
        raise UnknownForm(f"an event {name!r}")
    kind, structure, types = known
    try:
        fields = orjson.loads(data)
        schema = fields.pop("schema", None)
        if schema != SCHEMA:
            raise UnknownForm(f"an event {name!r} of schema {schema!r}")
        _check(fields, types)
        event: Event = structure(fields, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownForm(f"an event {name!r} of another shape") from error
    return event


def body(message: Message) -> Json:
    """The format-1 body: exactly these keys, in this order; `context` only where there is a reference."""
    letter, reading, lease, held = message.letter, message.reading, message.lease, message.reservation
    flat: Json = {
        "format": FORMAT,
        "id": letter.id,
        "scope": letter.scope,
        "conversation": letter.conversation,
        "turn": letter.turn,
        "source": letter.source,
        "about": letter.about,
        "about_turn": letter.about_turn,
        "actor": letter.actor,
        "body": letter.body,
        "created_at": letter.created_at,
        "due_at": message.due_at,
        "delivery": letter.delivery.value,
        "actionable": letter.actionable,
        "occurrence": message.occurrence,
        "status": message.status.value,
        "read_by": reading and reading.by,
        "read_at": reading and reading.at,
        "owner": lease and lease.owner,
        "claim_token": lease and lease.token,
        "claim_until": lease and lease.until,
        "outcome": message.outcome,
        "wake_owner": held and held.owner,
        "wake_token": held and held.token,
        "wake_until": held and held.until,
        "wake_accepted": message.wake_accepted,
    }
    if letter.context is not None:
        context = _converter.unstructure(letter.context)
        if context["change_id"] is None:
            del context["change_id"]
        flat["context"] = context
    return flat


def compact(message: Message) -> bytes:
    """The body as JSON on one line: the form that indexes keep and listings print."""
    return orjson.dumps(body(message), option=_OPTIONS)


def document(message: Message) -> bytes:
    """The canonical bytes of the document: two-space indent and a final newline."""
    return orjson.dumps(body(message), option=_OPTIONS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def message(raw: bytes | str) -> Message:
    """
    A message from its format-1 body.

    Raises:
        UnknownForm: It has another format, or is no such body.
    """
    try:
        flat = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UnknownForm("a document that is not JSON") from error
    if not isinstance(flat, dict) or flat.get("format") != FORMAT:
        raise UnknownForm(f"a document of format {flat.get('format')!r}" if isinstance(flat, dict) else "no object")
    try:
        _check({"context": None, **flat}, _BODY_TYPES)
        for halves in _TOGETHER:
            if len({flat[half] is None for half in halves}) > 1:
                raise ValueError(halves)
        return _message(flat)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownForm("a format-1 document of another shape") from error


def kept(raw: str) -> Message:
    """A message from a body that `compact` wrote and an index has kept: what was checked then is not checked again."""
    return _message(orjson.loads(raw))


def _check(fields: Json, types: tuple[tuple[str, frozenset[type]], ...]) -> None:
    """Are these exactly the fields, of these types?"""
    if len(fields) != len(types):
        raise ValueError("other fields")
    for name, allowed in types:
        if type(fields[name]) not in allowed:
            raise TypeError(name)


def _moment(text: str) -> datetime:
    """A time that is written as all times here are: in UTC, and saying so."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not UTC:
        raise ValueError("a time that is not in UTC")
    return moment


def _sent(fields: Json, _: object) -> Sent:
    """By hand, because folding a journal spends much of its time here."""
    letter, key = fields["letter"], fields["idempotency"]
    _check(letter, _LETTER_TYPES)
    if key is not None:
        _check(key, _KEY_TYPES)
    sent_once = None if key is None else Idempotency(**key)
    return Sent(_letter(letter), _moment(fields["due_at"]), sent_once)


def _letter(fields: Json) -> Letter:
    context = fields.get("context")
    return Letter(
        fields["id"],
        fields["scope"],
        fields["conversation"],
        fields["turn"],
        fields["source"],
        fields["about"],
        fields["about_turn"],
        fields["actor"],
        fields["body"],
        _moment(fields["created_at"]),
        _DELIVERIES[fields["delivery"]],
        fields["actionable"],
        None if context is None else _context(context),
    )


def _context(fields: Json) -> Context:
    whole = {"change_id": None, **fields}  # in a document it is left out where there is none
    _check(whole, _CONTEXT_TYPES)
    return Context(**whole)


def _message(flat: Json) -> Message:
    moment = datetime.fromisoformat
    return Message(
        _letter(flat),
        moment(flat["due_at"]),
        flat["occurrence"],
        Status(flat["status"]),
        None if flat["read_by"] is None else Reading(flat["read_by"], moment(flat["read_at"])),
        None if flat["owner"] is None else Lease(flat["owner"], flat["claim_token"], moment(flat["claim_until"])),
        flat["outcome"],
        None
        if flat["wake_owner"] is None
        else Reservation(flat["wake_owner"], flat["wake_token"], moment(flat["wake_until"])),
        flat["wake_accepted"],
    )


def link_body(link: Linked) -> bytes:
    """The document of a continuation link, as JSON on one line."""
    return orjson.dumps(_converter.unstructure(link))


def link(raw: bytes | str) -> Linked:
    """A continuation link from its document."""
    return _converter.structure(orjson.loads(raw), Linked)


#: Name -> class, its structure function, and its fields with the types that their JSON may have.
_EVENT_TYPES: Final[dict[str, Any]] = {
    name: (kind, _structure(kind), _json_types(kind)) for kind, name in EVENT_NAMES.items()
}
