"""
Other people's words, as they are shown to a model or in a terminal.

Every line of a text stands behind a bar, which no line around it begins with,
angle brackets are shown as others that are no tags, and what is not printable is
spelled out.  So nothing that somebody wrote can close the frame that it is shown
in, imitate it, or be one of the tags that a client puts around it.

Rules for this file: pure, and nothing is imported, because hooks use it.
"""

from __future__ import annotations

from typing import Final

BAR: Final = "| "
#: A name in a frame is no longer.
FIELD_CHARACTERS: Final = 90
#: What clients and models read as the border of a tag, in any width, and what it is shown as.
_BORDERS: Final = str.maketrans(
    {**dict.fromkeys("<\uff1c\ufe64", "\u2039"), **dict.fromkeys(">\uff1e\ufe65", "\u203a")}
)


def plain(text: str) -> str:
    """Without borders of tags and without anything that cannot be seen, on one line."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode("ascii")
        for each in text.translate(_BORDERS).replace("\t", " ")
    )


def field(text: str) -> str:
    """A name in a frame: on one line, short, and no part of the frame."""
    shown = plain(text).replace("[", "(").replace("]", ")")
    return shown if len(shown) <= FIELD_CHARACTERS else shown[: FIELD_CHARACTERS - 1] + "…"


def quoted(text: str) -> str:
    """A text, every line of it behind a bar."""
    return "\n".join(BAR + plain(line) for line in text.splitlines() or [""]) + "\n"
