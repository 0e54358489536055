"""
`fencepost mcp`: the tools, for the client that starts this program.
"""

from __future__ import annotations

import click

from fencepost.journal.errors import MissingExtra
from fencepost.mailbox import shapes
from fencepost.mailbox.cli import interrupts
from fencepost.mailbox.cli.options import Where, storage


@click.command("mcp")
@click.option("--session", help="Bind the caller to this session. Otherwise it says which with each call.")
@storage
def mcp_command(where: Where, session: str | None) -> None:
    """
    Offer mail, search, recall and documents as tools to a model, over standard input and output.

    A client's configuration starts it; `fencepost setup` writes the lines. The tools are `messages`, `search_history`,
    `recall_turn` and `memory`.
    """
    if session is not None:
        shapes.name(session, "session")
    try:
        import anyio

        from fencepost.mailbox.mcp.server import over_stdio
    except ModuleNotFoundError as error:
        raise MissingExtra(extra="mcp") from error
    interrupts.at_once()  # whoever waits for standard input can be stopped by nothing else
    anyio.run(over_stdio, where.tools(session))
