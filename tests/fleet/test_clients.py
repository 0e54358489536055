"""What the clients of a fleet do, seen without us: each is a fact that an adapter relies on."""

import json
from pathlib import Path

import pytest
from agents.model import Call, Fail, Hold, Say
from fleet.talk import Talk

HELLO = {"clientInfo": {"name": "test", "title": "test", "version": "0"}, "capabilities": {"experimentalApi": True}}


@pytest.fixture
def started(codex):
    """An app-server that was greeted."""
    with Talk(codex()) as talk:
        yield greet(talk)


@pytest.fixture
def running(pi):
    """A Pi that is ready."""
    with Talk(pi()) as talk:
        talk.session = talk.pi("get_state")["sessionId"]
        yield talk


def greet(talk):
    talk.codex("initialize", **HELLO)
    talk.say({"method": "initialized"})
    return talk


def thread_of(talk):
    here = str(talk._launch.here)
    return talk.codex("thread/start", cwd=here, approvalPolicy="never", sandbox="danger-full-access")["thread"]["id"]


def begin(talk, thread, text, id):  # noqa: A002 - it is the id of a message
    words = [{"type": "text", "text": text, "text_elements": []}]
    return talk.codex("turn/start", threadId=thread, clientUserMessageId=id, input=words)["turn"]["id"]


def closed(talk, turn):
    """How a turn of Codex ended."""
    return talk.until(lambda heard: "turn/completed" == heard.get("method") and turn == heard["params"]["turn"]["id"])[
        "params"
    ]["turn"]["status"]


def items(talk, thread, kind):
    """What a thread of Codex has in its history, of one kind."""
    turns = talk.codex("thread/read", threadId=thread, includeTurns=True)["thread"]["turns"]
    return [item for turn in turns for item in turn["items"] if kind == item["type"]]


def told(talk, thread):
    """The ids of the messages of users that a thread of Codex has in its history."""
    return [item["clientId"] for item in items(talk, thread, "userMessage")]


def settled(talk, begin=0):
    """How a run of Pi ended."""
    return talk.until(lambda heard: "agent_settled" == heard["type"], begin)


def session_file(talk):
    """The documents that Pi has written of its session."""
    path = Path(talk.pi("get_state")["sessionFile"])
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.fast
def test_codex_finds_a_message_again_by_its_id(started, model):
    """The id that a turn was begun with is in the thread when it is read, and the model was told once."""
    model.will(Say("Hello."), Say("Again."))
    thread = thread_of(started)

    for number in (1, 2):
        turn = begin(started, thread, f"marker-{number}", f"id-{number}")
        assert "completed" == closed(started, turn)

    assert ["id-1", "id-2"] == told(started, thread)
    assert ["Hello.", "Again."] == [item["text"] for item in items(started, thread, "agentMessage")]
    assert [1, 1] == [model.heard(f"marker-{number}", thread) for number in (1, 2)]


@pytest.mark.fast
def test_pi_settles_after_a_prompt(running, model):
    """It answers that it began, writes what it was told into its session file, and says when it is at rest."""
    model.will(Say("Hello."), Say("Again."))

    for number in (1, 2):
        before = len(running.heard)
        assert "started" == running.pi("prompt", message=f"marker-{number}")["disposition"]
        assert not settled(running, before)["aborted"]

    assert [1, 1] == [model.heard(f"marker-{number}", running.session) for number in (1, 2)]
    said = [each["message"] for each in session_file(running) if "message" == each["type"]]
    assert ["marker-1", "marker-2"] == [each["content"][0]["text"] for each in said if "user" == each["role"]]


def test_codex_hangs_up_when_it_is_interrupted(started, model):
    """The turn ends as interrupted, and what it was told is in the thread."""
    hold = Hold()
    model.will(hold)
    thread = thread_of(started)
    turn = begin(started, thread, "marker", "id-1")
    assert hold.begun.wait(30)

    started.codex("turn/interrupt", threadId=thread, turnId=turn)

    assert "interrupted" == closed(started, turn)
    assert hold.over.wait(30)
    assert "disconnected" == hold.ended
    assert ["id-1"] == told(started, thread)


def test_codex_that_was_killed_has_what_it_was_told(codex, model):
    """A thread that is resumed by another process has the message that the first was killed over."""
    hold = Hold()
    model.will(hold)
    launch = codex()
    with Talk(launch) as first:
        thread = thread_of(greet(first))
        begin(first, thread, "marker", "id-1")
        assert hold.begun.wait(30)
        first.process.kill()
        assert hold.over.wait(30)

    with Talk(launch) as second:
        greet(second).codex("thread/resume", threadId=thread)
        assert ["id-1"] == told(second, thread)
        assert "completed" == closed(second, begin(second, thread, "next", "id-2"))

    assert "disconnected" == hold.ended
    assert [1, 1] == [model.heard(text, thread) for text in ("marker", "next")]


def test_pi_hangs_up_when_it_is_aborted(running, model):
    """It settles as aborted, and what it was told stays in its session."""
    hold = Hold()
    model.will(hold)
    running.pi("prompt", message="marker")
    assert hold.begun.wait(30)

    running.pi("abort")

    assert settled(running)["aborted"]
    assert hold.over.wait(30)
    assert "disconnected" == hold.ended
    before = len(running.heard)
    running.pi("prompt", message="next")
    settled(running, before)
    assert [1, 1] == [model.heard(text, running.session) for text in ("marker", "next")]


def test_pi_keeps_what_it_is_told_meanwhile_until_the_turn_is_over(running, model):
    """A message that follows up is queued, and reaches the model when the answer before it was given."""
    hold = Hold("Done.")
    model.when("first", hold)
    running.pi("prompt", message="first")
    assert hold.begun.wait(30)

    assert "queued" == running.pi("follow_up", message="second")["disposition"]
    assert 0 == model.heard("second", running.session)
    hold.release()
    settled(running)

    assert "released" == hold.ended
    assert 1 == model.heard("second", running.session)


def test_pi_calls_a_tool(running, model):
    """And comes back with what it answered; the step after that is the next one."""
    model.when("marker", Call("bash", {"command": "echo $((6 * 7))"}), Say("42 it is."))

    running.pi("prompt", message="marker")
    settled(running)

    assert "42" in model.last
    assert 2 == len(model.asked)


def test_slow_answers_come_all_the_same(running, model):
    """A pause that nobody ends is over by itself."""
    hold = Hold("Done.", for_s=0.2)
    model.will(hold)

    running.pi("prompt", message="marker")
    settled(running)

    assert "elapsed" == hold.ended


def test_codex_takes_the_same_id_twice(started, model):
    """It does not look whether it has been told before: who repeats has to look."""
    thread = thread_of(started)

    for _ in range(2):
        closed(started, begin(started, thread, "marker", "id-1"))

    assert ["id-1", "id-1"] == told(started, thread)
    assert 2 == model.heard("marker", thread)


def test_codex_puts_what_comes_meanwhile_into_the_turn(started, model):
    """A turn that is begun while another is open is that other one."""
    hold = Hold()
    model.will(hold)
    thread = thread_of(started)
    turn = begin(started, thread, "first", "id-1")
    assert hold.begun.wait(30)

    assert turn == begin(started, thread, "second", "id-2")
    hold.release()

    assert "completed" == closed(started, turn)
    assert ["id-1", "id-2"] == told(started, thread)
    assert [1, 1] == [model.heard(text, thread) for text in ("first", "second")]


def test_pi_that_was_killed_has_what_it_was_told_but_not_what_was_queued(pi, model):
    """Its session goes on in another process, without what was still to come."""
    hold = Hold()
    model.will(hold)
    launch = pi()
    with Talk(launch) as first:
        first.pi("prompt", message="first")
        assert hold.begun.wait(30)
        first.pi("follow_up", message="queued")
        state = first.pi("get_state")
        first.process.kill()

    with Talk(launch, "--session", state["sessionFile"]) as second:
        assert state["sessionId"] == second.pi("get_state")["sessionId"]
        second.pi("prompt", message="next")
        settled(second)

    assert [1, 0, 1] == [model.heard(text, state["sessionId"]) for text in ("first", "queued", "next")]


def test_codex_says_that_a_turn_failed(started, model):
    """What it was told is in the thread all the same."""
    model.will(Fail())
    thread = thread_of(started)

    assert "failed" == closed(started, begin(started, thread, "marker", "id-1"))

    assert ["id-1"] == told(started, thread)


def test_pi_says_that_a_turn_failed(running, model):
    """It settles, not aborted; what it was told is in the session, and so is the failure."""
    model.will(Fail())

    running.pi("prompt", message="marker")
    assert not settled(running)["aborted"]

    said = [each["message"] for each in session_file(running) if "message" == each["type"]]
    assert ["user", "assistant"] == [each["role"] for each in said][-2:]
    assert "error" == said[-1]["stopReason"]
