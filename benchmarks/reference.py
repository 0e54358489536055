"""
The file store of the reference implementation, through its library; runs in an environment of its own.

A send there is an append with fsync to a file of the message's versions, and a rename of the document into place
without a sync.  No folder is synced.  It has no setting for more, so it is measured as it comes, which is less than the
others promise.
"""

import asyncio

from neosian import FileStore, MemoryConfig, Mount
from neosian.messaging import Mailbox, MessageTarget
from subject import Subject
from texts import BODY, LISTED, OUTCOME, SCOPE, SESSION, YEAR_S, kind


class Reference(Subject):
    def __init__(self, folder, listed=LISTED):
        mounts = (Mount(SCOPE, "project"),)
        self.box = Mailbox(MemoryConfig(FileStore(folder), mounts), session=SESSION, actor="host:bench")
        self.loop = asyncio.new_event_loop()
        self.listed = listed
        self.work = []

    def ready(self, work, count):
        if work == "turn":
            self.loop.run_until_complete(self._ready(count))

    async def _ready(self, count):
        for _ in range(count):
            sent = await self.box.send(MessageTarget(SCOPE), BODY, actionable=True)
            self.work.append(sent.message.id)

    def send(self, count):
        self.loop.run_until_complete(self._send(count))

    async def _send(self, count):
        for _ in range(count):
            await self.box.send(MessageTarget(SCOPE), BODY)

    def fill(self, begin, end):
        """Store messages of the same mixture as the big store holds."""
        self.loop.run_until_complete(self._fill(begin, end))

    async def _fill(self, begin, end):
        for number in range(begin, end):
            what = kind(number)
            target = MessageTarget(SCOPE, f"other-{number % 1000}" if what == "elsewhere" else None)
            await self.box.send(target, BODY, delay_seconds=YEAR_S if what == "later" else None)

    def turn(self, count):
        self.loop.run_until_complete(self._turn(count))

    async def _turn(self, count):
        for _ in range(count):
            message_id = self.work.pop()
            claimed = await self.box.update(SCOPE, message_id, "claim", occurrence=1)
            token = claimed.message.claim_token
            await self.box.update(SCOPE, message_id, "complete", occurrence=1, token=token, outcome=OUTCOME)

    def list(self, count):
        self.loop.run_until_complete(self._list(count))

    async def _list(self, count):
        for _ in range(count):
            found = await self.box.list(limit=50)
            assert len(found) == self.listed, f"{len(found)} listed"

    def close(self):
        self.loop.close()
