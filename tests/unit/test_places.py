"""Finding an event by its number."""

import itertools
from pathlib import Path

import pytest

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.mailbox.caller import utc_now


def filled(root, *, batches=400, segment_bytes=16 << 20, size=700):
    journal = FileJournal(root, segment_bytes=segment_bytes)
    for number in range(batches):
        events = [NewEvent("user:me", f"{number % 7}", "tried", b'"%b"' % (b"x" * size))] * (1 + number % 3)
        journal.append(Batch(utc_now(), "host:test", tuple(events)), {}, settle=number == batches - 1)
    return journal


def test_it_is_found_among_many(tmp_path):
    """Every number leads to the batch that holds the next one, in one long segment too."""
    journal = filled(tmp_path / "store")
    written = list(journal.read())

    for before, commit in itertools.pairwise(written):
        for seq in range(before.seq, commit.seq):
            assert before.end == journal.place_before(seq)
    assert written[-1].end == journal.place_before(written[-1].seq)
    journal.close()


def test_finding_it_reads_little(tmp_path):
    """What is read does not grow with the segment."""
    journal = filled(tmp_path / "store", batches=3_000)
    read = []
    real = journal._disk.read
    journal._disk.read = lambda fd, size, offset: read.append(size) or real(fd, size, offset)

    journal.place_before(3_000)

    assert sum(read) < 700_000 < journal.segments.size(1)
    journal.close()


@pytest.mark.parametrize("seq", [0, 1, 250, 799])
def test_damage_on_the_way_is_met_by_the_reader(tmp_path, seq):
    """Where a frame was damaged, the place is before it, or behind it where it is not in the way."""
    journal = filled(tmp_path / "store", batches=400)
    path = Path(journal.segments.path(1))
    journal.close()
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    path.write_bytes(data)
    journal = FileJournal(tmp_path / "store")

    assert journal.place_before(seq).seq <= seq
    journal.close()


def test_an_empty_segment_is_behind_the_one_before(tmp_path):
    """A segment that was begun and holds nothing yet has its place at the end of the one before."""
    journal = filled(tmp_path / "store", batches=9)
    journal.segments.create(journal.durable() + 1)

    assert [] == list(journal.read(journal.place_before(journal.durable())))
    journal.close()
