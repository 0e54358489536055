"""Where a message is: shown, acknowledged, claimed and finished are separate facts, and showing costs nothing."""

import asyncio

import pytest

from fencepost.journal.disk import Disk
from fencepost.mailbox import AsyncMailbox, Documents, Mailbox, Mode, Mount, errors, open_store
from fencepost.mailbox.store.opening import file_store, reading_store

SCOPE = "user:me/proj:app"
MOUNTS = (Mount(SCOPE, "/project"), Mount("user:me", "/user"))


class CountingDisk(Disk):
    """Counts what makes something durable."""

    def __init__(self):
        self.syncs = 0

    def sync_data(self, fd):
        self.syncs += 1
        super().sync_data(fd)

    def sync(self, fd):
        self.syncs += 1
        super().sync(fd)


@pytest.fixture
def disk():
    return CountingDisk()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def box(root, disk):
    store = file_store(root, disk=disk)
    yield Mailbox(store, MOUNTS, actor="host:test")
    store.close()


def told(box, message_id):
    """Fact, session and door of each fact."""
    return [(fact.fact, fact.session, fact.door) for fact in box.receipts(message_id).facts]


def test_each_fact_stands_for_itself(box):
    """In the order in which they came, each with whom it was about."""
    message = box.send("x", actionable=True, session="sender").message.id
    box.shown([message], session="ada", door="hook")
    box.shown([message], session="ben", door="mcp")
    claimed = box.claim(message, session="ben", occurrence=1)
    token = claimed.message.lease.token
    box.renew(message, session="ben", occurrence=1, token=token)
    box.complete(message, session="ben", occurrence=1, token=token, outcome="Fixed.")
    found = box.receipts(message)

    assert [
        ("stored", "sender", None),
        ("shown", "ada", "hook"),
        ("shown", "ben", "mcp"),
        ("claimed", "ben", None),
        ("renewed", "ben", None),
        ("finished", "ben", None),
    ] == told(box, message)
    assert ("done", 1, 4, False) == (found.status, found.occurrence, found.version, found.erased)
    assert ["done"] == [fact.outcome for fact in found.facts if fact.outcome]
    assert {"host:test"} == {fact.actor for fact in found.facts}


def test_showing_reads_nothing_and_moves_no_version(box):
    """The message is as unread as before, in the version that it had."""
    message = box.send("x", actionable=True).message.id
    before = box.list(), box.view(message)
    assert 1 == box.shown([message], session="ada", door="hook")

    assert before == (box.list(), box.view(message))


def test_it_is_recorded_once_for_each_occurrence_and_session(box, root):
    """Whatever the door, by whichever process, and for another occurrence again."""
    message = box.send("x", actionable=True).message.id
    assert 1 == box.shown([message, message, (message, 1), message.upper()], session="ada", door="hook")
    other = open_store(root)
    assert 0 == Mailbox(other, MOUNTS).shown([message], session="ada", door="mcp")
    assert 1 == Mailbox(other, MOUNTS).shown([(message, 1)], session="ben", door="mcp")
    other.close()
    token = box.claim(message, session="ada", occurrence=1).message.lease.token
    box.snooze(message, session="ada", occurrence=1, token=token, outcome="Later.", delay_seconds=60)

    assert 1 == box.shown([message, (message, 1)], session="ada", door="hook")
    assert [1, 1, 2] == [fact.occurrence for fact in box.receipts(message).facts if fact.fact == "shown"]


def test_it_costs_no_sync(box, disk):
    """Neither for the first time nor again, nor does the listing that follows."""
    messages = [box.send("x").message.id for _ in range(3)]
    box.list()
    before = disk.syncs
    box.shown(messages, session="ada", door="hook")
    box.shown(messages, session="ada", door="hook")
    box.list()

    assert before == disk.syncs


def test_it_is_there_for_the_next_process(root):
    """A process that ends loses nothing, though nothing was synced."""
    store = open_store(root)
    box = Mailbox(store, MOUNTS)
    message = box.send("x").message.id
    box.shown([message], session="ada", door="hook")
    store.close()
    again = open_store(root)

    assert 0 == Mailbox(again, MOUNTS).shown([message], session="ada", door="hook")
    assert ["stored", "shown"] == [fact.fact for fact in Mailbox(again, MOUNTS).receipts(message).facts]
    again.close()


@pytest.mark.parametrize("index", [True, False], ids=["fed", "made-anew"])
def test_no_listing_shows_it(box, root, index):
    """Neither as a document nor as something that cannot be read, and verifying the store finds all in order."""
    message = box.send("x").message.id
    box.shown([message], session="ada", door="hook")
    box.receipts(message)
    box.store.close()
    if not index:
        for path in root.glob("index-*"):
            path.unlink()
    store = open_store(root)
    notes = Documents(store, MOUNTS)
    page = notes.list(target=SCOPE)

    assert ((), ()) == (page.entries, page.unsupported)
    assert () == notes.history(SCOPE).versions
    assert () == Mailbox(store, MOUNTS).list(status="all").unsupported
    assert 0 == Mailbox(store, MOUNTS).shown([message], session="ada", door="hook")
    store.close()


# --- what cannot be shown -------------------------------------------------------------------------------------------


def test_what_cannot_have_been_shown_is_refused_whole(box):
    """A message that is not there, one for others, an occurrence to come: nothing is recorded of the others either."""
    message = box.send("x").message.id
    for_ben = box.send("x", conversation="ben").message.id
    for wanted, refusal in (
        ("00000000-0000-4000-8000-000000000000", errors.UnknownMessage),
        (for_ben, errors.NotRecipient),
        ((message, 2), errors.StaleOccurrence),
        ((message, 0), errors.InvalidNumber),
        ("no id", errors.BadInput),
    ):
        with pytest.raises(refusal):
            box.shown([message, wanted], session="ada", door="hook")
    with pytest.raises(errors.InvalidName):
        box.shown([message], session="ada", door="a door")

    assert [("stored", None, None)] == told(box, message)
    box.link("ada", "ben")
    assert 1 == box.shown([for_ben], session="ada", door="hook")


def test_what_is_mounted_read_only_is_passed_over(box):
    """Nothing is written there."""
    message = box.send("x").message.id
    reader = Mailbox(box.store, [Mount(SCOPE, "/project", Mode.READ_ONLY)])

    assert 0 == reader.shown([message], session="ada", door="hook")
    assert ["stored"] == [fact.fact for fact in reader.receipts(message).facts]


# --- erasing --------------------------------------------------------------------------------------------------------


def test_erasing_a_message_erases_whom_it_was_shown_to(box, root):
    """What is left is that it was shown, when; nothing can be added, and no file holds a name."""
    message = box.send("x", actionable=True).message.id
    box.shown([message], session="ada-lovelace", door="hook")
    done = box.redact(message)
    found = box.receipts(message)

    assert 1 == done.count
    assert 0 == box.shown([message], session="ben", door="hook")
    assert [("stored", None, None), ("shown", None, None)] == told(box, message)
    assert (True, None) == (found.erased, found.status)
    assert not [path for path in root.rglob("*") if path.is_file() and b"ada-lovelace" in path.read_bytes()]
    assert 1 == box.redact(message).count


def test_what_is_erased_meanwhile_is_not_recorded(box, root, monkeypatch):
    """An erasure between the look and the record is noticed, so that no name comes after it."""
    message = box.send("x").message.id
    other = open_store(root)
    append = box.store.append

    def slow(*what, **options):
        monkeypatch.undo()
        Mailbox(other, MOUNTS).redact(message)
        append(*what, **options)

    monkeypatch.setattr(box.store, "append", slow)

    assert 0 == box.shown([message], session="ada", door="hook")
    assert [("stored", None, None)] == told(box, message)
    other.close()


def test_erasing_a_scope_counts_documents(box):
    """Who was shown something is no document."""
    message = box.send("x").message.id
    box.shown([message], session="ada", door="hook")

    assert 1 == box.store.redact(SCOPE, None, at=box._clock(), actor="host:test").count


def test_receipts_of_a_store_that_is_only_read(box, root):
    """They are the same."""
    message = box.send("x").message.id
    box.shown([message], session="ada", door="hook")
    expected = box.receipts(message)
    reader = reading_store(root)

    assert expected == Mailbox(reader, MOUNTS).receipts(message)
    reader.close()


def test_async_callers_have_both(root):
    """With the same arguments and answers."""

    async def main():
        box = AsyncMailbox(Mailbox(open_store(root), MOUNTS))
        message = (await box.send("x")).message.id
        count = await box.shown([(message, 1)], session="ada", door="hook")
        facts = (await box.receipts(message)).facts
        await box.aclose()
        return count, [fact.fact for fact in facts]

    assert (1, ["stored", "shown"]) == asyncio.run(main())
