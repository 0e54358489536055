"""
`fencepost postgres`: a store in a Postgres database is made on purpose.
"""

from __future__ import annotations

import os

import click

from fencepost.mailbox import errors
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import json_flag
from fencepost.mailbox.cli.place import DATABASE_VARIABLE
from fencepost.mailbox.store.postgres.opening import create
from fencepost.mailbox.store.postgres.schema import GENERATION, SCHEMA, checked
from fencepost.mailbox.store.postgres.schema import ddl as script

_schema_option = click.option("--schema", default=SCHEMA, show_default=True, help="The schema in the database.")


@click.group()
def postgres() -> None:
    """
    Make a store in a Postgres database.

    Commands use it with --database-url, or with $FENCEPOST_DATABASE_URL.
    """


@postgres.command()
@click.option(
    "--database-url",
    metavar="URL",
    help="Where the database is, without a password [$FENCEPOST_DATABASE_URL].",
)
@_schema_option
@json_flag
def init(database_url: str | None, schema: str, as_json: bool) -> None:
    """
    Make the tables, or bring them up to date. Doing it again is harmless, and so are two who do it at once.

    The password, if there is one, is taken from $FENCEPOST_DATABASE_URL, $PGPASSFILE or a service file.

    \b
    fencepost postgres init --database-url postgresql://mail@db.internal/agents
    """
    url = database_url or os.environ.get(DATABASE_VARIABLE)
    if not url:
        raise errors.Usage(why=f"give --database-url, or set ${DATABASE_VARIABLE}: no database is made by chance")
    where, before, now = create(url, schema=schema, may_hold_password=database_url is None)
    if as_json:
        show.print_json({"where": where, "generation": now, "generation_before": before})
    elif before == now:
        click.echo(show.visible(f"There is a store in {where}, and it is up to date."))
    else:
        done = "Made a store in" if before == 0 else "Brought up to date the store in"
        click.echo(show.visible(f"{done} {where}."))


@postgres.command()
@_schema_option
def ddl(schema: str) -> None:
    """
    Print the SQL that makes a store, for whoever runs it by hand. It needs no server.

    \b
    fencepost postgres ddl | psql --set ON_ERROR_STOP=1 agents
    """
    click.echo(f"-- A fencepost store of generation {GENERATION}.\n{script(checked(schema))}", nl=False)
