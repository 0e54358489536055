"""
All of what a crash may strike: every deed, every recovery, and every way to go on after a failure.
"""

import contextlib

from crash.deeds import (
    ADVANCE,
    ANOTHER,
    BACK,
    CLAIM,
    CLAIM_SECRET,
    CLOSE,
    CREATE,
    FILL,
    FURTHER,
    KEYED,
    LINK,
    LONG,
    LONG_TURN,
    MANY,
    MOVE,
    NOTE,
    PLAN,
    PROBE_TWO,
    PROJECT,
    PROJECT_SECRET,
    REDACT,
    REDACT_AGAIN,
    REDACT_TURNS,
    REPLAN,
    RESERVE,
    RETAIN,
    SECRET,
    SECRET_TURN,
    SHOW,
    SHOW_SECRET,
    SMALL,
    SOLVE_SECRET,
    THREE_SEGMENTS,
    TURN,
    UNPLAN,
    WAKE,
    WORK,
    Deed,
    Scenario,
    damage_index,
    fenced,
    killed,
    renew_index,
    reordered,
    retain,
    rotation_cut,
    step,
    sync_failed,
    sync_failed_and_forgotten,
    torn,
    torn_begin,
    torn_copy,
    whole,
)
from crash.faulty_disk import Fault, Pages, When

_BASE = (NOTE, WORK)


def _mutations():
    yield Scenario("create", (), CREATE, cold=True)
    yield Scenario("create and send", (), ANOTHER, cold=True)
    yield Scenario("send", _BASE, ANOTHER)
    yield Scenario("send by a new process", _BASE, ANOTHER, cold=True)
    yield Scenario("send long", _BASE, LONG)
    yield Scenario("send many", _BASE, MANY)
    yield Scenario("send with a key", _BASE, KEYED, again=True)
    yield Scenario(
        "send with a used key", (*_BASE, KEYED), KEYED, seen=((*_BASE, KEYED),), acknowledged=((*_BASE, KEYED),)
    )
    yield Scenario("ack", _BASE, step("ack", "ack", "note"), again=True)
    yield Scenario("claim", _BASE, CLAIM, again=True)
    held = (*_BASE, CLAIM)
    yield Scenario("renew", held, fenced("renew", "renew", "work", "claim"))
    yield Scenario("release", held, fenced("release", "release", "work", "claim"))
    yield Scenario("complete", held, fenced("complete", "complete", "work", "claim", outcome="Fixed."), again=True)
    yield Scenario("snooze", held, fenced("snooze", "snooze", "work", "claim", outcome="Not yet.", delay_seconds=3_600))
    yield Scenario("cancel", held, step("cancel", "cancel", "work", outcome="Never mind."), again=True)
    yield Scenario("reserve", (WAKE,), RESERVE, again=True)
    yield Scenario("accept", (WAKE, RESERVE), fenced("accept", "accept", "wake", "reserve"))
    yield Scenario("decline", (WAKE, RESERVE), fenced("decline", "decline", "wake", "reserve"))
    yield Scenario("link", (*_BASE, WAKE), LINK, again=True)
    yield Scenario("grow the segment", FILL, ANOTHER)
    yield Scenario("rotate", FILL, ANOTHER, segment_bytes=SMALL)
    yield Scenario("rotate again", THREE_SEGMENTS, LONG, segment_bytes=SMALL)
    yield Scenario("rotate in a new process", FILL, ANOTHER, segment_bytes=SMALL, cold=True)
    # Nobody waits for what says that something was shown, so a power cut may lose it, told or not.
    seen = (*_BASE, SHOW)
    loose = {"seen": (_BASE, seen), "acknowledged": (_BASE, seen), "again": True}
    yield Scenario("show", _BASE, SHOW, **loose)
    yield Scenario("show by a new process", _BASE, SHOW, cold=True, **loose)
    settled = (*seen, ANOTHER)
    yield Scenario("send behind what was shown", seen, ANOTHER, seen=(_BASE, seen, settled), acknowledged=(settled,))
    yield Scenario("move a checkpoint", _BASE, ADVANCE, again=True)
    yield Scenario("move a checkpoint on", (*_BASE, ADVANCE), FURTHER, again=True)
    retain_ = Deed("retain", retain)
    same = (THREE_SEGMENTS,)
    yield Scenario("retain", THREE_SEGMENTS, retain_, seen=same, acknowledged=same, segment_bytes=SMALL, again=True)
    for name, act in (("renew the index", renew_index), ("renew a damaged index", damage_index)):
        deed = Deed(name, act)
        yield Scenario(name, held, deed, seen=(held,), acknowledged=(held,), again=True)
    yield Scenario("close", _BASE, CLOSE, seen=(_BASE,), acknowledged=(_BASE,))


def _beside_the_mail():
    planned = (*_BASE, PLAN)
    yield Scenario("write a document", _BASE, PLAN)
    yield Scenario("write a document again", planned, REPLAN)
    yield Scenario("write a document anew", (*planned, UNPLAN), PLAN)
    yield Scenario("write a document to a new segment", FILL, PLAN, segment_bytes=SMALL, cold=True)
    yield Scenario("delete a document", planned, UNPLAN)
    yield Scenario("move a document", planned, MOVE)
    yield Scenario("move a document to where it was", (*planned, MOVE), BACK)
    yield Scenario("append a turn", _BASE, TURN)
    yield Scenario("append a turn by a new process", (*_BASE, TURN), LONG_TURN, cold=True)
    yield Scenario("append a turn to a new segment", FILL, TURN, segment_bytes=SMALL, cold=True)
    yield Scenario("append projections", (TURN, LONG_TURN), PROJECT)
    yield Scenario("append projections again", (TURN, PROJECT), PROJECT, cold=True)


def _recoveries():
    taken_back = {"seen": (_BASE, (*_BASE, ANOTHER))}
    yield Scenario("recover from a torn tail", _BASE, ANOTHER, torn, **taken_back)
    yield Scenario("recover from a torn beginning", _BASE, ANOTHER, torn_begin, **taken_back)
    yield Scenario("recover from a later frame", _BASE, PROBE_TWO, reordered, seen=(_BASE, (*_BASE, PROBE_TWO)))
    there = (*_BASE, LONG)
    yield Scenario(
        "recover a whole frame",
        _BASE,
        ANOTHER,
        whole,
        seen=(there, (*there, ANOTHER)),
        acknowledged=((*there, ANOTHER),),
    )
    limbo = {"seen": (_BASE, there, (*there, ANOTHER)), "acknowledged": ((*there, ANOTHER),), "cold": True}
    yield Scenario("go on after a kill before the sync", _BASE, ANOTHER, killed("sync_data"), **limbo)
    yield Scenario("go on after a kill before the watermark", _BASE, ANOTHER, killed("Watermark.write"), **limbo)
    half = killed("Watermark.write", when=When.AMID)
    yield Scenario("go on after a kill in the watermark", _BASE, ANOTHER, half, **limbo)
    amid = killed("write", when=When.AMID, nth=2)
    yield Scenario("go on after a kill in the write", _BASE, ANOTHER, amid, cold=True, **taken_back)
    for name, at, when in (
        ("before the new segment is named", "rename", When.BEFORE),
        ("before its name is durable", "rename", When.AFTER),
        ("before the watermark", "sync_folder", When.AFTER),
    ):
        two = {"segment_bytes": SMALL, "cold": True}
        yield Scenario(f"go on after a kill in a rotation {name}", FILL, PROBE_TWO, killed(at, ANOTHER, when), **two)
        yield Scenario(f"recover from a rotation cut {name}", FILL, PROBE_TWO, rotation_cut(at, when), **two)
        # The next message is so short that the old segment would hold it.
        yield Scenario(f"send less after a kill in a rotation {name}", (NOTE,), ANOTHER, killed(at, LONG, when), **two)


def _failed_syncs():
    there = (*_BASE, LONG)
    for pages in Pages:
        for cold in (False, True):
            who = "another process" if cold else "the same process"
            yield Scenario(
                f"go on after a failed sync, {who}, pages {pages.value}",
                _BASE,
                ANOTHER,
                sync_failed(pages),
                seen=(_BASE, there, (*_BASE, ANOTHER)),
                cold=cold,
            )

    yield Scenario(
        "go on after a failed sync that was forgotten",
        _BASE,
        ANOTHER,
        sync_failed_and_forgotten,
        seen=(_BASE, there, (*there, ANOTHER)),
        acknowledged=((*there, ANOTHER),),
    )


def _failed_rotations():
    def prepare(world):
        process = world.processes[-1]
        process.disk.arm(fault=Fault(1, 5, only="sync", pages=Pages.CLEAN))
        with contextlib.suppress(Exception):
            process.do(ANOTHER)
            raise AssertionError("a failed seal was acknowledged")
        process.disk.arm()
        return world

    yield Scenario("go on after a failed seal", FILL, PROBE_TWO, prepare, segment_bytes=SMALL)


def _erasures():
    said = (NOTE, SECRET, CLAIM_SECRET, WORK, SOLVE_SECRET)
    more = {"again": True, "erases": True}
    yield Scenario("redact", said, REDACT, **more)
    shown = (SECRET, SHOW_SECRET, CLAIM_SECRET, SOLVE_SECRET)
    yield Scenario("redact what was shown", shown, REDACT, **more)
    yield Scenario("redact in a new process", (SECRET, NOTE), REDACT, cold=True, **more)
    yield Scenario("redact and rotate", (NOTE, SECRET, LONG), REDACT, segment_bytes=SMALL, **more)
    archived = (SECRET, CLAIM_SECRET, *THREE_SEGMENTS, SOLVE_SECRET, RETAIN)
    yield Scenario("redact in an archive and in torn copies", archived, REDACT, torn_copy, segment_bytes=SMALL, **more)
    talked = (TURN, SECRET_TURN, PROJECT_SECRET, LONG_TURN, PROJECT)
    yield Scenario("redact turns", talked, REDACT_TURNS, **more)
    yield Scenario("redact turns and rotate", (*talked, LONG), REDACT_TURNS, segment_bytes=SMALL, cold=True, **more)
    again = (NOTE, SECRET, WORK, REDACT)
    yield Scenario("redact again", again, REDACT_AGAIN, **more)


SCENARIOS = (*_erasures(), *_mutations(), *_beside_the_mail(), *_recoveries(), *_failed_syncs(), *_failed_rotations())
