"""Other processes, for tests of what holds between them."""

import subprocess
import sys

#: Longer than anything here takes, so that what hangs fails its test and nothing more.
PATIENCE_S = 60


def start(code, *words):
    """A Python process with pipes to talk through."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(code, *words):
    """What a Python process prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.strip()
