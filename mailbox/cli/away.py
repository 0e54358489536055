"""
Unread mail in a store that is in no folder, for a hook.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

import orjson

from fencepost.mailbox import codec, notice, open_store
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.cli.place import DATABASE_VARIABLE, URL_VARIABLE


def unread(session: str, scopes: Iterable[str]) -> tuple[list[dict[str, Any]], int]:
    """
    The first unread messages as JSON, and how many there are, as far as was looked.

    Raises:
        FencepostError: The store cannot be opened or asked.
    """
    where = os.environ.get(DATABASE_VARIABLE) or os.environ[URL_VARIABLE]
    with contextlib.closing(open_store(where)) as store:
        box = Mailbox(store, [Mount(scope, f"/{number}") for number, scope in enumerate(scopes)])
        items = box.list(session=session, limit=notice.ITEMS_MAX).items
    return [orjson.loads(codec.compact(item.message)) for item in items], len(items)
