"""
Where a database is, and how to say so without its password.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost.mailbox.errors import InvalidDatabaseUrl, PasswordInUrl
from fencepost.mailbox.store.postgres.schema import checked

_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
#: Who cannot be reached in this time is not there; and who does not answer is asked whether they still are.
_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "fencepost",
}
#: One of them said so already.
_UNLESS: Final = {"application_name": "fallback_application_name"}


@attrs.frozen
class Address:
    """
    A schema in a database.

    Attributes:
        schema: Which schema.
        where: Database, host and schema, for a sentence.
    """

    schema: str
    where: str
    _parameters: dict[str, Any] = attrs.field(repr=False, eq=False)

    def connect(self) -> psycopg.Connection:
        """
        A new connection, on which each statement is a transaction unless it says otherwise.

        Raises:
            psycopg.Error: It cannot be reached, or does not let us in.
        """
        return psycopg.connect(**self._parameters, autocommit=True)


def address(url: str, schema: str, *, may_hold_password: bool) -> Address:
    """
    The address that a URL, or a libpq connection string, says.

    Raises:
        InvalidDatabaseUrl: It is none.
        PasswordInUrl: It has a password in it, and must not.
        InvalidName: The schema is not well formed.
    """
    name = checked(schema)
    try:
        said = conninfo_to_dict(url)
    except psycopg.Error:
        # What it says repeats the URL, so it is not even kept as the cause.
        raise InvalidDatabaseUrl(why="is not well formed") from None
    odd = any("@" in str(said.get(part, "")) for part in ("host", "hostaddr", "dbname"))
    if odd or not all(port.isdecimal() for port in str(said.get("port", "0")).split(",")):
        raise InvalidDatabaseUrl(why="has a sign in a wrong place")  # what stands there is half a password, most likely
    if not may_hold_password and any(said.get(secret) for secret in _SECRETS):
        raise PasswordInUrl()
    host = said.get("host") or said.get("hostaddr") or said.get("service") or "the local host"
    where = f"database {said.get('dbname') or 'of the user'} on {host}, schema {name}"
    defaults = {key: value for key, value in _DEFAULTS.items() if key not in said and _UNLESS.get(key) not in said}
    return Address(name, where, {**defaults, **said, "client_encoding": "utf8"})
