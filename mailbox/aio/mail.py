"""
The mailbox for async callers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from fencepost.mailbox.aio.workers import WORKERS_DEFAULT, Workers
from fencepost.mailbox.box import History, Inbox, Mailbox, Skeleton
from fencepost.mailbox.caller import LOOK_S
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.message import Delivery, Receipt
from fencepost.mailbox.store.port import Redaction
from fencepost.mailbox.store.receipts import ReceiptFacts
from fencepost.mailbox.tracking import Seen
from fencepost.mailbox.views import LIMIT_DEFAULT, Listing


class AsyncMailbox(Workers):
    """
    A `Mailbox` whose methods are coroutines; arguments and errors are the same.

    Args:
        box: The mailbox to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, box: Mailbox, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(box, workers)
        self._box = box

    async def send(
        self,
        body: str,
        *,
        target: str | None = None,
        session: str | None = None,
        conversation: str | None = None,
        turn: int | None = None,
        about: str | None = None,
        about_turn: int | None = None,
        delivery: str | Delivery = Delivery.NEXT_ACTIVITY,
        actionable: bool = False,
        due_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        idempotency_key: str | None = None,
        context: str | None = None,
        context_version: int | None = None,
        change_id: str | None = None,
    ) -> Receipt:
        """See `Mailbox.send`."""
        draft = Draft(
            body,
            target,
            session,
            conversation,
            turn,
            about,
            about_turn,
            delivery,
            actionable,
            due_at,
            delay_seconds,
            idempotency_key,
            context,
            context_version,
            change_id,
        )
        return (await self.send_many([draft]))[0]

    async def send_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """See `Mailbox.send_many`."""
        return await self._run(self._box.send_many, drafts)

    async def list(
        self,
        *,
        target: str | None = None,
        session: str | None = None,
        status: str | Listing = Listing.UNREAD,
        limit: int = LIMIT_DEFAULT,
    ) -> Inbox:
        """See `Mailbox.list`."""
        return await self._run(self._box.list, target=target, session=session, status=status, limit=limit)

    async def view(self, message_id: str, *, target: str | None = None) -> History:
        """See `Mailbox.view`."""
        return await self._run(self._box.view, message_id, target=target)

    async def skeleton(self, message_id: str, *, target: str | None = None) -> Skeleton:
        """See `Mailbox.skeleton`."""
        return await self._run(self._box.skeleton, message_id, target=target)

    async def redact(self, message_id: str, *, reason: str | None = None, target: str | None = None) -> Redaction:
        """See `Mailbox.redact`."""
        return await self._run(self._box.redact, message_id, reason=reason, target=target)

    async def wait(
        self, timeout_s: float, *, target: str | None = None, session: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> Inbox:
        """See `Mailbox.wait`; no thread is held while waiting, and cancelling takes effect at once."""
        deadline = time.monotonic() + max(0, timeout_s)
        while True:
            look = await self._run(self._box.look, target=target, session=session, limit=limit)
            if look.found.items or time.monotonic() >= deadline:
                return look.found
            # No event can be set from another process: what is watched is shared memory, or at the end of a wire.
            while time.monotonic() < deadline and not await self._run(self._box.has_news, look):  # noqa: ASYNC110
                await asyncio.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))

    async def shown(self, messages: Iterable[Seen], *, session: str, door: str, target: str | None = None) -> int:
        """See `Mailbox.shown`."""
        return await self._run(self._box.shown, messages, session=session, door=door, target=target)

    async def receipts(self, message_id: str, *, target: str | None = None) -> ReceiptFacts:
        """See `Mailbox.receipts`."""
        return await self._run(self._box.receipts, message_id, target=target)

    async def ack(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """See `Mailbox.ack`."""
        return await self._run(self._box.ack, message_id, session=session, occurrence=occurrence, target=target)

    async def claim(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """See `Mailbox.claim`."""
        return await self._run(self._box.claim, message_id, session=session, occurrence=occurrence, target=target)

    async def renew(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """See `Mailbox.renew`."""
        return await self._run(
            self._box.renew, message_id, session=session, occurrence=occurrence, token=token, target=target
        )

    async def release(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """See `Mailbox.release`."""
        return await self._run(
            self._box.release, message_id, session=session, occurrence=occurrence, token=token, target=target
        )

    async def complete(
        self,
        message_id: str,
        *,
        session: str,
        occurrence: int,
        token: str,
        outcome: str | None = None,
        target: str | None = None,
    ) -> Receipt:
        """See `Mailbox.complete`."""
        return await self._run(
            self._box.complete,
            message_id,
            session=session,
            occurrence=occurrence,
            token=token,
            outcome=outcome,
            target=target,
        )

    async def snooze(
        self,
        message_id: str,
        *,
        session: str,
        occurrence: int,
        token: str,
        outcome: str,
        due_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        target: str | None = None,
    ) -> Receipt:
        """See `Mailbox.snooze`."""
        return await self._run(
            self._box.snooze,
            message_id,
            session=session,
            occurrence=occurrence,
            token=token,
            outcome=outcome,
            due_at=due_at,
            delay_seconds=delay_seconds,
            target=target,
        )

    async def cancel(
        self, message_id: str, *, session: str, occurrence: int, outcome: str | None = None, target: str | None = None
    ) -> Receipt:
        """See `Mailbox.cancel`."""
        return await self._run(
            self._box.cancel, message_id, session=session, occurrence=occurrence, outcome=outcome, target=target
        )

    async def reserve(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """See `Mailbox.reserve`."""
        return await self._run(self._box.reserve, message_id, session=session, occurrence=occurrence, target=target)

    async def accept(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """See `Mailbox.accept`."""
        return await self._run(
            self._box.accept, message_id, session=session, occurrence=occurrence, token=token, target=target
        )

    async def decline(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """See `Mailbox.decline`."""
        return await self._run(
            self._box.decline, message_id, session=session, occurrence=occurrence, token=token, target=target
        )

    async def link(self, session: str, parent: str, *, target: str | None = None) -> frozenset[str]:
        """See `Mailbox.link`."""
        return await self._run(self._box.link, session, parent, target=target)

    async def audience(self, session: str) -> frozenset[str]:
        """See `Mailbox.audience`."""
        return await self._run(self._box.audience, session)
