"""
The `fencepost` program.

Two doors lead in.  The quick one answers what is asked again and again by
hooks and scripts without importing more than SQLite; whatever it does not
recognise goes through the other, which is click.

Rules for this file: nothing is imported at the top that the quick door can do
without.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED_STATUS = 130


def main() -> int:
    """Run the program on the words of the command line; the exit status."""
    _open_what_is_closed()
    try:
        if sys.argv[1:2] != ["hook"]:  # whose client says where it is
            os.getcwd()
    except OSError as error:
        sys.stderr.write(f"fencepost: the current folder cannot be used ({error.strerror}): go to another one\n")
        return 1
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except BrokenPipeError:  # whoever read the answer has gone, and needs no explanation
        return _give_up()
    except OSError as error:
        sys.stderr.write(f"fencepost: the answer could not be written ({error.strerror})\n")
        return _give_up()
    return status


def _open_what_is_closed() -> None:
    """Streams that whoever started the program has closed lead nowhere, and no file of a store gets their number."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _run(words: list[str]) -> int:
    if words[:2] == ["messages", "list"] and "--json" in words:
        from fencepost.mailbox.cli.quick import list_json

        answer = list_json(words[2:])
        if answer is not None:
            sys.stdout.write(answer)
            return 0
    from fencepost.mailbox.cli import interrupts

    interrupts.at_once()
    if words[:1] == ["hook"]:
        from fencepost.mailbox.cli.hook import run as hook

        return hook(words[1:])
    from fencepost.mailbox.cli.app import run

    with interrupts.tidily():
        return run(words)


def _give_up() -> int:
    """Let the interpreter's last flush have somewhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
