"""
One side of a comparison, in a process of its own: reads commands from its input, answers with times.

Every side is measured in such a process, so that all of them pay for the same
start, the same pipe and the same interpreter, and the sides can take turns in
small rounds without one of them closing its files.  Only the work itself is
timed.

    worker.py SUBJECT FOLDER OPTIONS-AS-JSON

A command is one line of JSON: `{"do": "send", "arguments": {"count": 64}}`, with `"at"`, a reading of the monotonic
clock, where several processes shall begin together.  The answer is one line as well.
"""

import importlib
import json
import os
import select
import sys
import time

#: Where each subject is; imported only in its own process, because the others need not have it installed.
HOMES = {
    "Fencepost": "subjects",
    "Auditor": "subjects",
    "Raw": "subjects",
    "Lines": "subjects",
    "PlainSqlite": "peers",
    "PersistQueue": "peers",
    "LiteQueue": "peers",
    "Reference": "reference",
    "FencepostPostgres": "queues",
    "Procrastinate": "queues",
    "SkipLocked": "queues",
}


class Pipe:
    """Lines in and out.  The unbuffered reads let `waiting` see whether a command has come."""

    def __init__(self):
        self.out = os.dup(1)
        os.dup2(2, 1)  # what a library prints must not get between the answers
        self.rest = b""

    def read(self):
        while b"\n" not in self.rest:
            piece = os.read(0, 65536)
            if not piece:
                return None
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def waiting(self):
        return bool(self.rest) or bool(select.select([0], [], [], 0)[0])

    def write(self, answer):
        os.write(self.out, json.dumps(answer).encode() + b"\n")


def timed(subject, command):
    work = getattr(subject, command["do"])
    arguments = command.get("arguments", {})
    if "at" in command:
        time.sleep(max(0.0, command["at"] - time.monotonic()))
    began = time.monotonic()
    value = work(**arguments)
    ended = time.monotonic()
    return {"began": began, "ended": ended, "value": value}


def again_and_again(subject, command, pipe):
    """Do a thing until the next command comes; how often it was done."""
    work = getattr(subject, command["again"])
    done = 0
    while not pipe.waiting():
        work(count=1)
        done += 1
    return {"began": 0, "ended": 0, "value": done}


def main():
    name, folder, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    pipe = Pipe()
    try:
        subject = getattr(importlib.import_module(HOMES[name]), name)(folder, **options)
    except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
        pipe.write({"error": f"{type(error).__name__}: {error}"})
        return
    pipe.write({"began": 0, "ended": 0, "value": None})
    while (command := pipe.read()) is not None:
        try:
            pipe.write(again_and_again(subject, command, pipe) if "again" in command else timed(subject, command))
        except Exception as error:  # noqa: BLE001 - likewise
            pipe.write({"error": f"{type(error).__name__}: {error}"})
    subject.close()


if __name__ == "__main__":
    main()
