"""A change that somebody else wrote is told as the event that explains it, or not at all."""

from datetime import timedelta
from typing import get_args

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from property import strategies as some

from fencepost.mailbox import commands, errors, events
from fencepost.mailbox.decide import decide
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.infer import infer
from fencepost.mailbox.message import Delivery

STEPS = get_args(commands.Step)
FENCED = (commands.Renew, commands.Release, commands.Complete, commands.Snooze)
HOLDS = dict.fromkeys(FENCED, some.leased) | {commands.Accept: some.reserved, commands.Decline: some.reserved}
steps = pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)


@given(some.histories())
def test_what_is_inferred_makes_the_message(past):
    """Whatever the step: the event that is named leads from the one message to the other."""
    before = None
    for event in past:
        after = evolve(before, event)
        found = infer(before, after)
        assert found is None or evolve(before, found) == after
        before = after


@steps
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_what_was_decided_is_inferred(kind, data):
    """Every step of our own is told as itself, as long as tokens are new when they have to be."""
    message = data.draw(HOLDS.get(kind, some.opened))
    asked = attrs.evolve(data.draw(some.command_of(kind)), occurrence=message.occurrence)
    if kind is commands.Reserve:
        message = attrs.evolve(
            message, letter=attrs.evolve(message.letter, delivery=Delivery.WAKE), reading=None, lease=None
        )
    if hasattr(asked, "audience"):
        asked = attrs.evolve(asked, audience={message.letter.conversation}, now=max(message.due_at, asked.now))
    if kind in (commands.Claim, commands.Reserve):
        asked = attrs.evolve(asked, token="a new one")
    elif kind in HOLDS:
        held = message.lease if HOLDS[kind] is some.leased else message.reservation
        asked = attrs.evolve(asked, session=held.owner, token=held.token, now=held.until - timedelta(microseconds=1))
    try:
        event = decide(asked, message)
    except (errors.Refused, errors.BadInput):
        event = None
    assume(event is not None)
    after = evolve(message, event)
    assume(after != message)  # a lease that was renewed until the same moment

    assert event == infer(message, after)


@given(some.messages)
def test_nothing_is_inferred_from_nothing(message):
    """A message that was written again as it stood."""
    assert infer(message, message) is None


@given(some.messages, some.messages)
def test_another_message_is_explained_by_nothing(before, after):
    """No event changes what was sent."""
    assume(before.letter != after.letter)
    assert infer(before, after) is None


@given(some.event_of(events.Sent))
def test_a_new_message_was_sent(sent):
    """Without the key, which a document does not hold."""
    found = infer(None, evolve(None, sent))
    assert attrs.evolve(sent, idempotency=None) == found
