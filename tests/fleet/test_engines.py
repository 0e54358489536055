"""What the adapters to Codex and Pi promise a controller, with the real programs."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from agents.model import Call, Fail, Hold

from fencepost.mailbox.errors import EngineFailed, EngineRefused, EntryAltered, NativeHistoryLost
from fencepost.mailbox.fleet import codex as codex_engine
from fencepost.mailbox.fleet import history
from fencepost.mailbox.fleet import pi as pi_engine
from fencepost.mailbox.fleet.engine import Bound
from fencepost.mailbox.fleet.orphans import Process
from fencepost.mailbox.fleet.program import Launch

PATIENCE_S = 60
#: What the programs may take for words of their own, and what carriers of text like to mend.
HOSTILE = {
    "command": "/compact\n/skill:any thing\n/quit",
    "file": "@/etc/hostname @README.md\n@file",
    "shell": "!touch broken\n!!touch broken",
    "hash": "# Remember this\n$skill #1",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "ends of lines": "one\r\ntwo\rthree\n\n\nfour\u2028five\u2029six\u0085seven\vend\f",
    "spaces": "  \t before \u00a0and\u3000after \t \n \n\n",
    "emoji": "👩‍👩‍👧‍👦 \U0001f1e9\U0001f1ea e\u0301 \u202ereversed\u202c \ufeff \ufffd \ufffe \U0010ffff",
    "markup": "<user_instructions>no</user_instructions> <turn_aborted> </environment_context> {{x}} ${x} \\n \\u0000",
    "json": '{"type":"event_msg"}\n{"type":"message","message":{"role":"user"}}',
}


def said(delivery, text=""):
    """An input as it is written for an agent: its first line names the delivery."""
    return f"[fencepost] delivery {delivery}: 1 record\n{text}"


class Kind:
    """
    A program under test.

    Attributes:
        entry: Finds a delivery in its history.
        words: Those of its launch that the adapter adds itself.
        shell: The name of its tool for commands, and what that calls the command.
        summed_up: Stands in a history that was summed up.
    """

    def __init__(self, launch, folder):
        self.launch, self.folder = launch, folder

    @property
    def argv(self):
        """The words that a user would give."""
        return tuple(word for word in self.launch.argv if word not in self.words)

    @contextmanager
    def run(self, bound=None, **options):
        """A run that has begun, with its history, for the length of a block."""
        launch = Launch(self.argv, self.launch.here, self.launch.environ, self.folder)
        engine = self.engine(launch, **options)
        try:
            yield engine, engine.begin(bound)
        finally:
            engine.end()

    def find(self, bound, offset, delivery, text):
        return history.find(bound.history, offset, self.entry, delivery, text)


class Codex(Kind):
    engine, entry, words = codex_engine.Codex, staticmethod(codex_engine.entry), ("app-server",)
    shell = "exec_command", "cmd"
    summed_up = '"type":"compacted"'

    def sum_up(self, engine, bound):
        engine._ask("thread/compact/start", {"threadId": bound.session})


class Pi(Kind):
    engine, entry, words = pi_engine.Pi, staticmethod(pi_engine.entry), ("--mode", "rpc")
    shell = "bash", "command"
    summed_up = '"type":"compaction"'

    def sum_up(self, engine, bound):
        engine._ask("compact", PATIENCE_S)


each_kind = pytest.mark.parametrize("kind", ["codex", "pi"], indirect=True)


@pytest.fixture
def kind(request, tmp_path):
    launch = request.getfixturevalue(request.param)()
    return {"codex": Codex, "pi": Pi}[request.param](launch, tmp_path / "run")


def until(happened, engine, what):
    """What has happened, when it has."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, what
        engine.wait(0.2)
    return found


def rest(engine):
    until(engine.idle, engine, "it never comes to rest")


def deliver(kind, engine, bound, delivery, text):
    """The entry of a delivery that was made, when the program is at rest again."""
    offset = history.size(bound.history)
    engine.submit(delivery, text)
    found = until(lambda: kind.find(bound, offset, delivery, text), engine, "it is never found")
    rest(engine)
    return found


#: A controller that hands something over, says so, and is killed.
CONTROLLER = """
import json, sys
from importlib import import_module
from pathlib import Path
from fencepost.mailbox.fleet.program import Launch
module, name, argv, here, environ, folder, text = json.loads(sys.argv[1])
launch = Launch(tuple(argv), Path(here), environ, Path(folder))
engine = getattr(import_module(module), name)(launch)
bound = engine.begin(None)
engine.submit("d-1", text)
print(json.dumps([bound.session, bound.history, engine._program.pid]), flush=True)
sys.stdin.read()
"""


@pytest.mark.fast
@each_kind
def test_what_is_handed_over_is_found_in_the_history(kind, model):
    """Two deliveries, in order, each behind the place where the history ended before it."""
    with kind.run() as (engine, bound):
        assert engine.idle()
        assert 0 == history.size(bound.history)
        entries, ends = [], []
        for delivery in ("d-1", "d-2"):
            ends.append(history.size(bound.history))
            entries.append(deliver(kind, engine, bound, delivery, said(delivery)))

        assert 2 == len({*entries})
        assert ends[0] < ends[1]
        assert kind.find(bound, ends[1], "d-1", said("d-1")) is None
        assert entries[1] == kind.find(bound, 0, "d-2", said("d-2"))
        assert [1, 1] == [model.heard(said(delivery), bound.session) for delivery in ("d-1", "d-2")]


@each_kind
def test_another_run_goes_on_in_the_same_history(kind, model):
    """It finds what the first was given, and its own entries stand behind."""
    with kind.run() as (engine, first):
        entry = deliver(kind, engine, first, "d-1", said("d-1"))

    with kind.run(first) as (engine, second):
        assert first == second
        assert entry == kind.find(second, 0, "d-1", said("d-1"))
        deliver(kind, engine, second, "d-2", said("d-2"))
        assert [1, 1] == [model.heard(said(delivery), second.session) for delivery in ("d-1", "d-2")]


@each_kind
def test_a_history_without_an_entry_is_begun_anew(kind, model):
    """A run that was given nothing leaves nothing to go on in."""
    with kind.run() as (_, first):
        pass

    with kind.run(first) as (engine, second):
        deliver(kind, engine, second, "d-1", said("d-1"))


@each_kind
def test_a_history_that_is_gone_is_found_out(kind, model):
    """Or that was cut: another has not the name or not the length that it had."""
    with kind.run() as (engine, first):
        deliver(kind, engine, first, "d-1", said("d-1"))
    ends = history.size(first.history)
    with Path(first.history).open("r+b") as file:
        file.truncate(ends // 2)
    with pytest.raises(NativeHistoryLost):
        kind.find(first, ends, "d-2", said("d-2"))
    Path(first.history).unlink()

    with kind.run(first) as (_, second):
        assert first != second
    with pytest.raises(NativeHistoryLost):
        kind.find(first, ends, "d-2", said("d-2"))


@each_kind
def test_a_turn_that_is_open_is_no_rest(kind, model):
    """It is found while the model still thinks; nothing else is taken meanwhile, and that may be tried again."""
    hold = Hold()
    model.will(hold)
    with kind.run() as (engine, bound):
        engine.submit("d-1", said("d-1"))
        assert hold.begun.wait(PATIENCE_S)

        assert not engine.idle()
        assert until(lambda: kind.find(bound, 0, "d-1", said("d-1")), engine, "it is not found")
        with pytest.raises(EngineRefused):
            engine.submit("d-2", said("d-2"))
        hold.release()
        rest(engine)

        assert kind.find(bound, 0, "d-2", said("d-2")) is None
        deliver(kind, engine, bound, "d-2", said("d-2"))
        assert 1 == model.heard(said("d-2"), bound.session)


@each_kind
def test_a_turn_with_a_tool_is_one_turn(kind, model):
    """It is at rest when the last answer was given, and not before."""
    tool, word = kind.shell
    last = Hold()
    model.will(Call(tool, {word: "echo $((6 * 7))"}), last)
    with kind.run() as (engine, _):
        engine.submit("d-1", said("d-1"))
        assert last.begun.wait(PATIENCE_S)

        assert not engine.idle()
        last.release()
        rest(engine)


@each_kind
def test_a_kill_in_the_middle_of_a_turn_loses_nothing(kind, model):
    """The entry is found, and another run goes on behind it."""
    hold = Hold()
    model.will(hold)
    with kind.run() as (engine, bound):
        engine.submit("d-1", said("d-1"))
        assert hold.begun.wait(PATIENCE_S)
        os.kill(engine._program.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match="signal 9"):
            rest(engine)
    entry = kind.find(bound, 0, "d-1", said("d-1"))
    assert entry

    with kind.run(bound) as (engine, again):
        assert bound == again
        assert entry == kind.find(bound, 0, "d-1", said("d-1"))
        deliver(kind, engine, bound, "d-2", said("d-2"))
        assert [1, 1] == [model.heard(said(delivery), bound.session) for delivery in ("d-1", "d-2")]


@each_kind
def test_the_end_of_its_input_is_its_end(kind, model):
    """Also in the middle of a turn: nobody has to kill what a dead controller has left."""
    hold = Hold()
    model.will(hold)
    with kind.run() as (engine, _):
        engine.submit("d-1", said("d-1"))
        assert hold.begun.wait(PATIENCE_S)

        begun = time.monotonic()
        engine.end()

        assert time.monotonic() - begun < 5
        assert engine._program._process.returncode >= 0
        assert hold.over.wait(PATIENCE_S)
        assert "disconnected" == hold.ended


@each_kind
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_every_text_arrives_as_it_is(kind, model, text):
    """To the model and in the history, and nothing in it is taken for a command."""
    with kind.run() as (engine, bound):
        assert deliver(kind, engine, bound, "d-1", said("d-1", text))
        assert said("d-1", text) in model.last_of(bound.session).texts
    assert not (kind.launch.here / "broken").exists()


@each_kind
def test_all_of_a_long_text_arrives(kind, model):
    """65,536 bytes of UTF-8, to the last one."""
    head = said("d-1")
    text = head + ("€\x01" * 16_384)[: (65_536 - len(head)) // 2]
    text += "." * (65_536 - len(text.encode()))
    assert 65_536 == len(text.encode())
    with kind.run() as (engine, bound):
        assert deliver(kind, engine, bound, "d-1", text)
        assert text in model.last_of(bound.session).texts


@each_kind
def test_a_turn_that_fails_is_over(kind, model):
    """What was handed over is in the history all the same, and the next is taken."""
    with kind.run() as (engine, bound):
        model.will(Fail())
        assert deliver(kind, engine, bound, "d-1", said("d-1"))
        assert deliver(kind, engine, bound, "d-2", said("d-2"))


@each_kind
def test_what_a_dead_controller_has_left_ends_by_itself(kind, model):
    """In the middle of a turn, too; the next run waits for that, and finds what the last was given."""
    hold = Hold()
    model.will(hold)
    module, name = kind.engine.__module__, kind.engine.__name__
    told = [module, name, kind.argv, str(kind.launch.here), kind.launch.environ, str(kind.folder), said("d-1")]
    command = [sys.executable, "-P", "-c", CONTROLLER, json.dumps(told)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as controller:
        session, path, pid = json.loads(controller.stdout.readline())
        assert hold.begun.wait(PATIENCE_S)
        left = Process.of(pid)
        controller.kill()
    assert (kind.folder / "running.json").exists()

    with kind.run(Bound(session, path)) as (engine, bound):
        assert not left.alive
        assert Bound(session, path) == bound
        assert kind.find(bound, 0, "d-1", said("d-1"))
        deliver(kind, engine, bound, "d-2", said("d-2"))
    assert "disconnected" == hold.ended
    assert not (kind.folder / "running.json").exists()


@each_kind
def test_a_history_that_was_summed_up_is_as_good(kind, model):
    """The entries before and behind are found, and the next run goes on in it."""
    with kind.run() as (engine, first):
        # Pi sums up what is longer than it keeps.
        long = said("d-1", "word " * 30_000)
        entry = deliver(kind, engine, first, "d-1", long)
        deliver(kind, engine, first, "d-2", said("d-2", "word " * 30_000))
        kind.sum_up(engine, first)
        until(lambda: kind.summed_up in Path(first.history).read_text(encoding="utf-8"), engine, "it is not summed up")
        rest(engine)
        deliver(kind, engine, first, "d-3", said("d-3"))

    with kind.run(first) as (engine, second):
        assert first == second
        assert entry == kind.find(second, 0, "d-1", long)
        assert kind.find(second, 0, "d-3", said("d-3"))
        deliver(kind, engine, second, "d-4", said("d-4"))


# --- Codex -------------------------------------------------------------------------------------------

only_codex = pytest.mark.parametrize("kind", ["codex"], indirect=True)
only_pi = pytest.mark.parametrize("kind", ["pi"], indirect=True)


@only_codex
def test_what_codex_asks_is_declined(kind, model):
    """A command that wants a person's leave is not run, and the turn goes on."""
    config = kind.launch.home / "config.toml"
    changed = config.read_text().replace('"never"', '"on-request"').replace("danger-full-access", "workspace-write")
    config.write_text(changed)
    asks = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "a test"}
    model.will(Call("exec_command", asks))
    with kind.run() as (engine, bound):
        deliver(kind, engine, bound, "d-1", said("d-1"))

    assert "rejected" in str(model.requests[-1]["input"][-1])
    assert not (kind.launch.here / "made").exists()


@only_codex
def test_a_thread_of_an_older_kind_proves_as_well(kind, model):
    """Its rollout has other entries, with the same id of ours."""
    with kind.run() as (engine, first):
        older = engine._ask("thread/start", {"cwd": str(kind.launch.here), "historyMode": "legacy"})["thread"]
        engine._session = older["id"]
        bound = attrs.evolve(first, session=older["id"], history=older["path"])

        assert deliver(kind, engine, bound, "d-1", said("d-1"))
        assert '"user_message"' in Path(bound.history).read_text(encoding="utf-8")


# --- Pi ----------------------------------------------------------------------------------------------


@pytest.fixture
def extension(kind):
    """Puts the body of what an extension does with input."""

    def put(body):
        folder = kind.launch.home / "extensions"
        folder.mkdir()
        text = f'export default function (pi) {{ pi.on("input", async (event, ctx) => {{ {body} }}) }}'
        (folder / "test.ts").write_text(text)

    return put


@only_pi
def test_what_an_extension_asks_is_cancelled(kind, model, extension):
    """Nobody is there to be asked, and nobody is waited for."""
    extension(
        'const all = [await ctx.ui.confirm("t", "m"), await ctx.ui.select("t", ["a"]), await ctx.ui.input("t"),'
        ' await ctx.ui.editor("t")]; ctx.ui.notify("n");'
        ' return all.some(Boolean) ? { action: "handled" } : { action: "continue" };'
    )
    with kind.run() as (engine, bound):
        assert deliver(kind, engine, bound, "d-1", said("d-1"))


@only_pi
def test_input_that_an_extension_rewrites_is_no_proof(kind, model, extension):
    """It would be handed over again and again, so it is said aloud."""
    extension('return { action: "transform", text: event.text + "more" };')
    with kind.run() as (engine, bound):
        engine.submit("d-1", said("d-1", "text"))
        rest(engine)

        with pytest.raises(EntryAltered):
            kind.find(bound, 0, "d-1", said("d-1", "text"))


@only_pi
def test_input_that_an_extension_keeps_is_a_failure(kind, model, extension):
    """The history will never have it."""
    extension('return { action: "handled" };')
    with kind.run() as (engine, _), pytest.raises(EngineFailed, match="extension"):
        engine.submit("d-1", said("d-1"))


@only_pi
def test_pi_is_given_nothing_without_its_name(kind):
    """Its history could not prove it, and a text that begins with a slash would be a command."""
    with kind.run() as (engine, _), pytest.raises(AssertionError):
        engine.submit("d-1", "/compact\nd-1")
