"""
Chat messages: what is kept of one, and the text in which a search looks.

A chat message is a JSON object with a role.  The keys known here are kept as
they were given, in one order; `extra` is carried whatever is in it, and other
keys are dropped.

Rules for this file: pure.  Each function returns what it was given, in its
canonical form, or raises a kind of `BadInput`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import InvalidTurn, TextTooLong
from fencepost.mailbox.turns import ChatMessage

#: Largest turn, as JSON: that of a message, since one may quote the other.
TURN_BYTES_MAX: Final = shapes.BODY_BYTES_MAX
#: Deepest nesting of a turn; parsers of others give up at a few hundred.
_DEPTH_MAX: Final = 100
#: Whole numbers that JSON writers agree on.
_WHOLE_LEAST, _WHOLE_MOST = -(2**63), 2**64 - 1
#: Key -> the types that its value may have.
_KEYS: Final[dict[str, tuple[type, ...]]] = {
    "role": (str,),
    "content": (str, type(None), list),
    "reasoning": (str, type(None)),
    "tool_calls": (list, type(None)),
    "tool_call_id": (str, type(None)),
    "extra": (dict, type(None)),
}
_CALL_KEYS: Final = {"id": str, "name": str, "arguments": dict}


def turn(messages: Sequence[Any]) -> tuple[ChatMessage, ...]:
    """
    The messages of a turn.

    Raises:
        InvalidTurn: One of them is no chat message.
        InvalidText: A text in one of them has a NUL character or a lone surrogate.
        TextTooLong: They are too many bytes as JSON.
    """
    if not isinstance(messages, list | tuple):
        raise InvalidTurn(where="messages", why="a list belongs here")
    kept = tuple(_message(message, f"messages[{place}]") for place, message in enumerate(messages))
    size_bytes = len(orjson.dumps(kept))
    if size_bytes > TURN_BYTES_MAX:
        raise TextTooLong(field="messages", size_bytes=size_bytes, limit_bytes=TURN_BYTES_MAX)
    return kept


def _message(message: Any, where: str) -> ChatMessage:
    if not isinstance(message, dict):
        raise InvalidTurn(where=where, why="an object with a role belongs here")
    kept = {key: message[key] for key in _KEYS if key in message}
    if "role" not in kept:
        raise InvalidTurn(where=where, why="its role is missing")
    for key, value in kept.items():
        if not isinstance(value, _KEYS[key]):
            raise InvalidTurn(where=f"{where}.{key}", why=f"a {type(value).__name__} does not belong here")
        _check_json(value, f"{where}.{key}", 1)
    if not kept["role"].strip():
        raise InvalidTurn(where=f"{where}.role", why="it is blank")
    blocks = kept.get("content")
    if isinstance(blocks, list) and not all(isinstance(block, dict) for block in blocks):
        raise InvalidTurn(where=f"{where}.content", why="each block is an object")
    if kept.get("tool_calls"):
        kept["tool_calls"] = [_call(call, f"{where}.tool_calls[{n}]") for n, call in enumerate(kept["tool_calls"])]
    return kept


def _call(call: Any, where: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise InvalidTurn(where=where, why="an object with id, name and arguments belongs here")
    for key, kind in _CALL_KEYS.items():
        if not isinstance(call.get(key), kind):
            raise InvalidTurn(where=f"{where}.{key}", why=f"a {kind.__name__} is needed here")
    return {key: call[key] for key in _CALL_KEYS}


def _check_json(value: Any, where: str, depth: int) -> None:
    """Everything in it can be written as JSON by every backend."""
    if depth > _DEPTH_MAX:
        raise InvalidTurn(where=where[:200], why=f"it is nested deeper than {_DEPTH_MAX}")
    if isinstance(value, str):
        shapes.text(value, where, TURN_BYTES_MAX)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_json(key if isinstance(key, str) else b"", where, depth)
            _check_json(inner, where, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json(inner, where, depth + 1)
    elif isinstance(value, float):
        if value - value != 0:
            raise InvalidTurn(where=where, why="JSON has no such number")
    elif isinstance(value, int):
        if not _WHOLE_LEAST <= value <= _WHOLE_MOST:
            raise InvalidTurn(where=where, why="a number is larger than JSON writers agree on")
    elif value is not None:
        raise InvalidTurn(where=where, why=f"JSON has no {type(value).__name__}")


def text(messages: Iterable[ChatMessage]) -> str:
    """
    The text in which a search looks: what messages and tool results say, and each tool call with its arguments.

    They are joined by newlines; who said it is no part of it.
    """
    pieces: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            pieces.append(content)
        else:
            pieces += [block["text"] for block in content or () if isinstance(block.get("text"), str)]
        for call in message.get("tool_calls") or ():
            pieces.append(f"{call['name']} {orjson.dumps(call['arguments']).decode()}")
    return "\n".join(pieces)
