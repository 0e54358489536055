r"""
An ordered log of batches in files, which knows nothing of what its events mean.

`open_journal` opens one for writing.  What follows is the format, complete
enough to write a second implementation from.

The root
========

A root is a folder of mode 0700; every file in it has mode 0600.

``store.json``
    ``{"format": 1, "id": UUID, "generation": INT, "key": HEX}``, indented by two spaces, replaced whole by a rename.
    A root with a higher format is refused.  ``key`` is the secret under which idempotency keys are digested.
``journal/<first>.log``
    The segments.  ``<first>`` is the sequence number of the segment's first event, in 16 decimal digits.  The highest
    is open; the others are sealed.  ``journal/archives``, where there is one, names the folders that sealed ones have
    been moved to, one on each line.
``journal/torn/``
    Copies of what was cut from a torn tail, named segment-offset-digest; blanked by the next erasure.
``journal/erasing``
    While an erasure is under way, the place where its frame stands or will stand: ``{"seq", "digest", "segment",
    "offset"}``, the last event and digest before it, and the byte of that segment.  Where the frame did not fit there,
    it begins the segment of its own first sequence number.
``index-<generation>.sqlite``
    What was folded from the events, in a file that is nobody's contract.  A generation that `store.json` does not name
    is left over.
``.store.lock``, ``.sync.lock``
    Locked with flock by whoever appends, and by whoever syncs.  Never removed.
``watermark``
    A hint, shared through memory; see `fencepost.journal.watermark`.  A reader may ignore it.

Frames
======

A segment is a sequence of frames, then zeros up to its end.  A frame is one batch, on one line of ASCII and UTF-8::

    <digest> <header bytes> <payload bytes> <header> <payload>\n

``digest``
    64 hex digits: SHA-256 of everything between the space behind the digest and the space before the payload.  So it
    proves the two lengths and the header.
``header bytes``, ``payload bytes``
    The lengths of the two JSON texts, in 8 and 9 decimal digits.
``header``
    A JSON object::

        {"prev": the digest of the frame before it, 64 zeros in the first,
         "seq": the sequence number of its first event,
         "durable": the highest sequence number known to be on the disk when it was written,
         "at": ISO-8601 in UTC with Z, "actor": text,
         "events": [{"scope", "stream", "version", "type": text and number,
                     "len": bytes of its slot, "commit": SHA-256 of its slot in hex,
                     "key": HMAC-SHA-256 in hex, under the store's key, of scope, NUL and idempotency key,
                            where there is one}],
         "erases": [sequence numbers whose slots this frame erases; where there are some]}

``payload``
    ``[`` slot ``,`` slot … ``]``, one slot for each event, with nothing between them but the comma.  A slot is
    ``{"salt":"<32 random hex digits>","data":<JSON>}``.  The salt keeps an erased text from being guessed by its
    digest.

Sequence numbers begin at 1 and have no gaps.  The version of an event is its place in its stream, from 1; a stream is a
scope and a name.  All events of a frame are there, or none.

Erasing
=======

An erased slot is ``null`` and spaces.  A slot that is not what its commitment says is erased if a whole frame names it,
and damaged otherwise; a frame that erases is never erased itself.

A frame with ``erases`` binds from when it is on the disk, whatever stands in the slots.  These are the steps, under the
lock, each of them synced before the next:

1. ``journal/erasing`` is written, and then the frame.
2. ``store.json`` gets the next generation, and every ``index-*`` file is removed.
3. Each named slot is overwritten in place, in every folder that holds its segment.
4. Every file in ``journal/torn/`` is overwritten with zeros.  What interrupted writes have left (``.*.tmp``) there, in
   the root, in the journal and in the archives is removed.
5. ``journal/erasing`` is removed.

Whoever finds ``journal/erasing`` and may write does all steps behind the frame again before anything else, or removes
the file if that frame is not there.  Whoever may not write takes the slots for erased if that frame is there and
durable.  Whoever folds the events does so anew when the generation changes.

What a crash may leave
======================

A frame is written at once and then synced; two frames that were not synced may reach the disk in either order.  Reading
at offset *p*, where sequence *s* is expected:

* Nothing but zeros, or the end of the file: the end of the segment.
* Digest, ``prev``, ``seq``, slots and the final newline are right: accepted.
* Otherwise *corrupt*, if the digest is right but ``prev`` or ``seq`` is not; or a later segment holds data; or any
  later frame that proves itself has ``durable`` >= *s*; or an index proves that *s* was synced.
* Otherwise *torn*, if the file ends before the frame does, or some piece of the frame, cut at multiples of 512 bytes in
  the file, is nothing but zeros.  Where the header does not prove where the frame ends: up to the last byte that is not
  zero, some such piece is zero, or the last such byte is no newline.
* Otherwise *corrupt*.

A torn tail was never acknowledged.  It is copied aside, cut off and synced under the lock before the next append.
Corruption is reported with its file and offset; nothing is cut, nothing is written, and what is intact stays readable.

When a sync fails, nothing behind the last durable frame is believed any more: it is copied aside and cut off, and a new
segment begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from fencepost.journal.errors import FencepostError as FencepostError
    from fencepost.journal.errors import JournalConflict as JournalConflict
    from fencepost.journal.errors import JournalCorrupt as JournalCorrupt
    from fencepost.journal.event import Batch as Batch
    from fencepost.journal.event import Checkpoint as Checkpoint
    from fencepost.journal.event import Commit as Commit
    from fencepost.journal.event import Event as Event
    from fencepost.journal.event import NewEvent as NewEvent
    from fencepost.journal.file import FileJournal as FileJournal
    from fencepost.journal.memory import MemoryJournal as MemoryJournal
    from fencepost.journal.port import Journal as Journal

_HOMES = {
    "FencepostError": "errors",
    "JournalConflict": "errors",
    "JournalCorrupt": "errors",
    "Batch": "event",
    "Checkpoint": "event",
    "Commit": "event",
    "Event": "event",
    "NewEvent": "event",
    "FileJournal": "file",
    "MemoryJournal": "memory",
    "Journal": "port",
}

__all__ = [
    "Batch",
    "Checkpoint",
    "Commit",
    "Event",
    "FencepostError",
    "FileJournal",
    "Journal",
    "JournalConflict",
    "JournalCorrupt",
    "MemoryJournal",
    "NewEvent",
    "open_journal",
]


def open_journal(root: str | os.PathLike[str]) -> FileJournal:
    """
    The journal of a folder, for writing; made if it is not there.

    Raises:
        JournalError: It is no store, is newer than this program, or cannot be opened.
    """
    from fencepost.journal.file import FileJournal

    return FileJournal(root)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a quick command needs almost none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fencepost.journal.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
