"""
One batch as one line of text, and what a line proves.

Rules for this file: bytes in, values out; no file handle anywhere.  Nothing
here decides what to do about damage, only what is there.

The layout is specified in the docstring of `fencepost.journal`.  Three things
prove each other: the digest proves the header, the header names the digest of
the frame before it, and for each event the header holds a commitment (the
SHA-256 of its slot, a random salt included).  So a frame proves itself alone,
the log is a chain, and one slot can be erased later without touching either.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import attrs
import orjson

from fencepost.journal.errors import BatchTooLarge
from fencepost.journal.event import Batch, Checkpoint, Commit, Event

#: The digest that the first frame names.
GENESIS: Final = "0" * 64
#: Disks write whole sectors; a torn write leaves some of them untouched, which is to say zero.
SECTOR_BYTES: Final = 512
#: Events in one batch.  With the header's share of each it bounds a header to well under its 8 digits.
BATCH_EVENTS_MAX: Final = 1_000
#: Bytes of all slots of one batch: a full batch of text in its largest JSON form, well under 9 digits.
BATCH_BYTES_MAX: Final = 256 << 20
#: Slots that one batch erases: about 10 MB of a header, which may have 8 digits of bytes.
BATCH_ERASES_MAX: Final = 1_000_000

_SPACE, _OPEN, _COMMA = b" [,"
_PREFIX: Final = re.compile(rb"([0-9a-f]{64}) ([0-9]{8}) ([0-9]{9}) ")
#: The digest and the space behind it, and the two lengths.
_LENGTHS: Final = struct.Struct("65s8sx9sx")
_PREFIX_BYTES: Final = _LENGTHS.size
#: A slot is the salt, in 32 hex digits, and the data.
_SLOT: Final = b'{"salt":"%b","data":%b}'
_DATA_FROM: Final = len(_SLOT % (bytes(32), b"")) - 1

_sha256 = hashlib.sha256
# Reading a journal makes millions of these; the constructor of a named tuple takes twice as long as its tuple.
_event: Final[Callable[[tuple[object, ...]], Event]] = partial(tuple.__new__, Event)
_commit: Final[Callable[[tuple[object, ...]], Commit]] = partial(tuple.__new__, Commit)


@attrs.frozen(slots=False)
class Header:
    """
    A frame whose header proves itself, whatever has become of its payload.

    Attributes:
        digest: Its digest, in hex.
        fields: The header as JSON: prev, seq, durable, at, actor, events, and erases where there are some.
        offset: Where the frame begins.
        payload: Where the payload begins.
        end: Where the frame ends, if it is whole.
    """

    digest: str
    fields: dict[str, Any]
    offset: int
    payload: int
    end: int

    @property
    def seq(self) -> int:
        """The sequence number of its first event."""
        return int(self.fields["seq"])

    @property
    def last(self) -> int:
        """The sequence number of its last event."""
        return self.seq + len(self.fields["events"]) - 1

    @property
    def durable(self) -> int:
        """The highest sequence number that was known to be on the disk when this frame was written."""
        return int(self.fields["durable"])

    @property
    def erases(self) -> tuple[int, ...]:
        """The sequence numbers whose slots this frame erases."""
        return tuple(self.fields.get("erases", ()))


def encode(
    batch: Batch,
    seq: int,
    prev: str,
    durable: int,
    versions: Sequence[int],
    salts: Sequence[str],
    macs: Sequence[str | None],
) -> tuple[str, bytes]:
    """
    A batch as a frame.

    Args:
        batch: What to write.
        seq: The sequence number of its first event.
        prev: The digest of the frame before it.
        durable: The highest sequence number known to be on the disk.
        versions: The version of each event in its stream.
        salts: 32 random hex digits for each event.
        macs: The keyed digest of each event's idempotency key, or None.

    Returns:
        Its digest in hex, and its bytes.

    Raises:
        BatchTooLarge: One frame cannot carry it.
    """
    slots = []
    entries = []
    size_bytes = 0
    for event, salt, version, mac in zip(batch.events, salts, versions, macs, strict=True):
        slot = _SLOT % (salt.encode(), event.data)
        slots.append(slot)
        size_bytes += len(slot)
        entry: dict[str, Any] = {
            "scope": event.scope,
            "stream": event.stream,
            "version": version,
            "type": event.type,
            "len": len(slot),
            "commit": _sha256(slot).hexdigest(),
        }
        if mac is not None:
            entry["key"] = mac
        entries.append(entry)
    too_many = not 0 < len(slots) <= BATCH_EVENTS_MAX or len(batch.erases) > BATCH_ERASES_MAX
    if too_many or size_bytes > BATCH_BYTES_MAX:
        limit = f"1 to {BATCH_EVENTS_MAX} events, {BATCH_BYTES_MAX} bytes, {BATCH_ERASES_MAX} events to erase"
        raise BatchTooLarge(events=len(slots), size_bytes=size_bytes, limit=limit)
    fields: dict[str, Any] = {
        "prev": prev,
        "seq": seq,
        "durable": durable,
        "at": batch.at,
        "actor": batch.actor,
        "events": entries,
    }
    if batch.erases:
        fields["erases"] = batch.erases
    header = orjson.dumps(fields, option=orjson.OPT_UTC_Z)
    payload_bytes = size_bytes + len(slots) + 1
    rest = b"%08d %09d %b" % (len(header), payload_bytes, header)
    digest = _sha256(rest).hexdigest()
    return digest, b"%b %b [%b]\n" % (digest.encode(), rest, b",".join(slots))


def _read_header(buffer: bytes, offset: int) -> tuple[str, dict[str, Any], int, int] | None:
    """Digest, header, first byte of the payload and end of the frame at the offset, if the header proves itself."""
    try:
        said, header_bytes, payload_bytes = _LENGTHS.unpack_from(buffer, offset)
        payload = offset + _PREFIX_BYTES + int(header_bytes) + 1
        end = payload + int(payload_bytes) + 1
    except (struct.error, ValueError):
        return None
    # Whatever else these digits may be, the digest covers them.
    rest = buffer[offset + len(said) : payload - 1]
    digest = _sha256(rest).hexdigest()
    if said != b"%b " % digest.encode():
        return None
    return digest, orjson.loads(rest[_PREFIX_BYTES - len(said) :]), payload, end


def header_at(buffer: bytes, offset: int) -> Header | None:
    """The frame that begins at the offset, if its header is there and proves itself."""
    found = _read_header(buffer, offset)
    if found is None:
        return None
    digest, fields, payload, end = found
    return Header(digest, fields, offset, payload, end)


def headers(buffer: bytes, after: int) -> Iterator[Header]:
    """Every frame behind the offset whose header proves itself, wherever it begins."""
    for match in _PREFIX.finditer(buffer, after + 1):
        header = header_at(buffer, match.start())
        if header is not None:
            yield header


def slot_places(header: Header) -> Iterator[tuple[int, int, int]]:
    """The sequence number, the first byte and the size of each slot of a frame."""
    begin = header.payload + 1
    for seq, entry in enumerate(header.fields["events"], header.seq):
        yield seq, begin, entry["len"]
        begin += entry["len"] + 1


def erased_slot(size: int) -> bytes:
    """What an erased slot of that many bytes is overwritten with."""
    return b"null".ljust(size)


def is_erased(slot: bytes) -> bool:
    """An erased slot is `null`, filled up with spaces."""
    return slot[:4] == b"null" and not slot[4:].strip(b" ")


def commit_at(buffer: bytes, offset: int, segment: int, erased: Collection[int] = (), base: int = 0) -> Commit | None:
    """
    The whole frame that begins at the offset, if its header proves itself and its payload is what that commits to.

    Args:
        buffer: The segment, or a part of it.
        offset: Where in the buffer.
        segment: The segment's first sequence number.
        erased: Sequence numbers whose slots a later frame erases.  Erasing may have been interrupted.
        base: The byte of the segment at which the buffer begins.

    Returns:
        The batch, or None where a byte of it is not as it was written.
    """
    found = _read_header(buffer, offset)
    if found is None:
        return None
    digest, fields, cursor, end = found
    at, actor, seq = fields["at"], fields["actor"], fields["seq"]
    if len(buffer) < end or buffer[cursor - 1] != _SPACE:
        return None
    joint = _OPEN
    events = []
    for entry in fields["events"]:
        begin = cursor + 1
        if buffer[cursor] != joint:
            return None
        cursor = begin + entry["len"]
        slot = buffer[begin:cursor]
        data: bytes | None = slot[_DATA_FROM:-1]
        if _sha256(slot).hexdigest() != entry["commit"]:
            if seq not in erased:
                return None
            data = None
        elif erased and seq in erased:
            data = None  # the plan is not carried out yet, and already binds
        events.append(
            _event(
                (
                    seq,
                    at,
                    actor,
                    entry["scope"],
                    entry["stream"],
                    entry["version"],
                    entry["type"],
                    data,
                    entry.get("key"),
                )
            )
        )
        seq += 1
        joint = _COMMA
    if buffer[cursor:end] != b"]\n":
        return None
    return _commit((tuple(events), fields["prev"], digest, segment, base + offset, base + end, None))


def recorded(
    batch: Batch,
    prev: Checkpoint,
    frame: tuple[str, bytes],
    segment: int,
    offset: int,
    versions: Sequence[int],
    macs: Sequence[str | None],
) -> Commit:
    """What `commit_at` reads back from a frame that was just encoded and written, without reading it back."""
    at = batch.at.isoformat()[:-6] + "Z"
    digest, line = frame
    seq = prev.seq
    events, meanings = [], []
    for event, version, mac in zip(batch.events, versions, macs, strict=True):
        seq += 1
        events.append(Event(seq, at, batch.actor, event.scope, event.stream, version, event.type, event.data, mac))
        meanings.append(event.meaning)
    return Commit(tuple(events), prev.digest, digest, segment, offset, offset + len(line), tuple(meanings))


def has_zero_piece(buffer: bytes, begin: int, end: int) -> bool:
    """Is some piece of the range, cut at sector boundaries, nothing but zeros: was it never written?"""
    while begin < end:
        stop = min((begin // SECTOR_BYTES + 1) * SECTOR_BYTES, end)
        if buffer.count(0, begin, stop) == stop - begin:
            return True
        begin = stop
    return False
