"""
The mailbox and everything beside it, for async callers.

Each call runs in a worker thread of its own pool, so the loop is never
blocked.  A cancelled call is waited for before the cancellation goes on: its
worker finishes what it writes and lets go of the lock, and only then does the
caller move on.  Whether it was done is for the caller to look up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from fencepost.mailbox.box import LOOK_S, History, Inbox, Mailbox, Skeleton
from fencepost.mailbox.caller import Caller
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.erasures import Erasures, RedactionPage
from fencepost.mailbox.feed import Changes, Checkpoint, News
from fencepost.mailbox.message import Delivery, Receipt
from fencepost.mailbox.past import Hits, MemoryHits, Past, Recalled
from fencepost.mailbox.records import MemoryDocument, Version
from fencepost.mailbox.shelf import Documents, EntryPage, VersionPage
from fencepost.mailbox.store.port import Redaction
from fencepost.mailbox.store.receipts import ReceiptFacts
from fencepost.mailbox.talks import Conversations, ProjectionPage, TurnPage
from fencepost.mailbox.tracking import Seen
from fencepost.mailbox.turns import Projection, Turn, TurnRedaction
from fencepost.mailbox.views import LIMIT_DEFAULT, Listing

P = ParamSpec("P")
T = TypeVar("T")

#: Threads that calls may wait in at once; more calls queue.
WORKERS_DEFAULT = 8


class _Workers:
    """Threads in which the calls of one caller run."""

    def __init__(self, caller: Caller, workers: int) -> None:
        self._store = caller.store
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="fencepost")

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                try:
                    await asyncio.wait([work])
                except asyncio.CancelledError:
                    continue  # cancelled again while waiting: the worker still has the lock
            if not work.cancelled():
                work.exception()  # the caller has gone; nobody else will look at it
            raise

    async def aclose(self) -> None:
        """Wait for the calls under way and close the store."""
        await self._run(self._store.close)
        self._pool.shutdown(wait=False)


class AsyncMailbox(_Workers):
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
            # No event can be set from another process: what is watched is shared memory.
            while time.monotonic() < deadline and not self._box.has_news(look):  # noqa: ASYNC110
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


class AsyncDocuments(_Workers):
    """
    `Documents` whose methods are coroutines; arguments and errors are the same.

    Args:
        documents: The documents to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, documents: Documents, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(documents, workers)
        self._documents = documents

    async def read(self, path: str, *, version: int | None = None, target: str | None = None) -> MemoryDocument:
        """See `Documents.read`."""
        return await self._run(self._documents.read, path, version=version, target=target)

    async def list(
        self,
        prefix: str | None = None,
        *,
        target: str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> EntryPage:
        """See `Documents.list`."""
        return await self._run(self._documents.list, prefix, target=target, cursor=cursor, limit=limit)

    async def versions(
        self, path: str, *, target: str | None = None, cursor: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> VersionPage:
        """See `Documents.versions`."""
        return await self._run(self._documents.versions, path, target=target, cursor=cursor, limit=limit)

    async def history(
        self,
        target: str | None = None,
        *,
        since: datetime | str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> VersionPage:
        """See `Documents.history`."""
        return await self._run(self._documents.history, target, since=since, cursor=cursor, limit=limit)

    async def write(
        self, path: str, content: str, *, expected_version: int | None = None, target: str | None = None
    ) -> MemoryDocument:
        """See `Documents.write`."""
        return await self._run(self._documents.write, path, content, expected_version=expected_version, target=target)

    async def delete(self, path: str, *, expected_version: int | None = None, target: str | None = None) -> Version:
        """See `Documents.delete`."""
        return await self._run(self._documents.delete, path, expected_version=expected_version, target=target)

    async def rename(
        self, source: str, destination: str, *, expected_version: int | None = None, target: str | None = None
    ) -> MemoryDocument:
        """See `Documents.rename`."""
        return await self._run(
            self._documents.rename, source, destination, expected_version=expected_version, target=target
        )


class AsyncErasures(_Workers):
    """
    `Erasures` whose methods are coroutines; arguments and errors are the same.

    Args:
        erasures: The erasures to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, erasures: Erasures, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(erasures, workers)
        self._erasures = erasures

    async def document(self, path: str, *, reason: str | None = None, target: str | None = None) -> Redaction:
        """See `Erasures.document`."""
        return await self._run(self._erasures.document, path, reason=reason, target=target)

    async def scope(self, target: str, *, reason: str | None = None) -> Redaction:
        """See `Erasures.scope`."""
        return await self._run(self._erasures.scope, target, reason=reason)

    async def list(
        self,
        target: str | None = None,
        *,
        since: datetime | str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> RedactionPage:
        """See `Erasures.list`."""
        return await self._run(self._erasures.list, target, since=since, cursor=cursor, limit=limit)


class AsyncChanges(_Workers):
    """
    `Changes` whose methods are coroutines; arguments and errors are the same.

    Args:
        changes: The feed to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, changes: Changes, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(changes, workers)
        self._changes = changes

    async def poll(
        self,
        after: int | None = None,
        *,
        checkpoint: str | None = None,
        target: str | None = None,
        limit: int = LIMIT_DEFAULT,
        wait_s: float = 0,
        gaps: bool = True,
    ) -> News:
        """See `Changes.poll`; no thread is held while waiting, and cancelling takes effect at once."""
        deadline = time.monotonic() + max(0, wait_s)
        while True:
            mark = self._store.change_mark()
            news = await self._run(
                self._changes.look, after, checkpoint=checkpoint, target=target, limit=limit, gaps=gaps
            )
            if news.items or time.monotonic() >= deadline:
                return news
            after, checkpoint = news.position, None
            seen = news.more
            while not seen and time.monotonic() < deadline:
                await asyncio.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))
                seen = self._store.change_mark() != mark

    async def checkpoint(self, name: str) -> Checkpoint:
        """See `Changes.checkpoint`."""
        return await self._run(self._changes.checkpoint, name)

    async def advance(self, name: str, position: int) -> Checkpoint:
        """See `Changes.advance`."""
        return await self._run(self._changes.advance, name, position)


class AsyncConversations(_Workers):
    """
    `Conversations` whose methods are coroutines; arguments and errors are the same.

    Args:
        talks: The conversations to use.
        workers: How many calls may be under way at once.
    """

    def __init__(self, talks: Conversations, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(talks, workers)
        self._talks = talks

    async def append_turn(self, conversation: str, messages: Sequence[Any]) -> Turn:
        """See `Conversations.append_turn`."""
        return await self._run(self._talks.append_turn, conversation, messages)

    async def read_turns(self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> TurnPage:
        """See `Conversations.read_turns`."""
        return await self._run(self._talks.read_turns, conversation, after=after, limit=limit)

    async def read_turn(self, conversation: str, turn: int) -> Turn:
        """See `Conversations.read_turn`."""
        return await self._run(self._talks.read_turn, conversation, turn)

    async def last_turn_number(self, conversation: str) -> int:
        """See `Conversations.last_turn_number`."""
        return await self._run(self._talks.last_turn_number, conversation)

    async def append_projections(self, conversation: str, entries: Iterable[Projection]) -> None:
        """See `Conversations.append_projections`."""
        await self._run(self._talks.append_projections, conversation, entries)

    async def read_projections(
        self, conversation: str, *, after: int = 0, limit: int = LIMIT_DEFAULT
    ) -> ProjectionPage:
        """See `Conversations.read_projections`."""
        return await self._run(self._talks.read_projections, conversation, after=after, limit=limit)

    async def redact_turns(
        self,
        conversation: str,
        *,
        through: int | None = None,
        turns: Iterable[int] | None = None,
        reason: str | None = None,
    ) -> int:
        """See `Conversations.redact_turns`."""
        return await self._run(self._talks.redact_turns, conversation, through=through, turns=turns, reason=reason)

    async def turn_redactions(self, conversation: str) -> tuple[TurnRedaction, ...]:
        """See `Conversations.turn_redactions`."""
        return await self._run(self._talks.turn_redactions, conversation)


class AsyncPast(_Workers):
    """
    `Past` whose methods are coroutines; arguments and errors are the same.

    Args:
        past: The past to ask.
        workers: How many calls may be under way at once.
    """

    def __init__(self, past: Past, *, workers: int = WORKERS_DEFAULT) -> None:
        super().__init__(past, workers)
        self._past = past

    async def search(
        self,
        query: str,
        *,
        target: str | None = None,
        conversations: Iterable[str] | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Hits:
        """See `Past.search`."""
        return await self._run(self._past.search, query, target=target, conversations=conversations, limit=limit)

    async def search_turns(
        self, query: str, *, conversations: Iterable[str] | None = None, limit: int = LIMIT_DEFAULT
    ) -> tuple[Turn, ...]:
        """See `Past.search_turns`."""
        return await self._run(self._past.search_turns, query, conversations=conversations, limit=limit)

    async def search_memory(self, query: str, *, target: str | None = None, limit: int = LIMIT_DEFAULT) -> MemoryHits:
        """See `Past.search_memory`."""
        return await self._run(self._past.search_memory, query, target=target, limit=limit)

    async def recall(
        self, conversation: str, *, turn: int | None = None, after: int = 0, limit: int = LIMIT_DEFAULT
    ) -> Recalled:
        """See `Past.recall`."""
        return await self._run(self._past.recall, conversation, turn=turn, after=after, limit=limit)
