"""
Codex, by its app-server.

What a turn is begun with carries an id of ours, which Codex keeps beside the
text in its rollout: that is the proof.  It does not look whether it has seen
the id before, and input during a turn becomes a part of that turn; so nothing
is handed over but at rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from fencepost.mailbox.errors import EngineFailed, EngineRefused
from fencepost.mailbox.fleet.engine import Bound, Entry
from fencepost.mailbox.fleet.program import Launch, Program, text_at

#: To read a long history again takes long.
PATIENCE_S: Final = 120.0
_HELLO: Final = {
    "clientInfo": {"name": "fencepost", "title": "fencepost", "version": "1"},
    "capabilities": {"experimentalApi": True},
}

#: Answers a question of the program: what it asks and with what, to the result.
Asked: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]

_NOBODY: Final = "nobody is there to be asked"
_DECLINED: Final[Mapping[str, Mapping[str, Any]]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "item/tool/call": {"success": False, "contentItems": [{"type": "inputText", "text": _NOBODY}]},
    "mcpServer/elicitation/request": {"action": "decline", "content": None, "_meta": None},
    "execCommandApproval": {"decision": {"denied": {"rejection": _NOBODY}}},
    "applyPatchApproval": {"decision": {"denied": {"rejection": _NOBODY}}},
}


def declined(method: str, _: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    No, whatever is asked: the turn goes on without it.

    Raises:
        LookupError: It asks what nobody here has heard of; it is told so.
    """
    return _DECLINED[method]


class Codex:
    """
    A run of `codex app-server`.

    What the agent may do without asking is for Codex's own configuration, which
    is not touched.  What it asks for all the same is answered by `asked`; unless
    told otherwise that declines, as a question that nobody answers would keep
    the turn open for ever.

    Args:
        launch: How Codex is started, without the words `app-server`.
    """

    def __init__(self, launch: Launch, *, asked: Asked = declined, patience_s: float = PATIENCE_S) -> None:
        self._launch, self._asked, self._patience_s = launch, asked, patience_s
        self._program: Program | None = None
        self._session = ""
        self._lock = threading.Lock()
        # By thread, as an agent may have helpers with threads of their own.
        self._turns: dict[str, str] = {}
        self._closed: dict[str, str] = {}
        self._status: dict[str, str] = {}

    def begin(self, bound: Bound | None) -> Bound:
        """See `Engine`."""
        assert self._program is None, "an engine is one run"
        self._program = Program("Codex", self._launch, ("app-server",), _answered, self._hear)
        try:
            self._ask("initialize", _HELLO)
            self._program.say({"method": "initialized"})
            return self._take_up(bound)
        except EngineRefused as error:
            raise self._failed(error.why) from error
        except ValueError as error:
            raise self._failed(error) from error

    def _take_up(self, bound: Bound | None) -> Bound:
        here = {"cwd": str(self._launch.here)}
        answer = None
        if bound is not None:
            try:
                answer = self._ask("thread/resume", here | {"threadId": bound.session, "excludeTurns": True})
            except EngineRefused:
                # Codex knows a thread from its first turn on, and then there is a file.
                if os.path.lexists(bound.history):
                    raise
        # What is proven by it is asked for by name.
        answer = answer or self._ask("thread/start", here | {"historyMode": "paginated"})
        self._session, history = text_at(answer, "thread", "id"), text_at(answer, "thread", "path")
        with self._lock:
            self._status.setdefault(self._session, text_at(answer, "thread", "status", "type"))
        return Bound(self._session, history)

    @property
    def turn(self) -> str | None:
        """The turn that runs."""
        with self._lock:
            return self._turns.get(self._session)

    def idle(self) -> bool:
        """See `Engine`."""
        self._running.check()
        with self._lock:
            return self._session not in self._turns and self._status.get(self._session) != "active"

    def submit(self, delivery: str, text: str) -> None:
        """See `Engine`."""
        if not self.idle():
            raise EngineRefused(program="Codex", why="a turn runs, and the input would become a part of it")
        words = [{"type": "text", "text": text, "text_elements": []}]
        named = {"threadId": self._session, "clientUserMessageId": delivery, "input": words}
        answer = self._ask("turn/start", named)
        try:
            turn = text_at(answer, "turn", "id")
        except ValueError as error:
            raise self._failed(error) from error
        with self._lock:
            # It may have ended before its answer was looked at.
            if turn != self._closed.get(self._session):
                self._turns[self._session] = turn

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
        return EngineFailed(program="Codex", why=str(why), log=str(self._launch.log))

    def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self._running.ask({"method": method, "params": params}, self._patience_s)
        if "error" in answer:
            error = answer["error"]
            raise EngineRefused(program="Codex", why=str(error.get("message") if isinstance(error, dict) else error))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise self._failed(f"{method} is answered without a result")
        return result

    # --- on the thread that reads ---------------------------------------------------------------------

    def _hear(self, program: Program, line: Mapping[str, Any]) -> bool:
        method = text_at(line, "method")
        if "id" in line:
            program.say({"id": line["id"], **self._answer(method, line.get("params"))})
            return False
        params = line.get("params")
        match method, params:
            case "turn/started", _:
                with self._lock:
                    self._turns[text_at(params, "threadId")] = text_at(params, "turn", "id")
            case "turn/completed", _:
                thread, turn = text_at(params, "threadId"), text_at(params, "turn", "id")
                with self._lock:
                    self._closed[thread] = turn
                    if self._turns.get(thread) == turn:
                        del self._turns[thread]
            case "thread/status/changed", _:
                with self._lock:
                    self._status[text_at(params, "threadId")] = text_at(params, "status", "type")
            case "item/completed", {"item": {"type": "userMessage"}}:
                pass
            case _:
                return False
        return True

    def _answer(self, method: str, params: object) -> Mapping[str, Any]:
        try:
            return {"result": self._asked(method, params if isinstance(params, dict) else {})}
        except LookupError:
            return {"error": {"code": -32601, "message": _NOBODY}}


def _answered(line: Mapping[str, Any]) -> object:
    return None if "method" in line else line.get("id")


def entry(line: Mapping[str, Any], delivery: str, text: str) -> Entry | None:  # noqa: ARG001 - as the port has it
    """
    The entry of a rollout with that id of ours: an item, or a message without an id in a thread of an older kind.

    The same text stands in a `response_item` before it, for the model and
    without our id, and again in what is `compacted`; neither is the entry.
    """
    match line:
        case {
            "type": "event_msg",
            "payload": {
                "type": "item_completed",
                "item": {"type": "UserMessage", "id": str(id_), "client_id": str(client_id), "content": list(content)},
            },
        } if client_id == delivery:
            return Entry(id_, "".join(_texts(content)))
        case {
            "type": "event_msg",
            "payload": {"type": "user_message", "client_id": str(client_id), "message": str(message)},
        } if client_id == delivery:
            return Entry(client_id, message)
    return None


def _texts(content: list[object]) -> list[str]:
    """The texts of an entry; what is none makes it another."""
    return [part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else "\0" for part in content]
