"""
The quick door: `fencepost messages list --json` in about two interpreter starts.

It answers only if everything is plain: words it knows, a watermark of this
boot, an index that has been fed up to the durable end, nothing unsupported.
Otherwise it answers None and the other door does the work, errors included.
The bodies are printed as the index keeps them, so both doors print the same
bytes.
"""

from __future__ import annotations

import os
import sqlite3
import time

from fencepost.journal.watermark import Watermark
from fencepost.mailbox.cli.place import elsewhere, home, project_scope, user_scope
from fencepost.mailbox.store import inbox

_VALUES = frozenset(("--session", "--target", "--status", "--limit", "--root"))
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LISTINGS = ("unread", "open", "scheduled", "closed", "all")


def list_json(words: list[str]) -> str | None:
    """The answer to `messages list --json` with these words, or None where the other door has to give it."""
    options = _options(words)
    if options is None or ("--root" not in options and elsewhere()):
        return None
    session = options.get("--session")
    limit = options.get("--limit", "50")
    listing = options.get("--status", "unread")
    plain = listing in _LISTINGS and limit.isdecimal() and limit.isascii() and 1 <= int(limit[:4]) <= 500
    if (
        not plain
        or len(limit) > 3
        or (session is not None and not (_NAME.issuperset(session) and 0 < len(session) < 200))
    ):
        return None
    scopes = _scopes(options.get("--target"))
    root = os.path.abspath(options.get("--root") or home())
    if scopes is None:
        return None
    db = fed_index(root)
    if db is None:
        return None
    try:
        db.execute("BEGIN")
        conversations = inbox.audience(db, session, _scopes(None) or ())
        items = inbox.select(db, listing, scopes, conversations, time.time_ns() // 1000, int(limit))
        if inbox.unsupported(db, scopes, 1):
            return None
    except sqlite3.Error:
        return None
    finally:
        db.close()
    listed = ",".join(f'{{"version":{version},{body[1:]}' for version, body in items)
    return f'{{"items":[{listed}],"unsupported":[]}}\n'


def _options(words: list[str]) -> dict[str, str] | None:
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--json":
            continue
        value = next(rest, None)
        if word not in _VALUES or word in options or value is None or value.startswith("-"):
            return None
        options[word] = value
    return options


def _scopes(target: str | None) -> tuple[str, ...] | None:
    project, user = project_scope(), user_scope()
    if target is None:
        return project, user
    found = {"/project": project, "/user": user, project: project, user: user}.get(target)
    return None if found is None else (found,)


def fed_index(root: str, *, behind: bool = False) -> sqlite3.Connection | None:
    """The index, if it holds everything durable; or however far it is `behind`, unless something is being erased."""
    try:
        store = os.stat(os.path.join(root, "store.json"))
        with open(os.path.join(root, "store.json"), encoding="ascii") as handle:
            said = handle.read()
        store_id = said.partition('"id": "')[2].partition('"')[0]
        watermark = Watermark(os.path.join(root, "watermark"), store_id, write=False)
    except (OSError, ValueError):
        return None
    try:
        mark, durable = watermark.mark, watermark.durable
        in_doubt = watermark.poisoned or watermark.erasing
    finally:
        watermark.close()
    generation = said.partition('"generation": ')[2].partition(",")[0]
    if mark is None or mark.store != (store.st_ino, store.st_mtime_ns) or in_doubt or '"format": 1,' not in said:
        return None
    path = os.path.join(root, f"index-{generation}.sqlite")
    if not os.path.exists(path):
        return None
    try:
        db = sqlite3.connect(path, isolation_level=None)
        if db.execute("SELECT seq FROM fed").fetchone() == (durable,) or behind:
            return db
        db.close()
    except (sqlite3.Error, UnicodeDecodeError):
        pass
    return None
