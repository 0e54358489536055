"""
The tokens that a state process takes, and who holds each.

    FENCEPOST_SERVE_TOKEN=one-long-secret
    FENCEPOST_SERVE_TOKEN=client:alice=secret,client:bob@user:bob+bob-=other

One token alone is the client `default`.  In a table each client has its own,
and perhaps an allowance: `@` and the scope that it may name, `+` and the
conversation, each with what goes on behind it; see `Client`.  What is left out
is free.

Rules for this file: a token is a secret.  None is in an error, and looking one
up takes as long whether it is known or not.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

import attrs

from fencepost.mailbox import shapes
from fencepost.mailbox.errors import InvalidName, InvalidText, TextTooLong, UnusableTokens
from fencepost.mailbox.wire.access import Client

TOKEN_VARIABLE: Final = "FENCEPOST_SERVE_TOKEN"  # noqa: S105 - a name
_KIND: Final = "client:"
#: What a header can carry.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ENTRY: Final = re.compile(r"(?P<actor>[^=@+]*)(?:@(?P<scope>[^=+]*))?(?:\+(?P<talk>[^=]*))?=(?P<token>.*)", re.DOTALL)


@attrs.frozen
class Tokens:
    """Tokens, known by their digests, and their holders."""

    _holders: tuple[tuple[bytes, Client], ...] = attrs.field(repr=False)

    def holder(self, authorization: bytes | None) -> Client | None:
        """
        Who holds the token of a header `Authorization`; None where nobody does.

        Every token is compared, and none of them in less time for being another from the start.
        """
        scheme, _, token = (authorization or b"").partition(b" ")
        given = _digest(token.strip())
        found: Client | None = None
        for known, client in self._holders:
            if hmac.compare_digest(known, given):
                found = client
        return found if scheme.lower() == b"bearer" else None


def tokens(environ: Mapping[str, str]) -> Tokens:
    """
    The tokens that the environment says.

    Raises:
        UnusableTokens: It says none, or not well.
    """
    text = environ.get(TOKEN_VARIABLE, "")
    if not text:
        raise _refusal("is not set, and without a token anybody could write")
    if "=" not in text and "," not in text and not text.startswith(_KIND):
        return Tokens(((_digest(_checked(text, "is no token")), Client("default")),))
    holders: dict[bytes, Client] = {}
    for number, entry in enumerate(text.split(","), 1):
        token, client = _entry(entry, f"has an entry {number} that")
        if token in holders or any(client.name == other.name for other in holders.values()):
            raise _refusal(f"has an entry {number} that repeats a client or a token")
        holders[token] = client
    return Tokens(tuple(holders.items()))


def _entry(entry: str, which: str) -> tuple[bytes, Client]:
    match = _ENTRY.fullmatch(entry)
    if match is None or not match["actor"].startswith(_KIND):
        raise _refusal(f"{which} is no client:NAME=TOKEN")
    name = match["actor"].removeprefix(_KIND)
    try:
        shapes.actor(_KIND + name)
    except (InvalidName, InvalidText, TextTooLong) as error:
        raise _refusal(f"{which} has a client whose name is not well formed") from error
    token = _digest(_checked(match["token"], f"{which} has no token"))
    scope, talk = match["scope"], match["talk"]
    if "" in (scope, talk):
        raise _refusal(f"{which} allows names that begin with nothing: leave the sign out too")
    return token, Client(name, scope, talk)


def _checked(token: str, why: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise _refusal(f"{why}, or has characters that no header carries")
    return token


def _digest(token: str | bytes) -> bytes:
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def _refusal(why: str) -> UnusableTokens:
    return UnusableTokens(variable=TOKEN_VARIABLE, why=why)
