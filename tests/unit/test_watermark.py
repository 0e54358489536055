"""The watermark: a hint that is never believed further than it can be checked."""

import os
import stat
import uuid

import pytest
from unit import processes

from fencepost.journal.watermark import Mark, Watermark, boot_id

STORE = str(uuid.UUID(int=7 << 64 | 1))
MARK = {
    "store": (11, 12),
    "segment": 1,
    "inode": 13,
    "seq": 99,
    "offset": 4_096,
    "last": 2_048,
    "digest": "ab" * 32,
}
READ = """
import sys
from fencepost.journal.watermark import Watermark
watermark = Watermark(sys.argv[1], sys.argv[2])
print(watermark.mark.seq, watermark.durable, watermark.epoch, watermark.poisoned, watermark.holder)
watermark.durable = 98
watermark.poisoned = True
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "watermark"


@pytest.fixture
def watermark(path):
    opened = Watermark(str(path), STORE)
    yield opened
    opened.close()


def fields(mark):
    return {name: getattr(mark, name) for name in MARK}


def test_a_new_one_says_nothing(watermark):
    """Neither where the tail is nor that anything is durable."""
    assert watermark.mark is None
    assert not watermark.belongs
    assert (0, False) == (watermark.durable, watermark.poisoned)


def test_what_was_written_is_read(watermark):
    """All of it."""
    watermark.write(Mark(**MARK))

    assert MARK == fields(watermark.mark)
    assert watermark.belongs
    assert (MARK["seq"], MARK["segment"]) == (watermark.seq, watermark.segment)


def test_processes_share_it(path, watermark):
    """What one writes the other reads at once."""
    watermark.write(Mark(**MARK))
    watermark.durable, watermark.epoch, watermark.holder = 97, 3, 4_242

    assert processes.run(READ, path, STORE) == "99 97 3 False 4242"
    assert (98, True) == (watermark.durable, watermark.poisoned)


def test_a_half_written_tail_is_not_believed(path, watermark):
    """Whichever byte of it is wrong, the checksum tells."""
    watermark.write(Mark(**MARK))
    with path.open("r+b", buffering=0) as file:
        whole = file.read(13 * 8 + 8)
        for place in range(13 * 8):
            os.pwrite(file.fileno(), bytes([whole[place] ^ 0x40]), place)
            assert watermark.mark is None, place
            os.pwrite(file.fileno(), whole[place : place + 1], place)

    assert MARK == fields(watermark.mark)


def test_another_store_does_not_believe_it(path, watermark):
    """A page that was copied or left by another store says nothing, not even that a sync failed."""
    watermark.write(Mark(**MARK))
    watermark.poisoned = True
    other = Watermark(str(path), str(uuid.UUID(int=8 << 64)))

    assert (None, False, False) == (other.mark, other.belongs, other.poisoned)
    other.close()


def test_another_folder_does_not_believe_it(path, tmp_path, watermark):
    """A copy of the whole store has files of its own."""
    watermark.write(Mark(**MARK))
    (tmp_path / "copy").mkdir()
    copied = tmp_path / "copy" / "watermark"
    copied.write_bytes(path.read_bytes())
    other = Watermark(str(copied), STORE)

    assert (None, False) == (other.mark, other.belongs)
    other.close()


def test_another_boot_does_not_believe_it(path, watermark, monkeypatch):
    """What was in memory before a restart of the machine need not be on the disk."""
    watermark.write(Mark(**MARK))
    monkeypatch.setattr("fencepost.journal.watermark.boot_id", lambda: boot_id() ^ 1)
    other = Watermark(str(path), STORE)

    assert other.mark is None
    other.close()


def test_a_boot_has_one_number():
    """The same for every process, and never zero, which is what an empty page holds."""
    code = "from fencepost.journal.watermark import boot_id; print(boot_id())"

    assert str(boot_id()) == processes.run(code)
    assert 0 < boot_id() < 2**64


def test_a_short_file_is_filled_up(path):
    """One that a crash left empty is made whole, with real bytes."""
    path.write_bytes(b"fence")
    opened = Watermark(str(path), STORE)

    assert opened.mark is None
    assert path.stat().st_size == 4096
    opened.close()


def test_a_reader_makes_nothing(path):
    """Opened for reading, one that is not there is an error, and stays away."""
    with pytest.raises(OSError):
        Watermark(str(path), STORE, write=False)
    assert not path.exists()


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_it_is_private(path, umask):
    """Whatever the umask."""
    before = os.umask(umask)
    try:
        Watermark(str(path), STORE).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
