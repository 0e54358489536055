"""
The big stores: made once, kept in a folder, and used again by later runs.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

from measure import Worker
from texts import BODY

import fencepost.journal
from fencepost.mailbox.store.index import LAYOUT

#: Grows when a store is filled with something else than before.
FORMAT = 1
#: Digest, the two lengths, and a space behind each, come before the header of a frame.
_PREFIX_BYTES = 84
_DIGITS = slice(65, 73)


def form():
    """What a kept store must have been made by, to be used again: this filling and this file format."""
    said = f"{FORMAT}\n{LAYOUT}\n{BODY}\n{fencepost.journal.__doc__}"
    return hashlib.sha256(said.encode()).hexdigest()


def kept(cache, name, build):
    """A folder of the cache, built if it is not there in this form."""
    folder = cache / name
    made = folder / "made.json"
    if made.exists() and json.loads(made.read_text(encoding="ascii"))["form"] == form():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build(folder)
    made.write_text(json.dumps({"form": form()}), encoding="ascii")  # last, so that a half of a store is never used
    return folder


def filled(cache, subject, stored, python=sys.executable, chunk=1000):
    """A store of so many messages, two of four unread for everybody; see `texts.kind`."""

    def build(folder):
        with Worker(subject, folder / "store", python=python) as worker:
            for begin in range(0, stored, chunk):
                tell(f"storing {stored:,} messages ({subject})", begin, stored)
                worker.run("fill", begin=begin, end=min(begin + chunk, stored))
            tell(f"storing {stored:,} messages ({subject})", stored, stored)

    return kept(cache, f"{subject}-{stored}", build) / "store"


def worded(cache, stored, found):
    """A store of so many messages, of which so many have the word in them, all over it."""

    def build(folder):
        with Worker("Fencepost", folder / "store", syncs=False) as worker:
            for begin in range(0, stored, 1000):
                worker.run("fill_words", begin=begin, end=min(begin + 1000, stored), every=stored // found)

    return kept(cache, f"worded-{stored}", build) / "store"


def lived(cache, messages):
    """
    A store in which each message was sent, claimed and completed, and its journal as plain lines of JSON.

    Returns:
        The store, and the file of lines.
    """

    def build(folder):
        with Worker("Fencepost", folder / "store", syncs=False, pays=False) as worker:
            for begin in range(0, messages, 500):
                tell(f"a journal of {3 * messages:,} events", begin, messages)
                worker.run("live", count=min(500, messages - begin))
            tell(f"a journal of {3 * messages:,} events", messages, messages)
        with (folder / "lines").open("wb") as lines:
            for frame in frames(folder / "store"):
                header = _PREFIX_BYTES + int(frame[_DIGITS])
                lines.write(b"[" + frame[_PREFIX_BYTES:header] + b"," + frame[header + 1 :] + b"]\n")

    folder = kept(cache, f"lived-{messages}", build)
    return folder / "store", folder / "lines"


def frames(store):
    """The frames of a store's journal, without the newline of each."""
    for segment in sorted((Path(store) / "journal").glob("*.log")):
        yield from segment.read_bytes().rstrip(b"\0").split(b"\n")[:-1]


def sample(folder):
    """What fencepost writes for each kind of work, in a file for the floors to write the same."""
    count = 64
    folder.mkdir(exist_ok=True)
    with Worker("Fencepost", folder / "sample", syncs=False) as worker:
        worker.run("send", count=count)
        worker.run("ready", work="turn", count=count)
        worker.run("turn", count=count)
        worker.run("batch", count=1)
    texts = [frame.decode() for frame in frames(folder / "sample")]
    turns = texts[count + 1 : -1]
    record = len(texts[-1]) // 100
    found = {"send": texts[:count], "claim": turns[::2], "complete": turns[1::2], "batch": [texts[-1][:record]]}
    assert len(turns) == 2 * count, "one frame for each step"
    path = folder / "frames.json"
    path.write_text(json.dumps({kind: [f"{each}\n" for each in several] for kind, several in found.items()}))
    return path


def tell(what, done, all_of_it):
    """Progress, where somebody watches."""
    if sys.stderr.isatty():
        end = "\n" if done == all_of_it else ""
        print(f"\r{what}: {100 * done // all_of_it} %", end=end, file=sys.stderr, flush=True)
