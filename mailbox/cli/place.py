"""
Where a command works when nobody says: the home folder and the two default mounts.

Rules for this file: no imports beyond what the interpreter has loaded anyway,
because the quick door uses it.
"""

from __future__ import annotations

import os

HOME_VARIABLE = "FENCEPOST_HOME"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def home() -> str:
    """The store that is used where no --root is given."""
    return os.environ.get(HOME_VARIABLE) or os.path.expanduser("~/.fencepost")


def slug(text: str) -> str:
    """A name made of letters, digits, dots, dashes and underscores; other characters become dashes."""
    plain = "".join(character if character in _PLAIN else "-" for character in text).strip("-.")
    return plain[:100] or "unnamed"


def login() -> str:
    """The name of the user, as a slug."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if os.environ.get(variable):
            return slug(os.environ[variable])
    import pwd

    try:
        return slug(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return f"uid{os.getuid()}"


def user_scope() -> str:
    """The scope mounted at /user."""
    return f"user:{login()}"


def project_scope() -> str:
    """The scope mounted at /project: the user's, and in it the current folder's."""
    return f"user:{login()}/proj:{slug(os.path.basename(os.getcwd()) or 'root')}"
