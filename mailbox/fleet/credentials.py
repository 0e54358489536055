"""
Where the access token of a Matrix user comes from: a private file, or the environment.

Nothing that is raised here says any of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Final

import attrs

from fencepost.mailbox.errors import UnusableCredentials
from fencepost.mailbox.fleet.config import AgentRule

#: The environment has the token of an agent under this, with the agent's name behind it.
VARIABLE: Final = "FENCEPOST_MATRIX_TOKEN_"
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_READ_MAX: Final = 8_192


@attrs.frozen
class Credentials:
    """
    An access token.

    Attributes:
        token: Itself, which no sentence and no `repr` shows.
        origin: Where it came from, for a sentence.
    """

    token: str = attrs.field(repr=False)
    origin: str


def of(agent: AgentRule, environ: Mapping[str, str]) -> Credentials:
    """
    The access token of an agent's user: from the file that its rule names, or from the environment.

    Raises:
        UnusableCredentials: There is none.
    """
    return from_environment(agent.name, environ) if agent.credentials is None else from_file(agent.credentials)


def from_file(path: str) -> Credentials:
    """
    The access token in a file, which its owner alone may read.

    A symbolic link is followed, as secrets are often mounted behind one; the file behind it counts.

    Raises:
        UnusableCredentials: It cannot be read, others can read it, or it holds something else.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise UnusableCredentials(origin=path, why=f"cannot be read ({why})") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise UnusableCredentials(origin=path, why="is no file")
        if about.st_uid not in (0, os.geteuid()):
            raise UnusableCredentials(origin=path, why="belongs to somebody else")
        if about.st_mode & 0o077:
            raise UnusableCredentials(origin=path, why="can be read or written by others (chmod 600 it)")
        raw = os.read(handle, _READ_MAX)
    finally:
        os.close(handle)
    return _checked(raw.decode("latin-1").strip(), path)


def from_environment(agent: str, environ: Mapping[str, str]) -> Credentials:
    """
    The access token of an agent from $FENCEPOST_MATRIX_TOKEN_NAME, the name in capitals, with `_` for each `-`.

    Raises:
        UnusableCredentials: It is not there, or is none.
    """
    variable = VARIABLE + agent.upper().replace("-", "_")
    return _checked(environ.get(variable, ""), f"${variable}")


def _checked(token: str, origin: str) -> Credentials:
    if not token:
        raise UnusableCredentials(origin=origin, why="holds nothing")
    if not _TOKEN.fullmatch(token):
        raise UnusableCredentials(origin=origin, why="holds what is no access token")
    return Credentials(token, origin)
