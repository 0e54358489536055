"""
`fencepost serve`: the state process, which keeps a store for others.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os

import click

from fencepost.journal.errors import MissingExtra
from fencepost.mailbox import shapes
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, served_store, whole

_PORT = "6367"
_PORT_MAX = 65_535


@click.command()
@click.option("--host", default="127.0.0.1", help="The address to listen at [127.0.0.1].")
@click.option("--port", default=_PORT, metavar="N", help=f"The port; 0 takes one that is free [{_PORT}].")
@served_store
def serve(where: Where, host: str, port: str) -> None:
    """
    Serve a store over HTTP to those who hold a token, until SIGTERM or SIGINT.

    Clients name it with --url. Nobody gets in without a token: $FENCEPOST_SERVE_TOKEN is one, or a table of clients,
    client:alice=TOKEN,client:bob@user:bob+bob-=TOKEN, in which @ says which scope a client may name, and + which
    conversation, each with what follows it behind a slash; one that ends with a sign is for whatever begins with it.
    With --scope or --mount there are tools for models at /mcp, for clients whose token has no such limits. What was
    accepted is finished before the program ends.

    \b
    FENCEPOST_SERVE_TOKEN=$(cat /run/secrets/mail) fencepost serve --root /var/lib/mail
    curl http://127.0.0.1:6367/health
    """
    try:
        from fencepost.mailbox.server.app import application
        from fencepost.mailbox.server.running import listen, run, url
        from fencepost.mailbox.server.tokens import tokens
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise MissingExtra(extra="server") from error

    known = tokens(os.environ)
    number = shapes.whole_number(whole(port, "port", 0, _PORT_MAX) or 0, "port", 0, _PORT_MAX)
    store, backend = where.served()
    with contextlib.closing(store):
        logging.basicConfig(format="fencepost: %(message)s", level=logging.ERROR)
        listening = listen(host, number)
        app = application(store, known, backend=backend, mounts=where.mounts() if where.scope or where.mount else ())
        if not _is_loopback(listening.getsockname()[0]):
            show.note("this is plain HTTP and reaches beyond this machine: TLS ends at a proxy, which has to be there")
        run(app, listening, lambda: click.echo(f"Serving at {url(listening)}"))


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
