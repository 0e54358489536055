"""
The commands, put together, and the one place where errors become exit statuses.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import click

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.cli.demo import demo
from fencepost.mailbox.cli.journal import journal
from fencepost.mailbox.cli.messages import messages
from fencepost.mailbox.cli.sessions import sessions
from fencepost.mailbox.cli.show import note, print_json, visible

_USAGE_STATUS = 2
_INTERRUPTED_STATUS = 130


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
fencepost.add_command(journal)
fencepost.add_command(demo)


def run(words: Sequence[str]) -> int:
    """Run a command; the exit status.  No error leaves this as a traceback."""
    as_json = "--json" in words
    warnings.showwarning = lambda message, *_: note(str(message))
    try:
        status = fencepost.main(args=list(words), prog_name="fencepost", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        if as_json:
            _refuse_json("usage", error.format_message(), {})
        else:
            error.show()
        return _USAGE_STATUS
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except FencepostError as error:
        if as_json:
            _refuse_json(error.code, str(error), error.details)
        else:
            click.echo(f"fencepost: {visible(str(error))}", err=True)
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED_STATUS
    except BrokenPipeError:
        # Whoever read the output has gone; let the interpreter's last flush have somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _refuse_json(code: str, message: str, details: dict[str, object]) -> None:
    safe = {name: value if isinstance(value, int) else str(value) for name, value in details.items()}
    document = {"error": {"code": code, "message": message, "details": safe}}
    print_json(_without_surrogates(document))


def _without_surrogates(value: object) -> object:
    """What was refused for a lone surrogate must still be told in JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(each) for key, each in value.items()}
    return value
