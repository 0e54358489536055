"""
Requests to a state process, and what becomes of them.

One pool of connections for each store, which threads share and a forked child
makes anew.  A question is repeated where a connection broke; what writes never
is.  Whether a write that was not answered has happened is unknown, and that is
what is said.

No error tells the token, and none tells more of the URL than was checked.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson

from fencepost.journal import forks
from fencepost.journal.errors import (
    ClosedHandle,
    FencepostError,
    NoAnswer,
    OutcomeUnknown,
    RequestTooLarge,
    ServerFailed,
    ServerRefused,
    StrangeAnswer,
    TokenRefused,
    Unreachable,
    every_error,
)
from fencepost.mailbox.http.watch import Watch

#: Largest answer that is read; whoever asks for fewer rows gets them.
ANSWER_BYTES_MAX: Final = 256 << 20
#: A question is asked so many times where the connection breaks.
_ATTEMPTS: Final = 3
#: How much longer to wait before each of them.
_PAUSE_S: Final = 0.1
#: Connections idle for so long are not used again: the other end gives them up after some seconds, and a write must
#: not meet with that.
_IDLE_S: Final = 2.0
#: How often to look whether something takes too long.
_LOOK_S: Final = 1.0
_SAID_MAX: Final = 500
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Refusal(Exception):
    """
    A refusal as the state process has put it.

    Attributes:
        code: Its reason on the wire.
        details: What it says of it.
        ours: The code of a fencepost's own error, where it is one.
    """

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__()
        self.status = status
        self.code = str(error.get("code"))[:_SAID_MAX]
        self.said = str(error.get("message"))[:_SAID_MAX]
        self.details: dict[str, Any] = error["details"] if isinstance(error.get("details"), dict) else {}
        own = error.get("fencepost")
        self.ours = own.get("code") if isinstance(own, dict) else None


class Transport:
    """
    The connections to one state process.

    Args:
        url: Where it is, `http://host:port`, checked already.
        token: What it knows its client by.
        origin: Where the token came from, for a sentence.
        timeout_s: How long anything may take.
    """

    def __init__(self, url: str, token: str, origin: str, timeout_s: float) -> None:
        self.url: Final = url
        self._token = token
        self._origin = origin
        self._timeout_s = timeout_s
        self._closed = False
        self._mutex = threading.Lock()
        self._pool: httpx.Client | None = None
        self._watch = Watch(min(_LOOK_S, timeout_s))
        forks.register(self)

    def renew_in_child(self) -> None:
        """In a forked child: what is open is the parent's, and a thread of it may have held the mutex."""
        self._mutex = threading.Lock()
        self._pool = None
        self._watch = Watch(min(_LOOK_S, self._timeout_s))

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        with self._mutex:
            self._closed = True
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _connections(self) -> httpx.Client:
        with self._mutex:
            if self._closed:
                raise ClosedHandle(path=self.url)
            if self._pool is None:
                self._pool = httpx.Client(
                    headers={"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"},
                    timeout=self._timeout_s,
                    limits=httpx.Limits(keepalive_expiry=_IDLE_S),
                    follow_redirects=False,
                    verify=self.url.startswith(
                        "https:"
                    ),  # reading certificates takes long, and nothing else needs them
                    trust_env=not is_loopback(self.url),
                )
            return self._pool

    # --- asking ---------------------------------------------------------------------------------------

    def capabilities(self) -> dict[str, Any]:
        """What the state process says of itself."""
        return self._repeatedly(lambda: self._ask("GET", "capabilities", None, writes=False))

    def ask(self, route: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """
        The answer to a question, which is repeated where the connection breaks.

        Raises:
            Refusal: The state process refuses.
            FencepostError: There is no answer.
        """
        raw = _json(asked)
        return self._repeatedly(lambda: self._ask("POST", route, raw, writes=False))

    def tell(self, route: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """
        The answer to what changes something, which is never repeated.

        Raises:
            Refusal: The state process refuses, and nothing was written.
            OutcomeUnknown: There is no answer, so it may have happened.
            FencepostError: It has not happened.
        """
        return self._ask("POST", route, _json(asked), writes=True)

    def _repeatedly(self, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        for count in range(1, _ATTEMPTS):
            try:
                return attempt()
            except (Unreachable, NoAnswer) as error:
                if isinstance(error.__cause__, httpx.TimeoutException):
                    raise  # whoever waited so long shall not wait again
                time.sleep(count * _PAUSE_S)
        return attempt()

    def _ask(self, verb: str, route: str, raw: bytes | None, *, writes: bool) -> dict[str, Any]:
        pool = self._connections()
        # Nothing comes for so long, or it comes too slowly: a byte now and then is no answer either.
        with self._watch.over(2 * self._timeout_s, lambda: self._give_up(pool)) as deed:
            try:
                return self._asked(pool, verb, route, raw, writes=writes)
            except FencepostError as error:
                if not deed.given_up:
                    raise
                slow = httpx.ReadTimeout("it came too slowly")
                slow.__cause__ = error
                raise self._no_answer(str(slow), writes=writes) from slow

    def _give_up(self, pool: httpx.Client) -> None:
        """Close connections under whoever uses them; who asks next makes new ones."""
        with self._mutex:
            if self._pool is pool:
                self._pool = None
        pool.close()

    def _asked(self, pool: httpx.Client, verb: str, route: str, raw: bytes | None, *, writes: bool) -> dict[str, Any]:
        try:
            with pool.stream(verb, f"{self.url}/v1/{route}", content=raw) as response:
                body = self._body(response, writes=writes)
        except _NOT_SENT as error:
            raise Unreachable(url=self.url, why=_why(error)) from error
        except httpx.TimeoutException as error:
            raise self._no_answer(f"nothing came for {self._timeout_s:g} s", writes=writes) from error
        except httpx.HTTPError as error:
            raise self._no_answer(_why(error), writes=writes) from error
        except (httpx.InvalidURL, UnicodeError) as error:  # the name of a host that cannot be one
            raise Unreachable(url=self.url, why=_why(error)) from error
        except (RuntimeError, ValueError) as error:  # the latter is what a closed connection with TLS says
            if not pool.is_closed:  # by another thread
                raise
            if self._closed:
                raise ClosedHandle(path=self.url) from error
            raise Unreachable(url=self.url, why="it answers too slowly") from error
        return self._read(response.status_code, body, writes=writes)

    def _body(self, response: httpx.Response, *, writes: bool) -> bytes:
        pieces: list[bytes] = []
        size = 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise self._strange(f"more than {ANSWER_BYTES_MAX} bytes: ask for less at once", writes=writes)
        return b"".join(pieces)

    # --- what was answered ------------------------------------------------------------------------------

    def _read(self, status: int, body: bytes, *, writes: bool) -> dict[str, Any]:
        if status == httpx.codes.UNAUTHORIZED:
            raise TokenRefused(url=self.url, origin=self._origin)
        try:
            flat = orjson.loads(body)
        except orjson.JSONDecodeError:
            flat = None
        if status == httpx.codes.OK and isinstance(flat, dict):
            return flat
        error = flat.get("error") if isinstance(flat, dict) else None
        if isinstance(error, dict) and status >= httpx.codes.BAD_REQUEST:
            refusal = Refusal(status, error)
            if status < httpx.codes.INTERNAL_SERVER_ERROR or refusal.ours is not None:
                raise refusal
        if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise RequestTooLarge(url=self.url)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR and not writes:
            raise ServerFailed(url=self.url, status=status)
        said = "no JSON" if status == httpx.codes.OK else f"status {status}"
        refused = httpx.codes.BAD_REQUEST <= status < httpx.codes.INTERNAL_SERVER_ERROR
        raise self._strange(said, writes=writes and not refused)

    def _strange(self, why: str, *, writes: bool) -> FencepostError:
        if writes:
            return OutcomeUnknown(path=self.url, why=f"it has answered {why}")
        return StrangeAnswer(url=self.url, why=why)

    def _no_answer(self, why: str, *, writes: bool) -> FencepostError:
        if writes:
            return OutcomeUnknown(path=self.url, why=f"it has not answered ({why})")
        return NoAnswer(url=self.url, why=why)

    def error(self, refusal: Refusal) -> FencepostError:
        """The very error that a fencepost at the other end has raised; a general one for any other refusal."""
        kind = _kinds().get(refusal.ours) if isinstance(refusal.ours, str) else None
        if kind is not None and _fits(kind, refusal.details):
            return kind(**refusal.details)
        return ServerRefused(url=self.url, reason=refusal.code, said=refusal.said)


def _json(asked: Mapping[str, Any]) -> bytes:
    return orjson.dumps(asked)


def _why(error: Exception) -> str:
    """What went wrong, in the words of a lower layer, or at least its name."""
    return str(error)[:_SAID_MAX] or type(error).__name__


def _kinds() -> dict[str, type[FencepostError]]:
    return {kind.code: kind for kind in every_error() if kind.__module__.startswith("fencepost.")}


def _fits(kind: type[FencepostError], details: Mapping[str, Any]) -> bool:
    """Are these the details of such an error, each of its type?"""
    if details.keys() != set(kind.fields()):
        return False
    declared = {
        name: str(hint) for base in kind.__mro__ for name, hint in vars(base).get("__annotations__", {}).items()
    }
    return all(type(value).__name__ == declared[name] for name, value in details.items())


def is_loopback(url: str) -> bool:
    """Does a URL lead to this machine itself, so that no proxy is to be asked?"""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
