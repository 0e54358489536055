"""
The program, killed with SIGKILL when it records something: right before, or right after.

    python killed.py before|after delivery.submitted fencepost's own words…
"""

import os
import signal
import sys

from fencepost.mailbox.cli import main
from fencepost.mailbox.store.over_journal import JournalStore

when, kind = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]
append = JournalStore.append


def killing(self, batch, *args, **options):
    meant = any(event.type == kind for event in batch.events)
    if meant and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, batch, *args, **options)
    if meant:
        os.kill(os.getpid(), signal.SIGKILL)


JournalStore.append = killing
sys.exit(main.main())
