"""
`fencepost sessions`: which session continues which conversation.
"""

from __future__ import annotations

import contextlib

import click

from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, needed, storage


@click.group()
def sessions() -> None:
    """Say which session continues which conversation, so that mail follows."""


@sessions.command()
@click.option("--session", help="The session that continues.")
@click.option("--continues", metavar="CONVERSATION", help="What it continues.")
@click.option("--target", help="The mounted path or scope that keeps the link.")
@storage
def link(where: Where, session: str | None, continues: str | None, target: str | None) -> None:
    """Let a session receive what is addressed to an earlier conversation, and to those that one continues."""
    box = where.open(to_read=False)
    with contextlib.closing(box.store):
        receives = box.link(
            needed(session, "session", "name the session that continues"),
            needed(continues, "continues", "name the conversation that it continues"),
            target=target,
        )
        _answer(where, session or "", receives)


@sessions.command("show")
@click.option("--session", help="Which session.")
@storage
def show_session(where: Where, session: str | None) -> None:
    """Show whose mail a session receives."""
    box = where.open(to_read=True)
    with contextlib.closing(box.store):
        asked = needed(session, "session", "name the session")
        _answer(where, asked, box.audience(asked))


def _answer(where: Where, session: str, receives: frozenset[str]) -> None:
    others = sorted(receives - {session})
    if where.json:
        show.print_json({"session": session, "continues": others})
    else:
        click.echo(f"Session {show.visible(session)} receives its own mail" + (" and that of:" if others else "."))
        for other in others:
            click.echo(f"  {show.visible(other)}")
