"""
How input gets into the history of an agent, and how that is known.

One delivery is in hand at a time.  It is saved before anything is submitted:
who it is, what it says, and where the native history of the agent ended.  The
program's answer, its being busy and its being at rest prove nothing; only an
entry of that history, behind that place and with that identity, does.  Then the
place that it came from is moved on, and then it is done with.

          DeliverySaved          DeliverySubmitted
    IDLE ───────────────► SAVED ───────────────────► SUBMITTED ◄─┐ DeliverySubmitted
     ▲                      ▲                         │    │  └──┘ (again)
     │                      └─────────────────────────┘    │
     │                       AgentBound, AgentUnbound      │ DeliveryConfirmed
     │ DeliveryAcknowledged              DeliveryCheckpointed
     └───────────────────── CHECKPOINTED ◄──────────── CONFIRMED

`next_move` says what is to be done now, from the stage and what is seen of the
program.  It never hands the same delivery to the same run of a program twice,
and to another run only where the history lacks it: whoever was given it before
has ended by then, and can add it no more.  That is known of the runs of one state
folder, so an agent is fed with one (`AgentHeld`), until an operator says that
nothing is fed with that any more (`AgentReleased`).

Rules for this file: pure, no clock.  Only `MOVES` relates stages.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from fencepost.mailbox.events import (
    AgentBound,
    AgentEvent,
    AgentHeld,
    AgentReleased,
    AgentUnbound,
    DeliveryAcknowledged,
    DeliveryCheckpointed,
    DeliveryConfirmed,
    DeliverySaved,
    DeliverySubmitted,
    RoomFound,
)
from fencepost.mailbox.evolve import Impossible


class Stage(enum.StrEnum):
    """How far the delivery in hand has come."""

    IDLE = "idle"
    SAVED = "saved"
    SUBMITTED = "submitted"
    CONFIRMED = "confirmed"
    CHECKPOINTED = "checkpointed"


#: Stage -> event -> next stage.  An absent pair cannot happen.
MOVES: Final[Mapping[Stage, Mapping[type[AgentEvent], Stage]]] = {
    Stage.IDLE: {
        RoomFound: Stage.IDLE,
        AgentHeld: Stage.IDLE,
        AgentReleased: Stage.IDLE,
        AgentBound: Stage.IDLE,
        AgentUnbound: Stage.IDLE,
        DeliverySaved: Stage.SAVED,
    },
    Stage.SAVED: {
        RoomFound: Stage.SAVED,
        AgentHeld: Stage.SAVED,
        AgentReleased: Stage.SAVED,
        AgentBound: Stage.SAVED,
        AgentUnbound: Stage.SAVED,
        DeliverySubmitted: Stage.SUBMITTED,
    },
    Stage.SUBMITTED: {
        RoomFound: Stage.SUBMITTED,
        AgentHeld: Stage.SUBMITTED,
        AgentReleased: Stage.SUBMITTED,
        AgentBound: Stage.SAVED,
        AgentUnbound: Stage.SAVED,
        DeliverySubmitted: Stage.SUBMITTED,
        DeliveryConfirmed: Stage.CONFIRMED,
    },
    Stage.CONFIRMED: {
        RoomFound: Stage.CONFIRMED,
        AgentHeld: Stage.CONFIRMED,
        AgentReleased: Stage.CONFIRMED,
        AgentUnbound: Stage.CONFIRMED,
        DeliveryCheckpointed: Stage.CHECKPOINTED,
    },
    Stage.CHECKPOINTED: {
        RoomFound: Stage.CHECKPOINTED,
        AgentHeld: Stage.CHECKPOINTED,
        AgentReleased: Stage.CHECKPOINTED,
        AgentUnbound: Stage.CHECKPOINTED,
        DeliveryAcknowledged: Stage.IDLE,
    },
}


@attrs.frozen(slots=False)
class Agent:
    """
    An agent as its stream says.

    Attributes:
        session: The session of its program that it goes on in; None before the first.
        history: The file of that session's history; None where it is to begin another one.
        delivery: What is in hand, with the place in the history behind which its entry stands; None where nothing is.
        attempts: How often it was submitted.
        entry: The id of the entry that proves it.
        delivered: How many were done with.
        rooms: What its rules call a room -> the room's id.
        holder: What the state folder is known by that it is fed with; None where any may have it.
        runtime: Which program it is, or was last.
    """

    stage: Stage = Stage.IDLE
    session: str | None = None
    history: str | None = None
    delivery: DeliverySaved | None = None
    attempts: int = 0
    entry: str | None = None
    delivered: int = 0
    rooms: Mapping[str, str] = attrs.Factory(dict)
    holder: str | None = None
    runtime: str | None = None


def after(agent: Agent | None, event: AgentEvent) -> Agent:
    """
    The agent after the event.

    Raises:
        Impossible: The table has no such move.
    """
    before = agent or Agent()
    stage = MOVES[before.stage].get(type(event))
    if stage is None:
        raise Impossible(f"{type(event).__name__} of an agent whose delivery is {before.stage.value}")
    match event:
        case RoomFound():
            return attrs.evolve(before, rooms={**before.rooms, event.rule: event.room})
        case AgentBound():
            moved = before.delivery and attrs.evolve(before.delivery, history=event.history, offset=0)
            return attrs.evolve(before, session=event.session, history=event.history, stage=stage, delivery=moved)
        case AgentHeld():
            return attrs.evolve(before, holder=event.holder, runtime=event.runtime)
        case AgentReleased():
            return attrs.evolve(before, holder=None)
        case AgentUnbound():
            delivery = before.delivery
            if delivery is not None and stage is Stage.SAVED:
                delivery = attrs.evolve(delivery, history="", offset=0)
            return attrs.evolve(before, history=None, stage=stage, delivery=delivery)
        case DeliverySaved():
            return attrs.evolve(before, stage=stage, delivery=event, attempts=0, entry=None)
        case DeliverySubmitted():
            return attrs.evolve(before, stage=stage, attempts=event.attempt)
        case DeliveryConfirmed():
            return attrs.evolve(before, stage=stage, entry=event.entry)
        case DeliveryCheckpointed():
            return attrs.evolve(before, stage=stage)
        case DeliveryAcknowledged():
            return attrs.evolve(
                before, stage=stage, delivery=None, attempts=0, entry=None, delivered=before.delivered + 1
            )


class Move(enum.Enum):
    """What is to be done now."""

    TAKE = "take new input"
    SUBMIT = "hand it to the program"
    WAIT = "wait for the program"
    CONFIRM = "record the entry that proves it"
    CHECKPOINT = "move on the place that it came from"
    ACKNOWLEDGE = "be done with it"


@attrs.frozen
class Sight:
    """
    What is seen of the program and of its history.

    Attributes:
        idle: No turn runs and nothing is queued.
        given: This run of the program was given the delivery in hand; no earlier run is left.
        entry: The entry of the native history that proves it; None where there is none.
    """

    idle: bool
    given: bool
    entry: str | None


def next_move(agent: Agent, sight: Sight) -> Move:
    """What is to be done now about the delivery in hand, or about the next one."""
    match agent.stage:
        case Stage.IDLE:
            return Move.TAKE
        case Stage.SAVED | Stage.SUBMITTED:
            if agent.stage is Stage.SUBMITTED and sight.entry is not None:
                return Move.CONFIRM
            return Move.SUBMIT if sight.idle and not sight.given else Move.WAIT
        case Stage.CONFIRMED:
            return Move.CHECKPOINT
        case Stage.CHECKPOINTED:
            return Move.ACKNOWLEDGE
