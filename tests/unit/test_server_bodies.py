"""Large bodies wait for each other, and those of one client do not keep the others out."""

import asyncio
import contextlib
from types import SimpleNamespace

from fencepost.mailbox.server.bodies import Bodies

PIECE = b" " * (1 << 20)
WAIT_S = 20


def request(pieces, end):
    """A request whose body stops after some pieces, until its end comes."""
    left = iter(pieces)

    async def receive():
        piece = next(left, None)
        if piece is None:
            await end.wait()
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    return SimpleNamespace(headers={}, receive=receive)


def test_large_bodies_of_one_client_leave_room_for_others():
    """However many of them stall, and they go on once they come."""

    async def read(bodies, who, end):
        async with contextlib.AsyncExitStack() as kept:
            return len(await bodies.read(request([PIECE, PIECE], end), who, kept))

    async def run():
        bodies, never, now = Bodies(4), asyncio.Event(), asyncio.Event()
        now.set()
        stalled = [asyncio.create_task(read(bodies, "alice", never)) for _ in range(8)]
        for _ in range(100):
            await asyncio.sleep(0)
        others = await asyncio.wait_for(asyncio.gather(*(read(bodies, "bob", now) for _ in range(8))), WAIT_S)
        assert not any(each.done() for each in stalled)
        never.set()
        return others + await asyncio.wait_for(asyncio.gather(*stalled), WAIT_S)

    assert [2 << 20] * 16 == asyncio.run(run())


def test_a_body_that_is_given_up_gives_its_room_back():
    """Also in the midst of it, and while it waits for its turn."""

    async def run():
        bodies, never, now = Bodies(2), asyncio.Event(), asyncio.Event()
        now.set()

        async def read(who, end):
            async with contextlib.AsyncExitStack() as kept:
                return len(await bodies.read(request([PIECE, PIECE], end), who, kept))

        stalled = [asyncio.create_task(read(who, never)) for who in ("alice", "bob", "alice", "carol")]
        for _ in range(100):
            await asyncio.sleep(0)
        for each in stalled:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        return await asyncio.wait_for(asyncio.gather(*(read("dora", now) for _ in range(3))), WAIT_S)

    assert [2 << 20] * 3 == asyncio.run(run())
