"""
Instants: aware UTC inside, ISO-8601 with `Z` outside.

Local wall time is resolved once, by whoever writes the offset; a time without
one is refused, so no clock change can make a reminder skip or come twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from fencepost.mailbox.errors import BothTimes, InvalidTime
from fencepost.mailbox.shapes import whole_number

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: No relative delay can be longer: it would lead past the year 9999 from any time since 1970.
DELAY_SECONDS_MAX: Final = 253_402_300_799
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?\s*([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


def show(moment: datetime) -> str:
    """An aware UTC time as text, such as `2026-11-30T14:00:00Z`; microseconds only where there are some."""
    return moment.isoformat()[:-6] + "Z"


def micros(moment: datetime) -> int:
    """Microseconds since 1970, the form in which the index orders times."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def utc(moment: datetime, field: str) -> datetime:
    """
    The same instant in UTC.

    Raises:
        InvalidTime: It has no offset, or leaves the years 1970 to 9999.
    """
    if not isinstance(moment, datetime):
        raise InvalidTime(field=field, value=str(moment)[:40], why="is not a time")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidTime(field=field, value=moment.isoformat(), why="has no offset from UTC")
    try:
        there = moment.astimezone(UTC)
    except OverflowError:
        there = None
    if there is None or there < EPOCH:
        raise InvalidTime(field=field, value=moment.isoformat(), why="is outside the years 1970 to 9999")
    return there


def parse(text: str, field: str) -> datetime:
    """
    A time from ISO-8601 text with an offset.

    Digits beyond the microsecond round up, so that nothing comes early.

    Raises:
        InvalidTime: It is not such a time.
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise InvalidTime(field=field, value=text, why="is no full ISO-8601 time")
    day, clock, fraction, offset = match.groups()
    if offset is None:
        raise InvalidTime(field=field, value=text, why="has no offset from UTC")
    digits = (fraction or "").ljust(9, "0")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if offset in 'Zz' else offset}")
        moment += timedelta(microseconds=int(digits[:6]) + (digits[6:] != "000"))
    except (ValueError, OverflowError) as error:
        raise InvalidTime(field=field, value=text, why="is not a possible time") from error
    return utc(moment, field)


def earliest(since: datetime | str | None) -> datetime | None:
    """
    The time that a history begins at; None for its beginning.

    Raises:
        InvalidTime: It is not one.
    """
    if since is None:
        return None
    return parse(since, "since") if isinstance(since, str) else utc(since, "since")


def due(now: datetime, due_at: datetime | str | None, delay_seconds: int | None) -> datetime | None:
    """
    The due time that was asked for, by date or by delay from `now`; None where neither was given.

    Raises:
        BothTimes: Both were given.
        InvalidTime: The date is not one, or the delay leads past the year 9999.
        InvalidNumber: The delay is not a positive whole number of seconds.
    """
    if due_at is not None and delay_seconds is not None:
        raise BothTimes()
    if isinstance(due_at, str):
        return parse(due_at, "due_at")
    if due_at is not None:
        return utc(due_at, "due_at")
    if delay_seconds is None:
        return None
    delay = whole_number(delay_seconds, "delay_seconds", 1, DELAY_SECONDS_MAX)
    try:
        return now + timedelta(seconds=delay)
    except OverflowError as error:
        raise InvalidTime(field="delay_seconds", value=str(delay), why="leads past the year 9999") from error
