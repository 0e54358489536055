"""The words of the program: its help, and what it says to words that it does not know."""

import json
import re
import time
from pathlib import Path

import pytest

LIFECYCLE = ("ack", "claim", "renew", "release", "complete", "snooze", "cancel")
COMMANDS = [
    (),
    ("messages",),
    *(("messages", name) for name in ("send", "list", "view", *LIFECYCLE)),
    ("sessions",),
    ("sessions", "link"),
    ("sessions", "show"),
    ("memory",),
    *(("memory", name) for name in ("read", "write", "delete", "rename", "list", "versions", "history")),
    ("demo",),
]
SHOW = ("sessions", "show", "--session")
WRONG = {
    "no such command": ("frobnicate",),
    "no such message command": ("messages", "frobnicate"),
    "no such option": ("messages", "list", "--frobnicate"),
    "an option of another command": ("messages", "list", "--body", "hello"),
    "a word too many": ("messages", "list", "unread"),
    "a delivery that is none": ("messages", "send", "--body", "hello", "--delivery", "soon"),
    "a listing that is none": ("messages", "list", "--status", "pending"),
    "a listing in capitals": ("messages", "list", "--status", "OPEN"),
    "a body and a body file": ("messages", "send", "--body", "hello", "--body-file", "-"),
    "a content and a content file": ("memory", "write", "/project/a", "--content", "x", "--content-file", "-"),
    "a document without a path": ("memory", "read"),
    "a move to nowhere": ("memory", "rename", "/project/a"),
    "a mount without a path": ("messages", "list", "--mount", "scope=user:pat"),
    "a mount of nothing": ("messages", "list", "--mount", ""),
    "a mount with an unknown key": ("messages", "list", "--mount", "scope=user:pat,path=/pat,colour=red"),
    "a mount with an unknown mode": ("messages", "list", "--mount", "scope=user:pat,path=/pat,rx"),
    "a scope and a mount": ("messages", "list", "--scope", "user:pat", "--mount", "scope=user:pat,path=/pat"),
}


def _help(shell, words):
    answer = shell.run(*words, "--help")
    assert (0, "") == (answer.status, answer.err)
    return answer.out


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words) or "fencepost")
def test_help(shell, words):
    """Every command says how it is used and what it does, and explains each of its options."""
    text = _help(shell, words)

    assert text.startswith("Usage: fencepost")
    assert len(text.partition("\n\n")[2].strip()) > 20
    options = re.split(r"\n  (?=-)", text.partition("Options:\n")[2])
    for option in options:
        # The names and the kind of the value, two spaces or a new line, and the explanation.
        assert re.search(r"(  |\n\s+)\S", option.strip()), option


def test_no_command_is_left_out(shell):
    """Every command that a help names has help itself, and a line about it; all that these tests know are there."""
    named, to_read = set(), [()]
    while to_read:
        words = to_read.pop()
        lines = re.findall(r"^  (\S+)(.*)$", _help(shell, words).partition("Commands:\n")[2], re.MULTILINE)
        assert [] == [name for name, about in lines if not about.strip()]
        to_read += [(*words, name) for name, _ in lines]
        named |= set(to_read)

    assert named >= set(COMMANDS) - {()}


@pytest.mark.parametrize("words", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_wrong_words(shell, words):
    """They end with status 2: an error document for a program, a sentence for a person."""
    error = shell.refused("usage", *words, status=2)
    assert error["message"]

    answer = shell.run(*words)
    assert (2, "") == (answer.status, answer.out)
    assert answer.err.strip()
    assert "Traceback" not in answer.err


def test_an_option_without_its_value(shell):
    """What is missing at the end of the line is missed."""
    answer = shell.run("messages", "send", "--json", "--body")

    assert (2, "usage") == (answer.status, json.loads(answer.out)["error"]["code"])


def test_json_may_stand_anywhere_in_the_command(shell):
    """A usage error is a document wherever --json was said."""
    answer = shell.run("messages", "list", "--json", "--frobnicate")

    assert (2, "usage") == (answer.status, json.loads(answer.out)["error"]["code"])


def test_a_refusal_in_words(shell):
    """Without --json a refusal is one sentence on standard error, and standard output stays empty."""
    sent = shell.send("hello")

    answer = shell.run(*shell.words("claim", sent))

    assert (1, "") == (answer.status, answer.out)
    assert 1 == len(answer.err.splitlines())
    assert sent["id"] in answer.err


@pytest.mark.parametrize("command", ["list", "view"])
def test_something_a_person_reads(shell, command):
    """Without --json the message is shown in words, not as a document."""
    sent = shell.send("Check issue 123", "--delay-seconds", "86400")
    words = ("--status", "all") if command == "list" else ("--message-id", sent["id"])

    answer = shell.run("messages", command, *words)

    assert (0, "") == (answer.status, answer.err)
    assert "Check issue 123" in answer.out
    assert sent["id"] in answer.out
    assert "{" not in answer.out
    assert "\x1b" not in answer.out


def test_output_that_nobody_reads(shell):
    """A reader that goes away is no reason for a traceback."""
    for _ in range(3):
        shell.send("x" * 100_000)
    with shell.start("messages", "list", "--json") as process:
        process.stdout.close()
        said = process.stderr.read()

    assert b"Traceback" not in said


@pytest.mark.parametrize("words", [(), ("--json",), ("--json", "--limit", "0")], ids=["words", "json", "refusal"])
def test_output_that_cannot_be_written(shell, cannot, words):
    """A full disk behind the output is an error and no traceback."""
    if not Path("/dev/full").exists():
        cannot("there is no /dev/full")
    shell.send("hello")

    with Path("/dev/full").open("wb") as full:
        process = shell.start("messages", "list", *words, stdout=full)
        _, err = process.communicate(timeout=30)

    assert process.returncode
    assert b"Traceback" not in err


def test_sessions_show(shell):
    """What a session continues is shown, directly and through others."""
    shell.ask("Session", "sessions", "link", "--session", "two", "--continues", "one")
    shell.ask("Session", "sessions", "link", "--session", "three", "--continues", "two")

    assert {"session": "three", "continues": ["one", "two"]} == shell.ask("Session", *SHOW, "three")
    assert {"session": "one", "continues": []} == shell.ask("Session", *SHOW, "one")
    told = shell.run(*SHOW, "three").out
    assert "one" in told
    assert "two" in told


def test_demo(shell):
    """It tells its story in ten seconds, succeeds, and leaves nothing behind."""
    started = time.monotonic()

    answer = shell.run("demo")

    assert (0, "") == (answer.status, answer.err)
    assert time.monotonic() - started < 10
    assert len(answer.out.splitlines()) > 10
    assert not shell.root.exists()
