"""
Running the application at an address, until somebody says that it is enough.

SIGTERM and SIGINT end it: nobody new is let in, and what was accepted is
finished first.  A SIGINT after that waits for nothing; the store is as safe as
from a kill.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from fencepost.mailbox.errors import CannotListen
from fencepost.mailbox.server.patience import Patience

#: How long what was accepted may take once it is to end.
_FINISH_S: Final = 20
_BACKLOG: Final = 2_048
#: Connections that may be open at once, as far as the system allows.
_FILES: Final = 65_536
_ENDS: Final = (signal.SIGTERM, signal.SIGINT)


def listen(host: str, port: int) -> socket.socket:
    """
    A socket that is listened at.

    Raises:
        CannotListen: It cannot be.
    """
    shown = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # With the protocol named, or the loop leaves Nagle on and every answer takes 40 ms.
        listening = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    except (OSError, UnicodeError, OverflowError) as error:
        raise CannotListen(address=shown, why=_why(error)) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise CannotListen(address=shown, why=_why(error)) from error
    return listening


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def url(listening: socket.socket) -> str:
    """Where it is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Starlette, listening: socket.socket, ready: Callable[[], None]) -> None:
    """
    Serve until a signal says that it is enough.

    Args:
        app: What is served.
        listening: Where.
        ready: Called once a signal ends it as it should.
    """
    _allow_many_files()
    config = uvicorn.Config(
        app,
        http=Patience,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=int(Patience.idle_s),
        timeout_graceful_shutdown=_FINISH_S,
    )
    server = _Server(config)
    before = {each: signal.signal(each, server.handle_exit) for each in _ENDS}  # uvicorn gives back what it has caught
    try:
        ready()
        server.run(sockets=[listening])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Server(uvicorn.Server):
    """One that ends once what was accepted is finished, and at once for whoever interrupts that."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - so it is called
        """A signal has come."""
        if self.should_exit and sig == signal.SIGINT:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
