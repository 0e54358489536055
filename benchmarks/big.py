"""
The lines of the table about a store with a million messages, and about its journal.
"""

import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measure import Peer, Row, SideFailed, Team, Worker, milliseconds, ratios
from rows import LITE, PERSIST, REFERENCE, SQLITE, of_the_sums
from stores import filled, lived, worded
from texts import LISTED, LOGIN, PROJECT, SCOPE, SESSION

#: Work on all of a million events takes long.
LONG_S = 3_600
NO_LISTING = {
    PERSIST: "cannot: it shows the next message, or all at once",
    LITE: "cannot: it shows the next message, and no listing",
}
#: What a plain SQLite queue would do for the same answer, started as a program.
_SQLITE_PROGRAM = """
import json, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.row_factory = sqlite3.Row
found = db.execute("SELECT * FROM message WHERE status = 0 AND due <= ? AND (until IS NULL OR until <= ?)"
                   " AND conversation IN ('', ?) ORDER BY due LIMIT 50", (time.time(), time.time(), sys.argv[2]))
print(json.dumps({"items": [dict(row) for row in found]}))
"""


def ours(place, stored):
    """A big store of fencepost's, opened once, so that a start of the machine in between does not count."""
    folder = filled(place.cache, "Fencepost", stored)
    with Worker("Fencepost", folder, timeout_s=LONG_S) as worker:
        worker.run("list", count=1)
    return folder


def theirs(place, name, stored):
    if name == REFERENCE:
        return filled(place.cache, "Reference", stored, python=str(place.reference), chunk=50)
    return filled(place.cache, "PlainSqlite", stored)


def cannot_list():
    return [Peer(name, said=why) for name, why in NO_LISTING.items()]


def reference_at(place, stored):
    return f"neosian file store ({stored:,} stored)" if place.reference else REFERENCE


def listing(place):
    stored, few = place.sizes.stored, place.sizes.few
    many_name, few_name = f"among {stored:,}", f"among {few:,}"
    with Team({many_name, few_name}) as team:
        team.add(many_name, "Fencepost", ours(place, stored))
        team.add(few_name, "Fencepost", ours(place, few))
        team.add(SQLITE, "PlainSqlite", theirs(place, SQLITE, stored))
        took = team.take_turns("list", place.sizes.listings, 20)
        peers = [Peer(SQLITE, ratios(took[SQLITE], took[many_name]))] if SQLITE in took else []
        peers += [Peer(name, said=why) for name, why in team.lost.items()]
    peers += [_reference_listing(place), *cannot_list()]
    return [
        Row(
            key="list",
            work=f"list {LISTED} unread among {stored:,} stored",
            against=f"the same among {few:,}",
            reach=2,
            more=False,
            values=ratios(took[many_name], took[few_name]),
            overall=of_the_sums(took[many_name], took[few_name]),
            unit="times",
            sides=milliseconds(took),
            peers=peers,
            detail="Rounds of 20 listings. Of four stored messages two are unread for everybody, one is for another"
            " conversation, one is due in a year. SQLite lists among as many, and gives rows where fencepost gives"
            f" messages; the reference, whose listing reads every message, among {place.sizes.reference_stored:,}, and"
            " so does fencepost beside it.",
        )
    ]


def searching(place):
    many, few = place.sizes.searched, place.sizes.few
    many_name, few_name = f"among {many:,}", f"among {few:,}"
    with Team({many_name, few_name}) as team:
        for name, stored in ((many_name, many), (few_name, few)):
            team.add(name, "Fencepost", worded(place.cache, stored, LISTED))
            team.workers[name].run("search", count=1, timeout_s=LONG_S)  # the first takes in what was never searched
        took = team.take_turns("search", place.sizes.listings, 10)
    return [
        Row(
            key="search",
            work=f"search a word in {many:,} bodies",
            against=f"the same in {few:,}",
            reach=5,
            more=False,
            values=ratios(took[many_name], took[few_name]),
            overall=of_the_sums(took[many_name], took[few_name]),
            unit="times",
            sides=milliseconds(took),
            peers=[Peer(name, said="cannot: it has no search") for name in (SQLITE, PERSIST, LITE)],
            detail=f"Rounds of 10 searches for a word that {LISTED} messages have in them, all over the store.",
        )
    ]


def _reference_listing(place):
    stored = place.sizes.reference_stored
    if place.reference is None:
        return Peer(REFERENCE, said=place.why_not)
    name = reference_at(place, stored)
    with Team({"fencepost"}) as team:
        team.add("fencepost", "Fencepost", ours(place, stored))
        with team.may_lose(name):
            team.add(name, "Reference", theirs(place, REFERENCE, stored), python=str(place.reference))
        took = team.take_turns("list", 3, {"fencepost": 20, name: 1})
    return Peer(name, ratios(took[name], took["fencepost"])) if name in took else Peer(name, said=team.lost[name])


# --- starting the program -------------------------------------------------------------------------------------------


def cold(place):
    stored = place.sizes.stored
    folder = place.new("cold") / PROJECT  # the program takes the folder's name for the project
    folder.mkdir(parents=True)
    started = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "fencepost messages list --json": [*program(), "messages", "list", "--session", SESSION, "--json"],
        SQLITE: [sys.executable, "-c", _SQLITE_PROGRAM, theirs(place, SQLITE, stored) / "queue.sqlite", SESSION],
    }
    reference = reference_at(place, place.sizes.reference_stored)
    lost = {}
    if place.reference is not None:
        try:
            home = theirs(place, REFERENCE, place.sizes.reference_stored)
        except SideFailed as error:
            lost[reference] = str(error)
        else:
            options = ["--root", home, "--mount", f"scope={SCOPE},path=project", "--session", SESSION, "--json"]
            started[reference] = [place.reference.parent / "neosian", "messages", "list", *options]
    environment = os.environ | {
        "FENCEPOST_HOME": str(ours(place, stored)),
        "NEOSIAN_HOME": str(place.scratch),
        "LOGNAME": LOGIN,
    }
    for name, command in list(started.items()):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
        if name in {"fencepost messages list --json", SQLITE}:
            assert len(json.loads(done.stdout)["items"]) == LISTED, done.stderr
        elif done.returncode:
            lost[name] = done.stderr.decode(errors="replace").strip()[-200:]
            del started[name]
    took = _starts(started, place.sizes.colds, folder, environment)
    us, start = took["fencepost messages list --json"], took["python -c pass"]
    peers = [Peer(name, ratios(took[name], us)) for name in (SQLITE, reference) if name in took]
    peers += [Peer(name, said=f"failed: {why}") for name, why in lost.items()]
    if place.reference is None:
        peers.append(Peer(REFERENCE, said=place.why_not))
    peers += [Peer(name, said="cannot: it has no program") for name in (PERSIST, LITE)]
    return [
        Row(
            key="cold",
            work=f"cold `fencepost messages list --json`, {stored:,} stored",
            against="`python -c pass`",
            reach=5,
            more=False,
            values=ratios(us, start),
            overall=of_the_sums(us, start),
            unit="times",
            sides=milliseconds(took),
            peers=peers,
            detail="The installed program, started anew each time, from start to exit, in turns. SQLite: a short"
            " program that prints the same listing.",
        )
    ]


def hook(place):
    """What a hook costs a client at each tool: the same program, over many stored messages and over few."""
    stored, few = place.sizes.searched, 10
    folder = place.new("hook") / PROJECT  # the program takes the folder's name for the project
    folder.mkdir(parents=True)
    document = folder / "document.json"
    told = {"session_id": SESSION, "cwd": str(folder), "hook_event_name": "PostToolUse", "tool_name": "Bash"}
    document.write_text(json.dumps(told), encoding="utf-8")
    from_file = ["sh", "-c", f'exec "$0" "$@" <{document}']
    many_name, few_name = f"hook, {stored:,} stored", f"hook, {few} stored"
    started = {"python -c pass": [*from_file, sys.executable, "-c", "pass"]}
    for name, count in ((many_name, stored), (few_name, few)):
        where = str(filled(place.cache, "Fencepost", count))
        started[name] = [*from_file, *program(), "hook", "--client", "claude-code", "--root", where]
    environment = os.environ | {"LOGNAME": LOGIN}
    for name in (many_name, few_name):  # what was shown is recorded now, and not beside what is measured
        done = subprocess.run(started[name], cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
        assert b"additionalContext" in done.stdout, done.stderr
        time.sleep(2)
    took = _starts(started, place.sizes.colds, folder, environment)
    start = took["python -c pass"]
    rows = []
    for work, against, reach, other in (
        (f"`fencepost hook` after a tool, {stored:,} stored", "`python -c pass`", 3, start),
        (f"`fencepost hook`, {stored:,} stored", f"the same with {few} stored", 1.5, took[few_name]),
    ):
        rows.append(
            Row(
                key="hook",
                work=work,
                against=against,
                reach=reach,
                more=False,
                values=ratios(took[many_name], other),
                overall=of_the_sums(took[many_name], other),
                unit="times",
                sides=milliseconds(took),
                detail="The installed program with a client's document, from start to exit, in turns.",
            )
        )
    return rows


def program():
    """The installed program, or what it does where it is not beside this interpreter."""
    beside = Path(sys.executable).parent / "fencepost"
    if beside.exists():
        return [str(beside)]
    return [sys.executable, "-P", "-c", "from fencepost.mailbox.cli.main import main; raise SystemExit(main())"]


def _starts(started, rounds, folder, environment):
    took = {name: [] for name in started}
    for number in range(-1, rounds):
        order = list(started) if number % 2 else list(reversed(started))
        for name in order:
            began = time.perf_counter()
            # With pipes, because what has none is waited for in steps that double: 16 ms, 32 ms, 64 ms.
            subprocess.run(started[name], cwd=folder, env=environment, capture_output=True, timeout=120, check=True)
            if number >= 0:
                took[name].append(time.perf_counter() - began)
    return took


# --- the journal ----------------------------------------------------------------------------------------------------


def verifying(place):
    store, lines = lived(place.cache, place.sizes.lived)
    events = 3 * place.sizes.lived
    with Team({"verify + replay", "lines"}) as team:
        team.add("verify + replay", "Auditor", store)
        team.add("lines", "Lines", lines)
        took = team.take_turns("replay", place.sizes.verifies, 1)
    return [
        Row(
            key="verify",
            work="verify + replay of a journal",
            against="reading its lines, SHA-256 and `orjson.loads` of each",
            reach=4,
            more=False,
            values=ratios(took["verify + replay"], took["lines"]),
            overall=of_the_sums(took["verify + replay"], took["lines"]),
            unit="times",
            sides=milliseconds(took),
            detail=f"{events:,} events, one on each line: {place.sizes.lived:,} messages sent, claimed and completed."
            " The lines are the same headers and payloads as plain JSON. No peer keeps a history that proves itself.",
        )
    ]


def rebuilding(place):
    store = ours(place, place.sizes.stored)
    took = {"rebuild": [], "replay": []}
    for number in range(place.sizes.rebuilds):
        for work in ("replay", "rebuild") if number % 2 else ("rebuild", "replay"):
            # A process for each, because one that has held a million documents is another process afterwards.
            with Worker("Auditor", store, timeout_s=LONG_S) as worker:
                took[work].append(worker.run(work, count=1))
    return [
        Row(
            key="rebuild",
            work=f"rebuild the index of {place.sizes.stored:,} events",
            against="verify + replay of them",
            reach=3,
            more=False,
            values=ratios(took["rebuild"], took["replay"]),
            overall=of_the_sums(took["rebuild"], took["replay"]),
            unit="times",
            sides=milliseconds({"rebuild": took["rebuild"], "verify + replay": took["replay"]}),
            detail="In turns, each in a process of its own. No peer has an index that it can make anew.",
        )
    ]


# --- beside others --------------------------------------------------------------------------------------------------


def memory(place):
    stored, rounds = place.sizes.stored, place.sizes.memories
    growth, peaks = _growth("Fencepost", ours(place, stored), place.new("empty"), rounds)
    peers = [
        *cannot_list(),
        Peer(REFERENCE, said=f"not done: storing {stored:,} messages, two files each, takes too long"),
    ]
    try:
        plain, _ = _growth("PlainSqlite", theirs(place, SQLITE, stored), place.new("empty-sqlite"), rounds)
        said = f"{statistics.median(plain):+.1f} MB (fencepost {statistics.median(growth):+.1f} MB)"
        peers.insert(0, Peer(SQLITE, said=said))
    except SideFailed as error:
        peers.insert(0, Peer(SQLITE, said=f"failed: {error}"))
    return [
        Row(
            key="memory",
            work=f"memory to open and list a {stored:,}-message store",
            against="the same with an empty one",
            reach=30,
            more=False,
            values=growth,
            unit="MB",
            peers=peers,
            detail="The difference of the peak resident memory of fresh processes, each of which opens the store and"
            f" lists {LISTED} unread; in all {statistics.median(peaks):.0f} MB.",
        )
    ]


def _growth(subject, big, empty, rounds):
    """By how many MB the peak with a big store is over that with an empty one, and the peaks."""
    growth, peaks = [], []
    with Worker(subject, empty, listed=0):
        pass  # so that making it is not in the first round
    for _ in range(rounds):
        peak = []
        for folder, listed in ((big, LISTED), (empty, 0)):
            with Worker(subject, folder, listed=listed) as worker:
                worker.run("list", count=1)
                peak.append(worker.ask("peak") / 1e6)
        growth.append(peak[0] - peak[1])
        peaks.append(peak[0])
    return growth, peaks


def beside(place):
    stored, sends = place.sizes.stored, place.sizes.sends_beside
    us, sqlite = ("Fencepost", ours(place, stored)), ("PlainSqlite", theirs(place, SQLITE, stored))
    took = _beside([us, sqlite], place.sizes.besides, sends)
    idle, busy = took["Fencepost", False], took["Fencepost", True]
    worst = [max(each) for each in busy]
    peers = [
        Peer(SQLITE, ratios(map(max, took["PlainSqlite", True]), worst)),
        _reference_beside(place, worst),
        *cannot_list(),
    ]
    sides = {
        "idle, worst": 1000 * statistics.median(map(max, idle)),
        "while listing, worst": 1000 * statistics.median(worst),
        "idle, median": 1000 * statistics.median(itertools.chain.from_iterable(idle)),
        "while listing, median": 1000 * statistics.median(itertools.chain.from_iterable(busy)),
    }
    return [
        Row(
            key="beside",
            work=f"a send while another process lists {stored:,} stored",
            against=f"the same send on an idle store, worst of {sends}",
            reach=5,
            more=False,
            values=ratios(worst, map(max, idle)),
            unit="times",
            sides=sides,
            peers=peers,
            detail=f"Rounds of {sends} sends to the same store, alone and while another process lists {LISTED} unread"
            " without a pause; the worst of the one by the worst of the other. Peers: their worst while listing by"
            " fencepost's.",
        )
    ]


def _beside(sides, rounds, sends, **options):
    """How long sends take, for each round, by subject and whether another process lists meanwhile."""
    took = {(subject, listed): [] for subject, _ in sides for listed in (False, True)}
    with contextlib.ExitStack() as after:
        pairs = {
            subject: [after.enter_context(Worker(subject, folder, **options)) for _ in range(2)]
            for subject, folder in sides
        }
        for number in range(-1, rounds):
            for subject, (sender, lister) in pairs.items():
                for listed in (False, True) if number % 2 else (True, False):
                    each = _sends(sender, lister if listed else None, sends)
                    if number >= 0:
                        took[subject, listed].append(each)
    return took


def _sends(sender, lister, count):
    if lister is None:
        return sender.ask("latencies", count=count)
    lister.begin_again_and_again("list")
    time.sleep(0.1)  # until it is at it
    each = sender.ask("latencies", count=count)
    lister.begin("ready", work="", count=0)  # any other command ends it
    assert lister.finish()["value"], "it has listed"
    lister.finish()
    return each


def _reference_beside(place, worst):
    """With fewer messages and fewer sends: a listing there holds the store for long."""
    if place.reference is None:
        return Peer(REFERENCE, said=place.why_not)
    stored, sends = place.sizes.reference_stored, 20
    name = f"neosian file store ({stored:,} stored, {sends} sends)"
    try:
        copy = place.new("reference")
        shutil.copytree(theirs(place, REFERENCE, stored), copy)  # because what is kept shall stay as small as it is
        took = _beside([("Reference", copy)], 2, sends, python=str(place.reference))
    except SideFailed as error:
        return Peer(name, said=f"failed: {error}")
    return Peer(name, ratios(map(max, took["Reference", True]), worst[:2]))
