"""
The lines of the table about sending and working; those about big stores are in `big.py`.
"""

import contextlib

from measure import Peer, Row, SideFailed, Team, Worker, milliseconds, ratios, times_as_fast, together
from stores import sample
from texts import BODY

from fencepost.mailbox.store import over_journal

SQLITE, PERSIST, LITE, REFERENCE = "SQLite", "persist-queue", "litequeue", "neosian file store"
SUBJECTS = {SQLITE: "PlainSqlite", PERSIST: "PersistQueue", LITE: "LiteQueue", REFERENCE: "Reference"}
#: Events that wait for the index before it is fed.  A round of so many has a whole feeding in it.
BLOCK = max(64, getattr(over_journal, "PENDING_MAX", 64))
#: Batches of a hundred in a round: several feedings.
BATCHES = max(1, BLOCK // 16)
PROCESSES = 8


def where(place, name):
    """The interpreter of a peer."""
    return {"python": str(place.reference)} if name == REFERENCE else {}


def add_peers(team, place, names):
    for name in names:
        if name == REFERENCE and place.reference is None:
            team.lost[name] = place.why_not
        else:
            team.add(name, SUBJECTS[name], place.new(SUBJECTS[name]), **where(place, name))


def of_the_sums(above, below):
    return sum(above) / sum(below)


def share_of(floor, took, **said):
    """A row that says which share of a floor's speed fencepost reaches."""
    ours = took["fencepost"]
    return Row(more=True, values=ratios(took[floor], ours), overall=of_the_sums(took[floor], ours), **said)


def sending(place):
    frames = sample(place.scratch)
    with Team({"append", "fencepost", "overwrite"}) as team:
        team.add("append", "Raw", place.new("append"), how="append", frames=str(frames))
        team.add("fencepost", "Fencepost", place.new("fencepost"))
        team.add("overwrite", "Raw", place.new("overwrite"), how="overwrite", frames=str(frames))
        add_peers(team, place, SUBJECTS)
        took = team.take_turns("send", place.sizes.sends, BLOCK)
        peers = times_as_fast(team, took, skip={"append", "overwrite"})
    detail = (
        f"Rounds of {BLOCK} sends of {len(BODY)} bytes. What a round owes the index is paid in it. The raw loops"
        " write the frames that fencepost writes."
    )
    sides = milliseconds(took)
    return [
        share_of(
            "append",
            took,
            key="send",
            work="durable send, one process",
            against="raw loop: append the same bytes, fdatasync",
            reach=0.9,
            sides={name: took_ms for name, took_ms in sides.items() if name != "overwrite"},
            peers=peers,
            detail=detail,
        ),
        share_of(
            "overwrite",
            took,
            key="send-floor",
            work="the same",
            against="raw loop: overwrite preallocated, zeroed space, fdatasync",
            reach=0.65,
            sides={name: sides[name] for name in ("fencepost", "overwrite")},
            detail="The same rounds. The raw loop lays its zeros out outside the timed part, fencepost inside.",
        ),
    ]


def working(place):
    frames = sample(place.new("turns-sample"))
    with Team({"fencepost", "overwrite"}) as team:
        team.add("fencepost", "Fencepost", place.new("fencepost"))
        team.add("overwrite", "Raw", place.new("overwrite"), how="overwrite", frames=str(frames))
        add_peers(team, place, SUBJECTS)
        took = team.take_turns("turn", place.sizes.turns, BLOCK)
        peers = times_as_fast(team, took, skip={"overwrite"})
    return [
        share_of(
            "overwrite",
            took,
            key="turn",
            work="claim + complete",
            against="two turns of that floor",
            reach=0.6,
            sides=milliseconds(took),
            peers=peers,
            detail=f"Rounds of {BLOCK} messages that were sent before the timed part. persist-queue's get and ack and"
            " litequeue's pop and done are the nearest to it: they know neither lease nor token.",
        )
    ]


def batches(place):
    frames = sample(place.new("batch-sample"))
    with Team({"fencepost", "append"}) as team:
        team.add("append", "Raw", place.new("append"), how="append", frames=str(frames))
        team.add("fencepost", "Fencepost", place.new("fencepost"))
        add_peers(team, place, (SQLITE, LITE))
        took = team.take_turns("batch", place.sizes.batches, BATCHES)
        peers = times_as_fast(team, took, skip={"append"})
    peers += [Peer(name, said="cannot: it stores one at a time") for name in (PERSIST, REFERENCE)]
    return [
        share_of(
            "append",
            took,
            key="batch",
            work="`send_many` of 100",
            against="raw loop syncing per 100 records",
            reach=0.25,
            sides=milliseconds(took),
            peers=peers,
            detail=f"Rounds of {BATCHES} batches. What a round owes the index is paid in it. A record of the raw loop"
            " is a hundredth of fencepost's frame, appended by a write of its own.",
        )
    ]


def crowd(after, place, name, subject, count, **options):
    """So many processes at one store."""
    folder = place.new(subject)
    options |= where(place, name)
    return [after.enter_context(Worker(subject, folder, **options)) for _ in range(count)]


def rates(crowds, rounds, count):
    """Pieces of work per second of several crowds that take turns, for each round."""
    found = [[] for _ in crowds]
    for number in range(-1, rounds):
        order = list(enumerate(crowds))
        for at, workers in order if number % 2 else reversed(order):
            rate = together(workers, "send", count)
            if number >= 0:
                found[at].append(rate)
    return found


def many(place):
    return [*_many(place, 0.0), *_many(place, 0.001)]


def _many(place, slow_sync_s):
    with contextlib.ExitStack() as after:
        options = {"slow_sync_s": slow_sync_s, "pays": False}  # eight would pay the same debt at the same moment
        one = crowd(after, place, "", "Fencepost", 1, **options)
        eight = crowd(after, place, "", "Fencepost", PROCESSES, **options)
        of_one, of_eight = rates([one, eight], place.sizes.processes, BLOCK)
        peers = [] if slow_sync_s else [_crowded_peer(place, name, eight) for name in SUBJECTS]
    sides = {
        "one process": 1000 * len(of_one) / sum(of_one),
        "eight processes, per send": 1000 * len(of_eight) / sum(of_eight),
    }
    with_delay = " with 1 ms added to each sync" if slow_sync_s else ""
    return [
        Row(
            key="processes-slow" if slow_sync_s else "processes",
            work=f"{PROCESSES} processes sending{with_delay}",
            against=f"one process sending{with_delay}",
            reach=3 if slow_sync_s else 2,
            more=True,
            values=ratios(of_eight, of_one),
            overall=None,
            unit="times",
            sides=sides,
            peers=peers,
            detail=f"Sends per second of all together, to one store; rounds of {BLOCK} sends of each process."
            + ("" if slow_sync_s else " Peers: eight processes of theirs beside eight of ours."),
        )
    ]


def _crowded_peer(place, name, eight):
    if name == REFERENCE and place.reference is None:
        return Peer(name, said=place.why_not)
    rounds = max(2, place.sizes.processes // 3)
    try:
        with contextlib.ExitStack() as after:
            theirs = crowd(after, place, name, SUBJECTS[name], PROCESSES)
            of_them, of_us = rates([theirs, eight], rounds, BLOCK // 4)
    except SideFailed as error:
        return Peer(name, said=f"failed: {error}")
    return Peer(name, ratios(of_us, of_them))
