"""
The commands, put together, and the one place where errors become exit statuses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.cli.show import note, print_json, visible
from fencepost.mailbox.errors import Usage

_INTERRUPTED_STATUS = 130
#: Fields whose names are not words that a sentence may use in another sense.
_FIELDS = (
    "message_id",
    "due_at",
    "delay_seconds",
    "about_turn",
    "idempotency_key",
    "expected_version",
    "context_version",
    "change_id",
)


#: Command -> the module that it is in, and its name there, in the order of the help.
_HOMES: Final = {
    "messages": ("messages", "messages"),
    "sessions": ("sessions", "sessions"),
    "memory": ("memory", "memory"),
    "changes": ("changes", "changes"),
    "turns": ("turns", "turns"),
    "search": ("past", "search"),
    "recall": ("past", "recall"),
    "journal": ("journal", "journal"),
    "export": ("transfer", "export_command"),
    "import": ("transfer", "import_command"),
    "setup": ("setup", "setup"),
    "status": ("setup", "status"),
    "mcp": ("mcp", "mcp_command"),
    "postgres": ("postgres", "postgres"),
    "serve": ("serve", "serve"),
    "fleet": ("fleet", "fleet"),
    "demo": ("demo", "demo"),
}


class _Commands(click.Group):
    """Commands that are imported when they are asked for: starting is most of what a short one takes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        module, name = _HOMES[cmd_name]
        command: click.Command = getattr(import_module(f"fencepost.mailbox.cli.{module}"), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fencepost")
def fencepost() -> None:
    """
    A durable mailbox for agent sessions.

    Sessions leave each other messages and reminders, hand work over under leases, and nothing is read by being shown.
    Start with `fencepost demo`, then `fencepost messages send --help`.

    Exit status: 0 done, 1 refused or failed (the message says why), 2 the words of the command do not fit.
    """


def run(words: Sequence[str]) -> int:
    """Run a command; the exit status.  No error leaves this as a traceback."""
    as_json = "--json" in words
    warnings.showwarning = lambda message, *_: note(str(message))
    try:
        status = fencepost.main(args=list(words), prog_name="fencepost", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:  # a group alone: its help, though nothing was done
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        hint = "" if error.ctx is None or as_json else f"{error.ctx.get_usage()}\n"
        return _refuse(Usage(why=error.format_message()), as_json=as_json, hint=hint)
    except click.ClickException as error:
        click.echo(f"fencepost: {visible(error.format_message())}", err=True)
        return error.exit_code
    except FencepostError as error:
        return _refuse(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED_STATUS


def _refuse(error: FencepostError, *, as_json: bool, hint: str = "") -> int:
    if as_json:
        details = {name: value if isinstance(value, int) else str(value) for name, value in error.details.items()}
        document = {"error": {"code": error.code, "message": str(error), "details": details}}
        print_json(_without_surrogates(document))
    else:
        click.echo(f"{hint}fencepost: {visible(_as_typed(str(error)))} [{error.code}]", err=True)
    return error.exit_status


def _as_typed(sentence: str) -> str:
    """A sentence about fields, with the names of the options that they were typed as."""
    for field in _FIELDS:
        sentence = re.sub(rf"(?<![\w-]){field}\b", f"--{field.replace('_', '-')}", sentence)
    return sentence


def _without_surrogates(value: object) -> object:
    """What was refused for a lone surrogate must still be told in JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(each) for key, each in value.items()}
    return value
