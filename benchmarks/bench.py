"""
How fast fencepost is: each line of the table is a ratio that was measured in one run.

    tox -e bench                        # all of it: about half an hour, 4 GB of disk for stores and 4 GB of memory
    tox -e bench -- --quick             # 20,000 messages and few rounds, to try the scripts
    tox -e bench -- --rows send,turn    # some lines; see --help
    tox -e bench -- --publish           # writes docs/benchmarks.md and docs/benchmarks.svg too

The stores with a million messages are made once and kept in $FENCEPOST_BENCH_DIR, which also says which disk is
measured.  Anything else that runs meanwhile is measured too.
"""

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import big
import publish
import rows
from measure import SideFailed
from places import QUICK, REFERENCE, Place, Sizes, file_system, find_reference

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".tox" / "bench-stores"
#: In the order of the table.
ROWS = {
    "send": rows.sending,
    "turn": rows.working,
    "processes": rows.many,
    "batch": rows.batches,
    "list": big.listing,
    "search": big.searching,
    "cold": big.cold,
    "hook": big.hook,
    "verify": big.verifying,
    "rebuild": big.rebuilding,
    "memory": big.memory,
    "beside": big.beside,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few messages and few rounds")
    parser.add_argument("--stored", type=int, help="so many messages instead of a million")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {','.join(ROWS)}")
    parser.add_argument("--no-reference", action="store_true", help="leave the reference implementation out")
    parser.add_argument("--results", type=Path, help="where to write results.json; beside the stores where not given")
    parser.add_argument("--publish", action="store_true", help="write the page and the plot")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="into this folder")
    said = parser.parse_args()
    unknown = set(said.rows.split(",")) - ROWS.keys()
    if unknown:
        parser.error(f"there are no rows {', '.join(sorted(unknown))}")
    if said.publish and set(said.rows.split(",")) != ROWS.keys():
        parser.error("a page has all rows")
    return said


def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def circumstances(place, said):
    """What was measured where, in general terms."""
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "quick": said.quick,
        "rows": said.rows,
        "stored": place.sizes.stored,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "file_system": file_system(place.cache),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "load_before": round(os.getloadavg()[0], 1),
        "versions": {
            "fencepost": version("fencepost"),
            "persist-queue": version("persist-queue"),
            "litequeue": version("litequeue"),
            "neosian": REFERENCE.partition("==")[2] if place.reference else None,
        },
    }


def measure(place, wanted):
    """The rows, and what went wrong."""
    found, failed = [], {}
    for name in wanted:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            found += ROWS[name](place)
        except (SideFailed, AssertionError, OSError) as error:
            failed[name] = f"{type(error).__name__}: {error}"
            print(f"  {failed[name]}", file=sys.stderr, flush=True)
        print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found, failed


def main():
    said = arguments()
    cache = Path(os.environ.get("FENCEPOST_BENCH_DIR") or CACHE).resolve()
    cache.mkdir(parents=True, exist_ok=True)
    reference, why_not = (None, "left out") if said.no_reference else find_reference(cache)
    # On the same file system as the stores; never in /tmp, which may be memory.
    scratch = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
    sizes = QUICK if said.quick else Sizes()
    sizes = replace(sizes, stored=said.stored or sizes.stored)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 4:
        print(f"this machine is busy (load {load:.1f}): the figures will say so", file=sys.stderr)
    place = Place(sizes, cache, scratch, reference, why_not)
    try:
        where = circumstances(place, said)
        found, failed = measure(place, [name for name in ROWS if name in said.rows.split(",")])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    results = {"where": where, "rows": [row.as_json() for row in found], "failed": failed}
    path = said.results or cache / "results.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(publish.terminal(results))
    print(f"\nresults: {path}")
    if said.publish:
        for written in publish.write(results, said.docs):
            print(f"written: {written}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
