"""
What a value of `fleet.toml` has to be, said once: beside the field that it is for.

Rules for this file: pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs


class Unfit(ValueError):
    """A value that cannot be, by a sentence that names its key."""


@attrs.frozen
class Rule:
    """
    A validator of a field.

    Attributes:
        what: What fits, in the words of the sentence and of the page.
        fits: Whether a value does.

    Raises:
        Unfit: It does not.
    """

    what: str
    fits: Callable[[Any], object] = attrs.field(repr=False)

    def __call__(self, _: object, field: attrs.Attribute[Any], value: Any) -> None:
        """As attrs calls it."""
        if not self.fits(value):
            raise Unfit(f"{field.name} is {self.what}")


def number(least: int, most: int) -> Rule:
    """A whole number within these bounds."""
    return Rule(f"a whole number from {least} to {most}", lambda value: least <= value <= most)


def written(pattern: str, what: str) -> Rule:
    """Text of that form."""
    return Rule(what, re.compile(pattern).fullmatch)
