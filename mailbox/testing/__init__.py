"""
What a host runs on a store or a journal of its own; needs `fencepost[testing]`.

`run_on` makes a test case of the state machine in `fencepost.mailbox.testing.machine`, and `JournalContract` is
the suite that a backend of `fencepost.journal.port.Journal` must pass.
"""

import pytest

# Failures in here are then explained like those of the host's own tests.
pytest.register_assert_rewrite("fencepost.mailbox.testing.journal_contract", "fencepost.mailbox.testing.machine")

from fencepost.mailbox.testing.journal_contract import JournalContract as JournalContract
from fencepost.mailbox.testing.machine import MailboxMachine as MailboxMachine
from fencepost.mailbox.testing.machine import run_on as run_on
from fencepost.mailbox.testing.place import FolderPlace as FolderPlace
from fencepost.mailbox.testing.place import Place as Place
from fencepost.mailbox.testing.place import tear_last_segment as tear_last_segment

__all__ = ["FolderPlace", "JournalContract", "MailboxMachine", "Place", "run_on", "tear_last_segment"]
