"""Erasing a message, as a shell and `grep` see it."""

import json
import subprocess

import pytest

SECRET = "swordfish"


@pytest.fixture
def erased(shell):
    """The receipt of a message that was sent, claimed, completed and then erased, and what the last answered."""
    receipt = shell.send(f"The password is {SECRET}.", "--actionable", "--idempotency-key", f"{SECRET} 1")
    claimed = shell.step("claim", receipt)
    shell.step("complete", receipt, "--outcome", f"{SECRET} works", token=claimed["claim_token"])
    shell.send("Something else.")
    torn = shell.root / "journal" / "torn" / "0000000000000001-0-0123456789abcdef"
    torn.write_text(f"a frame that was cut off in the midst of {SECRET}")
    assert holding(shell)
    done = shell.ask("Redaction", "messages", "redact", "--message-id", receipt["id"], "--reason", "A password.")
    return receipt, done


def holding(shell):
    """The files that hold the secret, by grep."""
    done = subprocess.run(["grep", "-rlaF", SECRET, str(shell.root)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def ask(shell, *words):
    answer = shell.run("journal", *words, "--json")
    assert 0 == answer.status, answer
    return json.loads(answer.out)


def test_it_is_in_no_file(shell, erased):
    """Neither at once, nor after the next commands."""
    assert [] == holding(shell)
    shell.send("More.")
    shell.list()
    assert [] == holding(shell)


def test_the_answer_says_what_was_erased(shell, erased):
    """One document; doing it again is harmless and answers the same."""
    receipt, done = erased
    expected = {"scope": receipt["scope"], "path": f"messages/{receipt['id']}", "count": 1, "referring": []}
    assert expected == done
    assert done == shell.ask("Redaction", "messages", "redact", "--message-id", receipt["id"])


def test_what_is_left_is_who_did_what_when(shell, erased):
    """`view` shows the skeleton, and no listing shows the message."""
    receipt, _ = erased
    left = shell.ask("Skeleton", "messages", "view", "--message-id", receipt["id"])
    kinds = [(each["version"], each["type"]) for each in left["history"]]

    assert [(3, "message.completed"), (2, "message.claimed"), (1, "message.sent")] == kinds
    assert (receipt["scope"], receipt["created_at"]) == (left["scope"], left["history"][-1]["at"])
    assert ["Something else."] == [item["body"] for item in shell.list("--status", "all")]
    for line in (f"{receipt['id']}  version 3  erased", "version 1: message.sent"):
        assert line in shell.run("messages", "view", "--message-id", receipt["id"]).out


def test_it_can_be_done_no_more_with(shell, erased):
    """Steps and the key that it was sent under are refused by code."""
    receipt, _ = erased
    shell.refused("erased", *shell.words("ack", receipt))
    again = ("--body", f"The password is {SECRET}.", "--actionable", "--idempotency-key", f"{SECRET} 1")
    shell.refused("erased", "messages", "send", *again)
    assert [] == holding(shell)


def test_the_journal_still_proves_itself(shell, erased):
    """Every frame, the chain and the index; before and after the index is made anew."""
    for _ in range(2):
        proven = ask(shell, "verify")
        assert (True, 3, 5) == (proven["good"], proven["erased"], proven["events"])
        shell.run("journal", "rebuild-index")
    assert [] == holding(shell)


def test_the_act_is_on_record(shell, erased):
    """With who, why and how many, beside the message."""
    receipt, _ = erased
    last = ask(shell, "log")["events"][-1]

    said = {"schema": 1, "path": f"messages/{receipt['id']}", "count": 1, "reason": "A password."}
    assert ("/redactions", "redaction.recorded", said) == (last["stream"], last["type"], last["data"])


def test_explain_and_replay_say_that_it_was_erased(shell, erased):
    """Event by event, with nothing of what they said."""
    receipt, _ = erased
    life = ask(shell, "explain", receipt["id"])
    told = shell.run("journal", "explain", receipt["id"])
    (document,) = ask(shell, "replay", "--message-id", receipt["id"])["documents"]

    assert ["erased"] * 3 == [step["note"] for step in life["steps"]]
    assert [None] * 3 == [step["event"]["data"] for step in life["steps"]]
    assert 3 == told.out.count("(erased)")
    assert (True, None, None, 3) == tuple(document[key] for key in ("erased", "content", "unsupported", "version"))


def test_an_archive_is_reached(shell):
    """Wherever its folder is."""
    receipt = shell.send(f"The password is {SECRET}.")
    elsewhere = shell.home / "elsewhere"
    for _ in range(2):  # a segment has 16 MiB
        shell.ask("Receipt", "messages", "send", "--body-file", "-", stdin=b"x" * (9 << 20))
    answer = shell.run("journal", "retain", "--before", "9999-01-01T00:00:00Z", "--archive", str(elsewhere), "--json")
    assert json.loads(answer.out)["moved"], answer
    assert SECRET.encode() in (elsewhere / "0000000000000001.log").read_bytes()

    shell.ask("Redaction", "messages", "redact", "--message-id", receipt["id"])

    assert SECRET.encode() not in (elsewhere / "0000000000000001.log").read_bytes()
    assert ask(shell, "verify")["good"]


def test_a_message_that_is_not_there(shell):
    """It is refused, and nothing is recorded."""
    shell.send("hello")
    shell.refused("unknown_message", "messages", "redact", "--message-id", "0b0e7f3e-3c55-4d6c-9d0e-0c1d2e3f4a5b")
    shell.refused("missing_field", "messages", "redact")
