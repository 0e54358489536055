"""
The `fencepost` program.

Two doors lead in.  The quick one answers what is asked again and again by
hooks and scripts without importing more than SQLite; whatever it does not
recognise goes through the other, which is click.

Rules for this file: nothing is imported at the top that the quick door can do
without.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program on the words of the command line; the exit status."""
    words = sys.argv[1:]
    if words[:2] == ["messages", "list"] and "--json" in words:
        from fencepost.mailbox.cli.quick import list_json

        answer = list_json(words[2:])
        if answer is not None:
            sys.stdout.write(answer)
            return 0
    from fencepost.mailbox.cli.app import run

    return run(words)
