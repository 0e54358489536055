"""
Pi, by its RPC mode.

Pi keeps no id of ours, so a delivery says its own in its first line, and the
proof is a user's entry with exactly that text.  Pi would expand a text that
begins with a slash; none of ours does, for that line.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from fencepost.mailbox.errors import EngineFailed, EngineRefused
from fencepost.mailbox.fleet.engine import Bound, Entry
from fencepost.mailbox.fleet.program import Launch, Program, text_at

PATIENCE_S: Final = 60.0
#: Before it takes a prompt, Pi may have its model sum up a long history.
PROMPT_PATIENCE_S: Final = 600.0
#: What an extension asks of a person and waits for; the rest of what it shows wants no answer.
_DIALOGS: Final = frozenset({"select", "confirm", "input", "editor"})


class Pi:
    """
    A run of `pi --mode rpc`.

    What the agent may do is for Pi's own configuration, which is not touched.
    What an extension asks of a person is cancelled, as nobody is there.

    Args:
        launch: How Pi is started, without the words `--mode rpc` and `--session`.
    """

    def __init__(
        self, launch: Launch, *, patience_s: float = PATIENCE_S, prompt_patience_s: float = PROMPT_PATIENCE_S
    ) -> None:
        self._launch, self._patience_s, self._prompt_patience_s = launch, patience_s, prompt_patience_s
        self._program: Program | None = None
        self._lock = threading.Lock()
        self._runs = False

    def begin(self, bound: Bound | None) -> Bound:
        """See `Engine`."""
        assert self._program is None, "an engine is one run"
        known = bound if bound is not None and os.path.lexists(bound.history) else None
        words = ("--mode", "rpc", *(("--session", known.history) if known else ()))
        self._program = Program("Pi", self._launch, words, _answered, self._hear)
        state = self._state()
        try:
            found = Bound(text_at(state, "sessionId"), text_at(state, "sessionFile"))
        except ValueError as error:
            raise self._failed(error) from error
        if known and found.session != known.session:
            raise self._failed(f"{known.history} is session {found.session}, and not {known.session}")
        return found

    def idle(self) -> bool:
        """See `Engine`."""
        self._running.check()
        with self._lock:
            if self._runs:
                return False
        state = self._state()
        return not (state.get("isStreaming") or state.get("isCompacting") or state.get("pendingMessageCount"))

    def submit(self, delivery: str, text: str) -> None:
        """See `Engine`."""
        assert delivery in _first_line(text), "an input says whose it is"
        with self._lock:
            self._runs = True
        try:
            answer = self._ask("prompt", self._prompt_patience_s, message=text)
        except EngineRefused:
            # Whether something else runs is asked for by `idle`.
            with self._lock:
                self._runs = False
            raise
        if answer.get("disposition") == "handled":
            raise self._failed("an extension of it has taken the input for itself, and its history has nothing of it")

    def wait(self, timeout_s: float) -> None:
        """See `Engine`."""
        self._running.wait(timeout_s)

    def end(self) -> None:
        """See `Engine`."""
        if self._program is not None:
            self._program.end()

    @property
    def _running(self) -> Program:
        assert self._program is not None, "it was not begun"
        return self._program

    def _failed(self, why: object) -> EngineFailed:
        return EngineFailed(program="Pi", why=str(why), log=str(self._launch.log))

    def _state(self) -> Mapping[str, Any]:
        try:
            return self._ask("get_state", self._patience_s)
        except EngineRefused as error:
            raise self._failed(error.why) from error

    def _ask(self, command: str, patience_s: float, **more: str) -> Mapping[str, Any]:
        answer = self._running.ask({"type": command, **more}, patience_s)
        if answer.get("success") is not True:
            raise EngineRefused(program="Pi", why=str(answer.get("error")))
        data = answer.get("data")
        if not isinstance(data, dict):
            raise self._failed(f"{command} is answered without data")
        return data

    # --- on the thread that reads ---------------------------------------------------------------------

    def _hear(self, program: Program, line: Mapping[str, Any]) -> bool:
        match text_at(line, "type"), line:
            case "agent_start", _:
                with self._lock:
                    self._runs = True
            case "agent_settled", _:
                with self._lock:
                    self._runs = False
            case "message_end", {"message": {"role": "user"}}:
                pass
            case "extension_ui_request", {"method": str(method), "id": number} if method in _DIALOGS:
                program.say({"type": "extension_ui_response", "id": number, "cancelled": True})
                return False
            case _:
                return False
        return True


def _answered(line: Mapping[str, Any]) -> object:
    return line.get("id") if line.get("type") == "response" else None


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def entry(line: Mapping[str, Any], delivery: str, text: str) -> Entry | None:
    """The entry of a session with which a user said that first line, which has the id of the delivery in it."""
    match line:
        case {
            "type": "message",
            "id": str(id_),
            "message": {"role": "user", "content": [{"type": "text", "text": str(said)}]},
        } if delivery in _first_line(said) and _first_line(said) == _first_line(text):
            return Entry(id_, said)
    return None
