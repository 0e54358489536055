"""
The commands, put together, and the one place where errors become exit statuses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import click

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.cli.changes import changes
from fencepost.mailbox.cli.demo import demo
from fencepost.mailbox.cli.journal import journal
from fencepost.mailbox.cli.memory import memory
from fencepost.mailbox.cli.messages import messages
from fencepost.mailbox.cli.past import recall, search, search_memory
from fencepost.mailbox.cli.sessions import sessions
from fencepost.mailbox.cli.show import note, print_json, visible
from fencepost.mailbox.cli.transfer import export_command, import_command
from fencepost.mailbox.cli.turns import turns
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fencepost")
def fencepost() -> None:
    """
    A durable mailbox for agent sessions.

    Sessions leave each other messages and reminders, hand work over under leases, and nothing is read by being shown.
    Start with `fencepost demo`, then `fencepost messages send --help`.

    Exit status: 0 done, 1 refused or failed (the message says why), 2 the words of the command do not fit.
    """


fencepost.add_command(messages)
fencepost.add_command(sessions)
fencepost.add_command(memory)
fencepost.add_command(changes)
fencepost.add_command(turns)
fencepost.add_command(search)
fencepost.add_command(recall)
memory.add_command(search_memory)
fencepost.add_command(journal)
fencepost.add_command(export_command)
fencepost.add_command(import_command)
fencepost.add_command(demo)


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
