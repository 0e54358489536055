"""
Where a command works when nobody says: the home folder and the two default mounts.

Rules for this file: no imports beyond what the interpreter has loaded anyway,
because the quick door uses it.
"""

from __future__ import annotations

import os

HOME_VARIABLE = "FENCEPOST_HOME"
DATABASE_VARIABLE = "FENCEPOST_DATABASE_URL"
URL_VARIABLE = "FENCEPOST_URL"
_MARKS = "._-"


def home() -> str:
    """The store that is used where no --root is given."""
    return os.environ.get(HOME_VARIABLE) or os.path.expanduser("~/.fencepost")


def elsewhere() -> bool:
    """Does the environment say that the store is in a database, or with a state process?"""
    return bool(os.environ.get(DATABASE_VARIABLE) or os.environ.get(URL_VARIABLE))


def slug(text: str) -> str:
    """A name made of letters and digits of any script, dots, dashes and underscores; the rest becomes dashes."""
    plain = "".join(each if each.isalnum() or each in _MARKS else "-" for each in text).strip("-.")
    return plain[:60] or "unnamed"  # 200 bytes at most, as for any name


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


def project_scope(folder: str | None = None) -> str:
    """The scope mounted at /project: the user's, and in it that folder's, or the current one's."""
    return f"user:{login()}/proj:{slug(os.path.basename(os.path.normpath(folder or os.getcwd())) or 'root')}"
