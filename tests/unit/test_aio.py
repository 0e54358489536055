"""The mailbox for async callers."""

import asyncio
import contextlib
import threading
import time

import pytest

from fencepost.mailbox import (
    AsyncConversations,
    AsyncDocuments,
    AsyncMailbox,
    AsyncPast,
    Conversations,
    Documents,
    Draft,
    Mailbox,
    Mount,
    Past,
    Projection,
    open_store,
)
from fencepost.mailbox.errors import UnknownDocument, UnknownMessage


class SlowStore:
    """A store whose next append waits until it is let go, with its lock in hand."""

    def __init__(self):
        self.store = open_store(":memory:")
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.done = threading.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    def append(self, *what):
        self.begun.set()
        assert self.let_go.wait(30)
        self.store.append(*what)
        self.done.set()


@pytest.fixture
def slow():
    return SlowStore()


def a_box(store):
    return AsyncMailbox(Mailbox(store, [Mount("user:me", "/user")]))


def test_the_loop_runs_while_a_call_waits(slow):
    """Other tasks go on while a worker is at the disk."""

    async def main():
        box = a_box(slow)
        sending = asyncio.create_task(box.send("x"))
        turns = 0
        assert await asyncio.to_thread(slow.begun.wait, 30)
        for _ in range(100):
            await asyncio.sleep(0)
            turns += 1
        assert not sending.done()
        slow.let_go.set()
        assert 1 == (await sending).version
        await box.aclose()
        return turns

    assert 100 == asyncio.run(main())


def test_a_cancelled_call_is_waited_for(slow):
    """Its worker finishes what it writes before the cancellation goes on, even if it is cancelled twice."""

    async def main():
        box = a_box(slow)
        sending = asyncio.create_task(box.send("x"))
        assert await asyncio.to_thread(slow.begun.wait, 30)
        sending.cancel()
        await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.sleep(0.01)
        assert not sending.done()
        slow.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert slow.done.is_set()
        found = await box.list(status="all")
        await box.aclose()
        return len(found.items)

    assert 1 == asyncio.run(main())


def test_a_timeout_waits_for_the_worker_too(slow):
    """`asyncio.timeout` cancels, so what it interrupted is finished as well."""

    async def main():
        box = a_box(slow)
        asyncio.get_running_loop().call_later(0.05, slow.let_go.set)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await box.send("x")
        assert slow.done.is_set()
        await box.aclose()

    asyncio.run(main())


def test_errors_come_through():
    """As they are raised by the mailbox."""

    async def main():
        box = a_box(open_store(":memory:"))
        with pytest.raises(UnknownMessage):
            await box.view("00000000-0000-0000-0000-000000000000")
        await box.aclose()

    asyncio.run(main())


def test_every_call_does_what_the_mailbox_does(tmp_path):
    """The whole life of a message, awaited."""

    async def main():
        box = a_box(open_store(tmp_path / "store"))
        sent, _ = await box.send_many([Draft("x", actionable=True, delivery="wake"), Draft("y", session="a")])
        who = {"message_id": sent.message.id, "session": "s", "occurrence": 1}
        token = (await box.reserve(**who)).message.reservation.token
        await box.decline(**who, token=token)
        token = (await box.reserve(**who)).message.reservation.token
        await box.accept(**who, token=token)
        await box.ack(**who)
        token = (await box.claim(**who)).message.lease.token
        await box.renew(**who, token=token)
        await box.release(**who, token=token)
        token = (await box.claim(**who)).message.lease.token
        await box.snooze(**who, token=token, outcome="later", delay_seconds=60)
        who["occurrence"] = 2
        assert "closed" != (await box.view(sent.message.id)).receipt.message.status.value
        await box.cancel(**who)
        assert {"s", "a"} == await box.link("s", "a") == await box.audience("s")
        versions = (await box.view(sent.message.id)).versions
        await box.aclose()
        return [receipt.version for receipt in versions]

    assert list(range(12, 0, -1)) == asyncio.run(main())


def test_completing_is_awaited_too():
    """Claimed and done."""

    async def main():
        box = a_box(open_store(":memory:"))
        sent = await box.send("x", actionable=True)
        who = {"message_id": sent.message.id, "session": "s", "occurrence": 1}
        token = (await box.claim(**who)).message.lease.token
        done = await box.complete(**who, token=token, outcome="Fixed.")
        await box.aclose()
        return done.message.outcome

    assert "Fixed." == asyncio.run(main())


def test_waiting_ends_when_something_comes():
    """Many may wait at once, more than there are workers, and all of them see it."""

    async def main():
        box = a_box(open_store(":memory:"))
        waiting = [asyncio.create_task(box.wait(30)) for _ in range(20)]
        await asyncio.sleep(0.05)
        await box.send("x")
        found = await asyncio.gather(*waiting)
        await box.aclose()
        return {len(inbox.items) for inbox in found}

    begun = time.monotonic()
    assert {1} == asyncio.run(main())
    assert time.monotonic() - begun < 10


def test_waiting_can_be_cancelled_at_once():
    """No worker is held while waiting."""

    async def main():
        box = a_box(open_store(":memory:"))
        waiting = asyncio.create_task(box.wait(3600))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await box.aclose()

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < 10


def test_waiting_for_nothing_ends():
    """An empty answer when the time is up."""

    async def main():
        box = a_box(open_store(":memory:"))
        found = await box.wait(0.05)
        await box.aclose()
        return found.items

    assert () == asyncio.run(main())


def test_every_call_does_what_the_documents_do(tmp_path):
    """A document written, read, moved, deleted and listed, awaited."""

    async def main():
        door = AsyncDocuments(Documents(open_store(tmp_path / "store"), [Mount("user:me", "/user")]))
        first = await door.write("/user/a", "x", expected_version=0)
        assert first == await door.read("/user/a") == await door.read("a", target="user:me", version=1)
        moved = await door.rename("/user/a", "/user/b", expected_version=1)
        assert ["b"] == [entry.path for entry in (await door.list("/user", limit=1)).entries]
        gone = await door.delete("/user/b", expected_version=moved.version)
        found = await door.versions("/user/b"), await door.history("/user")
        with pytest.raises(UnknownDocument):
            await door.read("/user/b")
        await door.aclose()
        assert gone == found[0].versions[0] == found[1].versions[0]
        return [version.action.value for version in found[1].versions]

    assert ["deleted", "created", "deleted", "created"] == asyncio.run(main())


def test_every_call_does_what_the_conversations_and_the_past_do():
    """Each with the answer of its namesake."""

    async def main():
        store = open_store(":memory:")
        talks, past = Conversations(store), Past(store, [Mount("user:me", "/user")])
        later, ago = AsyncConversations(talks), AsyncPast(past)
        turn = await later.append_turn("s", [{"role": "user", "content": "x"}])
        assert 1 == turn.turn == await later.last_turn_number("s")
        await later.append_projections("s", [Projection(1, "log", "x")])
        assert talks.read_projections("s") == await later.read_projections("s")
        assert talks.read_turns("s") == await later.read_turns("s")
        assert turn == await later.read_turn("s", 1)
        assert past.search("x") == await ago.search("x")
        assert (turn,) == past.search_turns("x") == await ago.search_turns("x")
        assert past.search_memory("x") == await ago.search_memory("x")
        assert past.recall("s") == await ago.recall("s")
        assert 1 == await later.redact_turns("s", through=1)
        assert talks.turn_redactions("s") == await later.turn_redactions("s")
        await later.aclose()

    asyncio.run(main())
