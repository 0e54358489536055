"""The journal's bytes: what was written is read back, what a crash leaves is cut, and all other damage is named."""

import json
import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some

from fencepost.journal.event import Batch, Checkpoint, NewEvent
from fencepost.journal.frame import GENESIS, SECTOR_BYTES, commit_at, encode, header_at, headers, is_erased, recorded
from fencepost.journal.recovery import BEGINNING
from fencepost.journal.scan import Tail, erased_by, scan

SALT = "5a" * 16


def framed(batch, seq=1, prev=GENESIS, durable=0, versions=None, macs=None):
    """Digest and bytes of a frame."""
    count = len(batch.events)
    return encode(batch, seq, prev, durable, versions or [1] * count, [SALT] * count, macs or [None] * count)


def a_batch(*sizes, erases=()):
    """A batch with an event of about so many bytes for each size."""
    events = tuple(NewEvent("user:me", "s", "tried", b'"%b"' % (b"y" * size)) for size in sizes)
    return Batch(some.NOON, "host:test", events, erases)


def chained(batches, durables=None, seq=1, prev=GENESIS):
    """The frames of several batches; by default each was written when all before it were durable."""
    frames = []
    for number, batch in enumerate(batches):
        durable = seq - 1 if durables is None else durables[number]
        prev, frame = framed(batch, seq, prev, durable)
        frames.append(frame)
        seq += len(batch.events)
    return frames


# --- one frame --------------------------------------------------------------------------------------------------


@given(some.batches, st.integers(1, 2**53), st.integers(0, 2**53), st.binary(max_size=20), st.booleans())
def test_a_frame_is_read_back(batch, seq, durable, before, keyed):
    """Header and events come back from any place in a buffer, and `recorded` says the same without reading."""
    macs = ["ab" * 32 if keyed and event.key else None for event in batch.events]
    versions = list(range(1, 1 + len(batch.events)))
    digest, frame = framed(batch, seq, GENESIS, durable, versions, macs)
    buffer = before + frame + b"behind"
    header = header_at(buffer, len(before))
    commit = commit_at(buffer, len(before), 1)
    prev = Checkpoint(seq - 1, GENESIS, 1, len(before))

    assert (digest, seq, durable, len(before)) == (header.digest, header.seq, header.durable, header.offset)
    assert header.last == seq + len(batch.events) - 1 == commit.seq
    assert recorded(batch, prev, (digest, frame), 1, len(before), versions, macs) == commit
    assert buffer[commit.stop :] == b"behind"
    assert [event.data for event in batch.events] == [event.data for event in commit.events]


@given(some.batches, st.integers(0, 1000))
def test_a_part_of_a_segment_reads_as_the_whole(batch, base):
    """A buffer that begins in the middle of a segment gives places in the segment."""
    _, frame = framed(batch)
    padded = b"x" * base + frame

    assert commit_at(padded, base, 1) == commit_at(frame, 0, 1, base=base)


@given(some.batches)
def test_a_frame_is_one_line_of_json(batch):
    """Whoever has nothing but a text editor can read it; the specification holds byte for byte."""
    digest, frame = framed(batch)
    line = frame.decode().removesuffix("\n")
    header_bytes, payload_bytes = int(line[65:73]), int(line[74:83])
    header = frame[84 : 84 + header_bytes]
    payload = frame[85 + header_bytes : -1]

    assert "\n" not in line
    assert (line[:64], len(payload)) == (digest, payload_bytes)
    assert [event.stream for event in batch.events] == [entry["stream"] for entry in json.loads(header)["events"]]
    assert [json.loads(event.data) for event in batch.events] == [slot["data"] for slot in json.loads(payload)]


@given(some.batches, st.data())
def test_a_flipped_bit_breaks_a_frame(batch, data):
    """No bit of a frame can change unnoticed."""
    _, frame = framed(batch)
    place = data.draw(st.integers(0, len(frame) - 1))
    changed = bytearray(frame)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))

    assert commit_at(bytes(changed), 0, 1) is None


@given(st.lists(some.batches, max_size=4), st.binary(max_size=30))
def test_frames_are_found_wherever_they_begin(batches, noise):
    """Behind damage, each frame that proves itself is found."""
    frames = chained(batches)
    buffer = noise + b"".join(frames)

    assert len(frames) == len(list(headers(buffer, -1)))


# --- a segment ----------------------------------------------------------------------------------------------------


@given(st.lists(some.batches, max_size=4), st.integers(0, 2000))
def test_a_whole_segment_is_clean(batches, zeros):
    """All batches, in order, and zeros behind them are the end."""
    frames = chained(batches)
    found = scan(b"".join(frames) + bytes(zeros), BEGINNING)

    assert (Tail.CLEAN, len(frames)) == (found.tail, len(found.commits))
    assert sum(map(len, frames)) == found.end.offset


@given(st.lists(some.batches, min_size=1, max_size=4), st.data())
def test_a_prefix_survives_a_cut_anywhere(batches, data):
    """What is whole is read; what is not is torn, so it can be taken off, and then the segment is clean."""
    frames = chained(batches)
    whole = b"".join(frames)
    size = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    survived = max(count for count, end in enumerate(ends) if end <= size)
    found = scan(whole[:size], BEGINNING)

    assert (survived, ends[survived]) == (len(found.commits), found.end.offset)
    assert (Tail.CLEAN if size in ends else Tail.TORN) is found.tail
    assert Tail.CLEAN is scan(whole[: found.end.offset], BEGINNING).tail


@given(st.lists(some.batches, min_size=1, max_size=4), st.data())
def test_a_cut_below_what_was_synced_is_corrupt(batches, data):
    """With a witness that knew a sequence number to be on the disk, less than that is a loss."""
    whole = b"".join(chained(batches))
    total = sum(len(batch.events) for batch in batches)
    size = data.draw(st.integers(0, len(whole) - 1))

    assert Tail.CORRUPT is scan(whole[:size], BEGINNING, witness=total).tail


@given(st.lists(some.batches, min_size=2, max_size=4))
def test_a_sealed_segment_is_whole(batches):
    """Where a later segment holds data, no write was going on here."""
    whole = b"".join(chained(batches))

    assert Tail.CLEAN is scan(whole, BEGINNING, more_follows=True).tail
    assert Tail.CORRUPT is scan(whole[:-1], BEGINNING, more_follows=True).tail


# --- crashes: every image is one that a disk may leave -------------------------------------------------------------


def crash_image(rnd, durable, flight):
    """What may stand in a file whose `durable` bytes were synced while `flight` was being written."""
    whole = durable + flight
    how = rnd.choice(["zeroed ahead", "grown", "size first"])
    if how == "grown":
        return whole[: rnd.randint(len(durable), len(whole))]
    size = (
        len(whole) + 2048 if how == "zeroed ahead" else rnd.choice([len(whole), rnd.randint(len(durable), len(whole))])
    )
    image = bytearray(durable + bytes(size - len(durable)))
    for begin in range(len(durable) // SECTOR_BYTES * SECTOR_BYTES, min(size, len(whole)), SECTOR_BYTES):
        end = min(begin + SECTOR_BYTES, size, len(whole))
        if rnd.random() < 0.6:
            image[begin:end] = whole[begin:end]
    image[: len(durable)] = durable
    return bytes(image)


def check_crash(rnd):
    """One random crash of one random journal."""
    synced, flying = rnd.randint(0, 3), rnd.randint(1, 3)
    batches = [a_batch(*rnd.choices([0, 5, 100, 300, 700, 1500], k=rnd.randint(1, 3))) for _ in range(synced + flying)]
    sizes = [len(batch.events) for batch in batches]
    total = sum(sizes[:synced])
    durables = [sum(sizes[:number]) if number < synced else total for number in range(len(batches))]
    frames = chained(batches, durables)
    image = crash_image(rnd, b"".join(frames[:synced]), b"".join(frames[synced:]))

    for witness in (0, total):
        found = scan(image, BEGINNING, witness=witness)
        assert found.tail is not Tail.CORRUPT, found.why
        assert [header_at(frame, 0).digest for frame in frames[: len(found.commits)]] == [
            commit.digest for commit in found.commits
        ]
        assert len(found.commits) >= synced
        cut = image[: found.end.offset] + bytes(len(image) - found.end.offset)
        again = scan(cut, BEGINNING, witness=witness)
        assert (Tail.CLEAN, found.commits) == (again.tail, again.commits)


@pytest.mark.parametrize("hundred", range(20))
def test_no_crash_is_taken_for_damage(hundred):
    """Whichever sectors of unsynced frames reached the disk: all synced ones are read, and the rest can be cut."""
    for seed in range(hundred * 100, hundred * 100 + 100):
        check_crash(random.Random(seed))


# --- damage: every kind of it, everywhere in a small journal --------------------------------------------------------

BATCHES = [a_batch(40), a_batch(300, 300), a_batch(5), a_batch(120, 0, 120), a_batch(600)]
FRAMES = chained(BATCHES)
FIRST, SECOND = b"".join(FRAMES[:2]), b"".join(FRAMES[2:])
TOTAL = sum(len(batch.events) for batch in BATCHES)


def read_both(first, second, witness=0):
    """Scan the two segments of the small journal as its reader does."""
    before = scan(first, BEGINNING, more_follows=any(second))
    if before.tail is not Tail.CLEAN or before.end.seq != 3:
        return before.tail if before.tail is not Tail.CLEAN else Tail.CORRUPT, before.commits
    start = attrs.evolve(before.end, segment=4, offset=0)
    after = scan(second, start, witness=witness)
    return after.tail, before.commits + after.commits


WHOLE = read_both(FIRST, SECOND)


def is_named(first, second, witness=0):
    """Is the damage named, or is the state the same?  Never less in silence."""
    verdict, commits = read_both(first, second, witness)
    if verdict is Tail.CLEAN:
        return commits == WHOLE[1]
    return all(here == there for here, there in zip(commits, WHOLE[1], strict=False))


def test_the_small_journal_is_whole():
    """Two segments, five batches, eight events."""
    assert (Tail.CLEAN, 5, 8) == (WHOLE[0], len(WHOLE[1]), TOTAL)


@pytest.mark.parametrize("zeros", [0, 4096])
@pytest.mark.parametrize("witness", [0, TOTAL])
def test_every_flipped_bit_is_named(zeros, witness):
    """In a sealed segment, and in anything acknowledged, it is corruption; never a torn tail to be cut."""
    for number in range(len(FIRST) * 8):
        changed = bytearray(FIRST)
        changed[number // 8] ^= 1 << number % 8
        verdict, commits = read_both(bytes(changed), SECOND + bytes(zeros), witness)
        assert verdict is Tail.CORRUPT, number
        assert len(commits) < 2
    known = len(SECOND) if witness else sum(map(len, FRAMES[2:4]))
    for number in range(len(SECOND) * 8):
        changed = bytearray(SECOND)
        changed[number // 8] ^= 1 << number % 8
        verdict, commits = read_both(FIRST, bytes(changed) + bytes(zeros), witness)
        assert verdict is not Tail.CLEAN, number
        assert number // 8 >= known or verdict is Tail.CORRUPT, number
        assert commits == WHOLE[1][: len(commits)]


def test_every_cut_of_a_sealed_segment_is_named():
    """At every byte."""
    for size in range(len(FIRST)):
        assert read_both(FIRST[:size], SECOND)[0] is Tail.CORRUPT, size


@pytest.mark.parametrize("zeros", [0, 4096])
def test_every_cut_of_what_was_synced_is_named(zeros):
    """At every byte, where a witness knows the end; otherwise a cut is what a crash leaves."""
    for size in range(len(SECOND)):
        cut = SECOND[:size] + bytes(zeros)
        assert read_both(FIRST, cut, TOTAL)[0] is Tail.CORRUPT, size
        verdict, commits = read_both(FIRST, cut)
        assert verdict is not Tail.CORRUPT or zeros, size
        assert commits == WHOLE[1][: len(commits)]


@pytest.mark.parametrize("length", [1, 16, 200, 512])
def test_every_run_of_zeros_is_named(length):
    """A hole before a frame that knew better is corruption."""
    for begin in range(0, len(FIRST), 16):
        end = min(begin + length, len(FIRST))
        assert read_both(FIRST[:begin] + bytes(end - begin) + FIRST[end:], SECOND)[0] is Tail.CORRUPT, begin
    known = len(SECOND) - len(FRAMES[-1])
    for begin in range(0, known, 16):
        end = min(begin + length, known)
        verdict, _ = read_both(FIRST, SECOND[:begin] + bytes(end - begin) + SECOND[end:])
        assert verdict is Tail.CORRUPT, begin


@pytest.mark.parametrize(
    "first,second",
    [
        (b"", SECOND),
        (FRAMES[1] + FRAMES[0], SECOND),
        (FRAMES[0] + FRAMES[0] + FRAMES[1], SECOND),
        (FRAMES[0], SECOND),
        (FIRST + FRAMES[2], SECOND),
        (FIRST, FRAMES[2] + FRAMES[4] + FRAMES[3]),
        (FIRST, SECOND + FRAMES[4]),
        (FIRST, FRAMES[3] + FRAMES[4]),
        (FIRST, b"".join(chained(BATCHES[2:], seq=4))),
    ],
    ids=[
        "a segment gone",
        "two frames swapped",
        "a frame twice",
        "a frame gone",
        "a frame of the next segment",
        "the last two swapped",
        "the last twice",
        "the first of a segment gone",
        "a history of its own",
    ],
)
def test_moved_frames_are_named(first, second):
    """The chain tells which frame stands behind which."""
    assert read_both(first, second)[0] is Tail.CORRUPT


def test_a_lost_last_segment_is_known_to_a_witness_only():
    """The journal alone cannot miss what nothing in it names; the index does."""
    assert read_both(FIRST, b"")[0] is Tail.CLEAN
    assert read_both(FIRST, b"", TOTAL)[0] is Tail.CORRUPT


@given(st.binary(min_size=1, max_size=700))
def test_garbage_behind_the_end_loses_nothing(garbage):
    """Whatever follows, everything acknowledged is read."""
    verdict, commits = read_both(FIRST, SECOND + garbage)

    assert commits == WHOLE[1]
    assert (verdict is Tail.CLEAN) == (not any(garbage))


# --- erasing ------------------------------------------------------------------------------------------------------


def overwritten(segment, targets):
    """The segment with the slots of these events blanked out, and where they are."""
    image, places = bytearray(segment), {}
    for header in headers(bytes(segment), -1):
        cursor = header.payload + 1
        for number, entry in enumerate(header.fields["events"]):
            places[header.seq + number] = slice(cursor, cursor + entry["len"])
            cursor += entry["len"] + 1
    for seq in targets:
        there = places[seq]
        image[there] = b"null" + b" " * (there.stop - there.start - 4)
    return bytes(image), places


def check_erasure(rnd):
    """One random erasure, stopped at a random place."""
    batches = [a_batch(900, 900, 900), a_batch(50), a_batch(400, 400)]
    targets = tuple(sorted(rnd.sample(range(1, 7), rnd.randint(1, 3))))
    whole = b"".join(chained([*batches, a_batch(8, erases=targets)]))
    blanked, places = overwritten(whole, targets)
    image = bytearray(whole)
    for begin in range(0, len(whole), SECTOR_BYTES):
        if rnd.random() < 0.5:
            image[begin : begin + SECTOR_BYTES] = blanked[begin : begin + SECTOR_BYTES]
    erased = erased_by(bytes(image))
    found = scan(bytes(image), BEGINNING, erased=erased)
    data = {event.seq: event.data for commit in found.commits for event in commit.events}

    assert (Tail.CLEAN, set(targets)) == (found.tail, erased)
    assert set(targets) == {seq for seq, value in data.items() if value is None}
    assert len(data) == 7
    assert all(is_erased(blanked[places[seq]]) for seq in targets)


def test_an_interrupted_erasure_binds_already():
    """Whichever sectors were overwritten: the named events are gone, all others are as they were."""
    for seed in range(300):
        check_erasure(random.Random(seed))


def test_an_erasure_that_was_not_written_whole_erases_nothing():
    """The frame that names the events is torn, wherever it was cut off, so it goes, and they stay."""
    frames = chained([a_batch(900, 50), a_batch(8, erases=(1,))])
    for size in range(len(frames[1])):
        image = frames[0] + frames[1][:size]
        (commit,) = scan(image, BEGINNING, erased=erased_by(image)).commits
        assert all(event.data is not None for event in commit.events)


@pytest.mark.parametrize("seq", range(1, 7))
def test_a_blank_that_no_frame_names_is_corrupt(seq):
    """Nobody can erase by hand, neither an event of its own nor one beside an erased one."""
    named = 1 + seq % 6
    whole = b"".join(chained([a_batch(900, 900, 900), a_batch(50), a_batch(400, 400), a_batch(8, erases=(named,))]))
    image, _ = overwritten(whole, (seq, named))

    assert scan(image, BEGINNING, erased=erased_by(image)).tail is Tail.CORRUPT
