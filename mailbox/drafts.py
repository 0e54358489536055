"""
What a sender asks for, made into a command.

Rules for this file: pure.  Shapes are checked here, all of them before anything
is sent.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import attrs
import orjson

from fencepost.mailbox import commands, errors, shapes, times
from fencepost.mailbox.events import Idempotency
from fencepost.mailbox.message import Delivery, Letter


@attrs.frozen
class Draft:
    """
    A message to be sent with others; the fields are the arguments of `Mailbox.send`.
    """

    body: str
    target: str | None = None
    session: str | None = None
    conversation: str | None = None
    turn: int | None = None
    about: str | None = None
    about_turn: int | None = None
    delivery: str | Delivery = Delivery.NEXT_ACTIVITY
    actionable: bool = False
    due_at: datetime | str | None = None
    delay_seconds: int | None = None
    idempotency_key: str | None = None
    context: str | None = None
    context_version: int | None = None
    change_id: str | None = None


def prepare(draft: Draft, *, scope: str, actor: str, message_id: str, now: datetime) -> commands.Send:
    """
    The command that sends a draft.

    Args:
        draft: What was asked for.
        scope: Where its target is kept.
        actor: Who sends, as the transport knows it.
        message_id: The new message's id.
        now: The clock reading that a delay counts from.

    Raises:
        BadInput: Something is not well formed.
    """
    due_at = times.due(now, draft.due_at, draft.delay_seconds)
    conversation, turn = _place(draft.conversation, draft.turn, "conversation", "turn")
    about, about_turn = _place(draft.about, draft.about_turn, "about", "about_turn")
    if about is None:
        about, about_turn = conversation, turn
    letter = Letter(
        id=shapes.message_id(message_id),
        scope=scope,
        conversation=conversation,
        turn=turn,
        source=None if draft.session is None else shapes.name(draft.session, "session"),
        about=about,
        about_turn=about_turn,
        actor=actor,
        body=shapes.said(draft.body, "body", shapes.BODY_BYTES_MAX),
        created_at=now,
        delivery=shapes.choice(draft.delivery, "delivery", Delivery),
        actionable=shapes.flag(draft.actionable, "actionable") or due_at is not None,
    )
    reference = _reference(draft)
    key = None
    if draft.idempotency_key is not None:
        said = shapes.said(draft.idempotency_key, "idempotency_key", shapes.PATH_BYTES_MAX)
        dated = None if draft.due_at is None else due_at
        key = Idempotency(said, _fingerprint(letter, dated, draft.delay_seconds, reference))
    return commands.Send(letter, now if due_at is None else due_at, key, reference)


def _reference(draft: Draft) -> commands.Reference | None:
    if draft.context is None:
        for field in ("context_version", "change_id"):
            if getattr(draft, field) is not None:
                raise errors.MissingField(field="context", rule=f"{field} is about a document: name it")
        return None
    path = shapes.text(draft.context, "context", 2 * shapes.PATH_BYTES_MAX)
    version = draft.context_version
    change = draft.change_id
    return commands.Reference(
        path,
        None if version is None else shapes.whole_number(version, "context_version", 1),
        None if change is None else shapes.said(change, "change_id", shapes.PATH_BYTES_MAX),
    )


def _place(conversation: str | None, turn: int | None, field: str, turn_field: str) -> tuple[str | None, int | None]:
    if turn is not None:
        shapes.whole_number(turn, turn_field, 1)
        if conversation is None:
            raise errors.MissingField(field=field, rule=f"{turn_field} is a turn of it")
    return None if conversation is None else shapes.name(conversation, field), turn


def _fingerprint(
    letter: Letter, due_at: datetime | None, delay_seconds: int | None, reference: commands.Reference | None
) -> str:
    """A digest of all that a repeat must have in common: what was asked for, not what came of it."""
    asked: tuple[object, ...] = (
        letter.scope,
        letter.conversation,
        letter.turn,
        letter.about,
        letter.about_turn,
        letter.body,
        letter.delivery.value,
        letter.actionable,
        due_at,
        delay_seconds,
    )
    if reference is not None:  # so that the fingerprint of a message without one stays what it always was
        asked += attrs.astuple(reference)
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_UTC_Z)).hexdigest()
