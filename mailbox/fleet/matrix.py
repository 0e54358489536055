"""
The client of a Matrix homeserver: what the listener asks, and no more.

Everything that comes from outside is checked or made an error here.  The access
token is in one header and nowhere else, and no redirect is followed with it.

A cursor of `/sync` (`since`) and a place in a room (`token`) are two things that
look alike: a homeserver mistakes one for the other in silence, and reads from the
beginning where one is empty.
"""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Literal, NoReturn, TypeGuard
from urllib.parse import quote

import attrs
import orjson

from fencepost.journal.errors import MissingExtra
from fencepost.mailbox.errors import (
    AccessTokenRefused,
    HomeserverBusy,
    HomeserverRefused,
    HomeserverUnavailable,
    StrangeHomeserver,
)
from fencepost.mailbox.fleet.credentials import Credentials
from fencepost.mailbox.quoting import plain

try:
    import httpx
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "httpx":
        raise
    raise MissingExtra(extra="matrix") from error

#: How long anything may take at the other end, beyond what it was asked to wait.
TIMEOUT_S: Final = 30.0
#: Largest answer that is read: many times what a page of the largest events has.
ANSWER_BYTES_MAX: Final = 64 << 20
#: A homeserver that wants to be asked less often is waited for so often, and so long in all.
_ATTEMPTS: Final = 8
_PATIENCE_S: Final = 30.0
#: Longer than anybody waits; digits without end are no number.
_WAIT_MAX_MS: Final = 86_400_000
_SAID_MAX: Final = 200
#: A file whose upload is not finished is waited for so long; anybody may name one that never will be.
_UPLOAD_MS: Final = 1_000
#: Processes begin at so many different places; it is also the longest wait in milliseconds, should anybody wait.
_BEGINNINGS: Final = 10_000
_API: Final = "/_matrix/client/v3"
_NOTHING: Final[Mapping[str, Any]] = {"types": []}


@attrs.frozen
class Page:
    """
    Some events of a room.

    Attributes:
        events: As they came, in the order in which they were asked for.
        start: The place that they were read from.
        end: The place to go on from; None where there is nothing beyond.
    """

    events: tuple[Any, ...]
    start: str | None
    end: str | None


class Matrix:
    """
    One Matrix user at a homeserver.  Threads may share it.

    Args:
        url: Where the homeserver is.
        credentials: The user's.
        timeout_s: How long it may take to answer.
        transport: What carries requests; the network where None.
        sleep: Waits some seconds.

    Attributes:
        url: Where the homeserver is.
        origin: Where the access token came from.

    Raises:
        HomeserverUnavailable: From every method: it does not answer.
        HomeserverBusy: It wants to be asked less often than can be waited for.
        AccessTokenRefused: It does not know the access token.
        HomeserverRefused: It says no.
        StrangeHomeserver: It has answered what it cannot mean.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url: Final = url.rstrip("/")
        self.origin: Final = credentials.origin
        self._token = credentials.token
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._beginnings = itertools.count(1 + secrets.randbelow(_BEGINNINGS))
        self._http = httpx.Client(
            # Unpacked, an answer may be as large as it likes.
            headers={"Authorization": f"Bearer {credentials.token}", "Accept-Encoding": "identity"},
            follow_redirects=False,
            transport=transport,
            timeout=timeout_s,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    # --- who and where ---------------------------------------------------------------------------------

    def whoami(self) -> str:
        """The user whose access token it is."""
        return self._text(self._ask("GET", "account", "whoami"), "user_id")

    def joined_rooms(self) -> frozenset[str]:
        """The rooms that the user is in."""
        rooms = self._ask("GET", "joined_rooms").get("joined_rooms")
        if not isinstance(rooms, list):
            self.strange("the rooms of the user are no list")
        return frozenset(room for room in rooms if isinstance(room, str))

    def resolve(self, alias: str) -> str | None:
        """The room of an alias; None where there is none."""
        answer = self._find("directory", "room", alias)
        return None if answer is None else self._text(answer, "room_id")

    def join(self, room: str) -> None:
        """Enter a room that the user is invited to."""
        self._ask("POST", "rooms", room, "join", content={})

    # --- reading -------------------------------------------------------------------------------------------

    def sync(self, since: str | None, sieve: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """
        What is new for the user: the answer as it came, with a cursor in `next_batch`.

        Args:
            since: The cursor; everything where None.
            sieve: What of it is wanted.
            timeout_s: How long to wait for something new.
        """
        # A beginning that is asked for again in the same words, also by a process before this one, is answered from
        # memory, minutes old.  Nobody waits at a beginning, so these differ in how long.
        timeout_ms = next(self._beginnings) if since is None else int(timeout_s * 1000)
        params = {"filter": orjson.dumps(sieve).decode(), "timeout": str(timeout_ms)}
        if since is not None:
            params["since"] = self._given(since)
        answer = self._ask("GET", "sync", params=params, timeout_s=timeout_s + self._timeout_s)
        self._text(answer, "next_batch")
        return answer

    def messages(self, room: str, direction: Literal["f", "b"], token: str | None, limit: int) -> Page:
        """
        Events behind a place of a room, or before it, the nearest first.

        Args:
            room: Its id.
            direction: Forwards or backwards.
            token: The place; for None, which reads backwards, its present end.
            limit: At most so many.
        """
        assert token is not None or direction == "b", "without a place it would begin with the room"
        params = {"dir": direction, "limit": str(limit)}
        if token is not None:
            params["from"] = self._given(token)
        answer = self._ask("GET", "rooms", room, "messages", params=params)
        events, start, end = answer.get("chunk"), answer.get("start"), answer.get("end")
        if not isinstance(events, list) or len(events) > limit:
            self.strange(f"a page of at most {limit} events is none")
        if not all(each is None or _is_text(each) for each in (start, end)):
            self.strange("a place in a room is no text")
        return Page(tuple(events), start, end)

    def token_around(self, room: str, event: str) -> tuple[str, str]:
        """The places right before an event and right behind it."""
        answer = self._ask("GET", "rooms", room, "context", event, params={"limit": "0"})
        return self._text(answer, "start"), self._text(answer, "end")

    def event(self, room: str, event: str) -> dict[str, Any] | None:
        """An event as the homeserver has it; None where it has none that the user may see."""
        return self._find("rooms", room, "event", event)

    def state(self, room: str, kind: str, key: str = "") -> dict[str, Any] | None:
        """The content of a state event; None where there is none."""
        return self._find("rooms", room, "state", kind, key)

    def members(self, room: str) -> dict[str, str]:
        """Who is in a room, with the name that each shows, which may be empty."""
        joined = self._ask("GET", "rooms", room, "joined_members").get("joined")
        if not isinstance(joined, dict):
            self.strange("the members of a room are no object")
        names = {user: about.get("display_name") for user, about in joined.items() if isinstance(about, dict)}
        return {user: name if isinstance(name, str) else "" for user, name in names.items()}

    def banned(self, room: str) -> frozenset[str]:
        """Whom a room has banned."""
        found = self._ask("GET", "rooms", room, "members", params={"membership": "ban"}).get("chunk")
        if not isinstance(found, list):
            self.strange("those who are banned are no list")
        users = (each.get("state_key") for each in found if isinstance(each, dict))
        return frozenset(user for user in users if isinstance(user, str))

    def last_words(self, room: str, limit: int) -> tuple[tuple[Any, ...], bool] | None:
        """
        The last events of a room that the user had to leave, and whether there were more; None where it says nothing.

        It is the one way to them for somebody who was banned.
        """
        room_sieve = {"rooms": [room], "include_leave": True, "timeline": {"limit": limit}, "state": _NOTHING}
        answer = self.sync(None, {"room": room_sieve, "presence": _NOTHING, "account_data": _NOTHING}, 0)
        timeline = answer
        for key in ("rooms", "leave", room, "timeline"):
            found = timeline.get(key)
            if not isinstance(found, dict):
                return None
            timeline = found
        events = timeline.get("events")
        return (tuple(events) if isinstance(events, list) else (), timeline.get("limited") is True)

    # --- writing ---------------------------------------------------------------------------------------------

    def send(self, room: str, content: Mapping[str, Any], transaction: str) -> str:
        """
        Say something in a room; the id of the event.

        The same under the same transaction says it once, however often it is asked.
        """
        answer = self._ask("PUT", "rooms", room, "send", "m.room.message", transaction, content=content)
        return self._text(answer, "event_id")

    def account_data(self, user: str, kind: str) -> dict[str, Any]:
        """What the homeserver keeps for the user under that name."""
        return self._find("user", user, "account_data", kind) or {}

    def keep_account_data(self, user: str, kind: str, content: Mapping[str, Any]) -> None:
        """Have it keep something else there."""
        self._ask("PUT", "user", user, "account_data", kind, content=content)

    # --- files -----------------------------------------------------------------------------------------------

    def download(self, server: str, media: str, into: BinaryIO, limit_bytes: int) -> bool:
        """
        Fetch a file that somebody has sent.

        Returns:
            False where it is larger; then what was written is not all of it.
        """
        where = f"{quote(server, safe='')}/{quote(media, safe='')}"
        try:
            return self._download(f"/_matrix/client/v1/media/download/{where}", into, limit_bytes)
        except HomeserverRefused as error:
            # Homeservers of before 2024 have it under another name.
            if error.status != httpx.codes.NOT_FOUND and error.reason != "M_UNRECOGNIZED":
                raise
        return self._download(f"/_matrix/media/v3/download/{where}", into, limit_bytes)

    def _download(self, path: str, into: BinaryIO, limit_bytes: int) -> bool:
        size = 0
        try:
            with self._http.stream("GET", self.url + path, params={"timeout_ms": str(_UPLOAD_MS)}) as answer:
                if answer.status_code != httpx.codes.OK:
                    self._read(answer.status_code, self._body(answer, self._deadline(0)), "a file")
                    self.strange(f"status {answer.status_code} for a file")
                deadline = self._deadline(self._timeout_s)
                self._unpacked(answer)
                for piece in answer.iter_bytes():
                    size += len(piece)
                    if size > limit_bytes:
                        return False
                    if time.monotonic() > deadline:
                        self._unavailable("it came too slowly")
                    into.write(piece)
        except httpx.HTTPError as error:
            self._unavailable(_why(error), error)
        return True

    # --- asking ----------------------------------------------------------------------------------------------

    def _find(self, *path: str) -> dict[str, Any] | None:
        try:
            return self._ask("GET", *path)
        except HomeserverRefused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def _ask(
        self,
        verb: str,
        *path: str,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        url = f"{self.url}{_API}/{'/'.join(quote(each, safe='') for each in path)}"
        raw = None if content is None else orjson.dumps(content)
        patience_s, asked = _PATIENCE_S, f"{verb} {'/'.join(path)[:_SAID_MAX]}"
        for _ in range(_ATTEMPTS):
            status, body, header = self._once(verb, url, params, raw, timeout_s or self._timeout_s)
            if status == httpx.codes.NOT_FOUND and not _has_reason(body):
                self.strange(f"status {status} without a reason")
            if status != httpx.codes.TOO_MANY_REQUESTS:
                return self._read(status, body, asked)
            wait_s = _wait_s(body, header)
            if wait_s > patience_s:
                raise HomeserverBusy(url=self.url, wait_ms=int(wait_s * 1000))
            patience_s -= wait_s
            self._sleep(wait_s)
        raise HomeserverBusy(url=self.url, wait_ms=int(_PATIENCE_S * 1000))

    def _once(
        self, verb: str, url: str, params: Mapping[str, str] | None, raw: bytes | None, timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        headers = None if raw is None else {"Content-Type": "application/json"}
        try:
            with self._http.stream(verb, url, params=params, content=raw, headers=headers, timeout=timeout_s) as answer:
                body = self._body(answer, self._deadline(timeout_s))
                return answer.status_code, body, answer.headers.get("Retry-After")
        except httpx.HTTPError as error:
            self._unavailable(_why(error), error)
        except (httpx.InvalidURL, UnicodeError) as error:  # the name of a host that cannot be one
            self._unavailable("it is no address", error)

    def _deadline(self, timeout_s: float) -> float:
        return time.monotonic() + timeout_s + self._timeout_s

    def _body(self, answer: httpx.Response, deadline: float) -> bytes:
        pieces: list[bytes] = []
        size = 0
        self._unpacked(answer)
        for piece in answer.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                self.strange(f"more than {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > deadline:  # a byte now and then is no answer either
                self._unavailable("it came too slowly")
        return b"".join(pieces)

    def _unpacked(self, answer: httpx.Response) -> None:
        if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            self.strange("an encoding that was not asked for")

    def _read(self, status: int, body: bytes, asked: str) -> dict[str, Any]:
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            self._unavailable(f"status {status}")
        flat = _parsed(body)
        if status == httpx.codes.OK:
            if not isinstance(flat, dict):
                self.strange("no JSON object")
            return flat
        if status < httpx.codes.BAD_REQUEST:
            self.strange(f"status {status}")
        error = flat if isinstance(flat, dict) else {}
        reason, said = (self._repeated(error.get(key, "without a reason")) for key in ("errcode", "error"))
        if status == httpx.codes.UNAUTHORIZED:
            raise AccessTokenRefused(url=self.url, origin=self.origin)
        raise HomeserverRefused(url=self.url, asked=asked, status=status, reason=reason, said=said)

    def _repeated(self, said: object) -> str:
        """Of what it says what a sentence may repeat: nothing that cannot be seen, and no access token."""
        return plain(str(said).replace(self._token, "…"))[:_SAID_MAX]

    def _text(self, answer: Mapping[str, Any], key: str) -> str:
        value = answer.get(key)
        if not _is_text(value):
            self.strange(f"no {key}")
        return value

    def _given(self, cursor: str) -> str:
        assert cursor, "an empty cursor is the beginning"
        return cursor

    def _unavailable(self, why: str, cause: Exception | None = None) -> NoReturn:
        raise HomeserverUnavailable(url=self.url, why=why) from cause

    def strange(self, why: str) -> NoReturn:
        """Say that an answer cannot be meant."""
        raise StrangeHomeserver(url=self.url, why=why)


def _parsed(body: bytes) -> Any:
    """What JSON says; None where it is none.  Half a surrogate pair is let through: one event must not hide others."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _is_text(value: Any) -> TypeGuard[str]:
    """A text that can be given back as it came, which half a surrogate pair cannot, and shown."""
    return isinstance(value, str) and value != "" and value.isprintable()


def _has_reason(body: bytes) -> bool:
    """A homeserver says why; the 404 of what stands before one, or in its place, is about no event and no room."""
    flat = _parsed(body)
    return isinstance(flat, dict) and "errcode" in flat


def _wait_s(body: bytes, header: str | None) -> float:
    """How long a homeserver wants to be left alone; a second where it does not say."""
    flat = _parsed(body)
    wait_ms = flat.get("retry_after_ms") if isinstance(flat, dict) else None
    if type(wait_ms) is int and wait_ms >= 0:
        return min(wait_ms, _WAIT_MAX_MS) / 1000
    if header is None or not header.isascii() or not header.isdigit():
        return 1.0
    return min(float(header), _WAIT_MAX_MS / 1000)


def _why(error: Exception) -> str:
    return str(error)[:_SAID_MAX] or type(error).__name__
