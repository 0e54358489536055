"""
Parameters: what a request has to say, checked type by type.

A kind reads one value out of JSON, or refuses it.  Nothing is turned from one
type into another: a bool is no number, and text is no list.  An optional
parameter that is absent and one that is null are the same; keys that nobody
asked for are not looked at.

Rules for this file: pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import attrs

from fencepost.journal.errors import MalformedRequest
from fencepost.mailbox import times
from fencepost.mailbox.errors import MissingField

#: Reads a value; the second argument is what it is called.
Kind: TypeAlias = Callable[[Any, str], Any]


@attrs.frozen
class Parameter:
    """
    One parameter.

    Attributes:
        kind: How it is read.
        needed: It must be there; otherwise `default` stands for it.
    """

    kind: Kind
    needed: bool = False
    default: Any = None


def read(parameters: Mapping[str, Parameter], given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """
    The parameters of an object.

    Args:
        parameters: What there can be.
        given: The object.
        where: What stands before the name of each, for whoever is told that one is wrong.

    Raises:
        MissingField: One is missing.
        MalformedRequest: One is of another type.
        BadInput: What its kind raises.
    """
    found: dict[str, Any] = {}
    for name, parameter in parameters.items():
        value = given.get(name)
        if value is not None:
            found[name] = parameter.kind(value, where + name)
        elif parameter.needed:
            raise MissingField(field=where + name, rule="the request must say it")
        else:
            found[name] = parameter.default
    return found


def needed(kind: Kind) -> Parameter:
    """A parameter that must be there."""
    return Parameter(kind, needed=True)


def optional(kind: Kind, default: Any = None) -> Parameter:
    """A parameter that may be absent."""
    return Parameter(kind, default=default)


def _of_type(kind: type, words: str) -> Kind:
    def check(value: Any, field: str) -> Any:
        if type(value) is not kind:
            raise MalformedRequest(field=field, why=f"{words} belongs there")
        return value

    return check


TEXT: Final = _of_type(str, "text")
NUMBER: Final = _of_type(int, "a whole number")
FLAG: Final = _of_type(bool, "true or false")
OBJECT: Final = _of_type(dict, "an object")
LIST: Final = _of_type(list, "a list")


def moment(value: Any, field: str) -> datetime:
    """
    A time with an offset.

    Raises:
        InvalidTime: It is none.
    """
    return times.parse(TEXT(value, field), field)


def several(kind: Kind) -> Kind:
    """A list of values of one kind."""

    def check(value: Any, field: str) -> Any:
        return [kind(each, f"{field}[{place}]") for place, each in enumerate(LIST(value, field))]

    return check


def with_fields(parameters: Mapping[str, Parameter]) -> Kind:
    """An object with certain fields."""

    def check(value: Any, field: str) -> Any:
        return read(parameters, OBJECT(value, field), f"{field}.")

    return check


def like(parameters: Mapping[str, Parameter]) -> Kind:
    """An object with certain fields, as it came: for whoever reads it in another way, and needs its types checked."""

    def check(value: Any, field: str) -> Any:
        read(parameters, OBJECT(value, field), f"{field}.")
        return value

    return check


TEXTS: Final = several(TEXT)
NUMBERS: Final = several(NUMBER)
