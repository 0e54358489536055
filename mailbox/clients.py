"""
The clients: what each tells its hooks, and in which shape it takes what they say.

One table.  A client fires a hook at some boundary and gives it a JSON document;
the hook may answer one JSON document that puts text before the model.  Never
plain text, which some clients drop and others parse; never an answer that
blocks a prompt or replaces what a tool said.

Where these shapes come from: Claude Code and Codex were run against a scripted
model, and what they sent and took was written down (`tests/clients/`).  Cursor
and Muse Code follow their public documentation and have not been run.

Rules for this file: pure, and nothing is imported that the quickest door can do
without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: The boundaries of a session that hooks are about.
START, PROMPT, TOOL, STOP, END = "start", "prompt", "tool", "stop", "end"


#: What a mailbox takes as a name; see `shapes.name`.
_SESSION_BYTES_MAX: Final = 200
_NO_NAME: Final = frozenset(" /\\")


class Boundary(NamedTuple):
    """
    What a client has told a hook.

    Attributes:
        client: Which client.
        event: Its own name of the event.
        moment: The boundary.
        session: The session id, exactly as the client has it.
        folder: The folder that the session works in; None where it does not say.
        prompt: What the user has said, at a prompt.
        answer: What the model has said last, at a stop.
        again: The client goes on because a hook wanted it to, so this is not the first stop of its chain.
    """

    client: str
    event: str
    moment: str
    session: str
    folder: str | None
    prompt: str | None
    answer: str | None
    again: bool


class Client(NamedTuple):
    """
    A client, as far as hooks are concerned.

    Attributes:
        moments: Its own name of an event -> the boundary.
        delivers: The boundaries at which mail is put before its model.
        qualified: The version of the real program that this was tried with; None where nobody has.
        session_keys: Where the session id stands; the first that is there.
    """

    moments: Mapping[str, str]
    delivers: frozenset[str]
    qualified: str | None
    session_keys: tuple[str, ...] = ("session_id",)


_CLAUDE_EVENTS: Final = {
    "SessionStart": START,
    "UserPromptSubmit": PROMPT,
    "PostToolUse": TOOL,
    "Stop": STOP,
    "SessionEnd": END,
}
CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client(_CLAUDE_EVENTS, frozenset((START, PROMPT, TOOL)), "2.1.332"),
    # An interrupt ends a turn without a stop.
    "codex": Client({**_CLAUDE_EVENTS, "Interrupt": END}, frozenset((START, PROMPT, TOOL)), "0.171.0"),
    "cursor": Client(
        {"sessionStart": START, "beforeSubmitPrompt": PROMPT, "stop": STOP, "sessionEnd": END},
        frozenset((START,)),
        None,
        ("session_id", "conversation_id"),
    ),
    "muse-code": Client(_CLAUDE_EVENTS, frozenset((START,)), None),
}


def boundary(client: str, told: Mapping[str, Any]) -> Boundary | None:
    """
    What a client tells; None for an event that is none of ours.

    Args:
        client: One of `CLIENTS`.
        told: The document that it gave to the hook.

    Raises:
        ValueError: It is not of the shape that this client has.
    """
    known = CLIENTS[client]
    event = told.get("hook_event_name")
    if not isinstance(event, str):
        raise ValueError("it has no hook_event_name")  # noqa: TRY004 - what a client sends is a value, not a type
    moment = known.moments.get(event)
    if moment is None:
        return None
    found = (told.get(key) for key in known.session_keys)
    session = next((each for each in found if isinstance(each, str) and each), None)
    if session is None:
        raise ValueError(f"it has no {known.session_keys[0]}")
    if (
        not session.isprintable()
        or not _NO_NAME.isdisjoint(session)
        or session in (".", "..")
        or len(session.encode()) > _SESSION_BYTES_MAX
    ):
        raise ValueError(f"its {known.session_keys[0]} is none that a mailbox takes")
    roots = told.get("workspace_roots")
    folder = _text(told.get("cwd")) or (_text(roots[0]) if isinstance(roots, list) and roots else None)
    prompt = _words(told.get("prompt")) if moment == PROMPT else None
    answer = _words(told.get("last_assistant_message")) if moment == STOP else None
    return Boundary(client, event, moment, session, folder, prompt, answer, told.get("stop_hook_active") is True)


def delivers(at: Boundary, *, at_stop: bool) -> bool:
    """
    Is mail put before the model here?

    Args:
        at: The boundary.
        at_stop: Whoever set this up wants it at the end of a turn too, where the client then goes on.  Once in a chain.
    """
    if at.moment == STOP:
        return at_stop and at.client == "claude-code" and not at.again
    return at.moment in CLIENTS[at.client].delivers


def answer(at: Boundary, text: str) -> dict[str, Any]:
    """The one document that puts a text before the model of this client at this boundary."""
    if at.moment == STOP:
        return {"decision": "block", "reason": text}
    if at.client == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": at.event, "additionalContext": text}}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _words(value: Any) -> str | None:
    """What was said; what no turn can hold, such as half an emoji where a client has cut, becomes a sign for it."""
    found = _text(value)
    if found is None:
        return None
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
