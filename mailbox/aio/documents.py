"""
Documents and erasures for async callers.
"""

from __future__ import annotations

from datetime import datetime

from fencepost.mailbox.aio.workers import WORKERS_DEFAULT, Workers
from fencepost.mailbox.erasures import Erasures, RedactionPage
from fencepost.mailbox.records import MemoryDocument, Version
from fencepost.mailbox.shelf import Documents, EntryPage, VersionPage
from fencepost.mailbox.store.port import Redaction
from fencepost.mailbox.views import LIMIT_DEFAULT


class AsyncDocuments(Workers):
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


class AsyncErasures(Workers):
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
