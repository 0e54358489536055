"""What many processes and threads are told at once can be explained by some order, message by message."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crash.child import ids
from crash.linearize import NEVER, Operation, State, after, explain, shortest_counterexample, trace

CHILD = str(Path(__file__).with_name("child.py"))
WHOLE = os.environ.get("FENCEPOST_CRASH") == "all"
MESSAGES = 3


def record(root, folder, seed, *, kill):
    """Let processes loose on a store, and return what each thread did, by message."""
    logs = [folder / f"log-{seed}-{n}" for n in range(4)]
    words = [sys.executable, "-P", CHILD, str(root), "history"]
    children = [
        subprocess.Popen(
            [*words, f"{seed}.{n}", "2", "24", str(MESSAGES), str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for n, log in enumerate(logs)
    ]
    try:
        for child in children:
            assert b"ready\n" == child.stdout.readline()
        for child in children:
            child.stdin.write(b"go\n")
            child.stdin.flush()
        if kill:
            _wait_for_lines(logs[0], 20)
            children[0].send_signal(signal.SIGKILL)
        for child in children[kill:]:
            assert b"finished\n" == child.stdout.readline(), "a child failed"
            assert 0 == child.wait(60)
    finally:
        for child in children:
            child.kill()
            child.communicate()
    return _histories(logs)


def _wait_for_lines(log, count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if log.exists() and log.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.001)


def _histories(logs):
    begun, answered = {}, {}
    for log in logs:
        for line in log.read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
            (begun if "begin" in said else answered)[said["id"]] = said
    found = {message: [] for message in ids(MESSAGES)}
    for name, said in begun.items():
        answer, end = None, NEVER
        if name in answered:
            answer, end = answered[name]["answer"], answered[name]["end"]
        for message in found if said["doing"] == "list" else [said["message"]]:
            mine = answer
            if said["doing"] == "list" and answer is not None:
                mine = {"version": answer["versions"].get(message, 0)}
            found[message].append(Operation(said["who"], said["doing"], said["begin"], end, mine, said["token"]))
    return found


@pytest.mark.sample
@pytest.mark.parametrize("kill", [False, True], ids=["all finish", "one is killed"])
def test_histories(tmp_path, tally, kill):
    """Send, claim, renew, release, complete, ack and list are as if one happened after another."""
    for seed in range(15 if WHOLE else 2):
        root = tmp_path / f"store-{kill}-{seed}"
        for message, operations in record(root, tmp_path, f"{int(kill)}{seed}", kill=kill).items():
            tally["histories checked"] += 1
            tally["operations in them"] += len(operations)
            if explain(operations) is None:
                story = trace(shortest_counterexample(operations))
                pytest.fail(f"nothing explains what happened to {message}:\n{story}")


# --- the checker itself ----------------------------------------------------------------------------------------


def op(who, doing, begin, end, answer, token=""):
    return Operation(who, doing, begin, end, answer, token)


SENT = op("ada", "send", 0, 1, {"version": 1})
CLAIMED = op("ada", "claim", 2, 5, {"version": 2, "repeated": False, "token": "a"})
BROKEN = {
    "two winners": [SENT, CLAIMED, op("ben", "claim", 3, 6, {"version": 2, "repeated": False, "token": "b"})],
    "two winners in turn": [SENT, CLAIMED, op("ben", "claim", 6, 7, {"version": 3, "repeated": False, "token": "b"})],
    "a lost claim": [SENT, CLAIMED, op("ben", "list", 6, 7, {"version": 1})],
    "a list that goes back": [
        SENT,
        op("ada", "claim", 2, 9, {"version": 2, "repeated": False, "token": "a"}),
        op("ben", "list", 3, 4, {"version": 2}),
        op("cyd", "list", 5, 6, {"version": 1}),
    ],
    "a message from nowhere": [op("ben", "list", 0, 1, {"version": 1}), op("ada", "send", 2, 3, {"version": 1})],
    "a completion with a foreign token": [
        SENT,
        CLAIMED,
        op("ben", "complete", 6, 7, {"version": 3, "repeated": False}, "b"),
    ],
    "a refusal without a reason": [SENT, op("ben", "claim", 2, 3, {"refused": "claimed"})],
    "an early refusal": [
        SENT,
        op("ben", "claim", 2, 3, {"refused": "claimed"}),
        op("ada", "claim", 4, 5, CLAIMED.answer),
    ],
    "two completions": [
        SENT,
        CLAIMED,
        op("ada", "complete", 6, 9, {"version": 3, "repeated": False}, "a"),
        op("ada", "complete", 7, 10, {"version": 4, "repeated": False}, "a"),
    ],
    "a version that is left out": [SENT, op("ada", "claim", 2, 5, {"version": 3, "repeated": False, "token": "a"})],
    "another token on repeating": [
        SENT,
        CLAIMED,
        op("ada", "claim", 6, 7, {"version": 2, "repeated": True, "token": "b"}),
    ],
    "a renewal after the end": [
        SENT,
        CLAIMED,
        op("ada", "complete", 6, 7, {"version": 3, "repeated": False}, "a"),
        op("ada", "renew", 8, 9, {"version": 4, "repeated": False}, "a"),
    ],
    "a send that was answered and is gone": [SENT, op("ben", "list", 2, 3, {"version": 0})],
}


@pytest.mark.sample
@pytest.mark.parametrize("name", BROKEN)
def test_the_checker_finds(name):
    """A history that no order explains is found out, and stays so when it is made short."""
    history = BROKEN[name]
    assert explain(history) is None
    short = shortest_counterexample(history)
    assert explain(short) is None
    assert len(trace(short).splitlines()) == len(short) <= len(history)


@pytest.mark.sample
def test_the_checker_accepts():
    """What overlaps may have happened in either order, and what was not answered at any time or never."""
    pending = op("ben", "claim", 3, NEVER, None)
    other = op("ada", "claim", 4, 6, {"refused": "claimed"})
    for history in (
        [SENT, CLAIMED, op("ben", "claim", 3, 4, {"refused": "claimed"})],
        [SENT, CLAIMED, op("ben", "list", 3, 4, {"version": 1}), op("ben", "list", 4, 5, {"version": 2})],
        [SENT, pending, other, op("ada", "list", 7, 8, {"version": 2})],
        [SENT, pending, op("ada", "list", 7, 8, {"version": 1})],
        [op("ben", "claim", 0, 5, {"refused": "unknown_message"}), op("ada", "send", 1, 2, {"version": 1})],
    ):
        assert explain(history) is not None, trace(history)


@pytest.mark.sample
def test_the_checker_agrees_with_trying_everything():
    """On small random histories it says what trying each order says."""
    rng = random.Random(3)
    said = []
    for _ in range(3_000):
        history = _random_history(rng)
        said.append(explain(history) is not None)
        assert said[-1] == _some_order(history), trace(history)
    assert 300 < sum(said) < 2_700


def _random_history(rng):
    state = State()
    history = []
    for n in range(rng.randrange(2, 6)):
        who = rng.choice(("ada", "ben"))
        doing = "send" if not n else rng.choice(("claim", "list", "complete", "renew", "release", "ack"))
        token = rng.choice((state.token, "x"))
        made = rng.choice(
            [
                {"version": state.version + 1, "repeated": False},
                {"version": state.version},
                {"refused": "claimed"},
                {"refused": "closed"},
                {"refused": "lease_lost"},
                {"refused": "lease_expired"},
            ]
        )
        right = None
        for answer in ({"version": state.version + 1, "repeated": False}, {"version": state.version}, made):
            if doing == "send":
                answer = {"version": 1}
            if doing == "claim" and "repeated" in answer:
                answer = answer | {"token": who[0]}
            moved = after(state, op(who, doing, 0, 0, answer, token))
            if moved is not None:
                right, state = answer, moved
                break
        begin = 10 * n + rng.randrange(-15, 5)
        given = right if right is not None and rng.random() < 0.85 else made
        if doing == "claim" and "repeated" in given:
            given = given | {"token": who[0]}
        history.append(op(who, doing, begin, begin + rng.randrange(1, 30), given, token))
    return history


def _some_order(history):
    for order in itertools.permutations(history):
        if any(later.end < earlier.begin for earlier, later in itertools.combinations(order, 2)):
            continue
        state = State()
        for each in order:
            state = after(state, each)
            if state is None:
                break
        else:
            return True
    return False
