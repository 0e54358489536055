"""Instants: taken with an offset and nothing else, kept in UTC, shown so that they are read back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from property import strategies as some
from property.test_shapes import check

from fencepost.mailbox import times
from fencepost.mailbox.errors import BadInput, BothTimes, InvalidNumber, InvalidTime

offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FIRST = some.EPOCH
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@given(some.moments)
@example(FIRST)
@example(LAST)
def test_what_is_shown_is_read_back(moment):
    """In the one form that documents have, of at most 27 characters with Z."""
    shown = times.show(moment)

    assert moment == times.parse(shown, "due_at")
    assert len(shown) <= 27
    assert shown.endswith("Z")


@given(some.moments, offsets)
@example(FIRST, timezone(timedelta(hours=-14)))
@example(LAST, timezone(timedelta(hours=-14)))
def test_an_offset_changes_the_text_and_not_the_instant(moment, offset):
    """The same instant in any zone is the same time in UTC."""
    try:
        there = moment.astimezone(offset)
    except OverflowError:
        return  # beyond the years that Python knows
    assert moment == times.utc(there, "due_at") == times.parse(there.isoformat(), "due_at")
    assert times.utc(there, "due_at").tzinfo is UTC


@given(some.moments, some.moments)
def test_index_columns_order_times_as_they_are(one, other):
    """Microseconds since 1970 are exact and lose nothing."""
    assert (one < other) == (times.micros(one) < times.micros(other))
    assert one == FIRST + timedelta(microseconds=times.micros(one))


@given(some.moments.map(lambda moment: moment.replace(tzinfo=None)))
def test_a_time_without_an_offset_is_refused(naive):
    """Local wall time is resolved by whoever writes the offset, once."""
    with pytest.raises(InvalidTime):
        times.utc(naive, "due_at")
    with pytest.raises(InvalidTime):
        times.parse(naive.isoformat(), "due_at")


@given(st.text(max_size=30) | st.text(st.sampled_from("0123456789-:TtZz+. ,\0\ud800\u0661"), max_size=35))
def test_any_text_is_a_time_or_refused(text):
    """Nothing but InvalidTime comes of a bad one."""
    try:
        moment = times.parse(text, "due_at")
    except InvalidTime as error:
        check(error)
    else:
        assert FIRST <= moment <= LAST


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T23:60:00Z",
        "2026-11-30T23:59:60Z",
        "2026-11-30T12:00:00+24:00",
        "2026-11-30T12:00:00",
        "2026-11-30",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.9999999Z",
        "9999-12-31T23:59:59-01:00",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:00+00:01",
        "0001-01-01T00:00:00+01:00",
        "2026-11-30T12:00:00.Z",
        "2026-11-30T12:00:00.0000000001Z",
        "\u0662\u0660\u0662\u0666-11-30T12:00:00Z",
        "now",
        "",
    ],
)
def test_impossible_times_are_refused(text):
    """A day that is not, a leap second, a year before 1970 or after 9999, other digits."""
    with pytest.raises(InvalidTime):
        times.parse(text, "due_at")


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T12:00:00Z",
        "2026-11-30t12:00:00z",
        "2026-11-30 12:00:00 +00:00",
        "2026-11-30T12:00Z",
        "2026-11-30T12:00:00.0Z",
        "2026-11-30T12:00:00,000Z",
        "2026-11-30T13:00:00+0100",
        " 2026-11-29T22:00:00-14:00 ",
    ],
)
def test_iso_times_are_taken(text):
    """In the forms that people and programs write."""
    assert some.NOON == times.parse(text, "due_at")


@given(some.moments.filter(lambda moment: moment < LAST), st.integers(1, 999))
def test_digits_beyond_the_microsecond_round_up(moment, nanos):
    """Nothing comes early."""
    text = f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}{nanos:03}Z"

    assert moment + timedelta(microseconds=1) == times.parse(text, "due_at")


@given(some.moments, st.none() | some.anything | some.moments, st.none() | some.anything)
def test_a_due_time_is_one_or_refused(now, due_at, delay_seconds):
    """By date or by delay, whatever was given; both is refused, neither is no time."""
    try:
        due = times.due(now, due_at, delay_seconds)
    except BadInput as error:
        check(error)
    else:
        assert (due is None) == (due_at is None and delay_seconds is None)
        assert due is None or FIRST <= due <= LAST


@given(some.moments, st.integers(1, times.DELAY_SECONDS_MAX))
def test_a_delay_counts_from_now(now, delay_seconds):
    """Exactly, and never past the year 9999."""
    if delay_seconds <= (LAST - now) // timedelta(seconds=1):
        assert now + timedelta(seconds=delay_seconds) == times.due(now, None, delay_seconds)
    else:
        with pytest.raises(InvalidTime):
            times.due(now, None, delay_seconds)


@pytest.mark.parametrize("delay", [0, -1, 2**63, 10**30, 1.5, True, "60"])
def test_a_delay_is_a_positive_whole_number(delay):
    """Zero, negative, huge, fractional and textual delays are refused."""
    with pytest.raises(InvalidNumber):
        times.due(some.NOON, None, delay)


def test_both_times_are_refused():
    """Even where they agree."""
    with pytest.raises(BothTimes):
        times.due(some.NOON, some.NOON + timedelta(seconds=1), 1)
