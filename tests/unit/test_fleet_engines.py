"""The adapters to Codex and Pi, where the programs say what they seldom say: each is a script in their place."""

import json
import os
import sys
import textwrap
import time

import pytest

from fencepost.mailbox.errors import EngineFailed, EngineRefused
from fencepost.mailbox.fleet.codex import Codex
from fencepost.mailbox.fleet.engine import Bound
from fencepost.mailbox.fleet.pi import Pi
from fencepost.mailbox.fleet.program import Launch

PATIENCE_S = 30
#: Answers what it is asked; `{more}` stands before that and may answer otherwise.
CODEX = """
THREAD = {{"id": "t-1", "path": {history!r}, "status": {{"type": "idle"}}}}
IDLE = {{"threadId": "t-1", "turn": {{"id": "u-1"}}}}
def answer(asked):
    method, params = asked.get("method"), asked.get("params")
{more}
    if method in ("thread/start", "thread/resume"):
        return {{"result": {{"thread": THREAD}}}}
    if method == "turn/start":
        return {{"result": {{"turn": {{"id": "u-1"}}}}}}
    return {{"result": {{}}}}
"""
PI = """
STATE = {{"sessionId": "s-1", "sessionFile": {history!r}, "isStreaming": False, "pendingMessageCount": 0}}
def answer(asked):
    kind = asked.get("type")
{more}
    said = {{"get_state": STATE, "prompt": {{"disposition": "started"}}}}
    return {{"type": "response", "success": True, "data": said[kind]}} if kind in said else None
"""
PROGRAM = """
import json, os, sys, time
heard = open({heard!r}, "a")
def say(document):
    print(json.dumps(document), flush=True)
{answers}
for line in sys.stdin:
    heard.write(line)
    heard.flush()
    asked = json.loads(line)
    said = answer(asked) if "id" in asked else None
    if said:
        say({{"id": asked["id"]}} | said)
"""


@pytest.fixture
def engine(tmp_path):
    """An adapter with a script in the place of its program; what it is told is in `heard`."""
    engines = []

    def make(kind, more="", **options):
        template = {Codex: CODEX, Pi: PI}[kind]
        more = textwrap.indent(textwrap.dedent(more) or "pass", "    ")
        answers = template.format(history=str(tmp_path / "history"), more=more)
        code = PROGRAM.format(answers=answers, heard=str(tmp_path / "heard"))
        launch = Launch((sys.executable, "-P", "-c", code), tmp_path, os.environ, tmp_path / "run")
        engines.append(kind(launch, **options))
        return engines[-1]

    yield make
    for each in engines:
        each.end()


@pytest.fixture
def heard(tmp_path):
    return lambda: [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]


def until(happened, engine):
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        engine.wait(0.05)


each_kind = pytest.mark.parametrize("kind", [Codex, Pi])


@each_kind
def test_an_end_without_a_beginning_is_nothing(engine, kind):
    """Nor is a second one."""
    never = engine(kind)
    never.end()
    begun = engine(kind)
    begun.begin(None)

    begun.end()
    begun.end()

    with pytest.raises(EngineFailed):
        begun.idle()


@pytest.mark.parametrize(
    "kind, more",
    [
        (Codex, 'if method == "initialize": return {"error": {"code": 1, "message": "no"}}'),
        (Codex, 'if method == "initialize": return {"error": "no"}'),
        (Codex, 'if method == "initialize": return {"result": None}'),
        (Codex, 'if method == "thread/start": return {"error": {"code": 1, "message": "no"}}'),
        (Codex, 'if method == "thread/start": return {"result": {}}'),
        (Codex, 'if method == "thread/start": return {"result": {"thread": {"id": 1, "path": "p"}}}'),
        (Codex, 'if method == "thread/start": return {"result": {"thread": {"id": "t", "path": None}}}'),
        (Codex, 'return {"strange": 1}'),
        (Codex, "sys.exit()"),
        (Pi, 'return {"type": "response", "success": False, "error": "no"}'),
        (Pi, 'return {"type": "response", "success": True}'),
        (Pi, 'return {"type": "response", "success": True, "data": {"sessionId": "s"}}'),
        (Pi, 'return {"type": "response"}'),
        (Pi, "sys.exit()"),
    ],
)
def test_a_strange_beginning_is_a_failure(engine, kind, more):
    """And no other error."""
    with pytest.raises(EngineFailed):
        engine(kind, more).begin(None)


@pytest.mark.parametrize(
    "kind, more, error",
    [
        (Codex, 'if method == "turn/start": return {"error": {"code": 1, "message": "no"}}', EngineRefused),
        (Codex, 'if method == "turn/start": return {"result": {"turn": {}}}', EngineFailed),
        (Codex, 'if method == "turn/start": sys.exit()', EngineFailed),
        (Codex, 'if method == "turn/start": return None', EngineFailed),
        (Pi, 'if kind == "prompt": return {"type": "response", "success": False, "error": "no"}', EngineRefused),
        (Pi, 'if kind == "prompt": sys.exit()', EngineFailed),
        (Pi, 'if kind == "prompt": return None', EngineFailed),
    ],
)
def test_a_refusal_is_not_an_answer_that_was_lost(engine, kind, more, error):
    """After the first nothing was handed over; after the second nobody knows, and the run is not at rest for that."""
    options = {"patience_s": 1} | ({"prompt_patience_s": 1} if kind is Pi else {})
    program = engine(kind, more, **options)
    program.begin(None)

    with pytest.raises(error):
        program.submit("d-1", "d-1")

    if error is EngineRefused:
        assert program.idle()


# --- Codex -------------------------------------------------------------------------------------------


def test_a_turn_that_is_over_before_its_answer_is_seen_is_over(engine):
    """The program may be quicker than the thread that asked."""
    program = engine(
        Codex,
        """
        if method == "turn/start":
            say({"method": "turn/started", "params": IDLE})
            say({"method": "turn/completed", "params": IDLE})
        """,
    )
    program.begin(None)

    program.submit("d-1", "text")

    assert program.idle()
    assert program.turn is None


def test_the_turn_that_runs_is_known(engine):
    """So that it can be interrupted; the turns of other threads are not its own."""
    program = engine(
        Codex,
        """
        if method == "turn/start":
            for thread in ("t-2", "t-3"):
                say({"method": "turn/started", "params": {"threadId": thread, "turn": {"id": thread}}})
            say({"method": "turn/completed", "params": {"threadId": "t-2", "turn": {"id": "u-1"}}})
        """,
    )
    program.begin(None)

    assert program.idle()
    program.submit("d-1", "text")

    assert "u-1" == program.turn
    with pytest.raises(EngineRefused):
        program.submit("d-2", "text")


def test_a_thread_that_says_that_it_works_is_not_at_rest(engine):
    """Also without a turn that we have begun, or heard of."""
    program = engine(
        Codex,
        """
        if method == "thread/start":
            THREAD["status"] = {"type": "active", "activeFlags": []}
        if method == "turn/start":
            say({"method": "thread/status/changed", "params": {"threadId": "t-1", "status": {"type": "idle"}}})
        """,
    )
    program.begin(None)

    assert not program.idle()


@pytest.mark.parametrize(
    "params",
    [
        "None",
        "[]",
        "{}",
        '{"threadId": 1}',
        '{"threadId": "t-1", "turn": None}',
        '{"threadId": "t-1", "turn": {"id": 1}}',
    ],
)
def test_news_that_nobody_understands_are_a_failure(engine, params):
    """Who does not know whether a turn runs must hand over nothing."""
    program = engine(Codex, f'if method == "thread/start": say({{"method": "turn/started", "params": {params}}})')

    def begin():
        program.begin(None)
        program.wait(PATIENCE_S)

    with pytest.raises(EngineFailed, match="nobody understands"):
        begin()


def test_every_question_is_answered(engine, heard):
    """What is known is declined, what is not is an error, and nothing is left open."""
    questions = [
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "item/tool/call",
        "mcpServer/elicitation/request",
        "execCommandApproval",
        "applyPatchApproval",
        "what/nobody/knows",
    ]
    program = engine(
        Codex,
        f"""
        if method == "thread/start":
            for number, question in enumerate({questions}):
                say({{"id": number, "method": question, "params": {{"threadId": "t-1"}}}})
        """,
    )
    program.begin(None)

    def answers():
        return {each["id"]: each for each in heard() if "method" not in each}

    until(lambda: len(answers()) == len(questions), program)
    assert ["result"] * 8 + ["error"] == [({*answers()[number]} - {"id"}).pop() for number in range(len(questions))]


def test_another_answer_can_be_given(engine, heard):
    """By whoever has a policy of his own."""
    program = engine(
        Codex,
        'if method == "thread/start": say({"id": "q", "method": "execCommandApproval", "params": {"a": 1}})',
        asked=lambda method, params: {"decision": [method, params]},
    )
    program.begin(None)

    until(lambda: {"id": "q", "result": {"decision": ["execCommandApproval", {"a": 1}]}} in heard(), program)


REFUSES = 'if method == "thread/resume": return {"error": {"code": 1, "message": "no rollout"}}'


def test_a_thread_that_is_not_known_is_begun_anew_where_it_has_no_file(engine, tmp_path, heard):
    """Where it has one, the program has lost what it should know, and nothing is begun beside it."""
    bound = Bound("t-0", str(tmp_path / "old"))
    first = engine(Codex, REFUSES)
    assert "t-1" == first.begin(bound).session
    first.end()
    (tmp_path / "old").write_text("")

    with pytest.raises(EngineFailed, match="no rollout"):
        engine(Codex, REFUSES).begin(bound)

    assert ["thread/resume", "thread/start", "thread/resume"] == [
        each["method"] for each in heard() if each["method"].startswith("thread/")
    ]


# --- Pi ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ['"isStreaming": True', '"isCompacting": True', '"pendingMessageCount": 1'])
def test_pi_is_at_rest_by_its_own_word(engine, state):
    """Whoever has begun what it does."""
    program = engine(Pi, f'STATE.update({{{state}}}) if kind == "get_state" else None')
    program.begin(None)

    assert not program.idle()


def test_a_run_of_pi_goes_on_until_it_has_settled(engine):
    """Whatever its state says in between."""
    program = engine(
        Pi,
        """
        if kind == "prompt" and asked["message"] == "d-1":
            say({"type": "agent_start"})
            say({"type": "agent_end"})
        if kind == "prompt" and asked["message"] == "d-2":
            say({"type": "agent_start"})
            say({"type": "agent_settled"})
        """,
    )
    program.begin(None)
    program.submit("d-1", "d-1")
    assert not program.idle()

    program.submit("d-2", "d-2")
    assert program.idle()


def test_another_session_is_not_gone_on_in(engine, tmp_path):
    """A file that is there belongs to a session, and to that one only."""
    (tmp_path / "history").write_text("")
    first = engine(Pi)
    with pytest.raises(EngineFailed, match="s-0"):
        first.begin(Bound("s-0", str(tmp_path / "history")))
    first.end()

    assert "s-1" == engine(Pi).begin(Bound("s-0", str(tmp_path / "nothing"))).session
