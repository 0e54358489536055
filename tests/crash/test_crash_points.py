"""Die at every step of every deed, lose what a power cut may lose, and look."""

import itertools
import os
import random
import shutil

import pytest
from crash.deeds import PROBE, shown_after
from crash.faulty_disk import Crash, Stop, When
from crash.images import images
from crash.scenarios import SCENARIOS
from crash.scenes import INDEXES, begins, check_erased, copy_index, keeper, listed, look, watermarks

from fencepost.journal.errors import JournalCorrupt, JournalError

#: Images of one crash point, and fewer of what a process leaves that came after it.
MOST = 24 if os.environ.get("FENCEPOST_CRASH") == "all" else 6
MOST_LATER = 3
SAMPLE = {
    "redact",
    "send many",
    "move a document",
    "rotate",
    "recover from a torn tail",
    "go on after a failed sync, the same process, pages are shown, and never written",
}


def strike_at(scenario, stop):
    """Let the deed be struck; the world, and whether the deed was acknowledged."""
    world, process = scenario.begin()
    older = copy_index(world.root)
    process.disk.arm(stop=stop)
    try:
        process.do(scenario.deed)
    except Crash:
        acknowledged = False
    else:
        acknowledged = True
    names = list(process.disk.log)
    process.kill()
    if scenario.erases:  # an index whose removal was synced does not come back
        for name in set(os.listdir(older)).difference(os.listdir(world.root)):
            os.unlink(os.path.join(older, name))
    return world, acknowledged, older, names


def stops(scenario):
    """Every place at which the deed can be struck; None for right behind it."""
    world, process = scenario.begin()
    with world:
        process.disk.arm()
        process.do(scenario.deed)
        names = list(process.disk.log)
    for number, name in enumerate(names, 1):
        yield Stop(number, When.BEFORE)
        if name.startswith(("write", "Watermark.write")):
            yield Stop(number, When.AMID)
    yield None


class Judge:
    """Looks at what is left, and counts."""

    def __init__(self, scenario, where):
        self.scenario = scenario
        self.where = where
        self.images = 0
        self.named = 0

    def histories(self, acknowledged):
        return self.scenario.acknowledged if acknowledged else self.scenario.seen

    def recognise(self, shown, histories, *more):
        """Which of the histories a store shows."""
        for history in histories:
            if shown == shown_after((*history, *more)):
                return history
        expected = [(*history, *more) for history in histories]
        raise AssertionError(f"{self.where}: {_bodies(shown)} is none of {expected}")

    def power_cut(self, world, image, keep, acknowledged, histories=None):
        """What a power cut has left is before or after, stays as it is, and works."""
        self.images += 1
        histories = histories or self.histories(acknowledged)
        self.where = f"{self.where.partition(' | ')[0]} | {image.kind if image else 'all lost'}"
        with world.after_power_cut(image, keep) as after:
            process = after.start()
            try:
                shown = look(process)
            except JournalCorrupt:
                assert image is not None, self.where
                assert image.garbage, self.where
                self._is_left_alone(after, process)
                return
            history = self.recognise(shown, histories)
            self.erased(after)
            process.close()
            files = _contents(after)
            with after.after_power_cut() as again:
                process = again.start()
                assert shown == look(process), f"{self.where}: a second recovery shows something else"
                process.close()
                assert files == _contents(again), f"{self.where}: a second recovery changed files"
                process = again.start()
                process.do(PROBE)
                process.kill()
                with again.after_power_cut() as last:
                    self.recognise(look(last.start()), [history], PROBE)

    def erased(self, world):
        """What was erased is in no file."""
        if self.scenario.erases:
            check_erased(world)

    def _is_left_alone(self, world, process):
        """Damage was named: then nothing is written, and what was acknowledged can be read."""
        self.named += 1
        before = world.files()
        with pytest.raises(JournalError), process.running():
            process.do(PROBE)
        assert before == world.files(), self.where
        done = shown_after(self.scenario.done)["events"]
        read = []
        with process.running(), pytest.raises(JournalCorrupt):
            for commit in process.store._journal.read():
                read += [(event.seq, event.type, event.data) for event in commit.events]
        assert [(event[0], event[6], event[7]) for event in done] == read[: len(done)], self.where

    def process_crash(self, world, acknowledged, older):
        """The machine runs on: the next process sees before or after, and what it is told survives a power cut."""
        self.where = f"{self.where.partition(' | ')[0]} | killed"
        process = world.start()
        keep = keeper(lambda old: old, "as it was", older)
        before = listed(process)
        for image in images(world.shadow, MOST_LATER, seed=1, garbage=False):
            with world.after_power_cut(image, keep) as after:
                self.images += 1
                later = look(after.start())["all", "ada"]
                assert all(_is_known(version, message, later) for version, message in before), self.where
        self.erased(world)
        shown = look(process)
        self.recognise(shown, self.histories(acknowledged))
        told = [history for history in self.histories(acknowledged) if begins(shown_after(history), shown)]
        for image in images(world.shadow, MOST_LATER, seed=1, garbage=False):
            with world.after_power_cut(image, keep) as after:
                self.images += 1
                self.recognise(look(after.start()), told)
        process.do(PROBE)
        process.kill()
        self.recognise(look(world.start()), told, PROBE)
        for image in images(world.shadow, MOST_LATER, seed=1, garbage=False):
            with world.after_power_cut(image, keep) as after:
                self.images += 1
                self.recognise(look(after.start()), told, PROBE)


def _is_known(version, message, later):
    """Is that message there in that version or a later one?"""
    return any(message.id == other.id and version <= newer for newer, other in later)


def _bodies(shown):
    return [(event[0], event[5], event[6], (event[7] or b"")[:150]) for event in shown["events"]]


def _contents(world):
    """The journal without the zeros that stand ahead of it."""
    return {path: content.rstrip(b"\0") for path, content in world.files().items()}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each.name, marks=[pytest.mark.sample] if each.name in SAMPLE else []) for each in SCENARIOS],
)
def test_crash_points(scenario, machine, tally):
    """
    Whatever a crash interrupts has happened whole or not at all.

    What was acknowledged has happened.  Recovery done twice does nothing more, and the store works on.
    """
    rng = random.Random(scenario.name)
    pages = watermarks(rng.randbytes)
    besides = itertools.cycle(itertools.product(pages, INDEXES))
    for stop in stops(scenario):
        world, acknowledged, older, names = strike_at(scenario, stop)
        with world:
            at = "at its end" if stop is None else f"{stop.when.value} {names[-1]}"
            judge = Judge(scenario, f"{scenario.name}, {stop and stop.step} {at}")
            for image in images(world.shadow, MOST, seed=rng.randrange(2**30)):
                page, index = next(besides)
                where = judge.where
                judge.where = f"{where.partition(' | ')[0]} [watermark {page}, index {index}]"
                judge.power_cut(world, image, keeper(pages[page], index, older), acknowledged)
                judge.where = where
            judge.process_crash(world, acknowledged, older)
            if scenario.again:
                process = world.start()
                process.do(scenario.deed)
        shutil.rmtree(older)
        tally["crash points"] += 1
        tally["crash images"] += judge.images
        tally["garbage named"] += judge.named
