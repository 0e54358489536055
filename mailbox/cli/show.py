"""
What a person reads, and what a program reads.

Message text is hostile.  Every character that is not printable (controls,
escape sequences, bidi overrides, invisible format characters) is shown
escaped, whatever field it stands in.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click
import orjson

from fencepost.mailbox import codec
from fencepost.mailbox.box import History, Inbox, Skeleton
from fencepost.mailbox.lifecycle import is_running
from fencepost.mailbox.message import Context, Message, Receipt, Status
from fencepost.mailbox.store.port import Redaction, Unsupported
from fencepost.mailbox.store.receipts import ReceiptFacts
from fencepost.mailbox.times import show


def print_json(document: object) -> None:
    """One JSON document and a newline on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_UTC_Z) + b"\n")
    sys.stdout.buffer.flush()


def compact_json(value: object) -> str:
    """A value as JSON on one line."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt: the version and the body."""
    return {"version": receipt.version, **codec.body(receipt.message)}


def inbox_json(found: Inbox) -> dict[str, Any]:
    """A listing: receipts, and what could not be read with its address."""
    return {
        "items": [receipt_json(item) for item in found.items],
        "unsupported": unsupported_json(found.unsupported),
    }


def unsupported_json(found: Iterable[Unsupported]) -> list[dict[str, Any]]:
    """What could not be read, with its address."""
    return [{"scope": each.scope, "path": each.path, "version": each.version, "why": each.why} for each in found]


def history_json(found: History) -> dict[str, Any]:
    """A receipt and the receipts of every version, newest first."""
    return {**receipt_json(found.receipt), "history": [receipt_json(version) for version in found.versions]}


def skeleton_json(left: Skeleton) -> dict[str, Any]:
    """What is left of an erased message, the newest version first."""
    return {
        "id": left.id,
        "scope": left.scope,
        "version": len(left.events),
        "erased": True,
        "history": [
            {"version": event.version, "type": event.type, "actor": event.actor, "at": event.at}
            for event in reversed(left.events)
        ],
    }


def visible(text: str) -> str:
    """The text with everything unprintable escaped; nothing in it can move a cursor or turn the line around."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def clip(text: str, width: int) -> str:
    """The text on one line of at most `width` characters."""
    line = visible(" ".join(text[: 8 * width + 64].split()))  # the rest of a large body is not shown anyway
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def relative(moment: datetime, now: datetime) -> str:
    """How far away a time is, rounded, in the largest unit that fits."""
    distance_s = abs((moment - now).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count = round(distance_s / size)
        if distance_s >= size * 0.99 and count:
            return f"in {count}{unit}" if moment > now else f"{count}{unit} ago"
    return "now"


def standing(message: Message, now: datetime) -> str:
    """Where a message stands, in a word or a few."""
    if message.status is not Status.OPEN:
        return str(message.status.value)
    if message.due_at > now:
        return "scheduled"
    if message.lease is not None:
        if is_running(message.lease, now):
            return f"claimed by {message.lease.owner}"
        return f"lease of {message.lease.owner} ran out"
    return "unread" if message.reading is None else f"read by {message.reading.by}"


def print_inbox(found: Inbox, now: datetime, *, searched: str) -> None:
    """Three lines for each message: what to name it by, who wants what, and what it says; or that there is nothing."""
    if not found.items:
        click.echo(f"Nothing pending in {visible(searched)}.")
    columns = shutil.get_terminal_size().columns
    for item in found.items:
        message = item.message
        when = relative(message.due_at, now)
        click.secho(f"{message.id}  occurrence {message.occurrence}", bold=True, nl=False)
        click.echo(f"  {when}  {clip(standing(message, now), 40)}")
        kind = "work" if message.letter.actionable else "information"
        sender = message.letter.source or message.letter.actor
        click.echo(f"    {kind} from {visible(sender)}, in {visible(message.letter.scope)}")
        click.echo(f"    {clip(message.letter.body, max(columns - 4, 40))}")
    print_unsupported(found.unsupported)


def print_unsupported(found: Iterable[Unsupported]) -> None:
    """A remark on each document that could not be read."""
    for each in found:
        note(f"{each.path} in {each.scope} cannot be read by this version ({each.why}); it is left as it is")


def redaction_json(done: Redaction) -> dict[str, Any]:
    """What was erased, as programs get it."""
    referring = [{"scope": scope, "path": path} for scope, path in done.referring]
    return {"scope": done.scope, "path": done.path, "count": done.count, "referring": referring}


def print_referring(done: Redaction) -> None:
    """A remark on each message that refers to what was erased."""
    for scope, path in done.referring:
        note(f"{path} in {scope} refers to it, and keeps the reference")


def print_receipt(done: str, receipt: Receipt, now: datetime) -> None:
    """One command's answer in a few lines: what was done, and what is needed next."""
    message = receipt.message
    again = " (it had been done before)" if receipt.repeated else ""
    click.echo(f"{done} {message.id}, occurrence {message.occurrence}, version {receipt.version}{again}.")
    for title, value in _facts(message, now):
        click.echo(f"  {title}: {value}")


def _facts(message: Message, now: datetime) -> Iterable[tuple[str, str]]:
    yield "standing", clip(standing(message, now), 200)
    if message.due_at != message.letter.created_at:
        yield "due", f"{show(message.due_at)} ({relative(message.due_at, now)})"
    if message.status is Status.OPEN and message.lease is not None:
        yield "token", visible(message.lease.token)
        yield "claimed until", f"{show(message.lease.until)} ({relative(message.lease.until, now)})"
    if message.outcome is not None:
        yield "outcome", clip(message.outcome, 200)


def _context(context: Context | None) -> str | None:
    if context is None:
        return None
    change = "" if context.change_id is None else f", change {context.change_id}"
    return f"{context.path} in {context.scope}, version {context.version}{change}"


def print_history(found: History, now: datetime) -> None:
    """A message, its body, and its versions."""
    message = found.receipt.message
    letter = message.letter
    click.secho(f"{message.id}  occurrence {message.occurrence}  version {found.receipt.version}", bold=True)
    facts = [
        ("scope", letter.scope),
        ("conversation", letter.conversation),
        ("from", f"{letter.actor}" + (f", session {letter.source}" if letter.source else "")),
        ("sent", f"{show(letter.created_at)} ({relative(letter.created_at, now)})"),
        ("about", letter.about),
        ("context", _context(letter.context)),
        *_facts(message, now),
    ]
    for title, value in facts:
        if value is not None:
            click.echo(f"  {title}: {visible(value)}")
    click.echo()
    for line in letter.body.splitlines():
        click.echo(f"  | {visible(line)}")
    click.echo()
    for version in found.versions:
        outcome = f": {clip(version.message.outcome, 100)}" if version.message.outcome else ""
        click.echo(f"  version {version.version}: {clip(standing(version.message, now), 60)}{outcome}")


def print_skeleton(left: Skeleton) -> None:
    """What is left of an erased message."""
    click.secho(f"{left.id}  version {len(left.events)}  erased", bold=True)
    click.echo(f"  scope: {visible(left.scope)}")
    for event in reversed(left.events):
        click.echo(visible(f"  version {event.version}: {event.type}, {event.at}, by {event.actor}"))


def print_facts(found: ReceiptFacts) -> None:
    """Where a message is, one line for each fact."""
    status = "erased" if found.erased else found.status or "not readable by this version"
    click.secho(f"{found.id}  version {found.version}  {status}", bold=True)
    click.echo(f"  scope: {visible(found.scope)}")
    for fact in found.facts:
        which = "" if fact.occurrence is None else f"occurrence {fact.occurrence}"
        whom = "" if fact.session is None else f"{'to' if fact.door else 'by'} session {fact.session}"
        door = "" if fact.door is None else f"through {fact.door}"
        words = [fact.fact, which, whom, door, f"({fact.outcome})" if fact.outcome else ""]
        click.echo(visible(f"  {fact.at}  {' '.join(filter(None, words))}, by {fact.actor}"))


def note(text: str) -> None:
    """A remark for a person, on stderr."""
    click.echo(f"note: {visible(text)}", err=True)
