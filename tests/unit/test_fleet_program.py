"""A program that is spoken to in lines of JSON, and all that it may do to whoever speaks to it."""

import json
import os
import signal
import stat
import sys
import textwrap
import time
from functools import partial

import pytest

from fencepost.mailbox.errors import EngineFailed, EngineNotStarted
from fencepost.mailbox.fleet import orphans
from fencepost.mailbox.fleet import program as module
from fencepost.mailbox.fleet.program import Launch, Program, inherited, text_at

PATIENCE_S = 30
#: How long a program is given that will not end.
SHORT_S = 0.2
#: Answers each request with what it was asked.
ECHO = """
for line in sys.stdin:
    say({"id": json.loads(line)["id"], "echo": json.loads(line)})
"""
#: What it may write instead of a line of JSON, as Python that writes it, and what is said of that.
BROKEN = {
    "no JSON": ("out.write(b'hello\\n')", "nobody understands"),
    "an empty line": ("out.write(b'\\n')", "nobody understands"),
    "no object": ("out.write(b'[1]\\n')", "no object"),
    "no UTF-8": ('out.write(b\'{"a": "\\xff"}\\n\')', "nobody understands"),
    "UTF-16": ("out.write('{}\\n'.encode('utf-16'))", "nobody understands"),
    "depth": ("out.write(b'[' * 60_000 + b'\\n')", "nobody understands"),
    "a number without end": ("out.write(b'{\"a\": ' + b'9' * 10_000 + b'}\\n')", "nobody understands"),
    "half a line": ("out.write(b'{\"a\": '); out.flush(); os._exit(0)", "ended with status 0"),
    "a line without end": ("\nwhile True: out.write(b'a' * 65536)", "a line of more than"),
    "a line that is too long": ("out.write(b'{\"a\": \"' + b'b' * 70_000 + b'\"}\\n')", "a line of more than"),
    "its end": ("sys.exit(3)", "ended with status 3"),
    "a signal": ("os.kill(os.getpid(), 9)", "ended by signal 9"),
    "the end of its output": ("os.close(1); time.sleep(60)", "closed its input or its output"),
}


@pytest.fixture(autouse=True)
def _small_lines(monkeypatch):
    monkeypatch.setattr(module, "LINE_LIMIT_BYTES", 1 << 16)


@pytest.fixture
def start(tmp_path):
    """Starts a program that is Python; what it says goes to `heard`, or into a list."""
    programs = []

    def started(code, heard=None, **more):
        head = """
        import json, os, signal, subprocess, sys, time
        out = sys.stdout.buffer
        def say(document):
            out.write(json.dumps(document).encode() + b"\\n")
            out.flush()
        """
        argv = (sys.executable, "-P", "-c", textwrap.dedent(head) + code)
        launch = Launch(**{"argv": argv, "here": tmp_path, "environ": os.environ, "folder": tmp_path / "run"} | more)
        hear = heard or (lambda _, line: started.heard.append(line) is None)
        program = Program("It", launch, ("one", "two"), lambda line: line.get("id"), hear)
        programs.append(program)
        return program

    started.heard = []
    yield started
    for program in programs:
        program.end(SHORT_S)


def fails(call, *words, match, error=EngineFailed):
    """It fails before patience has run out."""
    begun = time.monotonic()
    with pytest.raises(error, match=match):
        call(*words)
    assert time.monotonic() - begun < PATIENCE_S


def until(happened):
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_request_gets_its_own_answer(start):
    """Not one that comes for nobody, nor one for another request."""
    program = start('say({"id": "77"}); say({"id": [1]}); say({"id": 5})' + ECHO)

    for number in range(3):
        assert number == program.ask({"number": number}, PATIENCE_S)["echo"]["number"]


def test_everything_else_is_news(start):
    """It wakes who waits, once."""
    program = start('say({"news": 1}); say({"news": "\\ud83d"})' + ECHO)

    until(lambda: len(start.heard) == 2)
    assert [{"news": 1}, {"news": "\ud83d"}] == start.heard
    program.wait(PATIENCE_S)
    begun = time.monotonic()
    program.wait(0.1)
    assert 0.1 <= time.monotonic() - begun < PATIENCE_S


def test_its_words_stand_behind_those_of_the_launch(start):
    """As a user gives the first, and the adapter the last."""
    program = start('say({"words": sys.argv[1:]})' + ECHO)

    program.wait(PATIENCE_S)
    assert [{"words": ["one", "two"]}] == start.heard


@pytest.mark.parametrize("code, why", BROKEN.values(), ids=BROKEN)
def test_whatever_it_says_is_a_failure_with_a_sentence(start, code, why):
    """No crash, no hanging; and it is said by every call from then on."""
    program = start(code + "\nout.flush()\nsys.stdin.read()")

    fails(program.ask, {"a": 1}, PATIENCE_S, match=why)
    fails(program.wait, PATIENCE_S, match=why)
    fails(program.check, match=why)
    fails(program.ask, {"a": 1}, PATIENCE_S, match=why)


def test_what_the_adapter_does_not_understand_is_a_failure(start):
    """It says so with an error of values."""
    program = start('say({"news": 1})' + ECHO, heard=lambda _, line: text_at(line, "news", "text"))

    fails(program.wait, PATIENCE_S, match="no news.text")


def test_an_answer_is_waited_for_only_so_long(start):
    """And one that comes later is nobody's."""
    program = start(
        'line = sys.stdin.readline(); sys.stdin.readline(); say({"id": "1"}); say({"id": "2", "late": 0})' + ECHO
    )

    fails(program.ask, {}, 0.05, match="0.05 seconds")
    assert {"id": "2", "late": 0} == program.ask({}, PATIENCE_S)


def test_who_does_not_listen_holds_nobody_up(start):
    """More than a pipe takes is said to a program that reads nothing, and then it is ended all the same."""
    program = start("time.sleep(60)")

    fails(program.ask, {"text": "x" * 1_000_000}, 0.1, match="not answered")


def test_its_end_is_noticed_while_a_child_holds_its_output_open(start):
    """Which would otherwise look as if it were alive."""
    program = start(
        "child = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL); say({'child': child.pid}); os._exit(4)"
    )

    fails(lambda: [program.wait(PATIENCE_S) for _ in range(2)], match="status 4")
    os.kill(start.heard[0]["child"], 9)


def test_it_ends_with_its_input(start):
    """Nothing is killed that ends by itself, and what was said before is still taken."""
    program = start("text = sys.stdin.read(); open('said', 'w').write(text)")
    program.say({"last": "words"})

    program.end()

    assert 0 == program._process.returncode
    assert {"last": "words"} == json.loads((program._launch.here / "said").read_text())


@pytest.mark.parametrize(
    "code, status",
    [
        ("say({}); time.sleep(60)", -15),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); say({}); time.sleep(60)", -9),
    ],
    ids=["asked", "made to"],
)
def test_what_does_not_end_by_itself_is_made_to(start, code, status):
    """First it is asked, then not; it is over within three patiences."""
    program = start(code)
    program.wait(PATIENCE_S)

    program.end(SHORT_S)
    program.end()

    assert status == program._process.returncode


def test_the_child_of_a_starter_dies_with_it(start):
    """A starter that has to be killed would leave what it has started, which would go on writing."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    program = start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"child = subprocess.Popen([sys.executable, '-c', {deaf!r}]); say({{'child': child.pid}}); time.sleep(60)"
    )
    program.wait(PATIENCE_S)
    child = orphans.Process.of(start.heard[0]["child"])

    program.end(SHORT_S)

    assert child.gone(PATIENCE_S)


def test_a_command_in_a_group_of_its_own_lives_on(start):
    """What an agent has set going, it has set going for its user."""
    program = start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True); say({'child': child.pid}); time.sleep(60)"
    )
    program.wait(PATIENCE_S)
    child = orphans.Process.of(start.heard[0]["child"])

    program.end(SHORT_S)

    assert child.alive
    os.kill(child.pid, 9)


def test_what_a_run_before_has_left_is_ended_first(start, monkeypatch):
    """And then it is this one that is noted, until its end."""
    monkeypatch.setattr(orphans, "end_orphan", partial(orphans.end_orphan, patience_s=SHORT_S))
    first = start("time.sleep(60)")

    second = start(ECHO)

    assert -signal.SIGTERM == first._process.wait(PATIENCE_S)
    note = second._launch.folder / "running.json"
    assert second.pid == json.loads(note.read_bytes())["pid"]
    second.end()
    assert not note.exists()


@pytest.mark.parametrize(
    "more",
    [{"argv": ("/no/such/program",)}, {"argv": ("a\0b",)}, {"argv": ("/etc/passwd",)}, {"environ": {"a=b": "c"}}],
    ids=str,
)
def test_what_cannot_be_started_is_a_failure(start, more):
    """With the reason in its sentence."""
    fails(lambda: start("", **more), match="cannot be started", error=EngineNotStarted)


def test_a_folder_that_is_not_there_is_a_failure(start, tmp_path):
    """Of the agent's, or of ours."""
    for more in ({"here": tmp_path / "nowhere"}, {"folder": tmp_path / "file"}):
        (tmp_path / "file").write_text("")
        why = rf"cannot be started \({next(iter(more.values()))}: \w"
        fails(lambda more=more: start("", **more), match=why, error=EngineNotStarted)


def test_what_it_says_on_the_side_is_kept_and_private(start, monkeypatch):
    """Nobody's terminal has it, and it does not grow without end."""
    monkeypatch.setattr(module, "LOG_LIMIT_BYTES", 1 << 16)
    program = start("sys.stderr.write('x' * 1_000_000 + 'the end'); sys.stderr.flush()" + ECHO)
    assert program.ask({}, PATIENCE_S)

    log = program._launch.log
    until(lambda: log.exists() and log.read_text().endswith("the end"))

    kept = sorted(log.parent.glob("program.log*"))
    assert 2 == len(kept)
    assert sum(each.stat().st_size for each in kept) < 4 << 16
    assert {0o600} == {stat.S_IMODE(each.stat().st_mode) for each in kept}
    assert 0o700 == stat.S_IMODE(log.parent.stat().st_mode)


def test_no_place_for_what_it_says_on_the_side_is_no_failure(start, tmp_path):
    """It is dropped, and nobody waits."""
    (tmp_path / "run" / "program.log").mkdir(parents=True)
    program = start("sys.stderr.write('x' * 1_000_000); sys.stderr.flush()" + ECHO)

    assert program.ask({}, PATIENCE_S)


def test_our_secrets_are_not_inherited():
    """The tokens of our client, of a server and of agents' users, and a URL that may have a password in it."""
    ours = {
        "FENCEPOST_CLIENT_TOKEN",
        "FENCEPOST_SERVE_TOKEN",
        "FENCEPOST_MATRIX_TOKEN_BO",
        "FENCEPOST_MATRIX_TOKEN_ALICE_2",
        "FENCEPOST_DATABASE_URL",
        "FENCEPOST_TEST_DATABASE_URL",
    }
    kept = {
        "PATH",
        "HOME",
        "FENCEPOST_HOME",
        "FENCEPOST_URL",
        "OPENAI_API_KEY",
        "XFENCEPOST_TOKEN",
        "FENCEPOST_TOKENIZER",
    }

    assert kept == inherited(dict.fromkeys(ours | kept | {"MINE"}, "x"), but=("MINE",)).keys()
