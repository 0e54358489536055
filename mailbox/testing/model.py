"""
What the machine believes: plain dicts, one chain of ifs for each command.

Rules for this file: it knows nothing of the code under test, not its classes,
not its table and not its order of files.  It is written from the description of
the lifecycle alone, so that a mistake would have to be made twice.

A document is a dict with the keys of the format-1 body; times in it are
datetimes.  Each function returns what the document becomes, or None where the
command had been done before, or raises `No` with the code of the refusal.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

LEASE = timedelta(minutes=30)
HOLD = timedelta(seconds=60)
#: Stands where the code under test makes up a secret.
NEW_TOKEN = "<new>"


class No(Exception):
    """The command is refused, with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def _check(bad: object, code: str) -> None:
    if bad:
        raise No(code)


def _is_addressed_to(doc: Body, receives: AbstractSet[str]) -> bool:
    return doc["conversation"] is None or doc["conversation"] in receives


def _is_claimed(doc: Body, now: datetime) -> bool:
    return doc["owner"] is not None and doc["claim_until"] > now


def _is_reserved(doc: Body, now: datetime) -> bool:
    return doc["wake_owner"] is not None and doc["wake_until"] > now


def is_unread(doc: Body, now: datetime) -> bool:
    """Open, due, and read by nobody, or by somebody whose claim ran out."""
    if doc["status"] != "open" or doc["due_at"] > now:
        return False
    if doc["owner"] is not None:
        return not _is_claimed(doc, now)
    return doc["read_by"] is None


def ack(doc: Body, session: str, receives: AbstractSet[str], occurrence: int, now: datetime) -> Body | None:
    """The session has read it."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(not _is_addressed_to(doc, receives), "not_recipient")
    _check(doc["status"] != "open", "closed")
    _check(doc["due_at"] > now, "not_due")
    _check(_is_claimed(doc, now) and doc["owner"] != session, "claimed")
    if doc["read_by"] is not None and not is_unread(doc, now):
        return None
    return doc | {"read_by": session, "read_at": now, "owner": None, "claim_token": None, "claim_until": None}


def claim(doc: Body, session: str, receives: AbstractSet[str], occurrence: int, now: datetime) -> Body | None:
    """The session takes the work."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(not _is_addressed_to(doc, receives), "not_recipient")
    _check(doc["status"] != "open", "closed")
    _check(not doc["actionable"], "not_actionable")
    _check(doc["due_at"] > now, "not_due")
    _check(_is_claimed(doc, now) and doc["owner"] != session, "claimed")
    if _is_claimed(doc, now):
        return None
    until = now + LEASE
    return doc | {
        "read_by": session,
        "read_at": now,
        "owner": session,
        "claim_token": NEW_TOKEN,
        "claim_until": until,
    }


def _check_claim(doc: Body, session: str, token: str, occurrence: int, now: datetime) -> None:
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(doc["status"] != "open", "closed")
    _check(doc["owner"] is not None and (doc["owner"], doc["claim_token"]) != (session, token), "lease_lost")
    _check(not _is_claimed(doc, now), "lease_expired")


def renew(doc: Body, session: str, token: str, occurrence: int, now: datetime) -> Body:
    """The lease runs from now again."""
    _check_claim(doc, session, token, occurrence, now)
    return doc | {"claim_until": now + LEASE}


def _fresh(doc: Body) -> Body:
    nothing = ("read_by", "read_at", "owner", "claim_token", "claim_until", "wake_owner", "wake_token", "wake_until")
    return doc | dict.fromkeys(nothing) | {"wake_accepted": False}


def release(doc: Body, session: str, token: str, occurrence: int, now: datetime) -> Body:
    """The work is given back."""
    _check_claim(doc, session, token, occurrence, now)
    return _fresh(doc)


def complete(doc: Body, session: str, token: str, occurrence: int, now: datetime, outcome: str | None) -> Body | None:
    """The work is done."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    if doc["status"] == "done" and (doc["owner"], doc["claim_token"]) == (session, token):
        return None
    _check_claim(doc, session, token, occurrence, now)
    _check(outcome is None, "missing_field")
    return doc | {"status": "done", "outcome": outcome}


def snooze(doc: Body, session: str, token: str, occurrence: int, now: datetime, outcome: str, due_at: datetime) -> Body:
    """The work comes back later, as the next occurrence."""
    _check_claim(doc, session, token, occurrence, now)
    _check(due_at <= now, "time_not_in_future")
    return _fresh(doc) | {"occurrence": occurrence + 1, "due_at": due_at, "outcome": outcome}


def cancel(doc: Body, session: str, receives: AbstractSet[str], occurrence: int, outcome: str | None) -> Body | None:
    """The work is called off."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(doc["source"] != session and not _is_addressed_to(doc, receives), "not_recipient")
    if doc["status"] == "cancelled":
        return None
    _check(doc["status"] == "done", "closed")
    return doc | {"status": "cancelled", "outcome": outcome}


def reserve(doc: Body, session: str, receives: AbstractSet[str], occurrence: int, now: datetime) -> Body | None:
    """A receiver is about to hand it over."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(not _is_addressed_to(doc, receives), "not_recipient")
    _check(doc["status"] != "open", "closed")
    _check(doc["delivery"] != "wake", "not_wake")
    _check(doc["wake_accepted"], "wake_accepted")
    _check(not is_unread(doc, now), "not_unread")
    _check(_is_reserved(doc, now) and doc["wake_owner"] != session, "reserved")
    if _is_reserved(doc, now):
        return None
    return doc | {"wake_owner": session, "wake_token": NEW_TOKEN, "wake_until": now + HOLD}


def answer(doc: Body, session: str, token: str, occurrence: int, now: datetime, *, accepted: bool) -> Body:
    """The client took it, or did not."""
    _check(occurrence != doc["occurrence"], "stale_occurrence")
    _check(doc["status"] != "open", "closed")
    mine = (doc["wake_owner"], doc["wake_token"]) == (session, token)
    _check(not (mine and _is_reserved(doc, now)), "reservation_lost")
    return doc | {"wake_owner": None, "wake_token": None, "wake_until": None, "wake_accepted": accepted}


def reached(session: str, parents: dict[str, set[str]]) -> set[str]:
    """The session and all that it continues, however far."""
    found = {session}
    while more := set().union(*(parents.get(one, set()) for one in found)) - found:
        found |= more
    return found
