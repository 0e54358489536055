"""
What is well formed: texts, names and numbers.

One decision about characters holds everywhere, in every field and for every
backend: a NUL character and a lone surrogate are refused, everything else is
carried as it is.  Bodies are hostile, so showing them safely is the business of
whoever shows them.

Rules for this file: each function returns what it was given, in its canonical
form, or raises a kind of `BadInput` that names the field.
"""

from __future__ import annotations

import enum
import re
from typing import Final, TypeVar

from fencepost.mailbox.errors import BlankText, InvalidChoice, InvalidName, InvalidNumber, InvalidText, TextTooLong

#: Largest body.  Large enough for any report, small enough to hold in memory a few times over.
BODY_BYTES_MAX: Final = 16 << 20
#: Largest outcome: a finding, not a report.
OUTCOME_BYTES_MAX: Final = 1 << 20
#: Longest name of any kind, in UTF-8 bytes: below the 255 bytes that file systems allow.
NAME_BYTES_MAX: Final = 200
#: Longest scope or path, in UTF-8 bytes.
PATH_BYTES_MAX: Final = 1000
#: Occurrences and turns are unbounded in the model; on the way in, JSON's safe integers bound them.
NUMBER_MAX: Final = 2**53 - 1
_BITS_SHOWN_MAX: Final = 128

#: Not in names: white space, controls, the bidi and invisible format characters, surrogates, and the two slashes.
_NAME: Final = re.compile(
    r"[^\s/\\\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]+"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KIND: Final = re.compile(r"[a-z][a-z0-9_-]*")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

E = TypeVar("E", bound=enum.Enum)


def text(value: str, field: str, limit_bytes: int) -> str:
    """
    A text as it was given.

    Raises:
        InvalidText: It has a NUL character or a lone surrogate.
        TextTooLong: It has more than `limit_bytes` bytes in UTF-8.
    """
    if not isinstance(value, str):
        raise InvalidText(field=field, what=f"a {type(value).__name__} where text belongs", position=0)
    nul = value.find("\0")
    if nul >= 0:
        raise InvalidText(field=field, what="a NUL character", position=nul)
    try:
        size_bytes = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidText(field=field, what="half a surrogate pair", position=error.start) from error
    if size_bytes > limit_bytes:
        raise TextTooLong(field=field, size_bytes=size_bytes, limit_bytes=limit_bytes)
    return value


def said(value: str, field: str, limit_bytes: int) -> str:
    """
    A text with something in it.

    Raises:
        BlankText: It has nothing but white space.
        InvalidText, TextTooLong: As for `text`.
    """
    checked = text(value, field, limit_bytes)
    if not checked or checked.isspace():
        raise BlankText(field=field)
    return checked


def name(value: str, field: str) -> str:
    """
    A session, conversation or other name of one part.

    Raises:
        InvalidName: It is empty, too long, or has white space, a slash or an invisible character.
    """
    text(value, field, PATH_BYTES_MAX)
    if not _NAME.fullmatch(value) or len(value.encode()) > NAME_BYTES_MAX or value in (".", ".."):
        rule = f"1 to {NAME_BYTES_MAX} bytes without white space, slashes or invisible characters"
        raise InvalidName(field=field, value=value, rule=rule)
    return value


def scope(value: str, field: str = "scope") -> str:
    """
    A scope: one or more parts `kind:name`, joined by slashes, such as `user:me/proj:app`.

    Raises:
        InvalidName: It is not.
    """
    return _parts(value, field, "parts kind:name joined by slashes, such as user:me/proj:app", first_only=False)


def actor(value: str, field: str = "actor") -> str:
    """
    Who wrote, as the transport knows it: `kind:id`, with more names behind slashes if need be.

    Raises:
        InvalidName: It is not.
    """
    return _parts(value, field, "kind:id, such as cli:me", first_only=True)


def _parts(value: str, field: str, rule: str, *, first_only: bool) -> str:
    text(value, field, PATH_BYTES_MAX)
    for place, part in enumerate(value.split("/")):
        kind, colon, rest = part.partition(":")
        if place and first_only:
            kind, colon, rest = "more", ":", part
        if not (colon and _KIND.fullmatch(kind) and _NAME.fullmatch(rest) and rest not in (".", "..")):
            raise InvalidName(field=field, value=value, rule=rule)
    return value


def path(value: str, field: str = "path") -> str:
    """
    The path of a document within its scope: names joined by slashes.

    Raises:
        InvalidName: It is empty, absolute, or has a part that is no name.
    """
    text(value, field, PATH_BYTES_MAX)
    for part in value.split("/"):
        if part in ("", ".", "..") or "\\" in part or not part.isprintable() or len(part.encode()) > NAME_BYTES_MAX:
            rule = "names joined by single slashes, without a leading slash, dots alone or invisible characters"
            raise InvalidName(field=field, value=value, rule=rule)
    return value


def message_id(value: str, field: str = "message_id") -> str:
    """
    A message id: a uuid, in its canonical lower-case form.

    Raises:
        InvalidName: It is not one.
    """
    canonical = text(value, field, PATH_BYTES_MAX).lower()
    if not _UUID.fullmatch(canonical):
        raise InvalidName(field=field, value=value, rule="a uuid of 36 characters, such as send returns")
    return canonical


def is_message_id(value: str) -> bool:
    """Would it do as a message id?"""
    return _UUID.fullmatch(value.lower()) is not None


def whole_number(value: int, field: str, least: int, most: int = NUMBER_MAX) -> int:
    """
    A whole number within its range, both ends included.

    Raises:
        InvalidNumber: It is not; a bool or a float never is.
    """
    if type(value) is not int or not least <= value <= most:
        raise InvalidNumber(field=field, value=_short(value), least=least, most=most)
    return value


def flag(value: object, field: str) -> bool:
    """
    Yes or no.

    Raises:
        InvalidChoice: It is neither; nothing else counts as true here.
    """
    if not isinstance(value, bool):
        raise InvalidChoice(field=field, value=str(value)[:40], choices="true, false")
    return value


def _short(value: object) -> str:
    """A number as it may be told: Python refuses to write out one of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > _BITS_SHOWN_MAX:
        return f"a number of {value.bit_length()} bits"
    return str(value)[:40]


def choice(value: str | E, field: str, kind: type[E]) -> E:
    """
    A member of an enumeration, or its name on the wire.

    Raises:
        InvalidChoice: It is neither.
    """
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError as error:
        choices = ", ".join(str(member.value) for member in kind)
        raise InvalidChoice(field=field, value=str(value)[:40], choices=choices) from error
