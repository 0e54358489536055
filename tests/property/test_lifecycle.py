"""Laws of the life of a message: the table, and what may and may not happen to any message at any time."""

from datetime import timedelta
from typing import get_args

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from property import strategies as some

from fencepost.mailbox import commands, errors, events
from fencepost.mailbox.decide import NEEDS, decide
from fencepost.mailbox.evolve import Impossible, evolve, replay
from fencepost.mailbox.lifecycle import MOVES, Stage, is_available, is_running, is_unread, stage
from fencepost.mailbox.message import Delivery, Lease, Message, Reservation, Status

TICK = timedelta(microseconds=1)
STEPS = get_args(commands.Step)
FENCED = (commands.Renew, commands.Release, commands.Complete, commands.Snooze)
HOLDS = dict.fromkeys(FENCED, some.leased) | {commands.Accept: some.reserved, commands.Decline: some.reserved}
any_step = st.sampled_from(STEPS).flatmap(some.command_of)
steps = pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)
fenced_steps = pytest.mark.parametrize("kind", FENCED, ids=lambda kind: kind.__name__)


def refusal(command, message):
    """The refusal of a command, or None where it is not refused."""
    try:
        decide(command, message)
    except (errors.Refused, errors.BadInput) as error:
        return type(error)
    return None


def by_holder(command, message, **changes):
    """The command as whoever holds the lease would give it."""
    lease = message.lease
    changes = {"session": lease.owner, "token": lease.token, "occurrence": message.occurrence} | changes
    return attrs.evolve(command, **changes)


def fitting(command, message):
    """The command as somebody would give it whom nothing but the clock may hinder."""
    changes = {"occurrence": message.occurrence}
    if isinstance(command, FENCED):
        return by_holder(command, message, now=message.lease.until - TICK)
    if isinstance(command, commands.Accept | commands.Decline):
        hold = message.reservation
        changes |= {"session": hold.owner, "token": hold.token, "now": hold.until - TICK}
    else:
        until = max(hold.until if hold else message.due_at for hold in (message.lease, message.reservation))
        changes |= {"audience": frozenset({message.letter.conversation or "ada"}), "now": max(message.due_at, until)}
    return attrs.evolve(command, **changes)


# --- the table ------------------------------------------------------------------------------------------------


def test_every_stage_is_a_row():
    """Terminal stages are listed, not left out."""
    assert set(Stage) == set(MOVES)


def test_every_stage_is_reached():
    """From the stage before sending, the moves lead everywhere."""
    reached = [Stage.NONE]
    for here in reached:
        reached += [there for there in MOVES[here].values() if there not in reached]

    assert set(Stage) == set(reached)


def test_only_closed_messages_stand_still():
    """The rows without a move are done and cancelled."""
    assert {Stage.DONE, Stage.CANCELLED} == {here for here, moves in MOVES.items() if not moves}


def test_every_event_has_its_place():
    """Each event of a message is a move somewhere, and each command has its needs."""
    assert set(get_args(events.MessageEvent)) == {kind for moves in MOVES.values() for kind in moves}
    assert set(STEPS) == set(NEEDS)


# --- the fold -------------------------------------------------------------------------------------------------


@given(some.messages | st.none(), some.message_events)
def test_evolve_follows_the_table(message, event):
    """An event leads to the stage that the table names, or cannot be folded at all."""
    moves = MOVES[stage(message)]
    if type(event) in moves:
        assert moves[type(event)] is stage(evolve(message, event))
    else:
        with pytest.raises(Impossible):
            evolve(message, event)


@given(some.histories())
def test_any_prefix_is_a_message_that_existed(past):
    """Folding the first k events gives the message as it stood after the k-th."""
    existed = [None]
    for event in past:
        existed.append(evolve(existed[-1], event))

    assert existed == [replay(past[:size]) for size in range(len(past) + 1)]


@given(some.histories())
def test_what_was_sent_never_changes(past):
    """The letter of a message is the same after everything that can happen to it."""
    assert past[0].letter == replay(past).letter


@given(some.histories())
def test_an_occurrence_never_goes_back(past):
    """It begins with 1 and only a snooze raises it, by one."""
    snoozes = sum(isinstance(event, events.Snoozed) for event in past)

    assert 1 + snoozes == replay(past).occurrence


# --- deciding -------------------------------------------------------------------------------------------------


@given(any_step, some.messages)
def test_what_is_decided_can_be_folded(command, message):
    """A command is refused, or had been done, or causes an event that the table allows."""
    if refusal(command, message) is None:
        event = decide(command, message)
        assert event is None or MOVES[stage(message)][type(event)] is stage(evolve(message, event))


@given(any_step, some.messages)
def test_deciding_changes_nothing(command, message):
    """The same question has the same answer again, and the message is as it was."""
    before = attrs.evolve(message)

    assert refusal(command, message) == refusal(command, message)
    assert before == message


@steps
@given(data=st.data(), message=some.messages)
def test_a_stale_occurrence_is_refused_whatever_else_is_true(kind, data, message):
    """The fence comes before everything: closed, foreign, not due, or done already."""
    stale = st.integers(1, 9).filter(lambda occurrence: occurrence != message.occurrence)

    assert refusal(data.draw(some.command_of(kind, stale)), message) is errors.StaleOccurrence


@steps
@given(data=st.data())
def test_doing_it_again_writes_nothing_or_is_refused(kind, data):
    """Of all commands only a renewal happens twice."""
    message = data.draw(HOLDS.get(kind, some.opened))
    message = attrs.evolve(message, letter=attrs.evolve(message.letter, actionable=True, delivery=Delivery.WAKE))
    command = fitting(data.draw(some.command_of(kind)), message)
    assume(refusal(command, message) is None)
    event = decide(command, message)
    after = message if event is None else evolve(message, event)

    assert kind is commands.Renew or refusal(command, after) is not None or decide(command, after) is None


@steps
@given(data=st.data(), message=some.closed)
def test_nothing_happens_to_a_closed_message(kind, data, message):
    """Done or cancelled, every command is refused or is a repeat."""
    command = data.draw(some.command_of(kind, st.just(message.occurrence)))

    assert refusal(command, message) is not None or decide(command, message) is None


# --- leases ---------------------------------------------------------------------------------------------------


@fenced_steps
@given(data=st.data(), message=some.leased)
def test_another_token_is_refused(kind, data, message):
    """Whoever holds no lease, or another one, or is another session, is told that it is lost."""
    command = data.draw(some.command_of(kind, st.just(message.occurrence)))
    assume((command.session, command.token) != (message.lease.owner, message.lease.token))

    assert refusal(command, message) is errors.LeaseLost


@fenced_steps
@given(data=st.data(), message=some.leased, late=st.timedeltas(timedelta(0), timedelta(days=9)))
def test_an_expired_token_finishes_nothing(kind, data, message, late):
    """From `until` on the lease is over, even if nobody has taken over since."""
    command = data.draw(some.command_of(kind))
    late_command = by_holder(command, message, now=message.lease.until + late)

    assert refusal(late_command, message) is errors.LeaseExpired


@fenced_steps
@given(data=st.data(), message=some.leased)
def test_a_lease_runs_until_just_before_its_end(kind, data, message):
    """A microsecond before `until` its holder may do everything."""
    now = message.lease.until - TICK
    changes = {"now": now} | ({"outcome": "x"} if kind is commands.Complete else {})
    changes |= {"due_at": now + TICK} if kind is commands.Snooze else {}
    command = by_holder(data.draw(some.command_of(kind)), message, **changes)

    assert refusal(command, message) is None


@fenced_steps
@given(data=st.data(), message=some.opened.filter(lambda message: message.lease is None))
def test_without_a_lease_nothing_is_finished(kind, data, message):
    """A token that was released, snoozed away or acknowledged over is worth nothing."""
    command = data.draw(some.command_of(kind, st.just(message.occurrence)))

    assert refusal(command, message) is errors.LeaseExpired


@given(some.leased, some.sessions, some.tokens.map("new {}".format))
def test_after_a_takeover_the_old_holder_has_lost_it(message, session, token):
    """A second claim has a new token, and the first holder learns that somebody else has it."""
    after = evolve(message, events.Claimed(session, message.due_at, token, message.lease.until + TICK))
    late = commands.Renew(message.lease.owner, message.due_at, message.occurrence, message.lease.token, TICK)

    assert refusal(late, after) is errors.LeaseLost


@given(some.leased, some.command_of(commands.Claim))
def test_two_sessions_never_hold_it(message, command):
    """While a lease runs, a claim is refused to others and gives its owner the same lease."""
    now = message.lease.until - TICK
    letter = attrs.evolve(message.letter, actionable=True)
    claimed = attrs.evolve(message, letter=letter, due_at=min(message.due_at, now))
    asked = attrs.evolve(fitting(command, claimed), now=now)

    if asked.session == claimed.lease.owner:
        assert decide(asked, claimed) is None
    else:
        assert refusal(asked, claimed) is errors.ClaimedByAnother


@given(some.leased, some.command_of(commands.Snooze))
def test_a_snooze_keeps_the_message_and_clears_the_rest(message, command):
    """Same id, next occurrence, new time, the finding, and no trace of owner, receipt or wake."""
    now = message.lease.until - TICK
    asked = by_holder(command, message, now=now, due_at=now + TICK)
    after = evolve(message, decide(asked, message))

    assert Message(message.letter, now + TICK, message.occurrence + 1, outcome=asked.outcome) == after


@given(some.leased, some.command_of(commands.Snooze), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_a_snooze_leads_into_the_future(message, command, back):
    """Now, or a time that has passed, is refused."""
    now = message.lease.until - TICK

    assert refusal(by_holder(command, message, now=now, due_at=now - back), message) is errors.TimeNotInFuture


@given(some.leased, some.command_of(commands.Release))
def test_released_work_is_unread_again(message, command):
    """Nothing but the latest finding is left of the claim."""
    after = evolve(message, decide(by_holder(command, message, now=message.lease.until - TICK), message))

    assert Message(message.letter, message.due_at, message.occurrence, outcome=message.outcome) == after
    assert is_unread(after, max(message.due_at, message.lease.until))


@given(some.leased, some.command_of(commands.Complete))
def test_finishing_needs_an_outcome(message, command):
    """Only a repeat may leave it out."""
    silent = by_holder(command, message, now=message.lease.until - TICK, outcome=None)
    assert refusal(silent, message) is errors.MissingField

    done = evolve(message, decide(attrs.evolve(silent, outcome="Fixed."), message))

    assert decide(attrs.evolve(silent, now=message.lease.until + TICK), done) is None


# --- times ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [commands.Ack, commands.Claim], ids=lambda kind: kind.__name__)
@given(data=st.data(), message=some.opened)
def test_at_its_due_time_a_message_is_due(kind, data, message):
    """At that instant it is not refused as not due; a microsecond before, it is."""
    audience = frozenset({message.letter.conversation or "ada"})
    actionable = attrs.evolve(message, letter=attrs.evolve(message.letter, actionable=True))
    command = attrs.evolve(data.draw(some.command_of(kind)), occurrence=message.occurrence, audience=audience)

    assert refusal(attrs.evolve(command, now=message.due_at), actionable) is not errors.NotDue
    assert refusal(attrs.evolve(command, now=message.due_at - TICK), actionable) is errors.NotDue


@given(some.opened)
def test_available_from_the_due_time_on(message):
    """Equality is eligible."""
    assert is_available(message, message.due_at)
    assert not is_available(message, message.due_at - TICK)


@given(some.near_moments, st.sampled_from((Lease, Reservation)))
def test_a_hold_is_over_at_its_end(until, kind):
    """A lease or reservation runs until just before `until`."""
    assert is_running(kind("ada", "token", until), until - TICK)
    assert not is_running(kind("ada", "token", until), until)


# --- who ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [commands.Ack, commands.Claim, commands.Cancel, commands.Reserve], ids=lambda kind: kind.__name__
)
@given(data=st.data(), message=some.messages.filter(lambda message: message.letter.conversation is not None))
def test_others_can_neither_take_nor_consume_it(kind, data, message):
    """A conversation's message is for whoever receives that conversation; its sender may only cancel it."""
    command = data.draw(some.command_of(kind, st.just(message.occurrence)))
    command = attrs.evolve(command, audience=command.audience - {message.letter.conversation})
    told = refusal(command, message)

    if kind is commands.Cancel and command.session == message.letter.source:
        assert told is not errors.NotRecipient
    else:
        assert told is errors.NotRecipient


@given(some.opened, some.command_of(commands.Cancel))
def test_it_can_be_cancelled_at_any_time(message, command):
    """Before it is due, and under another's claim too."""
    audience = frozenset({message.letter.conversation or command.session})
    asked = attrs.evolve(command, occurrence=message.occurrence, audience=audience)
    after = evolve(message, decide(asked, message))

    assert (Status.CANCELLED, command.outcome) == (after.status, after.outcome)


@given(some.opened, some.command_of(commands.Reserve))
def test_a_reservation_is_only_of_what_is_unread_and_wants_it(message, command):
    """It is granted exactly if nobody has read it, nobody else reserved it, no client took it, and it asks to wake."""
    audience = frozenset({message.letter.conversation or command.session})
    asked = attrs.evolve(command, occurrence=message.occurrence, audience=audience)
    held = message.reservation
    free = held is None or not is_running(held, asked.now) or held.owner == asked.session
    wanted = message.letter.delivery.value == "wake" and not message.wake_accepted

    assert (refusal(asked, message) is None) == (wanted and free and is_unread(message, asked.now))
