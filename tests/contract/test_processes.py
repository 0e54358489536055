"""Many programs at one store, and some of them die."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Longer than anything here may take.
PATIENCE_S = 60

#: Locks the file that is named, says so, and holds it until it is killed.
HOLDER = """
import fcntl, sys, time
lock = open(sys.argv[1], "r+b")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(shell):
    """A process that holds the lock of a store with one message in it."""
    shell.send("first")
    process = subprocess.Popen([sys.executable, "-c", HOLDER, shell.root / ".store.lock"], stdout=subprocess.PIPE)
    with process:
        assert b"held\n" == process.stdout.readline()
        yield process
        process.kill()


def test_eight_processes_lose_nothing(shell):
    """Eight processes send fifty messages each, and there are four hundred."""
    loop = 'i=1; while [ $i -le 50 ]; do "$0" messages send --body "$1-$i" >/dev/null || exit 1; i=$((i+1)); done'
    senders = [shell.loop(loop, str(n)) for n in range(8)]
    said = [(sender.communicate(timeout=600)[1].decode(), sender.returncode) for sender in senders]
    assert [("", 0)] * 8 == said
    items = shell.list("--status", "all", "--limit", "500")
    assert {f"{n}-{i}" for n in range(8) for i in range(1, 51)} == {item["body"] for item in items}
    assert 400 == len(items) == len({item["id"] for item in items})


def _at_once(shell, commands):
    """The documents that commands print which start together."""
    # All wait for a line.
    gate = ("sh", "-c", 'read _ && exec "$0" "$@"')
    processes = [shell.start(*words, "--json", before=gate, stdin=subprocess.PIPE) for words in commands]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60) for process in processes]
    assert [b""] * len(said) == [err for _, err in said]
    return [json.loads(out) for out, _ in said]


def test_eight_processes_claim_one_message(shell, check):
    """One of them gets the lease, and the others learn who has it."""
    sent = shell.send("hello", "--actionable")

    answers = _at_once(shell, [shell.words("claim", sent, session=f"s{n}") for n in range(8)])

    won = [answer for answer in answers if "error" not in answer]
    lost = [answer["error"] for answer in answers if "error" in answer]
    assert 1 == len(won)
    check("Receipt", won[0])
    assert [("claimed", won[0]["owner"])] * 7 == [(error["code"], error["details"]["owner"]) for error in lost]
    assert 2 == shell.view(sent)["version"]


def test_eight_processes_send_under_one_key(shell, check):
    """There is one message, and all of them get its receipt."""
    answers = _at_once(shell, [("messages", "send", "--body", "hello", "--idempotency-key", "k-1")] * 8)

    for answer in answers:
        check("Receipt", answer)
    (item,) = shell.list()
    assert {item["id"]} == {answer["id"] for answer in answers}
    assert 7 == sum("repeated" in answer for answer in answers)


def test_eight_processes_make_a_store(shell):
    """Whoever comes first makes it, and the others find it."""
    answers = _at_once(shell, [("messages", "send", "--body", str(n)) for n in range(8)])

    assert {str(n) for n in range(8)} == {answer["body"] for answer in answers}
    assert 8 == len(shell.list())


def test_a_killed_holder_frees_the_lock(shell, holder):
    """Whoever waits for the lock of a process that is killed goes on at once."""
    waiting = shell.start("messages", "send", "--body", "second", "--json")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(1)

    holder.send_signal(signal.SIGKILL)

    out, err = waiting.communicate(timeout=5)
    assert 0 == waiting.returncode, err
    assert ["first", "second"] == [item["body"] for item in shell.list()]
    assert 2 == len(shell.list()), out


def test_waiting_for_the_lock_ends(shell, holder):
    """A holder that does not let go makes a writer fail in the end, having written nothing."""
    error = shell.refused("journal_busy", "messages", "send", "--body", "second")

    assert error["details"]["holder"]
    assert error["details"]["holder"] in error["message"]


def test_listing_never_waits(shell, holder):
    """A reader needs no lock."""
    assert ["first"] == [item["body"] for item in shell.list()]


def test_the_lock_file_stays(shell):
    """It is never removed, so that nobody can lock a file that is not there any more."""
    shell.send("hello")
    before = (shell.root / ".store.lock").stat().st_ino
    shell.send("hello")

    assert before == (shell.root / ".store.lock").stat().st_ino


def test_killed_senders(shell):
    """Senders that are killed at any moment leave a store that works and holds what they acknowledged."""
    loop = 'i=1; while "$0" messages send --body "$1-$i" >/dev/null; do echo $i; i=$((i+1)); done'
    acknowledged = set()
    for n in range(5):
        sender = shell.loop(loop, str(n))
        for _ in range(n + 1):
            sender.stdout.readline()
        # The loop and the program that it runs at this moment.
        os.killpg(sender.pid, signal.SIGKILL)
        out, _ = sender.communicate(timeout=10)
        counted = range(1, n + 2 + out.count(b"\n"))
        acknowledged |= {f"{n}-{i}" for i in counted}

    assert acknowledged <= {item["body"] for item in shell.list("--limit", "500")}
    shell.send("and on")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells how far another program is")
@pytest.mark.parametrize("command", ["hook --client codex", "changes poll --wait 60 --after 1"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_is_no_accident(shell, command, times):
    """Whenever it comes once the interpreter has started, and however often, it has no traceback."""
    shell.send("hello")
    for late_ms in range(0, 200, 25):
        process = shell.start(*command.split(), stdin=subprocess.PIPE)
        while process.poll() is None and "sqlite" not in Path(f"/proc/{process.pid}/maps").read_text():
            pass
        time.sleep(late_ms / 1_000)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        status = process.wait(PATIENCE_S)
        _, err = process.communicate()
        assert status in (-signal.SIGINT, 130)
        assert b"" == err.strip()
