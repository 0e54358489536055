"""
Connections that are given only so much time.

uvicorn waits for ever for the head of a request, and for whoever does not read
an answer.  Here either has an end, so that half-open connections and slow
readers cost a file descriptor for a while and nothing more.  How long a body
may take is counted where it is read.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class Patience(H11Protocol):
    """
    The protocol of one connection.

    Attributes:
        head_s: How long a request may take to begin, with all of its head.
        idle_s: How long a connection may be idle between two requests.
        reading_s: How long nobody may read what is to be sent.
    """

    head_s: ClassVar[float] = 20.0
    idle_s: ClassVar[float] = 60.0
    reading_s: ClassVar[float] = 60.0
    _beginning: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A request is to begin soon."""
        super().connection_made(transport)
        self._await_request(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._cancel()
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A request that has begun is not waited for any more."""
        super().data_received(data)
        if self._is_answering():
            self._cancel()

    def on_response_complete(self) -> None:
        """The next one is to begin; meanwhile the rest of a body that nobody wanted may go by."""
        super().on_response_complete()
        if not self._is_answering():
            self._await_request(self.idle_s + self.head_s)

    def pause_writing(self) -> None:
        """Somebody has to read."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(self.reading_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Somebody does."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # there is none before the first request
        return cycle is not None and not cycle.response_complete

    def _await_request(self, seconds: float) -> None:
        self._cancel()
        self._beginning = self.loop.call_later(seconds, self.transport.abort)

    def _cancel(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None
