"""
How fast work is taken off a shared Postgres, beside procrastinate and a bare queue on the same server.

    tox -e bench-postgres                   # some minutes
    tox -e bench-postgres -- --publish      # writes docs/benchmarks-postgres.md too

Each round puts the same number of pieces of work there for each side, lets 1, 4 or 16 worker processes of one side take
all of it, then those of the next, and so on; the figures are medians of the rounds, the ratios medians of the pairs.
The server is one of its own, with the settings that it comes with, so every commit is synced; or the one that
$FENCEPOST_TEST_DATABASE_URL names.
"""

import argparse
import contextlib
import datetime as dt
import os
import statistics
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import psycopg
from measure import START_S, Worker

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from postgres import Server  # noqa: E402 - the tests know how to start one

COUNTS = (1, 4, 16)
#: Side -> its subject, and what its workers are told.
SIDES = {
    "fencepost": ("FencepostPostgres", lambda _: {}),
    "fencepost, 16 scopes": ("FencepostPostgres", lambda number: {"scopes": 16, "first": number}),
    "procrastinate": ("Procrastinate", lambda _: {}),
    "SKIP LOCKED": ("SkipLocked", lambda _: {}),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=int, default=800, help="pieces of work in a round, for each side")
    parser.add_argument("--publish", action="store_true", help="write the page")
    return parser.parse_args()


def drained(workers, work):
    """Pieces of work per second, of several workers that empty a queue together."""
    workers[0].run("ready", work="turn", count=work)
    at = time.monotonic() + START_S
    for worker in workers:
        worker.begin("drain", at=at, count=work)
    answers = [worker.finish() for worker in workers]
    done = sum(answer["value"] for answer in answers)
    assert done == work, f"{done} of {work} were done"
    return work / (max(each["ended"] for each in answers) - min(each["began"] for each in answers))


def measured(databases, count, rounds, work):
    """Side -> its speed in each round, with so many workers."""
    with contextlib.ExitStack() as after:
        sides = {
            side: [after.enter_context(Worker(subject, databases[side], **told(n))) for n in range(count)]
            for side, (subject, told) in SIDES.items()
        }
        speeds = {side: [] for side in sides}
        for number in range(-1, rounds):  # the first is not counted
            names = list(sides) if number % 2 else list(reversed(sides))
            for side in names:
                speed = drained(sides[side], work)
                if number >= 0:
                    speeds[side].append(speed)
                print(f"  {count} workers, {side}: {speed:.0f}/s", file=sys.stderr, flush=True)
    return speeds


def prepared(url):
    """A database for each side, so that none finds what another has left."""
    found = {}
    with psycopg.connect(url, autocommit=True) as db:
        for number, side in enumerate(SIDES):
            name = f"bench_{os.getpid()}_{number}"
            db.execute(f"CREATE DATABASE {name}")
            found[side] = psycopg.conninfo.make_conninfo(url, dbname=name)
            if side.startswith("fencepost"):
                # The way a person does it.
                words = psycopg.conninfo.conninfo_to_dict(found[side])
                found[side] = f"postgresql://?{urllib.parse.urlencode(words)}"
                environ = {**os.environ, "FENCEPOST_DATABASE_URL": found[side]}
                subprocess.run(["fencepost", "postgres", "init"], env=environ, check=True, capture_output=True)
        found["version"] = db.execute("SHOW server_version").fetchone()[0]
    return found


def page(found, said, version):
    """The page, as Markdown."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    lines = [
        "# Benchmarks of a shared Postgres",
        "",
        "Pieces of work claimed and completed per second by 1, 4 and 16 worker processes, all on one machine with the",
        "server. *fencepost* lists what is unread, claims under a lease and completes with an outcome, and every step",
        "stays in the history; *procrastinate* runs its worker with a task that does nothing; *SKIP LOCKED* is two",
        "updates of one table. All sides work on the same server in turns, with the settings that it comes with.",
        "",
        f"Measured on {today} with {os.cpu_count()} cores, PostgreSQL {version}; {said.rounds} rounds of {said.work}:",
        "medians, and the least and the greatest.",
        "",
        "| workers | " + " | ".join(SIDES) + " | times procrastinate | times SKIP LOCKED |",
        "|---|" + "---|" * (len(SIDES) + 2),
    ]
    for count, speeds in found.items():
        cells = [f"{statistics.median(each):.0f} ({min(each):.0f} … {max(each):.0f})" for each in speeds.values()]
        best = [max(pair) for pair in zip(speeds["fencepost"], speeds["fencepost, 16 scopes"], strict=True)]
        pairs = [
            statistics.median(a / b for a, b in zip(best, speeds[peer], strict=True))
            for peer in ("procrastinate", "SKIP LOCKED")
        ]
        lines.append(f"| {count} | " + " | ".join(cells) + f" | {pairs[0]:.2f} | {pairs[1]:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    said = arguments()
    with contextlib.ExitStack() as after:
        url = os.environ.get("FENCEPOST_TEST_DATABASE_URL")
        if url is None:
            server = Server(options="-c max_connections=200")  # and every commit is synced
            after.callback(server.remove)
            url = server.start().url
        databases = prepared(url)
        version = databases.pop("version")
        found = {count: measured(databases, count, said.rounds, said.work) for count in COUNTS}
    text = page(found, said, version)
    print(text)
    if said.publish:
        path = ROOT / "docs" / "benchmarks-postgres.md"
        path.write_text(text, encoding="utf-8")
        print(f"written: {path}")


if __name__ == "__main__":
    main()
