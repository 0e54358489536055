"""
The mail of an agent.
"""

from __future__ import annotations

from fencepost.mailbox import codec
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.message import Delivery, Message
from fencepost.mailbox.store.port import Query
from fencepost.mailbox.views import LIMIT_MAX, Listing


def waiting(box: Mailbox, session: str | None) -> list[Message]:
    """What shall wake the session, or one that is not begun yet, and was not delivered to it; oldest due first."""
    scopes, limit = box.mounts.readable(None), LIMIT_MAX
    while True:
        # A listing for people ends somewhere; what wakes may stand behind any number that does not.
        found, _ = box.store.inbox(Query(Listing.UNREAD, scopes, session, utc_now(), limit, scopes))
        if len(found) < limit:
            break
        limit *= 8
    messages = (codec.kept(body) for _, body in found)
    return [each for each in messages if each.letter.delivery is Delivery.WAKE and not each.wake_accepted]
