"""Our own program against the state process of the public reference implementation."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

VARIABLE = "FENCEPOST_INTEROP_PYTHON"
TOKEN = "kept-from-everybody"
SCOPE = "user:mail"
PROGRAM = "import sys; from fencepost.mailbox.cli.main import main; sys.argv[0] = 'fencepost'; sys.exit(main())"
PATIENCE_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def theirs(tmp_path, cannot):
    """Where their state process is, and their command line beside it."""
    interpreter = os.environ.get(VARIABLE)
    if not interpreter:
        cannot(f"${VARIABLE} names no interpreter that has the reference installed: `tox -e interop` makes one")
    program = Path(interpreter).parent / "neosian"
    url = f"http://127.0.0.1:{free_port()}"
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "NEOSIAN_SERVE_TOKEN": TOKEN}
    words = [program, "serve", "--root", tmp_path / "theirs", "--port", url.rpartition(":")[2]]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, env=environ, cwd=tmp_path, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health"):
                break
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        yield url, program
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.fixture
def run(theirs, tmp_path):
    """Our program, with their state process as its store."""
    environ = os.environ | {"HOME": str(tmp_path), "FENCEPOST_URL": theirs[0], "FENCEPOST_CLIENT_TOKEN": TOKEN}

    def run(*words, status=0):
        command = [sys.executable, "-P", "-c", PROGRAM, *words, "--scope", SCOPE, "--json"]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
        assert status == done.returncode, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    return run


@pytest.fixture
def peer(theirs, tmp_path):
    """Their command line, beside ours."""

    def peer(command, *words):
        url, program = theirs
        done = subprocess.run(
            [program, "messages", command, "--url", url, "--scope", SCOPE, "--json", *words],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "NEOSIAN_CLIENT_TOKEN": TOKEN},
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        answer = json.loads(done.stdout)
        assert answer["success"], answer
        return json.loads(answer["data"])

    return peer


def fence(receipt, *words, session="one"):
    return ("--session", session, "--message-id", receipt["id"], "--occurrence", str(receipt["occurrence"]), *words)


def test_the_life_of_a_message(run):
    """Sent, listed, claimed, put off, claimed again and completed, with its history, in a store of theirs."""
    sent = run("messages", "send", "--body", "Find out why.", "--actionable")
    assert [sent] == run("messages", "list")["items"]
    held = run("messages", "claim", *fence(sent))
    token = ("--token", held["claim_token"])
    later = run("messages", "snooze", *fence(held, *token, "--outcome", "Not yet.", "--delay-seconds", "1"))
    assert 2 == later["occurrence"]
    time.sleep(1.1)
    again = run("messages", "claim", *fence(later))
    assert (
        "lease_lost" == run("messages", "complete", *fence(again, *token, "--outcome", "x"), status=1)["error"]["code"]
    )
    done = run("messages", "complete", *fence(again, "--token", again["claim_token"], "--outcome", "A flaky cache."))

    assert ("done", "A flaky cache.") == (done["status"], done["outcome"])
    assert 5 == len(run("messages", "view", "--message-id", sent["id"])["history"])


def test_what_they_send_we_can_work_on(run, peer):
    """And what we do with it is seen there."""
    sent = peer("send", "--body", "From there.", "--actionable")
    number = sent.get("id") or sent["message"]["id"]
    (seen,) = run("messages", "list")["items"]
    assert (number, "From there.") == (seen["id"], seen["body"])

    held = run("messages", "claim", *fence(seen))

    assert "From there." not in json.dumps(peer("list", "--session", "two"))
    run("messages", "complete", *fence(held, "--token", held["claim_token"], "--outcome", "Done."))
    assert "Done." in json.dumps(peer("view", "--message-id", seen["id"]))


def test_what_their_wire_has_no_words_for(run):
    """It is refused by its own code, and nothing is written."""
    words = ("messages", "send", "--body", "x", "--idempotency-key", "once")

    assert "not_carried" == run(*words, status=1)["error"]["code"]
    assert [] == run("messages", "list")["items"]
    assert "not_carried" == run("changes", "poll", status=1)["error"]["code"]


def test_documents_and_turns(run):
    """Written, read, and every version kept."""
    run("memory", "write", "/project/a.md", "--content", "one")
    second = run("memory", "write", "/project/a.md", "--content", "two", "--expected-version", "1")
    assert 2 == second["version"]
    assert (
        "memory_conflict"
        == run("memory", "write", "/project/a.md", "--content", "three", "--expected-version", "1", status=1)["error"][
            "code"
        ]
    )
    assert "two" == run("memory", "read", "/project/a.md")["content"]
