"""
`fencepost messages`: the ten commands, where a message is, and erasing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import click

from fencepost.journal.errors import FencepostError
from fencepost.mailbox import errors
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, needed, said, storage, whole
from fencepost.mailbox.message import Delivery, Receipt
from fencepost.mailbox.times import DELAY_SECONDS_MAX
from fencepost.mailbox.views import Listing

F = TypeVar("F", bound=Callable[..., Any])
_SESSION_RULE = "name the session that acts; it is never guessed"


@click.group()
def messages() -> None:
    """
    Send messages and reminders, and work on them.

    A message is unread until a session acknowledges or claims it; listing and viewing never do.  Work is claimed for
    30 minutes under a token, which renew, release, complete and snooze need.  --occurrence says which coming of the
    message you mean, so that nothing old is done to something new.
    """


_target = click.option("--target", help="A mounted path or scope, such as /project or /user.")
_session = click.option("--session", help="The session that acts. Required; it is never guessed.")
_about_message = [
    click.option("--message-id", metavar="UUID", help="Which message. Required."),
    click.option("--occurrence", metavar="N", help="Which occurrence of it, as list and view show it. Required."),
]
_token = click.option("--token", help="What claim returned. Required.")
_outcome = [
    click.option("--outcome", help="What came of it."),
    click.option("--outcome-file", metavar="FILE", help="The outcome from a file, or - for standard input."),
]
_times = [
    click.option("--due-at", metavar="TIME", help="When, with an offset: 2026-11-30T14:00:00Z."),
    click.option("--delay-seconds", metavar="N", help="Or how many seconds from now."),
]


def _options(*decorators: Any) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _answer(where: Where, done: str, receipt: Receipt) -> None:
    if where.json:
        show.print_json(show.receipt_json(receipt))
    else:
        show.print_receipt(done, receipt, utc_now())


@messages.command()
@_options(
    _target,
    click.option("--body", help="What to say. For long or odd text use --body-file."),
    click.option("--body-file", metavar="FILE", help="The body from a file, or - for standard input."),
    click.option("--session", help="The sending session. It may cancel the message even where it does not receive it."),
    click.option("--conversation", help="Send to this conversation and its continuations only."),
    click.option("--turn", metavar="N", help="A turn of that conversation."),
    click.option("--about", metavar="CONVERSATION", help="What it annotates, without changing who receives it."),
    click.option("--about-turn", metavar="N", help="A turn of that one."),
    click.option(
        "--delivery",
        type=click.Choice([each.value for each in Delivery]),
        default="next_activity",
        show_default=True,
        help="Wait for the recipient's next activity, or ask an attached receiver to wake it.",
    ),
    click.option("--actionable", is_flag=True, help="There is work to claim. A dated reminder always has some."),
    *_times,
    click.option("--idempotency-key", metavar="KEY", help="Repeating with the same key and content sends once."),
    click.option("--context", metavar="PATH", help="The mounted path of a document that it is about."),
    click.option("--context-version", metavar="N", help="Refuse unless this is its version now [not checked]."),
    click.option("--change-id", metavar="ID", help="What you call the change. Nobody verifies it."),
)
@storage
def send(
    where: Where,
    body: str | None,
    body_file: str | None,
    turn: str | None,
    about_turn: str | None,
    delay_seconds: str | None,
    context_version: str | None,
    conversation: str | None,
    **rest: Any,
) -> None:
    """
    Send a message, or with a time a reminder.

    It is stored durably when the command returns. Nobody need be there to receive it.

    \b
    fencepost messages send --body "Look at the failing build" --actionable
    fencepost messages send --target /user --body "Renew the certificate" --delay-seconds 1296000
    git log -1 | fencepost messages send --body-file -
    fencepost messages send --body "Please review" --actionable --context /project/notes/plan.md --context-version 3
    """
    text = needed(said(body, body_file, "body"), "body", "say something with --body or --body-file")
    with _Opened(where, to_read=False) as box:
        receipt = box.send(
            text,
            conversation=conversation,
            turn=whole(turn, "turn"),
            about_turn=whole(about_turn, "about_turn"),
            context_version=whole(context_version, "context_version"),
            delay_seconds=whole(delay_seconds, "delay_seconds", most=DELAY_SECONDS_MAX),
            **rest,
        )
        if where.json:
            document = show.receipt_json(receipt)
            show.print_json({**document, "repeated": True} if receipt.repeated else document)
            return
        show.print_receipt(f"Sent to {receipt.message.letter.scope}:", receipt, utc_now())
        if receipt.message.due_at < receipt.message.letter.created_at:
            show.note("its due time is past, so it is due now")
        if conversation is not None and _is_unheard_of(box, conversation):
            show.note(f"nothing has been heard of conversation {conversation} yet; the message waits for it")


def _is_unheard_of(box: Mailbox, conversation: str) -> bool:
    """Has nothing been heard of a conversation?  The message is sent, and no refusal to say that may hide it."""
    try:
        return not box.store.has_seen(conversation)
    except FencepostError:
        return False


@messages.command("list")
@_options(
    _target,
    click.option("--session", help="The session that reads; without one, what is for everybody."),
    click.option(
        "--status",
        type=click.Choice([each.value for each in Listing]),
        default="unread",
        show_default=True,
        help="Which listing.",
    ),
    click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most, 1 to 500."),
)
@storage
def list_messages(where: Where, limit: str, **rest: Any) -> None:
    """
    List messages, oldest due first. Nothing is read by being listed.

    \b
    unread     due, and nobody has read it or let its lease run out
    open       due and not closed, acknowledged and claimed ones included
    scheduled  not due yet
    closed     done or cancelled
    all        all of them
    """
    with _Opened(where, to_read=True) as box:
        found = box.list(limit=whole(limit, "limit") or 0, **rest)
        if where.json:
            show.print_json(show.inbox_json(found))
        else:
            show.print_inbox(found, utc_now(), searched=rest["target"] or box.mounts.names)
            if len(found.items) == whole(limit, "limit"):
                show.note(f"these are the first {limit}; there may be more: raise --limit")


@messages.command()
@_options(_target, _about_message[0], click.option("--session", hidden=True, expose_value=False))
@storage
def view(where: Where, message_id: str | None, target: str | None) -> None:
    """Show a message with all of its versions, or what is left of an erased one. Nothing is read by being viewed."""
    with _Opened(where, to_read=True) as box:
        try:
            found = box.view(needed(message_id, "message_id", "list shows it"), target=target)
        except errors.Erased as erased:
            left = box.skeleton(erased.message_id, target=target)
            if where.json:
                show.print_json(show.skeleton_json(left))
            else:
                show.print_skeleton(left)
            return
        if where.json:
            show.print_json(show.history_json(found))
        else:
            show.print_history(found, utc_now())


@messages.command()
@_options(_target, _about_message[0])
@storage
def receipts(where: Where, message_id: str | None, target: str | None) -> None:
    """
    Show where a message is: stored, shown to whom, acknowledged, claimed, finished; each with who and when.

    That it was shown is recorded without waiting for the disk, so a power cut may lose it. Nobody has read it for that.

    \b
    fencepost messages receipts --message-id UUID
    """
    with _Opened(where, to_read=True) as box:
        found = box.receipts(needed(message_id, "message_id", "send returned it"), target=target)
        if where.json:
            show.print_json(attrs.asdict(found))
        else:
            show.print_facts(found)


def _step(where: Where, done: str, method: str, given: dict[str, Any]) -> None:
    given["session"] = needed(given["session"], "session", _SESSION_RULE)
    given["message_id"] = needed(given["message_id"], "message_id", "list shows it")
    given["occurrence"] = whole(needed(given["occurrence"], "occurrence", "list and view show it"), "occurrence")
    if "token" in given:
        given["token"] = needed(given["token"], "token", "claim returned it")
    with _Opened(where, to_read=False) as box:
        _answer(where, done, getattr(box, method)(**given))


@messages.command()
@_options(_target, _session, *_about_message)
@storage
def ack(where: Where, **given: Any) -> None:
    """Say that the session has read it. It stays open if it holds work."""
    _step(where, "Acknowledged", "ack", given)


@messages.command()
@_options(_target, _session, *_about_message)
@storage
def claim(where: Where, **given: Any) -> None:
    """
    Take the work for 30 minutes. The answer holds the token.

    Claiming again while the lease runs returns the same lease and token.

    \b
    fencepost messages claim --session s-42 --message-id UUID --occurrence 1
    """
    _step(where, "Claimed", "claim", given)


@messages.command()
@_options(_target, _session, *_about_message, _token)
@storage
def renew(where: Where, **given: Any) -> None:
    """
    Let the lease run for 30 minutes from now.

    lease_expired: nobody took over, claim it again. lease_lost: somebody did, stop.
    """
    _step(where, "Renewed", "renew", given)


@messages.command()
@_options(_target, _session, *_about_message, _token)
@storage
def release(where: Where, **given: Any) -> None:
    """Give the work back, unread again."""
    _step(where, "Released", "release", given)


@messages.command()
@_options(_target, _session, *_about_message, _token, *_outcome)
@storage
def complete(where: Where, outcome: str | None, outcome_file: str | None, **given: Any) -> None:
    """
    Finish the work and say what came of it. Repeating it is safe.

    \b
    fencepost messages complete --session s-42 --message-id UUID --occurrence 1 --token TOKEN --outcome "Fixed"
    """
    given["outcome"] = said(outcome, outcome_file, "outcome")
    _step(where, "Completed", "complete", given)


@messages.command()
@_options(_target, _session, *_about_message, _token, *_outcome, *_times)
@storage
def snooze(
    where: Where, outcome: str | None, outcome_file: str | None, delay_seconds: str | None, **given: Any
) -> None:
    """
    Say what you found and have it come back later, as the next occurrence.

    \b
    fencepost messages snooze --session s-42 --message-id UUID --occurrence 1 --token TOKEN \
                              --outcome "Not yet" --delay-seconds 86400
    """
    given["outcome"] = said(outcome, outcome_file, "outcome")
    given["delay_seconds"] = whole(delay_seconds, "delay_seconds", most=DELAY_SECONDS_MAX)
    _step(where, "Snoozed", "snooze", given)


@messages.command()
@_options(_target, _session, *_about_message, *_outcome)
@storage
def cancel(where: Where, outcome: str | None, outcome_file: str | None, **given: Any) -> None:
    """Call it off, before it is due and under another's claim too. Repeating it is safe."""
    given["outcome"] = said(outcome, outcome_file, "outcome")
    _step(where, "Cancelled", "cancel", given)


@messages.command()
@_options(
    _target,
    _about_message[0],
    click.option("--reason", help="Why, for the record. It must not repeat what is to be erased."),
    click.option("--yes", is_flag=True, help="Do not ask, even on a terminal."),
)
@storage
def redact(where: Where, message_id: str | None, target: str | None, reason: str | None, yes: bool) -> None:
    """
    Erase what a message says, with all its versions and outcomes. It cannot be brought back.

    Afterwards no file of the store holds it. Who did what to it when stays on record, and so does that it was erased.
    Copies that were made of the store hold it still.

    \b
    fencepost messages redact --message-id UUID --reason "It held a password"
    """
    wanted = needed(message_id, "message_id", "list shows it")
    if not (yes or where.json) and sys.stdin.isatty():
        click.confirm(f"Erase message {show.visible(wanted)} for good?", abort=True, err=True)
    with _Opened(where, to_read=False) as box:
        left = box.skeleton(wanted, target=target)
        done = box.redact(wanted, reason=reason, target=target)
        if where.json:
            show.print_json(show.redaction_json(done))
            return
        click.echo(f"Erased {left.id} in {show.visible(left.scope)}.")
        show.print_referring(done)


class _Opened:
    """The mailbox for the length of a command; the index is fed before the program ends."""

    def __init__(self, where: Where, *, to_read: bool) -> None:
        self._box = where.open(to_read=to_read)

    def __enter__(self) -> Mailbox:
        return self._box

    def __exit__(self, *_: object) -> None:
        self._box.store.close()
