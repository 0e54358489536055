"""Reading a journal without a lock and without writing: beside a writer, after a crash, and where it is damaged."""

import contextlib
import errno
import os
import shutil
from datetime import UTC, datetime

import pytest

from fencepost.journal import segments
from fencepost.journal.disk import Disk
from fencepost.journal.errors import JournalCorrupt, NoStore, NotAStore, ReadOnlyStore, SyncFailed
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.journal.reader import FileReader

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Hooked(Disk):
    """A disk on which something can be done whenever it is asked to sync."""

    def __init__(self):
        self.on_sync = lambda: None

    def sync_data(self, fd):
        self.on_sync()
        super().sync_data(fd)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make segments that are quickly made."""
    monkeypatch.setattr(segments, "ALLOCATE_BYTES", 2_048)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def disk():
    return Hooked()


@pytest.fixture
def journal(root, disk):
    """A journal that is being written."""
    with contextlib.closing(FileJournal(root, disk=disk)) as opened:
        yield opened


def note(journal, text="x"):
    return journal.append(
        Batch(NOON, "host:test", (NewEvent("user:me", "notes", "note", b'"%b"' % text.encode()),)), {}
    )


def seqs(reader, after=None):
    return [event.seq for commit in reader.read(after) for event in commit.events]


def filled(root, count, segment_bytes=1):
    """A journal that nobody has open, by default with a segment for each event; what it reads."""
    with contextlib.closing(FileJournal(root, segment_bytes=segment_bytes)) as journal:
        return [note(journal, str(number)) for number in range(count)]


def tree(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def intact(reader):
    """What is read, and the damage behind it."""
    found = []
    with pytest.raises(JournalCorrupt) as raised:
        found.extend(commit.seq for commit in reader.read())
    return found, raised.value


# --- beside a writer ------------------------------------------------------------------------------------------


def test_what_was_acknowledged_is_read(journal, root):
    """At once, as it was acknowledged, from any place on."""
    reader = FileReader(root)
    assert (0, []) == (reader.durable(), seqs(reader))
    written = []
    for number in range(5):
        written.append(note(journal, str(number)))
        assert written == list(reader.read())
        assert number + 1 == reader.durable() == reader.refresh()
    for commit in written:
        assert [*range(commit.seq + 1, 6)] == seqs(reader, commit.end)
        assert commit == reader.commit_at(commit.segment, commit.offset)


def test_what_is_not_durable_is_not_read(journal, root, disk):
    """It may still be lost, and nobody was told."""
    reader = FileReader(root)
    note(journal)
    seen = []
    disk.on_sync = lambda: seen.append((reader.durable(), seqs(reader)))
    note(journal)

    assert [(1, [1])] == seen
    assert [1, 2] == seqs(reader)


def test_what_a_failed_sync_left_is_not_read(journal, root, disk):
    """Neither while it stands there, nor after it was taken back and something else took its place."""

    def fail():
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    reader = FileReader(root)
    note(journal, "kept")
    disk.on_sync = fail
    with pytest.raises(SyncFailed):
        note(journal, "doomed")
    assert [b'"kept"'] == [commit.events[0].data for commit in reader.read()]
    assert [1] == seqs(FileReader(root))

    disk.on_sync = lambda: None
    note(journal, "instead")
    assert [b'"kept"', b'"instead"'] == [commit.events[0].data for commit in reader.read()]


def test_a_reading_goes_on_through_new_segments(root):
    """From where it was, as the journal grows."""
    with contextlib.closing(FileJournal(root, segment_bytes=1)) as journal:
        place = note(journal).end
        reader = FileReader(root)
        for seq in range(2, 6):
            note(journal)
            (commit,) = reader.read(place)
            assert (seq, seq) == (commit.seq, commit.segment)
            place = commit.end


# --- nothing is written -------------------------------------------------------------------------------------------


def test_nothing_is_written(root, tmp_path):
    """To a store without its watermark and its locks neither, such as a copy."""
    written = filled(root, 3)
    shutil.copytree(root, tmp_path / "copy")
    for name in ("watermark", ".store.lock", ".sync.lock"):
        (tmp_path / "copy" / name).unlink()
    before = tree(tmp_path / "copy")

    reader = FileReader(tmp_path / "copy")

    assert written == list(reader.read())
    with pytest.raises(ReadOnlyStore):
        note(reader)
    assert before == tree(tmp_path / "copy")


def test_no_store(tmp_path):
    """It is said, and none is made."""
    with pytest.raises(NoStore):
        FileReader(tmp_path / "none")
    for place in (tmp_path, tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(NotAStore) as raised:
            FileReader(place)
        assert not isinstance(raised.value, NoStore)
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


# --- crashes and damage ---------------------------------------------------------------------------------------------


def test_a_torn_tail(root):
    """After a crash, wherever the last write was cut off: all before it is read, and the rest is left as it is."""
    written = filled(root, 3, segments.SEGMENT_BYTES)
    (root / "watermark").unlink()
    (segment,) = (root / "journal").glob("*.log")
    whole = segment.read_bytes()
    last = written[-1]
    reader = FileReader(root)
    for stop in range(last.offset, last.stop):
        segment.write_bytes(whole[:stop])
        assert [1, 2] == seqs(reader), stop
        assert 2 == reader.durable()
        assert whole[:stop] == segment.read_bytes()
    segment.write_bytes(whole[: last.stop])
    assert written == list(reader.read())


def test_an_acknowledged_end_that_is_gone(root):
    """It is no torn tail where the machine remembers that it was on the disk."""
    last = filled(root, 3, segments.SEGMENT_BYTES)[-1]
    (segment,) = (root / "journal").glob("*.log")
    os.truncate(segment, last.offset + 99)

    found, damage = intact(FileReader(root))

    assert ([1, 2], str(segment), last.offset) == (found, damage.details["file"], damage.details["offset"])


@pytest.mark.parametrize("watermark", [True, False], ids=["with a watermark", "without a watermark"])
@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_missing_segment(root, gone, watermark):
    """All before it is read, and then it is missed."""
    filled(root, 4)
    (root / "journal" / f"{gone:016d}.log").unlink()
    if not watermark:
        (root / "watermark").unlink()

    found, damage = intact(FileReader(root))

    assert [*range(1, gone)] == found
    # The segment is named, or the place behind which it is missed.
    assert damage.details["file"].endswith((f"{gone:016d}.log", f"{gone - 1:016d}.log"))


def test_a_missing_end(root):
    """The last segment is missed too, while the machine remembers it."""
    filled(root, 4)
    (root / "journal" / f"{4:016d}.log").unlink()

    assert [1, 2, 3] == intact(FileReader(root))[0]


@pytest.mark.parametrize("segment", [1, 2, 3])
def test_a_damaged_frame(root, segment):
    """All before it is read, and then it is named; a place behind it can be read from."""
    written = filled(root, 3)
    path = root / "journal" / f"{segment:016d}.log"
    data = bytearray(path.read_bytes())
    data[data.index(b'"data"')] ^= 1
    path.write_bytes(data)

    found, damage = intact(FileReader(root))

    assert ([*range(1, segment)], str(path), 0) == (found, damage.details["file"], damage.details["offset"])
    assert written[segment:] == list(FileReader(root).read(written[segment - 1].end))
