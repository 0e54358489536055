"""What is stale is refused and changes nothing; what is repeated changes nothing either."""

import uuid

import pytest

STEPS = {
    "ack": (),
    "claim": (),
    "renew": (),
    "release": (),
    "complete": ("--outcome", "Done"),
    "snooze": ("--outcome", "Later", "--delay-seconds", "60"),
    "cancel": (),
}
FENCED = ("renew", "release", "complete", "snooze")


@pytest.fixture
def claimed(shell):
    """A message that session `one` holds."""
    return shell.step("claim", shell.send("hello", "--actionable"))


@pytest.mark.parametrize("command", STEPS)
@pytest.mark.parametrize("occurrence", [1, 3], ids=["old", "not-yet"])
def test_another_occurrence(shell, claimed, command, occurrence):
    """A command for an occurrence that is over, or not there yet, is refused whatever else is true."""
    token = claimed["claim_token"]
    shell.step("snooze", claimed, "--outcome", "Later", "--delay-seconds", "60", token=token)

    fence = token if command in FENCED else None
    words = shell.words(command, claimed | {"occurrence": occurrence}, *STEPS[command], token=fence)
    error = shell.refused("stale_occurrence", *words)

    assert {"given": occurrence, "current": 2} == {key: error["details"][key] for key in ("given", "current")}


@pytest.mark.parametrize("command", FENCED)
def test_another_token(shell, claimed, command):
    """A token that is not the lease's never touches the message, and its holder is told to stop."""
    words = shell.words(command, claimed, *STEPS[command], token=uuid.uuid4().hex)

    shell.refused("lease_lost", *words)

    assert claimed["version"] == shell.view(claimed)["version"]


@pytest.mark.parametrize("command", FENCED)
def test_the_token_in_another_session(shell, claimed, command):
    """A token belongs to the session that claimed."""
    words = shell.words(command, claimed, *STEPS[command], session="two", token=claimed["claim_token"])

    shell.refused("lease_lost", *words)


@pytest.mark.parametrize("command", FENCED)
def test_a_token_of_a_claim_that_is_over(shell, claimed, command):
    """After a release, a new claim by the same session has a new token and the old one is dead."""
    old = claimed["claim_token"]
    released = shell.step("release", claimed, token=old)
    shell.refused("lease_expired", *shell.words(command, released, *STEPS[command], token=old))
    again = shell.step("claim", released)

    shell.refused("lease_lost", *shell.words(command, again, *STEPS[command], token=old))


@pytest.mark.parametrize("command", ["ack", "claim"])
def test_work_that_another_session_holds(shell, claimed, command):
    """It can be neither acknowledged nor claimed, and the error names the holder."""
    error = shell.refused("claimed", *shell.words(command, claimed, session="two"))

    assert "one" == error["details"]["owner"]


def test_claiming_again(shell, claimed):
    """The owner who asks again gets the same lease back, and no new version."""
    assert claimed == shell.step("claim", claimed)


def test_acknowledging_again(shell):
    """A repetition, by anyone, returns the first receipt and changes nothing."""
    read = shell.step("ack", shell.send("hello"))

    assert read == shell.step("ack", read)
    assert read == shell.step("ack", read, session="two")


def test_completing_again(shell, claimed):
    """The same session and token get the same document, with another outcome or none, and no new version."""
    token = claimed["claim_token"]
    done = shell.step("complete", claimed, "--outcome", "Fixed", token=token)

    assert done == shell.step("complete", claimed, "--outcome", "Fixed", token=token)
    assert done == shell.step("complete", claimed, "--outcome", "Fixed twice", token=token)
    assert done == shell.step("complete", claimed, token=token)


def test_completing_what_another_completed(shell, claimed):
    """To anybody else a finished message is closed."""
    shell.step("complete", claimed, "--outcome", "Fixed", token=claimed["claim_token"])

    shell.refused("closed", *shell.words("complete", claimed, "--outcome", "Mine", session="two", token="t"))


def test_cancelling_again(shell):
    """A repetition returns the same document and no new version."""
    sent = shell.send("hello")
    cancelled = shell.step("cancel", sent, "--outcome", "Obsolete")

    assert cancelled == shell.step("cancel", sent)
    assert cancelled == shell.step("cancel", sent, "--outcome", "Other", session="two")


@pytest.mark.parametrize("command", sorted(set(STEPS) - {"complete"}))
def test_after_completion(shell, claimed, command):
    """What is done stays done."""
    token = claimed["claim_token"]
    shell.step("complete", claimed, "--outcome", "Fixed", token=token)

    fence = token if command in FENCED else None
    shell.refused("closed", *shell.words(command, claimed, *STEPS[command], token=fence))


@pytest.mark.parametrize("command", sorted(set(STEPS) - {"cancel"}))
def test_after_cancellation(shell, claimed, command):
    """Whoever holds the lease learns that the work was called off."""
    shell.step("cancel", claimed, session="two")

    fence = claimed["claim_token"] if command in FENCED else None
    shell.refused("closed", *shell.words(command, claimed, *STEPS[command], token=fence))


@pytest.mark.parametrize("command", ["ack", "claim"])
def test_before_its_time(shell, command):
    """What is not due can be neither acknowledged nor claimed."""
    sent = shell.send("hello", "--delay-seconds", "3600")

    assert sent["due_at"] == shell.refused("not_due", *shell.words(command, sent))["details"]["due_at"]


def test_claiming_information(shell):
    """There is no work in an informational message."""
    shell.refused("not_actionable", *shell.words("claim", shell.send("hello")))


@pytest.mark.parametrize("command", ["ack", "claim", "cancel"])
def test_somebody_elses_conversation(shell, command):
    """A session that a message is not for can read it and do nothing to it."""
    sent = shell.send("hello", "--actionable", "--session", "sender", "--conversation", "other")

    shell.refused("not_recipient", *shell.words(command, sent, session="stranger"))

    assert "hello" == shell.view(sent)["body"]


def test_snoozing_into_the_past(shell, claimed):
    """A time to come back has to come."""
    words = ("--outcome", "Later", "--due-at", "2020-01-01T00:00:00Z")

    shell.refused("time_not_in_future", *shell.words("snooze", claimed, *words, token=claimed["claim_token"]))


@pytest.mark.parametrize("command", sorted({*STEPS, "view"}))
def test_a_message_that_is_not_there(shell, claimed, command):
    """An id that nobody sent is an error of its own."""
    fence = claimed["claim_token"] if command in FENCED else None
    receipt = claimed | {"id": str(uuid.uuid4())}
    words = ("messages", "view", "--message-id", receipt["id"])
    if command != "view":
        words = shell.words(command, receipt, *STEPS[command], token=fence)

    assert receipt["id"] == shell.refused("unknown_message", *words)["details"]["message_id"]


def test_the_same_key_and_content(shell):
    """The second send under a key returns the first receipt, says so, and writes nothing."""
    words = ("--idempotency-key", "k-1", "--conversation", "two", "--turn", "3", "--due-at", "2031-01-01T00:00:00Z")
    first = shell.send("hello", *words)
    before = shell.digest()

    assert {**first, "repeated": True} == shell.send("hello", *words)
    assert before == shell.digest()


def test_the_same_key_and_delay(shell):
    """A delay is content as it was asked for, although the due time of a second send would differ."""
    words = ("--idempotency-key", "k-1", "--delay-seconds", "3600")
    first = shell.send("hello", *words)

    assert {**first, "repeated": True} == shell.send("hello", *words)


def test_the_first_receipt_of_a_key_is_the_first(shell):
    """It is the message as it was sent, however far it has come since, and whoever asks again."""
    words = ("--idempotency-key", "k-1", "--session")
    first = shell.send("hello", *words, "one")
    shell.step("ack", first)

    assert {**first, "repeated": True} == shell.send("hello", *words, "two")


@pytest.mark.parametrize(
    "words",
    [
        ("--body", "Hello"),
        ("--body", "hello", "--actionable"),
        ("--body", "hello", "--conversation", "two"),
        ("--body", "hello", "--delivery", "wake"),
        ("--body", "hello", "--due-at", "2031-01-01T00:00:00Z"),
        ("--body", "hello", "--delay-seconds", "60"),
    ],
    ids=lambda words: words[-2] if len(words) > 2 else "body",
)
def test_the_same_key_and_other_content(shell, words):
    """A key is used for one thing; the error names the message that has it."""
    first = shell.send("hello", "--idempotency-key", "k-1")

    error = shell.refused("idempotency_conflict", "messages", "send", "--idempotency-key", "k-1", *words)

    assert first["id"] == error["details"]["message_id"]


def test_the_same_key_in_another_scope(shell):
    """Keys belong to their destination."""
    first = shell.send("hello", "--idempotency-key", "k-1", "--target", "/user")

    other = shell.send("hello", "--idempotency-key", "k-1", "--target", "/project")

    assert first["id"] != other["id"]
    assert "repeated" not in other


def test_a_key_outlives_its_message(shell):
    """After the message was closed its key is still taken."""
    first = shell.send("hello", "--idempotency-key", "k-1")
    shell.step("cancel", first)

    assert first["id"] == shell.send("hello", "--idempotency-key", "k-1")["id"]


def test_the_key_is_not_in_the_document(shell):
    """It is the sender's secret: no listing and no view shows it."""
    shell.send("hello", "--idempotency-key", "k-very-own")

    (item,) = shell.list("--status", "all")
    assert "k-very-own" not in str(shell.view(item))
