"""
Documents: what a stream of the journal folds to.

Rules for this file: pure.  An event in a form that is not known makes its
document unsupported from there on: it is reported, and never rewritten.
"""

from __future__ import annotations

from typing import cast

import attrs

from fencepost.journal import event as recorded
from fencepost.mailbox import codec
from fencepost.mailbox.events import Event, Linked
from fencepost.mailbox.evolve import Impossible, evolve
from fencepost.mailbox.message import Message


@attrs.frozen(slots=False)
class Document:
    """
    A document as of one version.

    Attributes:
        version: The number of events in its stream.
        content: What they fold to; None where that cannot be told, and `why` says why.
    """

    scope: str
    path: str
    version: int
    content: Message | Linked | None
    why: str | None = None


def fold(document: Document | None, event: recorded.Event) -> Document:
    """The document after one more event of its stream."""
    if document is not None and document.why is not None:
        return attrs.evolve(document, version=event.version)
    before = None if document is None else document.content
    if event.data is None:
        return Document(event.scope, event.stream, event.version, None, "its content was erased")
    try:
        happened = cast("Event", event.meaning) or codec.decode(event.type, event.data)
        if isinstance(happened, Linked):
            return Document(event.scope, event.stream, event.version, happened)
        if isinstance(before, Linked):
            raise Impossible(f"{event.type} in the stream of a link")
        return Document(event.scope, event.stream, event.version, evolve(before, happened))
    except (codec.UnknownForm, Impossible) as error:
        return Document(event.scope, event.stream, event.version, None, str(error))
