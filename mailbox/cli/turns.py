"""
`fencepost turns`: conversations, turn by turn.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from fencepost.mailbox import chat, codec, errors
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, needed, said, storage, whole
from fencepost.mailbox.talks import Conversations, TurnPage
from fencepost.mailbox.times import show as time
from fencepost.mailbox.turns import ChatMessage, Turn


@click.group()
def turns() -> None:
    """
    Keep conversations: turns are appended, read and redacted.

    A conversation begins with its first turn. Turns are numbered from 1 without gaps, come back as they were given, and
    are never deleted. Mounts do not matter here.
    """


@contextlib.contextmanager
def _opened(where: Where, *, to_read: bool) -> Iterator[Conversations]:
    """The conversations for the length of a command; the index is fed before the program ends."""
    talks = where.conversations(to_read=to_read)
    with contextlib.closing(talks.store):
        yield talks


@turns.command()
@click.argument("conversation")
@click.option("--file", metavar="FILE", help="A JSON list of chat messages, or - for standard input. Required.")
@storage
def append(where: Where, conversation: str, file: str | None) -> None:
    """
    Append a turn: a JSON list of chat messages, each an object with a role.

    content, reasoning, tool_calls, tool_call_id and extra are kept as they are, other keys dropped. It is stored
    durably when the command returns; repeating it appends another turn.

    \b
    echo '[{"role": "user", "content": "Look at the build."}]' | fencepost turns append s-42 --file -
    """
    text = said(None, needed(file, "file", "a JSON list of chat messages, or - for standard input"), "messages")
    messages = _json(text or "")
    with _opened(where, to_read=False) as talks:
        turn = talks.append_turn(conversation, messages)
        if where.json:
            show.print_json(codec.shape(turn))
        else:
            click.echo(f"Appended turn {turn.turn} of {show.visible(turn.conversation_id)}.")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidTurn(where="messages", why=f"it cannot be read as JSON: {error}"[:200]) from error


@turns.command()
@click.argument("conversation")
@click.option("--after", metavar="N", default="0", show_default=True, help="Begin behind this turn.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most, 0 to 500.")
@storage
def read(where: Where, conversation: str, after: str, limit: str) -> None:
    """Show turns, oldest first. What cannot be printed is shown escaped; --json has it as it is."""
    with _opened(where, to_read=True) as talks:
        page = talks.read_turns(conversation, after=whole(after, "after", 0) or 0, limit=whole(limit, "limit", 0) or 0)
        if where.json:
            listed = [codec.shape(turn) for turn in page.turns]
            show.print_json({"conversation_id": page.conversation_id, "turns": listed, "next_after": page.next_after})
        else:
            _print_page(page)


@turns.command()
@click.argument("conversation")
@click.option("--through", metavar="N", help="All turns up to this one.")
@click.option("--turn", metavar="N", multiple=True, help="Or this turn. Repeatable.")
@click.option("--reason", help="Why, for the record. It must not repeat what is to be erased.")
@click.option("--yes", is_flag=True, help="Do not ask, even on a terminal.")
@storage
def redact(
    where: Where, conversation: str, through: str | None, turn: tuple[str, ...], reason: str | None, yes: bool
) -> None:
    """
    Erase what turns say, and what projections may repeat of them. It cannot be brought back.

    Afterwards no file of the store holds it. Their numbers, their times and who appended them stay on record, and so
    does that they were erased. Copies that were made of the store hold it still.

    \b
    fencepost turns redact s-42 --turn 7 --reason "It held a password"
    fencepost turns redact s-42 --through 100
    """
    last = whole(through, "through", 0)
    chosen = [number for text in turn if (number := whole(text, "turns")) is not None] if turn else None
    if not (yes or where.json) and sys.stdin.isatty():
        click.confirm(f"Erase turns of {show.visible(conversation)} for good?", abort=True, err=True)
    with _opened(where, to_read=False) as talks:
        count = talks.redact_turns(conversation, through=last, turns=chosen, reason=reason)
        if where.json:
            show.print_json({"conversation_id": conversation, "count": count})
        else:
            click.echo(f"Erased {count} turns of {show.visible(conversation)}.")


# --- answers ----------------------------------------------------------------------------------------------------


def _print_page(page: TurnPage) -> None:
    if not page.turns:
        click.echo(f"No turns there in {show.visible(page.conversation_id)}.")
    for turn in page.turns:
        print_turn(turn)
    if page.next_after is not None:
        show.note(f"there is more: go on with --after {page.next_after}")


def print_turn(turn: Turn) -> None:
    """A turn and what was said in it, line by line."""
    when = show.relative(turn.created_at, utc_now())
    click.secho(f"{show.visible(turn.conversation_id)}  turn {turn.turn}", bold=True, nl=False)
    click.echo(f"  {time(turn.created_at)} ({when})  by {show.visible(turn.actor)}")
    if turn.redacted:
        click.echo("  (erased)")
    for message in turn.messages:
        _print_message(message)


def _print_message(message: ChatMessage) -> None:
    click.echo(f"  {show.visible(message['role'])}:")
    for line in chat.text([message]).splitlines():
        click.echo(f"  | {show.visible(line)}")
