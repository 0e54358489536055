"""
The mailbox and everything beside it, for async callers.
"""

from fencepost.mailbox.aio.documents import AsyncDocuments, AsyncErasures
from fencepost.mailbox.aio.feed import AsyncChanges
from fencepost.mailbox.aio.mail import AsyncMailbox
from fencepost.mailbox.aio.past import AsyncConversations, AsyncPast

__all__ = [
    "AsyncChanges",
    "AsyncConversations",
    "AsyncDocuments",
    "AsyncErasures",
    "AsyncMailbox",
    "AsyncPast",
]
