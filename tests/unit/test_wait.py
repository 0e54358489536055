"""Waiting for mail."""

import time
from datetime import timedelta

import pytest
from unit import processes

from fencepost.mailbox import Mailbox, Mount, open_store
from fencepost.mailbox.caller import utc_now

#: The promise is 100 ms; a busy machine may keep either process from running for longer.
SOON_S = 1.0

SEND = """
import sys, time
from fencepost.mailbox import Mailbox, Mount, open_store
box = Mailbox(open_store(sys.argv[1]), [Mount("user:me", "/user")])
print("ready", flush=True)
for line in sys.stdin:
    box.send("x", conversation=line.strip() or None)
    print(time.time(), flush=True)
"""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def box(root):
    store = open_store(root)
    yield Mailbox(store, [Mount("user:me", "/user")])
    store.close()


@pytest.fixture
def sender(root):
    """Another process, which sends a message for each line it is given."""
    process = processes.start(SEND, root)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.communicate(timeout=processes.PATIENCE_S)


def test_another_process_is_noticed_at_once(box, sender):
    """In most of several tries within 100 ms of the moment that the message was acknowledged."""
    delays = []
    for number in range(5):
        seen = {receipt.message.id for receipt in box.list(session=f"s{number}").items}
        sender.stdin.write(f"s{number}\n")
        sender.stdin.flush()
        found = box.wait(30, session=f"s{number}")
        noticed = time.time()
        sent = float(sender.stdout.readline())
        delays.append(noticed - sent)
        assert len(found.items) == 1 + len(seen)

    assert max(delays) < SOON_S
    assert sorted(delays)[2] < 0.1


def test_mail_for_others_does_not_end_the_wait(box, sender):
    """What another conversation receives is looked at and waited over."""
    sender.stdin.write("somebody-else\n")
    sender.stdin.flush()
    begun = time.monotonic()

    assert box.wait(0.3, session="s").items == ()
    assert time.monotonic() - begun >= 0.3


def test_a_due_time_ends_the_wait(box):
    """A reminder comes when its time has come, and not before, though nobody writes anything."""
    due_at = utc_now() + timedelta(milliseconds=300)
    box.send("x", due_at=due_at)
    found = box.wait(30)

    assert len(found.items) == 1
    assert timedelta() <= utc_now() - due_at < timedelta(seconds=SOON_S)


def test_a_lease_that_runs_out_ends_the_wait(root):
    """Work that somebody gave up without a word is unread again."""
    store = open_store(root)
    box = Mailbox(store, [Mount("user:me", "/user")], lease=timedelta(milliseconds=300))
    sent = box.send("x", actionable=True)
    box.claim(sent.message.id, session="s", occurrence=1)

    assert box.list().items == ()
    assert len(box.wait(30).items) == 1
    store.close()


def test_what_is_there_already_is_answered_at_once(box):
    """Nothing is consumed by waiting: it is there the next time too."""
    box.send("x")

    assert box.wait(30) == box.wait(30)


@pytest.mark.parametrize("timeout_s", [0, -1, 0.05])
def test_no_mail_is_an_empty_answer(box, timeout_s):
    """When the time is up, and at once where there is none."""
    begun = time.monotonic()

    assert box.wait(timeout_s).items == ()
    assert time.monotonic() - begun < SOON_S


def test_waiting_does_not_read_the_disk(box):
    """Looking for news asks shared memory only, thousands of times a second."""
    look = box.look()
    begun = time.monotonic()
    for _ in range(1_000):
        assert not box.has_news(look)

    assert time.monotonic() - begun < SOON_S
