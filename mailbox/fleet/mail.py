"""
The mail of an agent.
"""

from __future__ import annotations

from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.message import Delivery, Receipt
from fencepost.mailbox.views import LIMIT_MAX


def waiting(box: Mailbox, session: str | None) -> list[Receipt]:
    """What shall wake the session, or one that is not begun yet, and was not delivered to it; oldest due first."""
    return [
        receipt
        for receipt in box.list(session=session, limit=LIMIT_MAX).items
        if receipt.message.letter.delivery is Delivery.WAKE and not receipt.message.wake_accepted
    ]
