"""
`fencepost changes`: the feed of what changed, and how far its readers are.
"""

from __future__ import annotations

import contextlib
import math

import attrs
import click

from fencepost.mailbox import errors
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, storage, whole
from fencepost.mailbox.feed import Checkpoint, Gap, Item, News

#: For how long a poll waits at most: a day.
_WAIT_S_MAX = 86_400


@click.group()
def changes() -> None:
    """
    Follow what changes, and keep how far you are.

    Every change of a message, a document, a link or a turn, and every redaction, in the order in which they happened:
    where, what was done, by whom and when, never what it says. A position is the number of a change; polling gives
    what stands behind it. What `journal retain` has moved to the archive is in the feed no more, and a gap says so.
    """


@changes.command()
@click.option("--after", metavar="POSITION", help="What changed behind this position [the beginning].")
@click.option("--checkpoint", metavar="NAME", help="Or behind where this checkpoint stands. Polling does not move it.")
@click.option("--target", help="Only what changed in this mounted path or scope.")
@click.option("--all-scopes", is_flag=True, help="What changed in every scope of the store, mounted or not.")
@click.option("--limit", metavar="N", default="50", show_default=True, help="How many changes at most, 1 to 500.")
@click.option("--wait", metavar="SECONDS", default="0", help="Wait so long for a change if there is none.")
@click.option("--no-gaps", is_flag=True, help="Refuse (expired) if what stood behind the position is in the archive.")
@storage
def poll(
    where: Where,
    after: str | None,
    checkpoint: str | None,
    target: str | None,
    all_scopes: bool,
    limit: str,
    wait: str,
    no_gaps: bool,
) -> None:
    """
    Show what changed behind a position, oldest first, and the position to poll from next.

    \b
    fencepost changes poll --checkpoint indexer --wait 30 --json
    fencepost changes checkpoint indexer 1234
    """
    feed = where.changes(to_read=True, everywhere=all_scopes)
    with contextlib.closing(feed.store):
        news = feed.poll(
            whole(after, "after", 0),
            checkpoint=checkpoint,
            target=target,
            limit=whole(limit, "limit") or 0,
            wait_s=_seconds(wait),
            gaps=not no_gaps,
        )
        if where.json:
            show.print_json(_news_json(news))
        else:
            _print_news(news)


@changes.command("checkpoint")
@click.argument("name")
@click.argument("position", required=False)
@storage
def move(where: Where, name: str, position: str | None) -> None:
    """
    Show where a checkpoint stands, or move it forward to a position, durably.

    Move it once you are done with the changes up to there. It moves neither back (moves_back) nor beyond the end
    (ahead). One that nobody has moved stands at 0.
    """
    reached = whole(position, "position", 0)
    feed = where.changes(to_read=reached is None, everywhere=True)
    with contextlib.closing(feed.store):
        found = feed.checkpoint(name) if reached is None else feed.advance(name, reached)
        if where.json:
            show.print_json(attrs.asdict(found))
        else:
            _print_checkpoint(found)


def _seconds(text: str) -> float:
    """A time to wait: a number, whole or not."""
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if math.isfinite(seconds) and 0 <= seconds <= _WAIT_S_MAX:
            return seconds
    raise errors.InvalidNumber(field="wait", value=text[:40], least=0, most=_WAIT_S_MAX)


def _news_json(news: News) -> dict[str, object]:
    items = [_item_json(item) for item in news.items]
    return {"items": items, "position": news.position, "more": news.more, "end": news.end}


def _item_json(item: Item) -> dict[str, object]:
    return {"type": "gap", **attrs.asdict(item)} if isinstance(item, Gap) else attrs.asdict(item)


def _print_news(news: News) -> None:
    if not news.items:
        click.echo("Nothing has changed there.")
    for item in news.items:
        if isinstance(item, Gap):
            click.echo(f"{item.through}  gap  what changed behind {item.after} and up to here is in the archive")
            continue
        version = "" if item.version is None else f"  version {item.version}"
        place = f"{item.path or 'all of it'} in {item.scope}"
        kind = item.type.removeprefix("state.")
        click.echo(show.visible(f"{item.id}  {kind} {item.action}  {place}{version}  {item.at}  by {item.actor}"))
    more = "; there is more" if news.more else ""
    show.note(f"poll next with --after {news.position}{more}")


def _print_checkpoint(found: Checkpoint) -> None:
    since = "" if found.at is None else f", since {found.at}, by {found.actor}"
    click.echo(show.visible(f"Checkpoint {found.name} stands at {found.position}{since}."))
