"""
The public reference's own client and command line, against our state process.

It needs another interpreter: $FENCEPOST_INTEROP_PYTHON is one that has `neosian` 1.12.2 installed.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.store.opening import file_store

VARIABLE = "FENCEPOST_INTEROP_PYTHON"
TOKEN = "kept-from-everybody"
SCOPE = "user:mail"
PROGRAM = "import sys; from fencepost.mailbox.cli.main import main; sys.exit(main())"
PATIENCE_S = 120


@pytest.fixture(scope="module")
def interpreter(cannot):
    found = os.environ.get(VARIABLE)
    if not found:
        cannot(f"${VARIABLE} names no interpreter that has the reference installed: `tox -e interop` makes one")
    return found


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture(scope="module")
def state_process():
    """Serve a store with ours for the length of a block, and where that is."""

    @contextlib.contextmanager
    def serving(root):
        command = [sys.executable, "-P", "-c", PROGRAM, "serve", "--root", str(root), "--port", "0"]
        environ = os.environ | {"FENCEPOST_SERVE_TOKEN": TOKEN}
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield process.stdout.readline().decode().split()[-1]
            process.terminate()
            _, err = process.communicate(timeout=PATIENCE_S)
            assert (0, b"") == (process.returncode, err)
        finally:
            process.kill()
            process.communicate()

    return serving


@pytest.fixture
def url(root, state_process):
    """Where our state process serves the store of the test."""
    with state_process(root) as where:
        yield where


@pytest.fixture
def peer(interpreter, tmp_path, url):
    """Run the reference's command line against it; what `messages … --json` says."""

    def run(command, *words):
        done = subprocess.run(
            [
                Path(interpreter).parent / "neosian",
                "messages",
                command,
                "--url",
                url,
                "--scope",
                SCOPE,
                "--json",
                *words,
            ],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "NEOSIAN_CLIENT_TOKEN": TOKEN},
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        answer = json.loads(done.stdout)
        return json.loads(answer["data"]) if answer["success"] else answer

    return run


@contextlib.contextmanager
def ours(root):
    """Our own mailbox beside the state process."""
    store = file_store(root)
    with contextlib.closing(store):
        yield Mailbox(store, [Mount(SCOPE, "/project")])


def test_its_client_works_unchanged(interpreter, tmp_path, url):
    """Documents, conversations, pages and what there is."""
    script = Path(__file__).with_name("peer.py")
    done = subprocess.run(
        [interpreter, "-P", script, url, TOKEN],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode()
    found = json.loads(done.stdout)

    assert "Conflict" in found["documents"].pop("conflict")[0]
    assert {
        "two": "two",
        "moved": ["notes/b.md", 1, "client:default"],
        "erased": 1,
        "deleted": True,
        "missing": None,
        "listed": ["notes/b.md"],
        "versions": [3, 2, 1],
        "history": 6,
        "redactions": ["c.md"],
    } == found["documents"]
    assert {
        "said": [1, "client:default/peer:x"],
        "found": [1],
        "erased": 1,
        "trail": [[2]],
        "read": [[1, False, 1], [2, True, 0]],
        "last": 2,
    } == found["turns"]
    assert [f"{number}.md" for number in range(7)] == found["many"]
    assert (6, ["user:many", "user:peer"], ["talk-1"]) == (found["wire"], found["scopes"], found["conversations"])


def test_its_sessions_and_ours_work_on_the_same_mail(peer, root):
    """Sent and listed there, claimed there, completed there, and each is a step of a life here."""
    sent = peer("send", "--body", "from the peer", "--actionable")
    assert [sent["id"]] == [each["id"] for each in peer("list")["items"]]
    words = ("--message-id", sent["id"], "--occurrence", "1", "--session", "ada")
    claimed = peer("claim", *words)
    with ours(root) as box:
        assert "ada" == box.view(sent["id"]).receipt.message.lease.owner
        assert () == box.list().items
    done = peer("complete", *words, "--token", claimed["claim_token"], "--outcome", "by the peer")
    assert "done" == done["status"]
    with ours(root) as box:
        (item,) = box.list(status="closed").items
        assert ("by the peer", 3) == (item.message.outcome, item.version)
        events = box.store.events((SCOPE, f"messages/{sent['id']}"))
    assert ["message.sent", "message.claimed", "message.completed"] == [event.type for event in events]


@pytest.mark.parametrize("steps", [("ack",), ("claim", "renew", "release"), ("claim", "snooze"), ("cancel",)])
def test_each_of_its_steps_is_a_step_here(peer, root, steps):
    """None of them is kept as a body that nobody understands."""
    sent = peer("send", "--body", "x", "--actionable", "--session", "ada")
    token = ()
    for step in steps:
        more = ("--delay-seconds", "60", "--outcome", "later") if step == "snooze" else ()
        words = ("--message-id", sent["id"], "--occurrence", "1", "--session", "ada")
        answer = peer(step, *words, *token, *more)
        assert "id" in answer, answer
        token = ("--token", answer["claim_token"]) if answer["claim_token"] else ()
    with ours(root) as box:
        types = [event.type for event in box.store.events((SCOPE, f"messages/{sent['id']}"))]

    assert "message.rewritten" not in types
    assert 1 + len(steps) == len(types)


def test_what_our_sessions_send_it_can_work_on(peer, root):
    """And what it does is seen here."""
    peer("list")  # by now there is a store
    with ours(root) as box:
        sent = box.send("from us", actionable=True).message
    assert [sent.id] == [each["id"] for each in peer("list")["items"]]
    claimed = peer("claim", "--message-id", sent.id, "--occurrence", "1", "--session", "bob")
    with ours(root) as box:
        assert claimed["claim_token"] == box.view(sent.id).receipt.message.lease.token


def test_what_it_takes_away_it_can_bring_back(peer, interpreter, tmp_path, url, state_process):
    """An archive of one store, brought into another and taken away again, is the same to the byte."""
    script = Path(__file__).with_name("peer.py")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "NEOSIAN_CLIENT_TOKEN": TOKEN}
    sent = peer("send", "--body", "x", "--actionable")
    peer("claim", "--message-id", sent["id"], "--occurrence", "1", "--session", "ada")
    subprocess.run([interpreter, "-P", script, url, TOKEN], env=environ, cwd=tmp_path, check=True, capture_output=True)

    def move(verb, where, folder):
        program = Path(interpreter).parent / "neosian"
        words = [program, verb, "--url", where, "--json", tmp_path / folder]
        subprocess.run(words, env=environ, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_S)
        return {
            str(file.relative_to(tmp_path / folder)): file.read_bytes()
            for file in (tmp_path / folder).rglob("*")
            if file.is_file() and not file.name.startswith(".")
        }

    taken = move("export", url, "one")
    with state_process(tmp_path / "other") as other:
        move("import", other, "one")
        assert taken == move("export", other, "two")
    assert any("messages" in name for name in taken)
