"""
What an event of a room says, whatever its form.

Rules for this file: pure.  Nothing of an event is trusted but what the homeserver
vouches for: who sent it, where, when and under which id.
"""

from __future__ import annotations

import enum
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

#: A notice of the fleet itself is marked by this key of its content.
CONTROL: Final = "org.fencepost.control"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_999
#: What no text may have; something of the same width stands for each.
_UNFIT: Final = re.compile("[\x00\ud800-\udfff]")
#: How the quotation begins that older clients put before a reply.
_QUOTATION: Final = re.compile(r"> (\* )?<[^>\n]+>")
_FILES: Final = frozenset(("m.image", "m.file", "m.audio", "m.video"))


class Kind(enum.StrEnum):
    """What somebody did in a room."""

    MESSAGE = "message"
    NOTICE = "notice"
    EDIT = "edit"
    REACTION = "reaction"
    REDACTION = "redaction"
    MEDIA = "media"
    REDACTED = "redacted"
    ENCRYPTED = "encrypted"
    MEMBERSHIP = "membership"
    UPGRADE = "upgrade"
    CONTROL = "control"
    OTHER = "other"


@attrs.frozen
class Media:
    """
    A file that somebody sent.

    Attributes:
        url: Where it is, `mxc://…`.
        name: As the sender calls it; hostile.
        type: As the sender says; None where nothing is said.
        size: In bytes, as the sender says; None where nothing is said.
    """

    url: str
    name: str
    type: str | None
    size: int | None


@attrs.frozen
class Said:
    """
    One event of a room.

    Attributes:
        at: When the homeserver says that it was sent.
        body: The text of it: of an edit the new one, of a reply without the quotation, of a reaction its key, of a
            redaction the reason.  Hostile.
        mentions: The users that `m.mentions.user_ids` names freshly; nothing else is a mention.
        target: The event that it edits, redacts or reacts to; of an upgrade the room that is the new one.
        reply_to: The event that it answers.
        thread: The event that its thread began with.
        membership: Of a membership event the user and what became of it.
    """

    room: str
    event: str
    sender: str
    at: datetime
    kind: Kind
    body: str = ""
    mentions: frozenset[str] = frozenset()
    target: str | None = None
    reply_to: str | None = None
    thread: str | None = None
    media: Media | None = None
    membership: tuple[str, str] | None = None


@attrs.frozen
class RoomFacts:
    """
    What the homeserver says of a room.

    Attributes:
        id: Opaque.
        name, alias: As whoever may call it; hostile; None where it has none.
        direct: It was begun as a talk between two.
        encrypted: What is said in it cannot be read here.
        members: User id -> the name that they show; hostile.
        successor: The room that has taken its place; None where it stands.
    """

    id: str
    name: str | None = None
    alias: str | None = None
    direct: bool = False
    encrypted: bool = False
    members: dict[str, str] = attrs.Factory(dict)
    successor: str | None = None


def interpret(room: str, event: Any) -> Said | None:
    """
    What an event says, as the homeserver gives it.

    Returns:
        None where it is no event, because it lacks what every event has.
    """
    event = _fields(event)
    names = [_text(event.get(key)) for key in ("event_id", "sender", "type")]
    at = event.get("origin_server_ts")
    if not all(names) or type(at) is not int:
        return None
    identity, sender, kind = names
    said = Said(room, identity, sender, _EPOCH + timedelta(milliseconds=min(max(at, 0), _LATEST_MS)), Kind.OTHER)
    content = _fields(event.get("content"))
    if "state_key" in event:
        return _of_state(said, kind, _text(event["state_key"]), content)
    if kind == "m.room.redaction":
        target = _text(content.get("redacts")) or _text(event.get("redacts"))
        return attrs.evolve(said, kind=Kind.REDACTION, body=_text(content.get("reason")), target=target or None)
    if not content or _fields(_fields(event.get("unsigned")).get("redacted_because")):
        return attrs.evolve(said, kind=Kind.REDACTED)
    if CONTROL in content:
        return attrs.evolve(said, kind=Kind.CONTROL)
    match kind:
        case "m.room.encrypted":
            return attrs.evolve(said, kind=Kind.ENCRYPTED)
        case "m.reaction":
            relation = _fields(content.get("m.relates_to"))
            target, key = _text(relation.get("event_id")), _text(relation.get("key"))
            return attrs.evolve(said, kind=Kind.REACTION, body=key, target=target) if target and key else said
        case "m.sticker":
            return _file(said, content)
        case "m.room.message":
            return _message(said, content)
    return said


def joins(event: Any, user: str) -> bool:
    """Is it the event by which a user came in?  One who changes their name there was in before."""
    before, now = _memberships(event, user)
    return before != "join" == now


def leaves(event: Any, user: str) -> bool:
    """Is it the event by which a user went, or had to go?  One who is banned no more was out before."""
    before, now = _memberships(event, user)
    return before == "join" and now in ("leave", "ban")


def _memberships(event: Any, user: str) -> tuple[object, object]:
    """What a user was in the room before, and is from then on; nothing where the event says nothing of that user."""
    event = _fields(event)
    if (event.get("type"), event.get("state_key")) != ("m.room.member", user):
        return None, None
    before = _fields(_fields(event.get("unsigned")).get("prev_content"))
    return before.get("membership"), _fields(event.get("content")).get("membership")


def encrypts(event: Any) -> bool:
    """Is it the event from which on a room is encrypted?"""
    event = _fields(event)
    return (event.get("type"), event.get("state_key")) == ("m.room.encryption", "")


def _of_state(said: Said, kind: str, key: str, content: dict[str, Any]) -> Said:
    if kind == "m.room.member":
        membership = _text(content.get("membership"))
        return attrs.evolve(said, kind=Kind.MEMBERSHIP, membership=(key, membership))
    if kind == "m.room.tombstone" and not key:
        target = _text(content.get("replacement_room"))
        return attrs.evolve(said, kind=Kind.UPGRADE, body=_text(content.get("body")), target=target or None)
    return said


def _message(said: Said, content: dict[str, Any]) -> Said:
    """A message: what it relates to, who is mentioned in it, and its words or its file."""
    relation = _fields(content.get("m.relates_to"))
    kind, related = relation.get("rel_type"), _text(relation.get("event_id"))
    answered = _text(_fields(relation.get("m.in_reply_to")).get("event_id"))
    said = attrs.evolve(said, mentions=_mentions(content))
    if kind == "m.replace" and related:
        new = _fields(content.get("m.new_content")) or content
        edit = _words(attrs.evolve(said, target=related), new, quoting=False)
        # A program that rewrites what it notes says nothing that is to be answered.
        return edit if edit.kind in (Kind.NOTICE, Kind.OTHER) else attrs.evolve(edit, kind=Kind.EDIT)
    said = _words(said, content, quoting=bool(answered))
    if kind == "m.thread" and related:
        # Clients that know no threads are shown an answer to what was said last in it.
        answered = "" if relation.get("is_falling_back") is True else answered
        said = attrs.evolve(said, thread=related)
    return attrs.evolve(said, reply_to=answered or None)


def _words(said: Said, content: dict[str, Any], *, quoting: bool) -> Said:
    kind, body = content.get("msgtype"), content.get("body")
    if isinstance(kind, str) and kind in _FILES:
        return _file(said, content)
    if not isinstance(body, str):
        return said
    text = _text(body)
    return attrs.evolve(
        said,
        kind=Kind.NOTICE if kind == "m.notice" else Kind.MESSAGE,
        body=_unquoted(text) if quoting else text,
    )


def _file(said: Said, content: dict[str, Any]) -> Said:
    """A file; what is said of it beside its name is its caption."""
    body, name = _text(content.get("body")), _text(content.get("filename"))
    caption = body if name and name != body else ""
    url, about = _text(content.get("url")), _fields(content.get("info"))
    size = about.get("size")
    media = Media(
        url,
        name or body,
        _text(about.get("mimetype")) or None,
        size if type(size) is int and 0 <= size < 2**53 else None,
    )
    return attrs.evolve(said, kind=Kind.MEDIA, body=caption, media=media)


def _unquoted(body: str) -> str:
    """A reply without the quotation before it, where there is one."""
    if not _QUOTATION.match(body):
        return body
    lines = body.split("\n")
    count = next((count for count, line in enumerate(lines) if not line.startswith(">")), len(lines))
    if count < len(lines) and not lines[count]:
        count += 1
    return "\n".join(lines[count:])


def _mentions(content: dict[str, Any]) -> frozenset[str]:
    users = _fields(content.get("m.mentions")).get("user_ids")
    return frozenset(_text(user) for user in users if isinstance(user, str)) if isinstance(users, list) else frozenset()


def _fields(value: Any) -> dict[str, Any]:
    """An object; an empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A text without what no text may have; an empty one where something else stands."""
    return _UNFIT.sub("\ufffd", value) if isinstance(value, str) else ""
