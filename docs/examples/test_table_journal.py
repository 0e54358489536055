"""Certifies the backend of table_journal.py: the journal's promises, and the laws of the mailbox over it."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

from fencepost.mailbox.store.index import Index
from fencepost.mailbox.store.over_journal import JournalStore
from fencepost.mailbox.testing import FolderPlace, JournalContract, run_on

sys.path.insert(0, str(Path(__file__).parent))
from table_journal import TableJournal


class TestTableJournal(JournalContract):
    """One promise, one test."""

    @pytest.fixture(autouse=True)
    def somewhere(self, tmp_path):
        self.path = tmp_path / "journal.sqlite"

    def open(self):
        return TableJournal(self.path)


def open_store(folder):
    folder.mkdir(exist_ok=True)
    return JournalStore(TableJournal(folder / "journal.sqlite"), Index.in_memory("table"))


class TestMailboxOverTable(run_on(lambda: FolderPlace(open_store))):
    """Fencing, history and listings, under any sequence of commands, clocks and stale tokens."""


# An example need not search long; leave this out to search as long as your profile says.
TestMailboxOverTable.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
