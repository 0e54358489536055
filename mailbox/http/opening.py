"""
Opening the store that a state process keeps.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final
from urllib.parse import urlsplit

from fencepost.journal.errors import (
    BadInput,
    MissingExtra,
    MissingToken,
    OtherWireVersion,
    StrangeAnswer,
)
from fencepost.mailbox import errors, shapes
from fencepost.mailbox.errors import InvalidUrl
from fencepost.mailbox.store.port import Store
from fencepost.mailbox.wire.port import EXTENSIONS, WIRE_VERSION

TOKEN_VARIABLE: Final = "FENCEPOST_CLIENT_TOKEN"  # noqa: S105 - a name
#: How long anything may take at the other end.
TIMEOUT_S: Final = 30.0
#: What a header can carry; a token never has more.
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")


def remote_store(url: str, token: str | None = None, *, timeout_s: float = TIMEOUT_S) -> Store:
    """
    The store that a state process keeps.

    One that is a fencepost carries everything.  Any other that speaks the same wire carries what the wire has words
    for, and refuses the rest (`NotCarried`).

    Args:
        url: Where it is: `http://host:port`, perhaps with a path before which its routes stand.
        token: What it knows its client by; $FENCEPOST_CLIENT_TOKEN where None.
        timeout_s: How long it may take to answer.

    Raises:
        MissingExtra: `fencepost[http]` is not installed.
        MissingToken: There is no token.
        OtherWireVersion: It speaks another version of the wire.
        JournalError: It cannot be reached, does not know the token, or is no state process.
    """
    base = checked_url(url)
    secret, origin = (os.environ.get(TOKEN_VARIABLE), f"${TOKEN_VARIABLE}") if token is None else (token, "the caller")
    if not secret:
        raise MissingToken(variable=TOKEN_VARIABLE, why="there is none")
    if not _TOKEN.fullmatch(secret):
        raise MissingToken(variable=TOKEN_VARIABLE, why="this one has characters that no token has")
    if not timeout_s > 0:
        raise errors.InvalidNumber(field="timeout_s", value=str(timeout_s)[:40], least=1, most=shapes.NUMBER_MAX)
    try:
        from fencepost.mailbox.http.transport import Refusal, Transport
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "httpx":
            raise
        raise MissingExtra(extra="http") from error
    transport = Transport(base, secret, origin, timeout_s)
    try:
        try:
            said = transport.capabilities()
        except Refusal as refusal:
            raise transport.error(refusal) from refusal
        client = _client(base, said)
        if _has_extensions(said):
            from fencepost.mailbox.http.remote import RemoteStore

            return RemoteStore(transport, client)
        from fencepost.mailbox.http.plain import PlainStore

        return PlainStore(transport, client, compares=said.get("supports_optimistic_concurrency") is True)
    except BaseException:
        transport.close()
        raise


def checked_url(url: str) -> str:
    """
    A URL that names a state process and no secret.

    Raises:
        InvalidUrl: It does not; nothing of it is told.
    """
    try:
        parts = urlsplit(shapes.text(url, "url", shapes.PATH_BYTES_MAX))
        fits = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise InvalidUrl(why="has no host and port that can be told apart") from None
    inside = parts.netloc + parts.path
    if parts.scheme not in ("http", "https"):
        raise InvalidUrl(why="does not begin with http:// or https://")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise InvalidUrl(why=f"has a user, a query or a fragment in it, and a token belongs into ${TOKEN_VARIABLE}")
    if not fits or not inside.isprintable() or " " in inside:
        raise InvalidUrl(why="names no host, or not well")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _client(url: str, said: dict[str, Any]) -> str:
    """Who the state process says that its client is, once it is known to speak this wire."""
    version = said.get("wire_version")
    if type(version) is not int or version != WIRE_VERSION:
        raise OtherWireVersion(url=url, found=str(version)[:20], known=WIRE_VERSION)
    try:
        return shapes.actor(said.get("client"), "client")  # type: ignore[arg-type]  # it checks
    except BadInput as error:
        raise StrangeAnswer(url=url, why="it does not say who its client is") from error


def _has_extensions(said: dict[str, Any]) -> bool:
    own = said.get("fencepost")
    return isinstance(own, dict) and own.get("extensions") == EXTENSIONS
