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

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from operator import contains, itemgetter
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import attrs
import orjson
from cattrs.preconf.orjson import make_converter

from fencepost.mailbox.confirmation import Agent, Stage
from fencepost.mailbox.events import (
    Accepted,
    Acknowledged,
    AgentBound,
    Annotated,
    AnnotationsRedacted,
    Cancelled,
    CheckpointMoved,
    Claimed,
    Completed,
    Declined,
    Deleted,
    DeliveryAcknowledged,
    DeliveryCheckpointed,
    DeliveryConfirmed,
    DeliverySaved,
    DeliverySubmitted,
    Event,
    Idempotency,
    Linked,
    Passed,
    ProjectionsAppended,
    Read,
    Redacted,
    Released,
    Renewed,
    Reserved,
    Rewritten,
    RoomClosed,
    RoomFound,
    RoomOpened,
    RoomRead,
    RoomResynced,
    Sent,
    Shown,
    Snoozed,
    TurnAppended,
    TurnsRedacted,
    Written,
)
from fencepost.mailbox.message import FORMAT, Context, Delivery, Lease, Letter, Message, Reading, Reservation, Status
from fencepost.mailbox.records import Action, Entry, MemoryDocument, Record, Version
from fencepost.mailbox.rooms import Place
from fencepost.mailbox.shapes import PATH_BYTES_MAX
from fencepost.mailbox.turns import Projection, Turn, TurnRedaction

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
    Written: "document.written",
    Deleted: "document.deleted",
    Redacted: "redaction.recorded",
    Rewritten: "message.rewritten",
    Shown: "message.shown",
    CheckpointMoved: "checkpoint.moved",
    TurnAppended: "turn.appended",
    ProjectionsAppended: "projections.appended",
    TurnsRedacted: "turns.redacted",
    AnnotationsRedacted: "annotations.redacted",
    AgentBound: "agent.bound",
    RoomFound: "room.found",
    DeliverySaved: "delivery.saved",
    DeliverySubmitted: "delivery.submitted",
    DeliveryConfirmed: "delivery.confirmed",
    DeliveryCheckpointed: "delivery.checkpointed",
    DeliveryAcknowledged: "delivery.acknowledged",
    RoomOpened: "room.opened",
    RoomRead: "room.read",
    RoomResynced: "room.resynced",
    RoomClosed: "room.closed",
}
_DELIVERIES: Final = {each.value: each for each in Delivery}
#: The schema number that each event is written with.
SCHEMA: Final = 1
_OPTIONS: Final = orjson.OPT_UTC_Z
#: Of an event: a program that writes documents whole has written one, and this event explains what that did.
VIA_WIRE: Final = "wire"

_converter = make_converter(detailed_validation=False, forbid_extra_keys=True)
_converter.register_unstructure_hook(datetime, lambda value: value)  # orjson writes it, with OPT_UTC_Z


class _Shape:
    """
    The fields that a JSON object must have, and the types of each.

    Values are checked on the way in (`shapes`) and every byte of the journal is proven by its digest, so all that is
    asked here is whether this version knows the form; nothing is turned from one type into another.
    """

    def __init__(self, types: Mapping[str, frozenset[type]]) -> None:
        self._types = tuple(types.values())
        self._count = len(types)
        self._pick = itemgetter(*types) if len(types) > 1 else lambda fields: tuple([fields[name] for name in types])
        self._seen: set[tuple[type, ...]] = set()

    def values(self, fields: Json) -> tuple[Any, ...]:
        """
        The values, in the order of the shape.

        Raises:
            KeyError, TypeError, ValueError: It has other fields, or a value of another type.
        """
        if len(fields) != self._count:
            raise ValueError("other fields")
        values: tuple[Any, ...] = self._pick(fields)
        types = tuple(map(type, values))
        if types not in self._seen:
            if not all(map(contains, self._types, types)):
                raise TypeError(types)
            self._seen.add(types)  # there are few, and looking one up is half the work of checking it
        return values


def _types(kind: Any) -> dict[str, frozenset[type]]:
    """For each field of a class the types that its JSON may have."""
    hints = get_type_hints(kind)
    return {field.name: _json_type(hints[field.name]) for field in attrs.fields(kind)}


def _json_type(hint: Any) -> frozenset[type]:
    if isinstance(hint, UnionType):
        return frozenset().union(*(_json_type(part) for part in get_args(hint)))
    if attrs.has(hint):
        return frozenset((dict,))
    if get_origin(hint) is tuple:
        return frozenset((list,))
    return frozenset((hint if hint in (int, bool, NoneType) else str,))


def _reader(kind: type[Event]) -> Callable[[Json], Event]:
    """What makes an event of that class from the fields of its JSON."""
    shape = _Shape(_types(kind))
    hints = get_type_hints(kind)
    moments = [place for place, field in enumerate(attrs.fields(kind)) if hints[field.name] is datetime]

    def read(fields: Json) -> Event:
        return kind(*shape.values(fields))

    def read_with_moments(fields: Json) -> Event:
        values = [*shape.values(fields)]
        for place in moments:
            values[place] = _moment(values[place])
        return kind(*values)

    return read_with_moments if moments else read


_CONTEXT: Final = _Shape(_types(Context))
_LETTER: Final = _Shape(_types(Letter))
_IDEMPOTENCY: Final = _Shape(_types(Idempotency))
_LETTER_FIELDS: Final = itemgetter(*(name for name in _types(Letter) if name != "context"))
_SENT: Final = _Shape(_types(Sent))
#: A format-1 body, and the reference that may be left out of it.
_BODY: Final = _Shape(
    _types(Letter)
    | {
        name: _json_type(hint)
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
    }
)
#: The keys of a body that are times, names and numbers; numbers are within what JSON writers agree on.
_MOMENTS: Final = ("created_at", "due_at", "read_at", "claim_until", "wake_until")
_NAMED: Final = ("scope", "conversation", "source", "about", "actor", "read_by", "owner", "wake_owner")
_NUMBERS: Final = ("turn", "about_turn", "occurrence")
_NUMBER_MAX: Final = 2**53 - 1
#: Keys that are all there or all null.
_TOGETHER: Final = (
    ("read_by", "read_at"),
    ("owner", "claim_token", "claim_until"),
    ("wake_owner", "wake_token", "wake_until"),
)


def encode(event: Event, via: str | None = None) -> tuple[str, bytes]:
    """
    The stored name of an event and its data as JSON.

    Args:
        event: The event.
        via: How it was concluded, where nobody has said that it happened; such as `VIA_WIRE`.
    """
    data: Json = {"schema": SCHEMA} if via is None else {"schema": SCHEMA, "via": via}
    data.update(_converter.unstructure(event))
    return EVENT_NAMES[type(event)], orjson.dumps(data, option=_OPTIONS)


def decode(name: str, data: bytes) -> Event:
    """
    An event from its stored name and data.

    Raises:
        UnknownForm: The name, the schema or the shape is not one that this version knows.
    """
    known = _READERS.get(name)
    if known is None:
        raise UnknownForm(f"an event {name!r}")
    try:
        fields = orjson.loads(data)
        schema = fields.pop("schema", None)
        fields.pop("via", None)  # it says nothing of what happened
        if schema != SCHEMA:
            raise UnknownForm(f"an event {name!r} of schema {schema!r}")
        return known(fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownForm(f"an event {name!r} of another shape") from error


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
        _BODY.values({"context": None, **flat})
        for halves in _TOGETHER:
            if len({flat[half] is None for half in halves}) > 1:
                raise ValueError(halves)
        return _message(_in_utc(flat))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UnknownForm("a format-1 document of another shape") from error


def via(data: bytes) -> str | None:
    """How an event was concluded, from its data; None where somebody has said that it happened."""
    fields = orjson.loads(data)
    found = fields.get("via") if isinstance(fields, dict) else None
    return found if isinstance(found, str) else None


def _in_utc(flat: Json) -> Json:
    """The body with times as they are written here, whoever wrote it; what no backend could keep is refused."""
    for name in _MOMENTS:
        if flat[name] is not None:
            moment = datetime.fromisoformat(flat[name])
            if moment.tzinfo is None:
                raise ValueError("a time without an offset")
            flat[name] = moment.astimezone(UTC).isoformat()
    context = flat.get("context") or {}
    if any(isinstance(value, str) and "\0" in value for value in (*flat.values(), *context.values())):
        raise ValueError("a NUL character")
    names = [*map(flat.get, _NAMED), context.get("scope"), context.get("path")]
    if any(name is not None and len(name.encode()) > PATH_BYTES_MAX for name in names):
        raise ValueError("a name that is longer than any")
    for name in _NUMBERS:
        if flat[name] is not None and not 0 < flat[name] <= _NUMBER_MAX:
            raise ValueError("a number that nobody counts to")
    return flat


def kept(raw: str) -> Message:
    """A message from a body that `compact` wrote and an index has kept: what was checked then is not checked again."""
    return _message(orjson.loads(raw))


def _lists(kind: type[Any], **each: Callable[[Any], Any]) -> Callable[[Json], Any]:
    """What makes a value from the fields of its JSON, some of which are lists of what these make."""
    shape = _Shape(_types(kind))
    places = [(place, each[field.name]) for place, field in enumerate(attrs.fields(kind)) if field.name in each]

    def read(fields: Json) -> Any:
        values = [*shape.values(fields)]
        for place, one in places:
            values[place] = tuple(map(one, values[place]))
        return kind(*values)

    return read


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(type(value))
    return value


def _moment(text: str) -> datetime:
    """A time that is written as all times here are: in UTC, and saying so."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not UTC:
        raise ValueError("a time that is not in UTC")
    return moment


def _sent(fields: Json) -> Sent:
    letter, due_at, key = _SENT.values(fields)
    sent_once = None if key is None else Idempotency(*_IDEMPOTENCY.values(key))
    return Sent(_letter(_LETTER.values(letter)), _moment(due_at), sent_once)


def _letter(values: tuple[Any, ...]) -> Letter:
    created_at, delivery, actionable, context = values[-4:]
    there = None if context is None else _context(context)
    fields = (*values[:-4], _moment(created_at), _DELIVERIES[delivery], actionable, there)
    return Letter(*fields)


def _letter_of(flat: Json) -> tuple[Any, ...]:
    """The part of a body that is the letter's."""
    return (*_LETTER_FIELDS(flat), flat.get("context"))


def _context(fields: Json) -> Context:
    return Context(*_CONTEXT.values({"change_id": None, **fields}))  # a document leaves it out where there is none


def _message(flat: Json) -> Message:
    moment = datetime.fromisoformat
    return Message(
        _letter(_letter_of(flat)),
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


def record_body(record: Record) -> bytes:
    """What a memory document folds to, as JSON on one line."""
    return orjson.dumps(_converter.unstructure(record), option=_OPTIONS)


def record(raw: bytes | str) -> Record:
    """What `record_body` has written down."""
    fields = orjson.loads(raw)
    fields["action"] = Action(fields["action"])
    for name in ("created_at", "updated_at"):
        fields[name] = datetime.fromisoformat(fields[name])
    return Record(**fields)


def shape(value: MemoryDocument | Entry | Version | Turn | Projection | TurnRedaction) -> Json:
    """A memory document, its line in a listing, one of its versions, or a part of a conversation as programs get it."""
    flat: Json = _converter.unstructure(value)
    if isinstance(value, Version):
        flat["action"] = value.action.value
    if isinstance(value, MemoryDocument):
        flat["extra"] = {}  # a peer's shape has it; nothing is kept there
    return flat


def redaction_body(act: Redacted | TurnsRedacted | AnnotationsRedacted) -> bytes:
    """The last redaction of a scope, as JSON on one line."""
    return orjson.dumps(_converter.unstructure(act))


def redaction(raw: bytes | str) -> Redacted | TurnsRedacted | AnnotationsRedacted:
    """A redaction from what `redaction_body` made of it."""
    fields = orjson.loads(raw)
    if "turns" in fields:
        return _converter.structure(fields, TurnsRedacted)
    if "entries" in fields:
        return _converter.structure(fields, AnnotationsRedacted)
    return _converter.structure(fields, Redacted)


def agent_body(agent: Agent) -> bytes:
    """An agent as JSON on one line."""
    return orjson.dumps(_converter.unstructure(agent))


def agent(raw: bytes | str) -> Agent:
    """An agent from what `agent_body` made of it."""
    fields = orjson.loads(raw)
    stage, saved = Stage(fields["stage"]), fields["delivery"]
    found = {"stage": stage, "delivery": None if saved is None else _saved(saved)}
    return Agent(**fields | found)


def place_body(place: Place) -> bytes:
    """How far a room was read, as JSON on one line."""
    return orjson.dumps(_converter.unstructure(place), option=_OPTIONS)


def place(raw: bytes | str) -> Place:
    """How far a room was read, from what `place_body` made of it."""
    fields = orjson.loads(raw)
    since, remembered = datetime.fromisoformat(fields["since"]), tuple(fields["remembered"])
    return Place(**fields | {"since": since, "remembered": remembered})


_ANNOTATED: Final = _Shape(_types(Annotated))
_PROJECTION: Final = _Shape(_types(Projection))
_PASSED: Final = _Shape(_types(Passed))


def _passed(fields: Json) -> Passed:
    return Passed(*_PASSED.values(fields))


_saved: Final = _lists(
    DeliverySaved,
    reads=_lists(Read, taken=partial(_of_type, str), passed=_passed),
    mail=partial(_of_type, str),
)
_READ_ANOTHER_WAY: Final[Mapping[type[Event], Callable[[Json], Event]]] = {
    Sent: _sent,
    TurnAppended: _lists(TurnAppended, messages=partial(_of_type, dict)),
    ProjectionsAppended: _lists(ProjectionsAppended, entries=lambda fields: Projection(*_PROJECTION.values(fields))),
    TurnsRedacted: _lists(TurnsRedacted, turns=partial(_of_type, int)),
    AnnotationsRedacted: _lists(AnnotationsRedacted, entries=lambda fields: Annotated(*_ANNOTATED.values(fields))),
    DeliverySaved: _saved,
    RoomRead: _lists(RoomRead, taken=partial(_of_type, str), passed=_passed),
}
#: The stored name of an event -> what makes it from the fields of its JSON.
_READERS: Final[Mapping[str, Callable[[Json], Event]]] = {
    name: _READ_ANOTHER_WAY.get(kind) or _reader(kind) for kind, name in EVENT_NAMES.items()
}
