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
    assert f'from "{ann.id}"' in "".join(last.texts)
    assert all(each["entry"] and each["attempts"] == 1 for each in deliveries)
    assert 0 == crew.stop()
    assert "idle" == crew.status("chef")["stage"]


@pytest.mark.parametrize("runtime", AGENTS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "record",
    ["saved", "submitted", "confirmed", "checkpointed", "acknowledged"],
)
def test_a_controller_that_is_killed_goes_on_where_it_was(runtime, when, record, launched, model, crew, talk):
    """Killed right before or right after any record, it delivers everything once, and repeats nothing."""
    ann, agent, room = talk
    crew.add("chef", runtime, launched(runtime), agent, [room])
    crew.start().hears("chef")
    assert 0 == crew.stop()
    events = [ann.send(room, "first marker"), ann.send(room, "second marker")]
    crew.start(program=(*KILLED, when, f"delivery.{record}"))
    assert -9 == crew.ended()
    events.append(ann.send(room, "third marker"))
    crew.start()
    deliveries = crew.acknowledged("chef", events)
    crew.until(lambda: model.asked and model.asked[-1].count("third marker"), "the model is asked for the last")

    for marker in ("first marker", "second marker", "third marker"):
        assert 1 == model.heard(marker, model.asked[-1].session), marker
    taken = [event for each in deliveries for event in each["events"]]
    assert sorted(events) == sorted(taken)
    assert all(each["entry"] for each in deliveries)


@pytest.mark.parametrize("runtime", AGENTS)
def test_an_agent_that_is_killed_with_its_controller_has_it_once(runtime, launched, model, crew, talk):
    """Both die in the middle of the turn: what the history has is not said again, and the next is said after it."""
    ann, agent, room = talk
    held = Hold()
    model.when("first marker", held)
    crew.add("chef", runtime, launched(runtime), agent, [room])
    crew.start().hears("chef")
    first = ann.send(room, "first marker")
    assert held.begun.wait(60)
    crew.kill()
    assert held.over.wait(60)
    assert "disconnected" == held.ended
    crew.start()
    second = ann.send(room, "second marker")
    crew.acknowledged("chef", [first, second])
    crew.until(lambda: model.asked[-1].count("second marker"), "the model is asked again")

    assert 1 == model.heard("first marker", model.asked[-1].session)


@pytest.mark.parametrize("runtime", AGENTS)
def test_what_is_said_during_a_turn_waits_for_its_end(runtime, launched, model, crew, talk):
    """An agent may be busy for minutes: nothing is pressed on it, and then it gets all of it at once."""
    ann, agent, room = talk
    held = Hold(for_s=130)
    model.when("first marker", held)
    crew.add("chef", runtime, launched(runtime), agent, [room])
    crew.start().hears("chef")
    ann.send(room, "first marker")
    assert held.begun.wait(60)
    later = [ann.send(room, f"later {number}") for number in range(5)]
    time.sleep(100)
    asked = len(model.asked)
    assert not any(request.count("later") for request in model.asked)
    held.release()
    deliveries = crew.acknowledged("chef", later)
    crew.until(lambda: len(model.asked) > asked, "the model is asked again")

    assert 2 == len(deliveries)
    assert [1] * 5 == [model.asked[-1].count(f"later {number}") for number in range(5)]


def test_a_backlog_is_taken_fairly(launched, model, crew, person):
    """A thousand messages in twelve rooms: each has its share of every reading, and all of it comes once, in order."""
    ann, agent = person("ann"), person("agent")
    rooms = [ann.create_room(f"Room {number}", invite=[agent]) for number in range(12)]
    for room in rooms:
        agent.join(room)
    crew.add("chef", "codex", launched("codex"), agent, rooms)
    crew.start().hears("chef", 12)
    assert 0 == crew.stop()
    sizes = [450, 200] + [35] * 10
    sent = {
        room: [ann.send(room, f"m-{number}-{n}-") for n in range(sizes[number])] for number, room in enumerate(rooms)
    }
    crew.start()
    deliveries = crew.acknowledged("chef", [event for events in sent.values() for event in events])

    whose = {event: room for room, events in sent.items() for event in events}
    for room, events in sent.items():
        assert events == [event for each in deliveries for event in each["events"] if whose[event] == room]
    left = {room: len(events) for room, events in sent.items()}
    for each in deliveries:
        taken = [whose[event] for event in each["events"]]
        shares = {room: min(10, count) for room, count in left.items()}
        assert all(taken.count(room) >= share for room, share in shares.items())
        assert len(taken) == max(sum(shares.values()), min(100, sum(left.values())))
        left = {room: count - taken.count(room) for room, count in left.items()}
    crew.until(lambda: model.asked[-1].count("m-0-449-"), "the model is asked for the last")
    last = model.asked[-1]
    assert all(1 == model.heard(f"m-{number}-{n}-", last.session) for number in range(12) for n in range(sizes[number]))


@pytest.mark.parametrize("runtime", AGENTS)
def test_more_than_a_mebibyte_is_in_files(runtime, launched, model, crew, talk):
    """The agent gets a list of files that hold all of it, to the byte, and that only its user can read."""
    ann, agent, room = talk
    crew.add("chef", runtime, launched(runtime), agent, [room])
    crew.start().hears("chef")
    assert 0 == crew.stop()
    texts = [f"{number} " + chr(0x3B1 + number) * 20_000 for number in range(30)]
    events = [ann.send(room, text) for text in texts]
    crew.start()
    deliveries = crew.acknowledged("chef", events)
    shown = crew.until(lambda: model.asked and "".join(model.asked[-1].texts), "the model is asked")
    files = [path for path in (crew.folder / "fleet-state" / "chef" / "files").rglob("*") if path.is_file()]
    held = {path.read_text(encoding="utf-8"): path for path in files}

    assert sum(len(text.encode()) for text in texts) > 1 << 20
    assert 1 == len(deliveries)
    assert deliveries[0]["size"] <= 65_536
    assert set(texts) <= set(held)
    for text in texts:
        assert 1 == shown.count(str(held[text]))
        assert f"{len(text.encode()):,} bytes, sha256 {held[text].name}" in shown
    assert {0o600} == {path.stat().st_mode & 0o777 for path in files}
    assert {0o700} == {
        path.stat().st_mode & 0o777 for path in (crew.folder / "fleet-state").rglob("*") if path.is_dir()
    }
    assert texts[0][:1_000] not in shown


def test_a_homeserver_that_is_restarted_loses_and_repeats_nothing(tmp_path, launched, model, own_homeserver):
    """Stopped in the middle, killed, and gone for a while."""
    own_homeserver.start()
    ann, agent = own_homeserver.register("ann"), own_homeserver.register("agent")
    room = ann.create_room("Kitchen", invite=[agent])
    agent.join(room)
    crew = Crew(tmp_path / "fleet", own_homeserver)
    crew.add("chef", "pi", launched("pi"), agent, [room])
    crew.start().hears("chef")
    try:
        events = [ann.send(room, f"one {number}") for number in range(5)]
        own_homeserver.kill()
        own_homeserver.start()
        events += [ann.send(room, f"two {number}") for number in range(5)]
        own_homeserver.stop()
        time.sleep(3)
        own_homeserver.start()
        events += [ann.send(room, f"three {number}") for number in range(5)]
        deliveries = crew.acknowledged("chef", events)
        # The doorbell pauses longer than the reading.
        crew.until(lambda: [] == crew.status("chef")["troubles"], "all is well again")
    finally:
        assert 0 == crew.stop()

    assert events == [event for each in deliveries for event in each["events"]]
    said = crew.said.read_text()
    assert said.index("does not answer") < said.index("the homeserver answers again")
    assert "Traceback" not in crew.said.read_text()


@pytest.mark.fast
def test_who_is_not_granted_is_not_heard(launched, model, crew, person):
    """Not granted, muted, the agent itself: passed over, and on record; what does not wake rides along in its order."""
    ann, bob, cyd, agent = person("ann"), person("bob"), person("cyd"), person("agent")
    room = ann.create_room("Kitchen", invite=[bob, cyd, agent])
    for each in (bob, cyd, agent):
        each.join(room)
    grants = [{"sender": "*"}, {"sender": bob.id, "muted": True}]
    crew.add("chef", "pi", launched("pi"), agent, [{"room": room, "wake": "mentions", "grants": grants}])
    crew.start().hears("chef")
    heard = [ann.send(room, "by the way")]
    bob.send(room, "muted words", mention=agent)
    agent.send(room, "own words")
    heard.append(ann.send(room, f"{agent.id}: not a mention"))
    time.sleep(2)
    assert not model.asked
    heard.append(cyd.send(room, "wake up", mention=agent))
    deliveries = crew.acknowledged("chef", heard)
    shown = crew.until(lambda: model.asked and "".join(model.asked[-1].texts), "the model is asked")

    assert 1 == len(deliveries)
    assert shown.index("| by the way") < shown.index("not a mention") < shown.index("| wake up")
    assert "mentions you" in shown
    assert not any(words in shown for words in ("muted words", "own words"))
    assert 2 <= crew.status("chef")["rooms"][0]["passed"]


@pytest.mark.fast
def test_mail_wakes_an_agent_and_is_accepted_once_it_is_proven(launched, model, crew, talk):
    """It is delivered once, stays unread until the agent says otherwise, and does not come again."""
    ann, agent, room = talk
    crew.add("chef", "codex", launched("codex"), agent, [room])
    crew.start().hears("chef")
    sent = crew.ask("send", "chef", "--body", "taste the soup")

    def done():
        found = crew.deliveries("chef")
        return found if found and found[-1]["acknowledged_at"] else None

    deliveries = crew.until(done, "the mail is delivered")
    crew.until(lambda: model.asked, "the model is asked")
    event = ann.send(room, "and the bread")
    crew.acknowledged("chef", [event])
    crew.until(lambda: model.asked[-1].count("and the bread"), "the model is asked again")
    found = crew.deliveries("chef")

    assert [sent["id"]] == deliveries[-1]["messages"]
    assert 1 == model.heard("taste the soup", model.asked[-1].session)
    assert 1 == sum(sent["id"] in each["messages"] for each in found)


def test_permits_bound_how_many_work_at_once(tmp_path, launched, model, homeserver, person):
    """With one permit the second agent begins when the first one's turn is over."""
    ann, one, two = person("ann"), person("one"), person("two")
    rooms = [ann.create_room("One", invite=[one]), ann.create_room("Two", invite=[two])]
    one.join(rooms[0])
    two.join(rooms[1])
    held = Hold()
    model.when("for one", held)
    model.when("for two", Say("done"))
    crew = Crew(tmp_path / "fleet", homeserver, permits=1)
    codex = launched("codex")
    crew.add("one", "codex", codex, one, [rooms[0]])
    crew.add("two", "codex", codex, two, [rooms[1]])
    crew.start().hears("one")
    crew.hears("two")
    try:
        first = ann.send(rooms[0], "for one")
        assert held.begun.wait(60)
        second = ann.send(rooms[1], "for two")
        time.sleep(5)
        assert not any(request.count("for two") for request in model.asked)
        assert [] == crew.deliveries("two")
        held.release()
        crew.acknowledged("one", [first])
        crew.acknowledged("two", [second])
    finally:
        crew.stop()


@pytest.mark.fast
def test_one_controller_has_an_agent(launched, crew, talk):
    """A second one is told so, and does nothing."""
    _, agent, room = talk
    crew.add("chef", "codex", launched("codex"), agent, [room])
    crew.start().hears("chef")
    first = crew.process
    crew.start()

    assert 1 == crew.ended()
    crew.process = first
    assert "[agent_taken]" in crew.said.read_text()
    assert "Traceback" not in crew.said.read_text()


@pytest.mark.fast
def test_files_come_as_files(launched, model, crew, talk):
    """What somebody sends as a file is put where the agent can read it, under its digest and not under its name."""
    ann, agent, room = talk
    crew.add("chef", "pi", launched("pi"), agent, [room])
    crew.start().hears("chef")
    data = b"\x89PNG not really" * 100
    content = {
        "msgtype": "m.image",
        "body": "../../etc/passwd",
        "url": ann.upload(data, kind="image/png"),
        "info": {"mimetype": "image/png", "size": len(data)},
    }
    crew.acknowledged("chef", [ann.send(room, content)])
    shown = crew.until(lambda: model.asked and "".join(model.asked[-1].texts), "the model is asked")
    files = [path for path in (crew.folder / "fleet-state" / "chef" / "files").rglob("*") if path.is_file()]

    assert data in [path.read_bytes() for path in files]
    assert any(str(path) in shown and path.read_bytes() == data for path in files)
    assert "image/png" in shown


@pytest.mark.fast
def test_an_encrypted_room_is_reported_and_not_read(launched, crew, person):
    """Half of it is never read."""
    ann, agent = person("ann"), person("agent")
    state = [{"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]
    room = ann.create_room("Secret", invite=[agent], initial_state=state)
    agent.join(room)
    crew.add("chef", "codex", launched("codex"), agent, [room])
    crew.start()
    crew.until(lambda: "is encrypted" in crew.said.read_text(), "it is told")

    assert "heard" not in [each["state"] for each in crew.status("chef")["rooms"]]


@pytest.mark.fast
def test_a_token_of_another_ends_the_feeding(launched, crew, talk):
    """Before any room is recorded as anything; it is said whose it is, and the token is not."""
    ann, agent, room = talk
    crew.add("chef", "codex", launched("codex"), agent, [room], user=ann.id)
    crew.start()

    assert 1 == crew.ended()
    said = crew.said.read_text()
    assert f"the token is {agent.id}'s, but fleet.toml says {ann.id}" in said
    assert agent.token not in said
    status = crew.status("chef")
    assert ["not opened yet"] == [each["state"] for each in status["rooms"]]
    assert ["access_token_of_another"] == [each["what"].rpartition("[")[2][:-1] for each in status["troubles"]]


@pytest.mark.fast
def test_a_room_that_is_not_heard_stands_in_the_status(launched, crew, person):
    """Until it is heard, and with the same reason as before after another start."""
    ann, agent = person("ann"), person("agent")
    room = ann.create_room("Kitchen")
    crew.add("chef", "pi", launched("pi"), agent, [room])
    troubles = lambda: [each["what"] for each in crew.status("chef")["troubles"]]  # noqa: E731
    crew.start()
    refused = f"room {room} cannot be heard: the agent is not in it, and nobody has invited it"
    crew.until(lambda: [refused] == troubles(), "it stands in the status")
    ann.invite(room, agent)
    crew.hears("chef")
    crew.until(lambda: [] == troubles(), "it is over")

    ann.ban(room, agent)
    closed = f"room {room} is not heard any more: the agent was banned"
    banned = f"room {room} cannot be heard: the agent was banned, and nobody has invited it"
    crew.until(lambda: set(troubles()) & {closed, banned}, "it stands in the status")
    assert 0 == crew.stop()
    assert [] == troubles()
    assert (1, 0) == tuple(crew.said.read_text().count(each) for each in (closed, banned))
    crew.start()
    crew.until(lambda: [banned] == troubles(), "it stands in the status again")
    assert 1 == crew.said.read_text().count(banned)
