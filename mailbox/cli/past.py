"""
`fencepost search`, `fencepost memory search` and `fencepost recall`: what was said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import click

from fencepost.mailbox import codec
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, storage, whole
from fencepost.mailbox.cli.turns import print_turn
from fencepost.mailbox.message import Status
from fencepost.mailbox.past import Annotation, Hit, Past, Source
from fencepost.mailbox.times import show as time

_SNIPPET_WIDTH = 160


@contextlib.contextmanager
def _opened(where: Where) -> Iterator[Past]:
    past = where.past()
    with contextlib.closing(past.store):
        yield past


@click.command()
@click.argument("query")
@click.option("--target", help="A mounted path or scope whose messages to search; all mounts where none is given.")
@click.option("--conversation", multiple=True, help="Search the turns of this conversation alone. Repeatable.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most, 1 to 500.")
@storage
def search(where: Where, query: str, target: str | None, conversation: tuple[str, ...], limit: str) -> None:
    """
    Find what messages, their outcomes and turns have said, newest first. Nothing is marked as read.

    The query is split at white space. Each term must be in the text, in upper or lower case; quotes, signs and
    wildcards stand for themselves. A turn comes with the messages that are about it.

    \b
    fencepost search "POL-358 don't"
    fencepost search src/main.py --conversation s-42 --json
    """
    with _opened(where) as past:
        found = past.search(query, target=target, conversations=conversation or None, limit=_limit(limit))
        if where.json:
            show.print_json({"hits": [_hit_json(hit) for hit in found.hits], "complete": found.complete})
            return
        for hit in found.hits:
            _print_hit(hit)
        _print_end(len(found.hits), complete=found.complete)


@click.command("search")
@click.argument("query")
@click.option("--target", help="A mounted path or scope; all mounts where none is given.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many at most, 1 to 500.")
@storage
def search_memory(where: Where, query: str, target: str | None, limit: str) -> None:
    """
    Find documents by their text as it stands, the last written first; neither mail nor turns.

    The query is split at white space. Each term must be in the text, in upper or lower case.
    """
    with _opened(where) as past:
        found = past.search_memory(query, target=target, limit=_limit(limit))
        if where.json:
            show.print_json({"hits": [attrs.asdict(hit) for hit in found.hits], "complete": found.complete})
            return
        for hit in found.hits:
            click.secho(show.visible(f"{hit.path}  version {hit.version}"), bold=True, nl=False)
            click.echo(show.visible(f"  in {hit.scope}  {time(hit.updated_at)}  by {hit.actor}"))
            click.echo(f"    {show.clip(hit.snippet, _SNIPPET_WIDTH)}")
        _print_end(len(found.hits), complete=found.complete)


@click.command()
@click.argument("conversation")
@click.option("--turn", metavar="N", help="This turn alone.")
@click.option("--after", metavar="N", default="0", show_default=True, help="Begin behind this turn.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many turns at most, 0 to 500.")
@storage
def recall(where: Where, conversation: str, turn: str | None, after: str, limit: str) -> None:
    """
    Show turns as they were appended, and behind each the messages that are about it.

    Those are of all mounts and whoever mounts a scope reads them; nothing is marked as read. What was acknowledged or
    finished is there too, and what was cancelled says so. Without --turn, what is about the whole conversation follows.

    \b
    fencepost recall s-42 --turn 7
    """
    with _opened(where) as past:
        found = past.recall(
            conversation,
            turn=whole(turn, "turn"),
            after=whole(after, "after", 0) or 0,
            limit=whole(limit, "limit", 0) or 0,
        )
        if where.json:
            turns = [
                {"turn": codec.shape(each.turn), "annotations": _annotations_json(each.annotations)}
                for each in found.turns
            ]
            about = _annotations_json(found.annotations)
            head = {"conversation_id": found.conversation_id, "turns": turns, "annotations": about}
            show.print_json(head | {"next_after": found.next_after})
            return
        if not found.turns:
            click.echo(f"No turns there in {show.visible(found.conversation_id)}.")
        for each in found.turns:
            print_turn(each.turn)
            _print_annotations(each.annotations)
        if found.annotations:
            click.echo("About the whole conversation:")
            _print_annotations(found.annotations)
        if found.next_after is not None:
            show.note(f"there is more: go on with --after {found.next_after}")


def _limit(text: str) -> int:
    number = whole(text, "limit")
    assert number is not None, "the option has a default"
    return number


# --- answers ----------------------------------------------------------------------------------------------------


def _hit_json(hit: Hit) -> dict[str, Any]:
    flat = attrs.asdict(hit, recurse=False)
    return flat | {"source": hit.source.value, "annotations": _annotations_json(hit.annotations)}


def _annotations_json(found: Iterable[Annotation]) -> list[dict[str, Any]]:
    return [
        {
            "scope": each.scope,
            "message_id": each.message_id,
            "version": each.version,
            "message": None if each.message is None else codec.body(each.message),
            "why": each.why,
        }
        for each in found
    ]


def _print_hit(hit: Hit) -> None:
    if hit.source is Source.TURN:
        head = f"{hit.conversation_id}  turn {hit.turn}"
    else:
        what = "outcome of " if hit.source is Source.OUTCOME else ""
        head = f"{what}{hit.message_id}  {hit.status}  in {hit.scope}"
    click.secho(show.visible(head), bold=True, nl=False)
    click.echo(show.visible(f"  {time(hit.created_at)}  by {hit.actor}"))
    click.echo(f"    {show.clip(hit.snippet, _SNIPPET_WIDTH)}")
    _print_annotations(hit.annotations)


def _print_annotations(found: Iterable[Annotation]) -> None:
    for each in found:
        if each.message is None:
            click.echo(show.visible(f"  * {each.message_id} in {each.scope}: {each.why}"))
            continue
        letter = each.message.letter
        cancelled = "CANCELLED  " if each.message.status is Status.CANCELLED else ""
        who = letter.actor + (f", session {letter.source}" if letter.source else "")
        head = f"{cancelled}{time(letter.created_at)}  by {who}  ({each.message.status.value}, {letter.id})"
        click.echo(show.visible(f"  * {head}"))
        for line in letter.body.splitlines():
            click.echo(f"    | {show.visible(line)}")
        if each.message.outcome is not None:
            click.echo(f"    outcome: {show.clip(each.message.outcome, _SNIPPET_WIDTH)}")


def _print_end(count: int, *, complete: bool) -> None:
    if not count:
        click.echo("Nothing was found.")
    if not complete:
        show.note("older texts were not looked at: give a term of three characters or more")
