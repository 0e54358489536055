"""
Conversations on the wire: turns, projections and what was erased, from JSON and as JSON.

A chat message goes out with every key that the wire has for one, so that
whoever reads it need not know what was left out when it was appended; `extra`
is there only where it was given.

Rules for this file: as for `fencepost.mailbox.wire.documents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.mailbox import codec
from fencepost.mailbox.codec import Json
from fencepost.mailbox.turns import ChatMessage, Projection, Turn, TurnRedaction
from fencepost.mailbox.wire.parameters import (
    FLAG,
    NUMBER,
    NUMBERS,
    OBJECT,
    TEXT,
    Parameter,
    moment,
    needed,
    optional,
    read,
    several,
)

PROJECTION: Final[Mapping[str, Parameter]] = {
    "turn": needed(NUMBER),
    "kind": needed(TEXT),
    "text": needed(TEXT),
    "span": optional(NUMBER, 1),
}
TURN: Final[Mapping[str, Parameter]] = {
    "conversation_id": needed(TEXT),
    "turn": needed(NUMBER),
    "messages": needed(several(OBJECT)),
    "created_at": needed(moment),
    "actor": optional(TEXT),
    "redacted": optional(FLAG, False),
}
TURN_REDACTION: Final[Mapping[str, Parameter]] = {
    "conversation_id": needed(TEXT),
    "turns": needed(NUMBERS),
    "actor": optional(TEXT),
    "created_at": needed(moment),
}


def turn(found: Turn) -> Json:
    """A turn as JSON."""
    return {**codec.shape(found), "messages": [chat_message(each) for each in found.messages]}


def turn_of(given: Mapping[str, Any]) -> Turn:
    """A turn from JSON; its messages are as they came."""
    fields = read(TURN, given)
    return Turn(**{**fields, "messages": tuple(fields["messages"])})


def chat_message(message: ChatMessage) -> Json:
    """A chat message as JSON, with the keys that the wire has for one."""
    shown = {
        "role": message["role"],
        "content": message.get("content"),
        "reasoning": message.get("reasoning"),
        "tool_calls": message.get("tool_calls") or [],
        "tool_call_id": message.get("tool_call_id"),
    }
    return {**shown, "extra": message["extra"]} if message.get("extra") is not None else shown


def projection(found: Projection) -> Json:
    """A projection as JSON."""
    return codec.shape(found)


def projection_of(given: Mapping[str, Any], where: str = "") -> Projection:
    """A projection from JSON."""
    return Projection(**read(PROJECTION, given, where))


def turn_redaction(found: TurnRedaction) -> Json:
    """The erasure of some turns as JSON."""
    return {**codec.shape(found), "turns": sorted(found.turns)}


def turn_redaction_of(given: Mapping[str, Any]) -> TurnRedaction:
    """The erasure of some turns from JSON."""
    fields = read(TURN_REDACTION, given)
    return TurnRedaction(**{**fields, "turns": tuple(fields["turns"])})
