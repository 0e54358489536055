"""
A store that a fencepost keeps at the other end of the wire.

Every method asks; what is asked and answered is in `fencepost.mailbox.wire.port`.
The state process answers nothing that is not durable, so nothing that was told
can be taken back: there is one epoch, and it is always settled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from fencepost.journal.errors import OutcomeUnknown, StrangeAnswer
from fencepost.journal.event import Batch, Commit, Event
from fencepost.journal.port import Stream
from fencepost.mailbox import shapes
from fencepost.mailbox.http.transport import Refusal, Transport
from fencepost.mailbox.records import Entry, Record, Version
from fencepost.mailbox.store.documents import Document
from fencepost.mailbox.store.port import Query, Redaction, Stretch, Unsupported
from fencepost.mailbox.store.texts import Found, Sight, Text
from fencepost.mailbox.wire import kinds
from fencepost.mailbox.wire.port import METHODS, PAGES

_ROUTE: Final = "fencepost/"


class RemoteStore:
    """
    A store at the other end of a wire.  Threads may share it.

    Args:
        transport: The connections.
        client: Who its client is, as the state process says.
    """

    def __init__(self, transport: Transport, client: str) -> None:
        self._transport = transport
        self._client = client

    def _ask(self, method: str, **arguments: Any) -> Any:
        known = METHODS[method]
        asked = {name: kind.write(arguments[name]) for name, kind in known.asks.items()}
        send = self._transport.tell if known.writes else self._transport.ask
        try:
            flat = send(_ROUTE + method, asked)
        except Refusal as refusal:
            raise self._transport.error(refusal) from refusal
        try:
            return known.answer.read(flat["result"], method)
        except Exception as error:
            why = f"{type(error).__name__} in the answer to {method}"
            if known.writes:
                raise OutcomeUnknown(path=self._transport.url, why=f"it has answered strangely ({why})") from error
            raise StrangeAnswer(url=self._transport.url, why=why) from error

    def _pages(self, method: str, **arguments: Any) -> list[Any]:
        """All of the rows, which come in several answers where they are long."""
        page, wanted = PAGES[method], arguments["limit"]
        found: list[Any] = []
        while True:
            arguments["limit"] = wanted - len(found)
            rows = self._ask(method, **arguments)
            found += rows
            if not rows or page.is_whole(rows, arguments["limit"]):
                return found
            arguments[page.key] = page.place(rows[-1])

    # --- who, and what is durable -----------------------------------------------------------------------

    def actor(self, said: str) -> str:
        """See `fencepost.mailbox.store.port.Store`."""
        return shapes.actor(f"{self._client}/{said}")

    def _said(self, actor: str) -> str:
        """What a caller says to be, of which the state process makes the actor."""
        return actor.removeprefix(f"{self._client}/")

    def epoch(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        return 0

    def settle(self, epoch: int) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        return True

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, batch: Batch, expect: Mapping[Stream, int], *, settle: bool = True) -> None:
        """See `fencepost.mailbox.store.port.Store`; it is durable in either case."""
        self._ask("append", batch=attrs.evolve(batch, actor=self._said(batch.actor)), expect=expect)

    def redact(self, scope: str, path: str | None, *, at: datetime, actor: str, reason: str | None = None) -> Redaction:
        """See `fencepost.mailbox.store.port.Store`."""
        said = self._said(actor)
        done: Redaction = self._ask("redact", scope=scope, path=path, at=at, actor=said, reason=reason)
        return done

    # --- reading ------------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> Document | None:
        """See `fencepost.mailbox.store.port.Store`."""
        found: Document | None = self._ask("find", stream=stream)
        return found

    def inbox(self, query: Query) -> tuple[Sequence[tuple[int, str]], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: tuple[Sequence[tuple[int, str]], Sequence[Unsupported]] = self._ask("inbox", query=query)
        return found

    def events(self, stream: Stream) -> list[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Event] = []
        while rows := self.events_from(stream, found[-1].version if found else 0, kinds.ALL):
            found += rows
            if len(rows) < kinds.ALL:
                break
        return found

    def events_from(self, stream: Stream, after: int, limit: int) -> Sequence[Event]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._pages("events_from", stream=stream, after=after, limit=limit)

    def annotations(self, conversation: str, turn: int | None) -> Sequence[Document]:
        """See `fencepost.mailbox.store.port.Store`; of the scopes that the client may use."""
        found: list[Document] = self._ask("annotations", conversation=conversation, turn=turn)
        return found

    def search(self, name: str, terms: Sequence[str], sight: Sight, limit: int) -> Found:
        """See `fencepost.mailbox.store.port.Store`."""
        found: Found = self._ask("search", name=name, terms=terms, sight=sight, limit=limit)
        return found

    def search_turns(self, terms: Sequence[str], sight: Sight, limit: int) -> Sequence[Text]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Text] = self._ask("search_turns", terms=terms, sight=sight, limit=limit)
        return found

    def entries(
        self, scope: str, prefix: str, after: str | None, limit: int
    ) -> tuple[Sequence[Entry], Sequence[Unsupported]]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: tuple[Sequence[Entry], Sequence[Unsupported]] = self._ask(
            "entries", scope=scope, prefix=prefix, after=after, limit=limit
        )
        return found

    def versions(self, stream: Stream, before: int, limit: int) -> Sequence[Version]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._pages("versions", stream=stream, before=before, limit=limit)

    def history(self, scope: str, since: datetime | None, before: int, limit: int) -> Sequence[tuple[int, Version]]:
        """See `fencepost.mailbox.store.port.Store`."""
        return self._pages("history", scope=scope, since=since, before=before, limit=limit)

    def record_at(self, stream: Stream, version: int) -> Record | None:
        """See `fencepost.mailbox.store.port.Store`."""
        found: Record | None = self._ask("record_at", stream=stream, version=version)
        return found

    def audience(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: frozenset[str] = self._ask("audience", session=session, scopes=scopes)
        return found

    def sent_under(self, scope: str, key: str) -> Stream | None:
        """See `fencepost.mailbox.store.port.Store`."""
        found: Stream | None = self._ask("sent_under", scope=scope, key=key)
        return found

    def has_seen(self, session: str) -> bool:
        """See `fencepost.mailbox.store.port.Store`."""
        found: bool = self._ask("has_seen", session=session)
        return found

    # --- what changed ---------------------------------------------------------------------------------------

    def feed_bounds(self) -> tuple[int, int]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: tuple[int, int] = self._ask("feed_bounds")
        return found

    def changes(self, after: int, limit: int, scopes: Collection[str] | None, look: int) -> Stretch:
        """See `fencepost.mailbox.store.port.Store`."""
        found: Stretch = self._ask("changes", after=after, limit=limit, scopes=scopes, look=look)
        return found

    def batches(self, after: int, limit: int) -> Sequence[Commit]:
        """See `fencepost.mailbox.store.port.Store`."""
        found: list[Commit] = self._ask("batches", after=after, limit=limit)
        return found

    def secret(self) -> bytes:
        """See `fencepost.mailbox.store.port.Store`."""
        found: bytes = self._ask("secret")
        return found

    def restore(self, batches: Sequence[Batch], behind: int, secret: bytes) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        found: int = self._ask("restore", batches=batches, behind=behind, secret=secret)
        return found

    def change_mark(self) -> int:
        """See `fencepost.mailbox.store.port.Store`."""
        found: int = self._ask("change_mark")
        return found

    def next_change(self, query: Query) -> datetime | None:
        """See `fencepost.mailbox.store.port.Store`."""
        found: datetime | None = self._ask("next_change", query=query)
        return found

    def close(self) -> None:
        """See `fencepost.mailbox.store.port.Store`."""
        self._transport.close()
