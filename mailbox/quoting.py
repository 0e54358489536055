"""
Other people's words, as they are shown to a model or in a terminal.

Every line of a text stands behind a bar, which no line around it begins with,
angle brackets are shown as others that are no tags, and what is not printable is
spelled out, and so is what cannot be seen.  So nothing that somebody wrote can
close the frame that it is shown in, imitate it, or be one of the tags that a
client puts around it.

Rules for this file: pure, and next to nothing is imported, because hooks use it.
"""

from __future__ import annotations

from typing import Final
from unicodedata import category

BAR: Final = "| "
#: A name in a frame is no longer.
FIELD_CHARACTERS: Final = 90
#: What clients and models read as the border of a tag, in any width, and what it is shown as.
_BORDERS: Final = dict.fromkeys("<\uff1c\ufe64", "\u2039") | dict.fromkeys(">\uff1e\ufe65", "\u203a")
_JSON: Final = frozenset('"\\')
_KEPT_OUT: Final = _JSON | frozenset(_BORDERS)
_SHOWN_AS: Final = str.maketrans({**_BORDERS, "\t": " "})
#: What nobody sees although it is printable: joiners, fillers, blanks and selectors of variants.
_UNSEEN: Final = frozenset(
    chr(code)
    for codes in (
        *((0x34F,), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180C, 0x180D, 0x180F), (0x2800,), (0x3164,)),
        *((0xFFA0,), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)),
    )
    for code in codes
)
#: What is set upon a letter; no language sets more upon one.
_MARKS: Final = frozenset(("Mn", "Me"))
_MARKS_MAX: Final = 4


def plain(text: str) -> str:
    """Without borders of tags and without anything that cannot be seen, on one line."""
    text = text.translate(_SHOWN_AS)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if seen else each.encode("unicode_escape", "backslashreplace").decode("ascii")
        for each, seen in zip(text, _seen(text), strict=True)
    )


def literal(text: str) -> str:
    """A value that somebody else has chosen: a JSON string, which has no end but its own and says exactly the value."""
    shown = (
        each if seen and each not in _KEPT_OUT else _escaped(each) for each, seen in zip(text, _seen(text), strict=True)
    )
    return f'"{"".join(shown)}"'


def field(text: str) -> str:
    """A name in a frame: on one line, short, and no part of the frame."""
    shown = plain(text).replace("[", "(").replace("]", ")")
    return shown if len(shown) <= FIELD_CHARACTERS else shown[: FIELD_CHARACTERS - 1] + "…"


def quoted(text: str) -> str:
    """A text, every line of it behind a bar."""
    return "\n".join(BAR + plain(line) for line in text.splitlines() or [""]) + "\n"


def _seen(text: str) -> list[bool]:
    """Of each character whether somebody sees it."""
    seen: list[bool] = []
    marks = 0
    for each in text:
        marks = marks + 1 if category(each) in _MARKS else 0
        seen.append(each.isprintable() and each not in _UNSEEN and marks <= _MARKS_MAX)
    return seen


def _escaped(each: str) -> str:
    """A character within a JSON string, as another one that is seen."""
    if each in _JSON:
        return f"\\{each}"
    units = each.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
