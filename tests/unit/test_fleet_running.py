"""What a fleet says of agents at its start."""

import threading

import pytest

from fencepost.mailbox.events import AgentBound, DeliverySaved
from fencepost.mailbox.fleet.config import Fleet
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.fleet.running import run
from fencepost.mailbox.store.opening import memory_store


@pytest.fixture
def told(tmp_path):
    """A store in which two agents are on record, of which one has something in hand; and what a run over it says."""
    store = memory_store()
    for name in ("busy", "idle"):
        (tmp_path / "state" / name).mkdir(parents=True)
        ledger = Ledger(store, name)
        ledger.record(AgentBound("s-1", "/h"))
        if name == "busy":
            ledger.record(DeliverySaved("d-1", "Look.", "/h", 0))
    said = []
    fleet = Fleet("http://127.0.0.1:9", (), state=str(tmp_path / "state"))
    run(fleet, store, lambda _: [], environ={}, say=said.append, stop=threading.Event())
    return said


def test_what_is_left_in_hand_of_an_agent_that_is_gone_is_told(told):
    """Whoever has renamed an agent is to know that it is another one now."""
    assert 1 == sum("busy: " in each for each in told)
    assert any("delivery d-1 is in hand" in each and "busy" in each for each in told)
    assert not any("idle" in each for each in told)
