"""Messages that refer to a document: what is stored, what is refused, and what becomes of it."""

import pytest

PLAN = "/project/notes/plan.md"
PROJECT = "user:pat/proj:app"
REFERENCE = {"scope": PROJECT, "path": "notes/plan.md", "version": 1}


@pytest.fixture
def plan(shell):
    shell.ask("MemoryDocument", "memory", "write", PLAN, "--content=First the tests.")
    return PLAN


def send(shell, *words):
    return shell.ask("Receipt", "messages", "send", "--body", "Review this", *words)


def refused(shell, code, *words):
    """Nothing is sent."""
    return shell.refused(code, "messages", "send", "--body", "Review this", *words)


def test_a_message_says_which_version_it_is_about(shell, plan):
    """Scope, path and version, as they stand; and the change only where one was named."""
    assert REFERENCE == send(shell, "--context", plan)["context"]
    assert REFERENCE == send(shell, "--context", plan, "--context-version", "1")["context"]
    assert {**REFERENCE, "change_id": "c-1"} == send(shell, "--context", plan, "--change-id", "c-1")["context"]


def test_only_a_reference_is_stored(shell, plan):
    """The text of the document is nowhere in the message, and moving the document leaves the message as it was."""
    sent = send(shell, "--context", plan)
    shell.ask("MemoryDocument", "memory", "write", plan, "--content=Then the types.")
    shell.ask("MemoryVersion", "memory", "delete", plan)

    assert "First the tests." not in str(sent)
    assert [sent] == shell.list()


@pytest.mark.parametrize(
    "words, code",
    [
        pytest.param(["--context", PLAN, "--context-version", "2"], "memory_conflict", id="ahead"),
        pytest.param(["--context", "/project/other.md"], "unknown_document", id="nothing-there"),
        pytest.param(["--context", "/elsewhere/plan.md"], "unknown_mount", id="not-mounted"),
        pytest.param(["--context", "notes/plan.md"], "invalid_name", id="no-mounted-path"),
        pytest.param(["--context", "/project/messages/x"], "reserved_path", id="reserved"),
        pytest.param(["--context", PLAN, "--context-version", "0"], "invalid_number", id="zero"),
        pytest.param(["--context", PLAN, "--context-version", "x"], "invalid_number", id="no-number"),
        pytest.param(["--context", PLAN, "--change-id", " "], "blank_text", id="blank-change"),
        pytest.param(["--context-version", "1"], "missing_field", id="version-of-nothing"),
        pytest.param(["--change-id", "c-1"], "missing_field", id="change-of-nothing"),
    ],
)
def test_a_reference_that_does_not_hold_is_refused(shell, plan, words, code):
    """By its own code, and nothing is sent."""
    refused(shell, code, *words)
    assert [] == shell.list()


def test_a_version_that_has_passed_is_refused(shell, plan):
    """The sender has not seen what stands there now; the answer says which version does."""
    shell.ask("MemoryDocument", "memory", "write", plan, "--content=Then the types.")
    details = refused(shell, "memory_conflict", "--context", plan, "--context-version", "1")["details"]

    assert (1, 2) == (details["expected_version"], details["actual_version"])


def test_what_was_deleted_cannot_be_referred_to(shell, plan):
    """Its versions stay, and there is nothing to look at."""
    shell.ask("MemoryVersion", "memory", "delete", plan)

    refused(shell, "unknown_document", "--context", plan)


def test_reading_is_enough(shell, plan):
    """A document in a mount that allows no writing can be referred to from one that does."""
    mounts = ("--mount", f"scope={PROJECT},path=/shared,ro", "--mount", "scope=user:pat,path=/user")

    assert REFERENCE == send(shell, "--target", "/user", "--context", "/shared/notes/plan.md", *mounts)["context"]


def test_a_repeat_refers_to_what_the_first_one_did(shell, plan):
    """Also once the document has moved on; another reference is other content."""
    words = ("--context", plan, "--context-version", "1", "--idempotency-key", "k")
    sent = send(shell, *words)
    shell.ask("MemoryDocument", "memory", "write", plan, "--content=Then the types.")
    again = send(shell, *words)

    assert {**sent, "repeated": True} == again
    refused(shell, "idempotency_conflict", "--idempotency-key", "k")
    refused(shell, "idempotency_conflict", "--idempotency-key", "k", "--context", plan)


def test_a_person_sees_the_reference(shell, plan):
    """Where the message is shown whole."""
    sent = send(shell, "--context", plan, "--change-id", "c-1")

    assert (
        "notes/plan.md in user:pat/proj:app, version 1, change c-1"
        in shell.run("messages", "view", "--message-id", sent["id"]).out
    )
