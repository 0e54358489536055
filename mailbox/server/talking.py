"""
The routes `conversation/…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fencepost.mailbox import shapes, times
from fencepost.mailbox.codec import Json
from fencepost.mailbox.errors import InvalidTurn
from fencepost.mailbox.past import Past
from fencepost.mailbox.server.desk import Answer, Asked, Desk, gathered, rows
from fencepost.mailbox.turns import Turn, TurnRedaction, conversation_of
from fencepost.mailbox.views import LIMIT_MAX
from fencepost.mailbox.wire import talks
from fencepost.mailbox.wire.access import Client

#: The blocks that the content of a chat message may have on the wire.
_BLOCKS: Final = ("text", "image", "document", "compaction")


def _append_turn(desk: Desk, who: Client, asked: Asked) -> Json:
    for place, message in enumerate(asked["messages"]):
        _check_blocks(message, f"messages[{place}].content")
    appended = desk.conversations(who, asked).append_turn(asked["conversation_id"], asked["messages"])
    return {"turn": talks.turn(appended)}


def _check_blocks(message: object, where: str) -> None:
    """Blocks are of a kind that everybody who reads turns over this wire knows."""
    content = message.get("content") if isinstance(message, dict) else None
    for place, block in enumerate(content if isinstance(content, list) else ()):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _BLOCKS:
            raise InvalidTurn(where=f"{where}[{place}]", why=f"its type is none of {', '.join(_BLOCKS)}")
        if kind == "text" and not isinstance(block.get("text"), str):
            raise InvalidTurn(where=f"{where}[{place}].text", why="text belongs here")


def _read_turns(desk: Desk, who: Client, asked: Asked) -> Json:
    talk, first = asked["conversation_id"], asked["after"]
    door = desk.conversations(who, asked)
    door.read_turns(talk, after=first, limit=0)  # it says what is not well formed

    def some(last: Turn | None, count: int) -> Sequence[Turn]:
        return door.read_turns(talk, after=first if last is None else last.turn, limit=count).turns

    found, more = gathered(rows(asked), some, _length)
    return {"turns": [talks.turn(each) for each in found], "next_after": found[-1].turn if more else None}


def _length(turn: Turn) -> int:
    return sum(len(str(message)) for message in turn.messages)


def _last_turn_number(desk: Desk, who: Client, asked: Asked) -> Json:
    return {"turn": desk.conversations(who, asked).last_turn_number(asked["conversation_id"])}


def _search_turns(desk: Desk, who: Client, asked: Asked) -> Json:
    past = Past(desk.store, (), actor=who.actor(None), clock=desk.clock)
    found = past.search_turns(asked["query"], conversations=asked["conversations"], limit=asked["limit"])
    return {"turns": [talks.turn(each) for each in found]}


def _append_projections(desk: Desk, who: Client, asked: Asked) -> Json:
    entries = [talks.projection_of(each, f"entries[{place}].") for place, each in enumerate(asked["entries"])]
    desk.conversations(who, asked).append_projections(asked["conversation_id"], entries)
    return {}


def _read_projections(desk: Desk, who: Client, asked: Asked) -> Json:
    page = desk.conversations(who, asked).read_projections(
        asked["conversation_id"], after=asked["after"], limit=rows(asked)
    )
    return {"entries": [talks.projection(each) for each in page.entries], "next_after": page.next_after}


def _redact_turns(desk: Desk, who: Client, asked: Asked) -> Json:
    through, turns = asked["through"], asked["turns"]
    if through is None and turns is None:
        through = shapes.NUMBER_MAX  # whoever names none means all of them
    talk = desk.conversations(who, asked)
    return {"count": talk.redact_turns(asked["conversation_id"], through=through, turns=turns)}


def _turn_redactions(desk: Desk, who: Client, asked: Asked) -> Json:
    since, limit = times.earliest(asked["since"]), shapes.whole_number(asked["limit"], "limit", 1, LIMIT_MAX)
    door = desk.conversations(who, asked)
    found = [
        act
        for talk in _chosen(desk, asked["conversations"])
        for act in door.turn_redactions(talk)
        if since is None or act.created_at >= since
    ]
    found.sort(key=_newest, reverse=True)
    return {"redactions": [talks.turn_redaction(each) for each in found[:limit]]}


def _chosen(desk: Desk, named: Iterable[str] | None) -> Iterable[str]:
    if named is not None:
        return sorted(set(named))
    return [talk for talk in map(conversation_of, desk.store.scopes()) if talk is not None]


def _newest(act: TurnRedaction) -> tuple[object, ...]:
    return act.created_at, act.conversation_id


ANSWERS: Final[Mapping[str, Answer]] = {
    "conversation/append_turn": _append_turn,
    "conversation/read_turns": _read_turns,
    "conversation/last_turn_number": _last_turn_number,
    "conversation/search_turns": _search_turns,
    "conversation/append_projections": _append_projections,
    "conversation/read_projections": _read_projections,
    "conversation/redact_turns": _redact_turns,
    "conversation/turn_redactions": _turn_redactions,
}
