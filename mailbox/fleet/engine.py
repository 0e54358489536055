"""
What a controller asks of a coding agent's program.

An engine is one run of the program on one native history.  What it answers
proves nothing: `fencepost.mailbox.fleet.history` looks for the proof in the
file that the program itself writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs


@attrs.frozen
class Bound:
    """
    A native history.

    Attributes:
        session: The id that the program gives it.
        history: The file that the program keeps it in, which may not be there before the first entry.
    """

    session: str
    history: str


class Engine(Protocol):
    """
    One run of the program.  One thread uses it; its answers are read by threads of its own.

    Raises:
        EngineNotStarted: The program cannot be started.
        EngineFailed: From every method: the program has ended, or answers what nobody understands.
            This run is to be ended; what it was given is looked for in its history before another run is given it.
    """

    def begin(self, bound: Bound | None) -> Bound:
        """
        Start the program and take up the history, or begin one.  Whatever a run before has left is ended first.

        Returns:
            The same, or a new one where none was given, or where the file of the one given is not there.  Whether it
            ever was, only the caller knows: a program writes nothing before the first input.
        """

    def idle(self) -> bool:
        """No turn runs and nothing is queued, by the program's own word."""

    def submit(self, delivery: str, text: str) -> None:
        """
        Hand over input, which begins a turn.  Its coming back says only that the program has heard it.

        Raises:
            EngineRefused: It was not handed over, so this run may be given it again.  After `EngineFailed` nobody
                knows that, and this run must not.
        """

    def wait(self, timeout_s: float) -> None:
        """Wait until the program says something, at most so long."""

    def end(self) -> None:
        """End the program, kindly and then not; a second call, or one without a beginning, does nothing."""


@attrs.frozen
class Entry:
    """
    An entry of a native history with which a user gave input.

    Attributes:
        text: What it was, as the program has it.
    """

    id: str
    text: str


class Matcher(Protocol):
    """Finds a delivery in the lines of a native history."""

    def __call__(self, line: Mapping[str, Any], delivery: str, text: str) -> Entry | None:
        """The user's entry with the identity of that delivery, whose text is yet to be compared; None for the rest."""
