"""Erasing, for all journals: whatever is erased, the rest is as it was."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from property.strategies import NOON

from fencepost.journal.audit import verify
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.file import FileJournal
from fencepost.journal.reader import FileReader

STREAMS = ("a", "b", "c")
#: Batches, each a list of the streams of its events; the text of an event is its sequence number, and unlike any other.
batches = st.lists(st.lists(st.sampled_from(STREAMS), min_size=1, max_size=4), min_size=1, max_size=12)


def text(seq):
    return b"<%d>" % seq * 7


@given(batches, st.data(), st.sampled_from([300, 900, 1 << 20]))
def test_any_subset_can_be_erased(batches, data, segment_bytes):
    """
    The chain verifies, every other event is as it was, and of those that were erased no file holds a byte.

    In one erasure or in several, in one segment or in many.
    """
    seqs = range(1, 1 + sum(map(len, batches)))
    erasures = data.draw(st.lists(st.lists(st.sampled_from(seqs), min_size=1, unique=True), min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        seq = 0
        with contextlib.closing(FileJournal(root, segment_bytes=segment_bytes)) as journal:
            for streams in batches:
                events = []
                for stream in streams:
                    seq += 1
                    events.append(NewEvent("user:me", stream, "said", b'"%b"' % text(seq)))
                journal.append(Batch(NOON, "host:test", tuple(events)), {})
            before = list(journal.read())
            for erases in erasures:
                act = NewEvent("user:me", "acts", "erased", b"{}")
                journal.append(Batch(NOON, "host:test", (act,), tuple(erases)), {})
            gone = {seq for erases in erasures for seq in erases}
            expected = [
                [event._replace(data=None) if event.seq in gone else event for event in commit.events]
                for commit in before
            ]

            found = list(journal.read())[: len(before)]

            assert expected == [list(commit.events) for commit in found]
            assert [commit.digest for commit in before] == [commit.digest for commit in found]
            assert found == [journal.commit_at(commit.segment, commit.offset) for commit in before]
        report = verify(FileReader(root))
        assert (None, len(gone)) == (report.damage, report.erased)
        everything = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
        assert gone == {seq for seq in seqs if text(seq) not in everything}
