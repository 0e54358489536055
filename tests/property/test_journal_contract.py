"""The journal contract, over each journal that is shipped."""

import pytest

from fencepost.journal.file import FileJournal
from fencepost.journal.memory import MemoryJournal
from fencepost.mailbox.testing import JournalContract


class TestMemoryJournal(JournalContract):
    """The executable description."""

    persists = False

    def open(self):
        return MemoryJournal()


class TestFileJournal(JournalContract):
    """One segment."""

    @pytest.fixture(autouse=True)
    def somewhere(self, tmp_path):
        self.root = tmp_path / "store"

    def open(self):
        return FileJournal(self.root)


class TestFileJournalInSmallSegments(TestFileJournal):
    """A segment for nearly every batch."""

    def open(self):
        return FileJournal(self.root, segment_bytes=600)
