"""
A durable mailbox for agent sessions.

    from fencepost.mailbox import Mailbox, Mount, open_store

    store = open_store("/var/lib/agents/mail")
    box = Mailbox(store, [Mount("user:me/proj:app", "/project")], actor="host:scheduler")
    sent = box.send("Look at the failing build.", actionable=True)

    claimed = box.claim(sent.message.id, session="s-42", occurrence=1)
    box.complete(sent.message.id, session="s-42", occurrence=1, token=claimed.message.lease.token, outcome="Fixed.")

The story of a message: somebody sends it to a scope, a conversation in it, or
for a later time.  It is listed to whoever receives it until a session says that
it has read it (`ack`) or takes the work (`claim`).  A claim is a lease with a
token; only who holds the token of the running lease can renew, release,
complete or snooze.  A lease that runs out makes the message unread again, and
its token is worth nothing from then on.  Each of these steps is an event;
`fencepost.mailbox.lifecycle` is the table of them, and a document is what its
events fold to.

Beside the mail stand texts of which every version is kept; `Documents` is their
door, see `fencepost.mailbox.shelf`.  `Changes` tells whoever follows along what
changed, see `fencepost.mailbox.feed`.  `Conversations` keeps turns, and `Past` finds
what was said; see `fencepost.mailbox.talks` and `fencepost.mailbox.past`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from fencepost.journal.errors import BadInput as BadInput
    from fencepost.journal.errors import FencepostError as FencepostError
    from fencepost.mailbox.addresses import Mode as Mode
    from fencepost.mailbox.addresses import Mount as Mount
    from fencepost.mailbox.aio import AsyncChanges as AsyncChanges
    from fencepost.mailbox.aio import AsyncConversations as AsyncConversations
    from fencepost.mailbox.aio import AsyncDocuments as AsyncDocuments
    from fencepost.mailbox.aio import AsyncErasures as AsyncErasures
    from fencepost.mailbox.aio import AsyncMailbox as AsyncMailbox
    from fencepost.mailbox.aio import AsyncPast as AsyncPast
    from fencepost.mailbox.box import History as History
    from fencepost.mailbox.box import Inbox as Inbox
    from fencepost.mailbox.box import Mailbox as Mailbox
    from fencepost.mailbox.box import Skeleton as Skeleton
    from fencepost.mailbox.drafts import Draft as Draft
    from fencepost.mailbox.erasures import Erasures as Erasures
    from fencepost.mailbox.erasures import RedactionPage as RedactionPage
    from fencepost.mailbox.erasures import RedactionRecord as RedactionRecord
    from fencepost.mailbox.errors import Refused as Refused
    from fencepost.mailbox.feed import Changes as Changes
    from fencepost.mailbox.feed import Checkpoint as Checkpoint
    from fencepost.mailbox.feed import Gap as Gap
    from fencepost.mailbox.feed import News as News
    from fencepost.mailbox.message import Delivery as Delivery
    from fencepost.mailbox.message import Message as Message
    from fencepost.mailbox.message import Receipt as Receipt
    from fencepost.mailbox.message import Status as Status
    from fencepost.mailbox.past import Annotation as Annotation
    from fencepost.mailbox.past import Hit as Hit
    from fencepost.mailbox.past import Hits as Hits
    from fencepost.mailbox.past import MemoryHit as MemoryHit
    from fencepost.mailbox.past import MemoryHits as MemoryHits
    from fencepost.mailbox.past import Past as Past
    from fencepost.mailbox.past import Recalled as Recalled
    from fencepost.mailbox.past import RecalledTurn as RecalledTurn
    from fencepost.mailbox.past import Source as Source
    from fencepost.mailbox.records import Action as Action
    from fencepost.mailbox.records import Entry as Entry
    from fencepost.mailbox.records import MemoryDocument as MemoryDocument
    from fencepost.mailbox.records import Version as Version
    from fencepost.mailbox.shelf import Documents as Documents
    from fencepost.mailbox.shelf import EntryPage as EntryPage
    from fencepost.mailbox.shelf import VersionPage as VersionPage
    from fencepost.mailbox.store.changes import Change as Change
    from fencepost.mailbox.store.port import Redaction as Redaction
    from fencepost.mailbox.store.port import Store as Store
    from fencepost.mailbox.store.receipts import Fact as Fact
    from fencepost.mailbox.store.receipts import ReceiptFacts as ReceiptFacts
    from fencepost.mailbox.talks import Conversations as Conversations
    from fencepost.mailbox.talks import ProjectionPage as ProjectionPage
    from fencepost.mailbox.talks import TurnPage as TurnPage
    from fencepost.mailbox.turns import Projection as Projection
    from fencepost.mailbox.turns import ProjectionKind as ProjectionKind
    from fencepost.mailbox.turns import Turn as Turn
    from fencepost.mailbox.turns import TurnRedaction as TurnRedaction
    from fencepost.mailbox.views import Listing as Listing

_HOMES = {
    "Action": "records",
    "AsyncChanges": "aio",
    "Annotation": "past",
    "AsyncConversations": "aio",
    "AsyncDocuments": "aio",
    "AsyncErasures": "aio",
    "AsyncMailbox": "aio",
    "AsyncPast": "aio",
    "BadInput": "errors",
    "Change": "store.changes",
    "Changes": "feed",
    "Checkpoint": "feed",
    "Conversations": "talks",
    "Delivery": "message",
    "Documents": "shelf",
    "Draft": "drafts",
    "Entry": "records",
    "EntryPage": "shelf",
    "Erasures": "erasures",
    "Fact": "store.receipts",
    "FencepostError": "errors",
    "Gap": "feed",
    "History": "box",
    "Hit": "past",
    "Hits": "past",
    "Inbox": "box",
    "Listing": "views",
    "Mailbox": "box",
    "MemoryDocument": "records",
    "MemoryHit": "past",
    "MemoryHits": "past",
    "Message": "message",
    "Mode": "addresses",
    "Mount": "addresses",
    "News": "feed",
    "Past": "past",
    "Projection": "turns",
    "ProjectionKind": "turns",
    "ProjectionPage": "talks",
    "Recalled": "past",
    "RecalledTurn": "past",
    "Receipt": "message",
    "ReceiptFacts": "store.receipts",
    "Redaction": "store.port",
    "RedactionPage": "erasures",
    "RedactionRecord": "erasures",
    "Refused": "errors",
    "Skeleton": "box",
    "Source": "past",
    "Status": "message",
    "Store": "store.port",
    "Turn": "turns",
    "TurnPage": "talks",
    "TurnRedaction": "turns",
    "Version": "records",
    "VersionPage": "shelf",
}

__all__ = [
    "Action",
    "Annotation",
    "AsyncChanges",
    "AsyncConversations",
    "AsyncDocuments",
    "AsyncErasures",
    "AsyncMailbox",
    "AsyncPast",
    "BadInput",
    "Change",
    "Changes",
    "Checkpoint",
    "Conversations",
    "Delivery",
    "Documents",
    "Draft",
    "Entry",
    "EntryPage",
    "Erasures",
    "Fact",
    "FencepostError",
    "Gap",
    "History",
    "Hit",
    "Hits",
    "Inbox",
    "Listing",
    "Mailbox",
    "MemoryDocument",
    "MemoryHit",
    "MemoryHits",
    "Message",
    "Mode",
    "Mount",
    "News",
    "Past",
    "Projection",
    "ProjectionKind",
    "ProjectionPage",
    "Recalled",
    "RecalledTurn",
    "Receipt",
    "ReceiptFacts",
    "Redaction",
    "RedactionPage",
    "RedactionRecord",
    "Refused",
    "Skeleton",
    "Source",
    "Status",
    "Store",
    "Turn",
    "TurnPage",
    "TurnRedaction",
    "Version",
    "VersionPage",
    "open_store",
]


def open_store(where: str | os.PathLike[str]) -> Store:
    """
    The store of a folder, made if it is not there; `:memory:` for one that lasts as long as the object.

    `postgresql://…` is one in a database (see `fencepost.mailbox.store.postgres`), and `http://…` or `https://…` one
    that a state process keeps, whose token is in `FENCEPOST_CLIENT_TOKEN` (see `fencepost.mailbox.http`).

    Raises:
        BadInput: A URL is not well formed.
        JournalError: It is not a store, is newer than this program, or cannot be opened.
    """
    from fencepost.mailbox.store.opening import file_store, memory_store

    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        from fencepost.mailbox.store.postgres.opening import postgres_store

        return postgres_store(where)
    if isinstance(where, str) and where.startswith(("http://", "https://")):
        from fencepost.mailbox.http.opening import remote_store

        return remote_store(where)
    return memory_store() if where == ":memory:" else file_store(where)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a quick command needs almost none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fencepost.mailbox.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
