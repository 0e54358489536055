"""
The body of a request: read as it comes, counted, and never kept beyond the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

import orjson
from starlette.requests import Request

from fencepost.journal.errors import MalformedRequest
from fencepost.mailbox.errors import BodyTooLarge
from fencepost.mailbox.server.shares import Shares
from fencepost.mailbox.wire.contract import REQUEST_BYTES_MAX

#: Of a body that is too large so much more is read and thrown away: whoever sends before reading gets the answer.
_THROWN_AWAY_MAX: Final = 192 << 20
#: A body larger than this waits for its turn to be kept.
_SMALL_BYTES: Final = 1 << 20


class TooSlow(Exception):
    """The rest of a body did not come in time."""


class Bodies:
    """
    Reads bodies, only a few large ones at a time.

    Of one client only half as many: one that is slow, or sends nothing more, stands in nobody's way but its own.

    Args:
        large: How many large ones are kept at once.

    Attributes:
        pause_s: For how long nothing of one may come.
        whole_s: How long one may take.
    """

    pause_s: ClassVar[float] = 30.0
    whole_s: ClassVar[float] = 300.0

    def __init__(self, large: int) -> None:
        self._large = asyncio.Semaphore(large)
        self._shares = Shares(large // 2)

    async def read(self, request: Request, client: str, kept: contextlib.AsyncExitStack) -> bytes:
        """
        The body.

        Args:
            request: Whose.
            client: Who sends it.
            kept: Ends once the body is not needed any more.

        Raises:
            BodyTooLarge: It is.
            TooSlow: It does not come.
        """
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > REQUEST_BYTES_MAX + _THROWN_AWAY_MAX:
            raise _too_large()
        body = bytearray()
        thrown_away = 0
        large = False
        try:
            async for piece in self._pieces(request):
                if thrown_away or len(body) + len(piece) > REQUEST_BYTES_MAX:
                    body.clear()
                    thrown_away += len(piece)
                    if thrown_away > _THROWN_AWAY_MAX:
                        break
                    continue
                if not large and len(body) + len(piece) > _SMALL_BYTES:
                    await kept.enter_async_context(self._shares.held(client))
                    await kept.enter_async_context(self._large)
                    large = True
                body += piece
        except TooSlow:
            if not thrown_away:
                raise
        if thrown_away:
            raise _too_large()
        return bytes(body)

    async def _pieces(self, request: Request) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.whole_s
        more = True
        while more:
            try:
                message = await asyncio.wait_for(request.receive(), min(self.pause_s, end - loop.time()))
            except TimeoutError:
                raise TooSlow from None
            if message["type"] == "http.disconnect":
                raise TooSlow
            more = message.get("more_body", False)
            yield message.get("body", b"")


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(limit_bytes=REQUEST_BYTES_MAX)


def parsed(raw: bytes) -> dict[str, Any]:
    """
    The JSON object that a body is.

    Raises:
        MalformedRequest: It is none.
    """
    try:
        asked = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise MalformedRequest(field="the body", why="JSON belongs there") from None
    if not isinstance(asked, dict):
        raise MalformedRequest(field="the body", why="an object belongs there")
    return asked
