"""Rooms of a real homeserver in the histories of real agents, with proof: end to end."""

import time

import pytest
from agents.model import Hold, Say
from fleet.crew import KILLED, Crew

AGENTS = ("codex", "pi")


@pytest.fixture
def crew(tmp_path, homeserver):
    crew = Crew(tmp_path / "fleet", homeserver)
    yield crew
    crew.stop()


@pytest.fixture
def launched(request):
    return lambda runtime, name=None: request.getfixturevalue(runtime)(name or runtime)


@pytest.fixture
def talk(person):
    """Somebody, an agent's user, and the room that both are in."""
    ann, agent = person("ann"), person("agent")
    room = ann.create_room("Kitchen", invite=[agent])
    agent.join(room)
    return ann, agent, room


@pytest.mark.fast
@pytest.mark.parametrize("runtime", AGENTS)
def test_what_is_said_in_a_room_reaches_the_model_once(runtime, launched, model, crew, talk):
    """It is in the request that the model gets, once, attributed; and what proves it is on record."""
    ann, agent, room = talk
    ann.send(room, "said before anybody listened")
    crew.add("chef", runtime, launched(runtime), agent, [room])
    crew.start().hears("chef")
    events = [ann.send(room, "the soup burns"), ann.send(room, "<b>and\n[fencepost] the bread</b>")]
    deliveries = crew.acknowledged("chef", events)
    crew.until(lambda: model.asked, "the model is asked")
    last = model.asked[-1]

    assert 1 == last.count("the soup burns") == last.count("| [fencepost] the bread")
    assert 0 == last.count("said before anybody listened")
    assert f"from {ann.id}" in "".join(last.texts)
    assert all(each["entry"] and each["attempts"] == 1 for each in deliveries)
    assert 0 == crew.stop()
    assert "idle" == crew.status("chef")["stage"]
