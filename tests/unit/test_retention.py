"""Moving sealed segments to an archive: nothing is dropped, whenever it is interrupted."""

import contextlib
import errno
import itertools
import os
from datetime import UTC, datetime, timedelta

import pytest

from fencepost.journal import segments
from fencepost.journal.disk import Disk
from fencepost.journal.errors import JournalFull, JournalUnavailable
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.journal.reader import FileReader
from fencepost.journal.retention import default_archive, retain

#: Room for two of the events below.
SEGMENT_BYTES = 1_000
OLD = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = datetime(2026, 2, 1, tzinfo=UTC)
TICK = timedelta(seconds=1)


class Died(BaseException):
    """The process died here.  No handler of errors may take it for one."""


class Counting(Disk):
    """A disk that counts the calls that change something, and dies behind one of them or fails instead of it."""

    def __init__(self, *, dies=None, fails=None, code=errno.EIO):
        self.calls = 0
        self._dies, self._fails, self._code = dies, fails, code

    def _call(self, act, *arguments, **options):
        if self._dies is not None and self.calls >= self._dies:
            raise Died
        self.calls += 1
        if self.calls == self._fails:
            raise OSError(self._code, os.strerror(self._code))
        done = act(self, *arguments, **options)
        if self.calls == self._dies:
            if act is Disk.open:
                os.close(done)
            raise Died
        return done

    def open(self, path, **options):
        return self._call(Disk.open, path, **options)

    def write(self, fd, data, offset):
        self._call(Disk.write, fd, data, offset)

    def sync(self, fd):
        self._call(Disk.sync, fd)

    def sync_folder(self, path):
        self._call(Disk.sync_folder, path)

    def rename(self, source, target):
        self._call(Disk.rename, source, target)

    def remove(self, path):
        self._call(Disk.remove, path)

    def make_folder(self, path):
        self._call(Disk.make_folder, path)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make segments that are quickly made."""
    monkeypatch.setattr(segments, "ALLOCATE_BYTES", 2_048)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def fill(root, times):
    """A journal with an event at each time, two in a segment; what it reads."""
    with contextlib.closing(FileJournal(root, segment_bytes=SEGMENT_BYTES)) as journal:
        for at in times:
            journal.append(Batch(at, "host:test", (NewEvent("user:me", "notes", "note", b'"x"'),)), {})
        assert [*range(1, len(times) + 1, 2)] == journal.segments.firsts()
    return read(root)


def read(root):
    return list(FileReader(root).read())


def move(root, archive=None, disk=None, before=LIMIT):
    with contextlib.closing(FileJournal(root, segment_bytes=SEGMENT_BYTES)) as journal:
        return retain(journal, before, archive and str(archive), disk)


def names(folder):
    return sorted(path.name for path in folder.glob("*.log")) if folder.exists() else []


def log(*firsts):
    return [f"{first:016d}.log" for first in firsts]


def appends(root):
    """Something can be added to it, and is read."""
    before = read(root)
    with contextlib.closing(FileJournal(root, segment_bytes=SEGMENT_BYTES)) as journal:
        journal.append(Batch(LIMIT, "host:test", (NewEvent("user:me", "notes", "note", b'"y"'),)), {})
    after = read(root)
    return before == after[:-1] and after[-1].events[0].data == b'"y"'


@pytest.mark.parametrize("young", [*itertools.product((False, True), repeat=3)], ids=str)
def test_the_oldest_go_up_to_the_first_younger_one(root, young):
    """A segment with one event at the time or after it stays, and so does every one behind it; the order is kept."""
    times = []
    for is_young in (*young, False):
        times += [OLD, LIMIT] if is_young else [OLD, LIMIT - TICK]
    before = fill(root, times)

    moved = move(root)

    expected = [1, 3, 5][: (*young, True).index(True)]
    assert expected == moved
    assert log(*expected) == names(root / "archive")
    assert log(*(first for first in (1, 3, 5, 7) if first not in expected)) == names(root / "journal")
    assert before == read(root)
    assert appends(root)


def test_an_older_one_behind_a_younger_one_waits(root):
    """Clocks go back; what is moved is a beginning of the history."""
    fill(root, [OLD, OLD, LIMIT, OLD, OLD, OLD, OLD])
    assert [1] == move(root)
    assert [] == move(root)
    assert [3, 5] == move(root, before=LIMIT + TICK)


def test_the_open_segment_stays(root):
    """However old its events are, it is written to; and a journal without events has none to move."""
    fill(root, [])
    assert [] == move(root)
    fill(root, [OLD, OLD])
    assert [] == move(root)
    assert not (root / "archive").exists()


def test_an_open_handle_reads_on(root):
    """Of whoever reads and whoever writes, from where it was, through what is moved meanwhile."""
    fill(root, [OLD] * 7)
    reader = FileReader(root)
    going = reader.read()
    first = next(going)
    with contextlib.closing(FileJournal(root, segment_bytes=SEGMENT_BYTES)) as journal:
        place = next(journal.read()).end
        assert [1, 3, 5] == retain(journal, LIMIT)
        assert [*range(2, 8)] == [commit.seq for commit in journal.read(place)]
    assert [*range(1, 8)] == [first.seq, *(commit.seq for commit in going)]
    assert first == reader.commit_at(1, 0)


def test_it_is_private(root):
    """The archive and what is moved there are nobody else's business."""
    fill(root, [OLD] * 3)
    move(root)
    (moved,) = (root / "archive").iterdir()
    assert (0o700, 0o600) == (moved.parent.stat().st_mode & 0o777, moved.stat().st_mode & 0o777)


def test_several_archives(root, tmp_path):
    """Each is remembered once, and all of them are read."""
    before = fill(root, [OLD, OLD, LIMIT, LIMIT, LIMIT + TICK, LIMIT + TICK, LIMIT])
    assert [1] == move(root, tmp_path / "a")
    assert [3] == move(root, tmp_path / "b", before=LIMIT + TICK)
    assert [5] == move(root, tmp_path / "a", before=LIMIT + 2 * TICK)

    assert [str(tmp_path / "a"), str(tmp_path / "b")] == segments.archives(str(root / "journal"))
    assert before == read(root)


def test_the_default_is_beside_the_journal(root):
    """In the store's folder, so that whoever copies that has all of it."""
    assert str(root / "archive") == default_archive(str(root))


# --- interrupted ------------------------------------------------------------------------------------------------


def interrupted(tmp_path, **how):
    """Stores of five events, two segments of which are being moved when it stops at one call after another."""
    for call in itertools.count(1):
        root = tmp_path / str(call)
        before = fill(root, [OLD] * 5)
        disk = Counting(**dict.fromkeys(how, call))
        try:
            move(root, disk=disk)
        except tuple(how.values()):
            yield root, before
        else:
            assert disk.calls == call - 1 > 15
            return


def test_a_process_that_dies(tmp_path):
    """Behind any change it makes: everything is read as before, and moving again finishes."""
    for root, before in interrupted(tmp_path, dies=Died):
        assert before == read(root), root
        assert appends(root), root
        left = {int(name[:16]) for name in names(root / "journal")} & {1, 3}
        assert sorted(left) == move(root), root
        assert log(1, 3) == names(root / "archive"), root
        assert log(5) == names(root / "journal"), root
        assert before == read(root)[:-1], root


def test_a_call_that_fails(tmp_path):
    """It is told, everything is read as before, and moving again finishes."""
    for root, before in interrupted(tmp_path, fails=JournalUnavailable):
        assert before == read(root), root
        move(root)
        assert log(1, 3) == names(root / "archive"), root
        assert before == read(root), root
        assert appends(root), root


def test_a_full_archive(root):
    """It is told as a full disk."""
    fill(root, [OLD] * 5)
    with pytest.raises(JournalFull):
        move(root, disk=Counting(fails=2, code=errno.ENOSPC))


def test_nothing_half_copied_is_left(tmp_path):
    """Moving again takes away what the interrupted call had begun to write."""
    for root, _ in interrupted(tmp_path, dies=Died):
        move(root)
        assert log(1, 3) == sorted(path.name for path in (root / "archive").iterdir()), root


@pytest.mark.parametrize("place", ["file", "file/below", "no/such/folder", "with\nbreak"], ids=ascii)
def test_an_archive_that_cannot_be(root, tmp_path, place):
    """Nothing is moved, and nothing is remembered of it."""
    (tmp_path / "file").touch()
    before = fill(root, [OLD] * 5)

    with pytest.raises(JournalUnavailable):
        move(root, tmp_path / place)

    assert log(1, 3, 5) == names(root / "journal")
    assert [] == segments.archives(str(root / "journal"))
    assert before == read(root)


def test_an_archive_that_cannot_be_is_named(root, tmp_path):
    """It is what has to be mended."""
    fill(root, [OLD] * 5)
    with pytest.raises(JournalUnavailable) as raised:
        move(root, tmp_path / "no" / "such" / "folder")
    assert str(tmp_path / "no") in raised.value.details["path"]


def test_what_stands_in_the_archive_stays(root, tmp_path):
    """Another store's segment of the same name is not written over."""
    fill(root, [OLD] * 5)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / log(1)[0]).write_bytes(b"precious")
    with contextlib.suppress(JournalUnavailable):
        move(root, tmp_path / "archive")
    assert b"precious" == (tmp_path / "archive" / log(1)[0]).read_bytes()
