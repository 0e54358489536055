"""
Damage a small journal in every way, and look whether anything is missing in silence.

What a store shows after damage is what it showed before, or the damage is named.  Where the damage is named before
anything else, writing is refused and no file of the journal changes.

The limit: the last frame, the index and the watermark may all be lost at once, and nothing that is left knows of the
frame.  Whoever noted the head of the journal before finds out, and nobody else can.
"""

import contextlib
import itertools
import os
import random
import re
import subprocess
import sys

import pytest
from crash.deeds import PROBE, send, step
from crash.scenes import LATER, World, message_id

from fencepost.journal.audit import verify
from fencepost.journal.errors import JournalCorrupt
from fencepost.journal.file import FileJournal
from fencepost.journal.reader import FileReader
from fencepost.mailbox.errors import UnknownMessage

SEGMENT_BYTES = 1_800
DEEDS = (
    send("one", "First.", conversation="ada"),
    send("two", "Second.", actionable=True),
    step("ack", "ack", "one"),
    send("three", "Dritte. Über alles."),
    step("claim", "claim", "two"),
    send("four", "Fourth."),
)
BESIDES = tuple(itertools.product((True, False), (True, False)))  # is the index there, is the watermark
WHOLE = os.environ.get("FENCEPOST_CRASH") == "all"
_FRAME = re.compile(rb"[0-9a-f]{64} [0-9]{8} [0-9]{9} [^\n]*\n")


class Journal:
    """A journal of several segments in a world of its own, to be damaged and mended."""

    def __init__(self, deeds=DEEDS):
        self._deeds = deeds
        self._world = None
        self._begin()
        self.shown = self._see(self._world.start())
        self._close()

    def _begin(self):
        self._world = World(segment_bytes=SEGMENT_BYTES)
        process = self._world.start()
        process.do(*self._deeds)
        process.do(lambda each: each.box("look", LATER).list())
        process.close()
        self.files = self._world.files()
        # Salts are drawn anew each time.
        self.segments = {name: data.rstrip(b"\0") for name, data in self.files.items() if name.endswith(".log")}
        with process.running(), contextlib.closing(FileReader(self._world.root)) as reader:
            self.head = verify(reader).head
        self._state = self._beside()

    def _beside(self):
        """What may change while nothing changes in the journal: then the world has to be made anew."""
        found = []
        for name in ("store.json", "watermark"):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(self._world.root, name))
                found.append((name, status.st_ino, status.st_mtime_ns))
        found += [name for name in os.listdir(self._world.root) if name.endswith(".sqlite")]
        return found

    def _close(self):
        self._world.close()
        self._world = None

    @contextlib.contextmanager
    def damaged(self, damage, *, index, watermark):
        """The world with damaged files: path -> content, None where it is gone."""
        if self._world is None:
            self._begin()
        damage = damage(self.segments) if callable(damage) else damage
        for name, content in damage.items():
            self._write(name, content)
        if not index:
            for name in os.listdir(self._world.root):
                if name.startswith("index-"):
                    os.unlink(os.path.join(self._world.root, name))
        if not watermark:
            os.unlink(os.path.join(self._world.root, "watermark"))
        try:
            yield self._world
        finally:
            for process in self._world.processes:
                process.kill()
            self._world.processes.clear()
            if not index or not watermark or None in damage.values() or self._state != self._beside():
                self._close()
            else:
                for name in damage:
                    self._write(name, self.files[name])

    def _write(self, name, content):
        path = os.path.join(self._world.root, name)
        if content is None:
            os.unlink(path)
            return
        with open(path, "r+b") as handle:  # in place: the watermark knows the file by its inode
            handle.write(content)
            handle.truncate()

    def _see(self, process):
        """The listing, each message with its versions, and the events; where they cannot be read, the error."""
        with process.running():
            box = process.box("look", LATER)
            listing = [(item.version, item.message) for item in box.list(session="ada", status="all").items]
            views = {}
            for name in ("one", "two", "three", "four"):
                message = message_id(name)
                try:
                    views[name] = [(each.version, each.message) for each in box.view(message).versions]
                except (JournalCorrupt, UnknownMessage) as error:
                    views[name] = error
            events, broken = [], None
            try:
                for commit in process.store._journal.read():
                    events += [(event.seq, event.stream, event.type, event.data) for event in commit.events]
            except JournalCorrupt as error:
                broken = error
        return listing, views, events, broken

    def judge(self, damage, tally, *, index, watermark, may_lose=0):
        """
        Damage it, look, and complain about silence.

        Args:
            damage: What to write; or makes it from the segments.
            tally: Counts what came of it.
            index: Is the index there?
            watermark: Is the watermark there?
            may_lose: How many of the last events may be missing, because nothing that is left knows of them.
        """
        with self.damaged(damage, index=index, watermark=watermark) as world:
            before = world.files()
            process = world.start()
            try:
                with process.running():
                    early = process.store.damage
                    listing, views, events, broken = self._see(process)
                    early = early or process.store.damage
            except JournalCorrupt as error:
                early, broken = error, error
                listing, views, events = [], {}, []
            good_listing, good_views, good_events, _ = self.shown
            assert events == good_events[: len(events)], "something is told that was not written"
            if early is not None:
                tally["damage named"] += 1
                with pytest.raises(JournalCorrupt):
                    process.do(PROBE)
                process.kill()
                assert before == world.files(), "damage was named, and the journal was written"
                return
            if may_lose and len(events) in range(len(good_events) - may_lose, len(good_events)):
                tally["damage that only a noted head shows"] += 1
                return
            assert good_listing == listing, (len(events), early)
            for name, view in views.items():
                assert isinstance(view, JournalCorrupt) or good_views[name] == view
            assert broken is not None or events == good_events, "fewer events, and nothing was said"
            tally["damage named" if broken is not None else "damage without effect"] += 1


_journals = []


@pytest.fixture
def journal(machine):
    if not _journals:
        _journals.append(Journal())
    return _journals[0]


def frames(content):
    return [(match.start(), match.end()) for match in _FRAME.finditer(content)]


def unwitnessed(segments, name, begin, end):
    """
    How many events nobody can miss where bytes of a segment are gone, and neither index nor watermark is there.

    That is all from the first damaged frame on, unless a header behind it is whole: it says how far the disk was known
    to be written before it.
    """
    if name != max(segments):
        return 0
    found = frames(segments[name])
    damaged = [place for place in found if place[1] > begin]
    for place, _ in damaged[1:]:
        header_end = place + 84 + int(segments[name][place + 65 : place + 73])
        if place >= end or header_end <= begin:
            return 0
    return len(damaged)


@pytest.mark.sample
@pytest.mark.parametrize("watermark", [True, False], ids=["with a watermark", "without a watermark"])
def test_every_bit_as_the_journal_reads_it(journal, tally, watermark):
    """A flipped bit is named, wherever it is."""
    stride = 1 if WHOLE else 41
    with journal.damaged({}, index=True, watermark=watermark) as world:
        process = world.start()
        with process.running():
            for name, content in journal.segments.items():
                path = os.path.join(world.root, name)
                for bit in range(0, 8 * len(content), stride):
                    byte, mask = content[bit // 8], 1 << bit % 8
                    with open(path, "r+b") as handle:
                        handle.seek(bit // 8)
                        handle.write(bytes([byte ^ mask]))
                        handle.flush()
                        if not watermark:
                            with contextlib.suppress(FileNotFoundError):
                                os.unlink(os.path.join(world.root, "watermark"))
                        opened = FileJournal(world.root, segment_bytes=SEGMENT_BYTES)
                        with contextlib.closing(opened), pytest.raises(JournalCorrupt) as caught:
                            list(opened.read())
                        assert caught.value.file == path, (name, bit)
                        tally["bits flipped"] += 1
                        handle.seek(bit // 8)
                        handle.write(bytes([byte]))
        assert {name: data.rstrip(b"\0") for name, data in world.files().items() if name.endswith(".log")} == (
            journal.segments
        )


@pytest.mark.sample
@pytest.mark.parametrize("index,watermark", BESIDES)
def test_a_bit_of_every_byte(journal, tally, index, watermark):
    """The mailbox shows the same with a flipped bit, or names it."""
    rng = random.Random(7)
    quick = index and watermark
    stride = (1 if quick else 4) if WHOLE else (37 if quick else 149)
    for name in journal.segments:
        for place in range(rng.randrange(stride), len(journal.segments[name]), stride):
            mask = 1 << rng.randrange(8)

            def flip(segments, name=name, place=place, mask=mask):
                content = segments[name]
                return {name: content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]}

            journal.judge(flip, tally, index=index, watermark=watermark)


@pytest.mark.sample
@pytest.mark.parametrize("index,watermark", BESIDES)
def test_cuts(journal, tally, index, watermark):
    """A segment that ends early, the last or another, is noticed; but nobody knows of a lost end without a witness."""
    stride = 3 if WHOLE else 97
    for name in sorted(journal.segments):
        for place in range(0, len(journal.segments[name]), stride):

            def cut(segments, name=name, place=place):
                return {name: segments[name][:place]}

            may_lose = 0 if index or watermark else unwitnessed(journal.segments, name, place, 1 << 20)
            journal.judge(cut, tally, index=index, watermark=watermark, may_lose=may_lose)


@pytest.mark.sample
@pytest.mark.parametrize("index,watermark", BESIDES)
def test_runs_of_zeros(journal, tally, index, watermark):
    """Zeros over something, or pushed in between, are noticed, and what stands behind them is not forgotten."""
    rng = random.Random(11)
    for number in range(400 if WHOLE else 16):
        name = rng.choice(sorted(journal.segments))
        size = rng.choice((1, 7, 200, 512, 700))
        place = rng.randrange(len(journal.segments[name]))
        pushed = number % 2

        def zero(segments, name=name, size=size, place=place, pushed=pushed):
            content = segments[name]
            return {name: content[:place] + bytes(size) + content[place if pushed else place + size :]}

        end = place if pushed else place + size
        may_lose = 0 if index or watermark else unwitnessed(journal.segments, name, place, end)
        journal.judge(zero, tally, index=index, watermark=watermark, may_lose=may_lose)


@pytest.mark.sample
@pytest.mark.parametrize("index,watermark", BESIDES)
def test_swapped_and_doubled_frames(journal, tally, index, watermark):
    """A frame proves its place as well as itself."""
    places = [(name, frame) for name in sorted(journal.segments) for frame in range(9)]

    def at(segments, place):
        name, number = place
        found = frames(segments[name])
        return (name, *found[number]) if number < len(found) else None

    places = [place for place in places if at(journal.segments, place)]
    for one, other in itertools.combinations(places, 2):

        def swap(segments, one=one, other=other):
            first, second = at(segments, one), at(segments, other)
            texts = {name: bytearray(content) for name, content in segments.items()}
            moved = [bytes(texts[name][begin:end]) for name, begin, end in (first, second)]
            # The later place first, so that the earlier one stays where it is.
            for (name, begin, end), text in ((second, moved[0]), (first, moved[1])):
                texts[name][begin:end] = text
            return {name: bytes(content) for name, content in texts.items() if content != segments[name]}

        journal.judge(swap, tally, index=index, watermark=watermark)
    for one, other in itertools.product(places, places):

        def double(segments, one=one, other=other):
            name, begin, end = at(segments, one)
            text = segments[name][begin:end]
            where, _, behind = at(segments, other)
            return {where: segments[where][:behind] + text + segments[where][behind:]}

        journal.judge(double, tally, index=index, watermark=watermark)


@pytest.mark.sample
@pytest.mark.parametrize("index,watermark", BESIDES)
def test_missing_segments(journal, tally, index, watermark):
    """A segment that is gone is missed; the last one by whoever has a witness."""
    names = sorted(journal.segments)
    for count in range(1, len(names)):
        for gone in itertools.combinations(names, count):
            left = [name for name in names if name not in gone]
            # Only the end is missing: what is left is a journal as it once was.
            end_only = left == names[: len(left)] and not (index or watermark)
            lost = sum(len(frames(journal.segments[name])) for name in gone)
            journal.judge(
                dict.fromkeys(gone), tally, index=index, watermark=watermark, may_lose=lost if end_only else 0
            )


@pytest.mark.sample
def test_a_noted_head_shows_what_nothing_else_can(journal, tally):
    """Last segment, index and watermark are gone: only `verify --expect-head` notices."""
    last = max(journal.segments)
    with journal.damaged(lambda _: {last: None}, index=False, watermark=False) as world:
        world.start().do(lambda process: process.store)
        for process in world.processes:
            process.close()
        assert 1 == _verify(world.root, journal.head)
        assert 0 == _verify(world.root, None)


@pytest.mark.sample
def test_a_rewritten_history_is_not_the_noted_one(journal, tally):
    """Somebody who can write all the files can make every digest right again, but not the noted one."""
    forged = Journal((send("one", "I never said that.", conversation="ada"), *DEEDS[1:]))
    with journal.damaged({}, index=True, watermark=True):
        noted = journal.head
    with forged.damaged({}, index=True, watermark=True) as world:
        assert 1 == _verify(world.root, noted)
        assert 0 == _verify(world.root, forged.head)
        assert 0 == _verify(world.root, None)


@pytest.mark.sample
def test_an_index_knows_a_rewritten_history(journal, tally):
    """The index that was fed from the first history contradicts the second."""
    forged = Journal((send("one", "I never said that.", conversation="ada"), *DEEDS[1:]))
    assert set(forged.segments) == set(journal.segments)
    for watermark in (True, False):
        with journal.damaged(dict(forged.segments), index=True, watermark=watermark) as world:
            process = world.start()
            with pytest.raises(JournalCorrupt):
                process.do(PROBE)
            tally["damage named"] += 1


def _verify(root, head):
    """What `fencepost journal verify` exits with."""
    expect = () if head is None else ("--expect-head", f"{head.seq}:{head.digest}")
    program = "import sys; from fencepost.mailbox.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-P", "-c", program, "journal", "verify", "--root", root, *expect]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode
