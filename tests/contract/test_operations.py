"""The ten operations, each as it is meant to go.  Every answer is checked against the schema on the way."""

import datetime as dt
import time

NEVER = "9999-12-31T23:59:59Z"
LONG_AGO = "2020-01-01T00:00:00Z"


def _moment(text):
    return dt.datetime.fromisoformat(text)


def test_send_stores_what_was_said(shell):
    """A receipt shows the message at version 1 and occurrence 1, open and unread, from nobody's session."""
    receipt = shell.send("Check issue #123")

    expected = {"version": 1, "format": 1, "body": "Check issue #123", "occurrence": 1, "status": "open"}
    assert expected == {key: receipt[key] for key in expected}
    nothing = ("source", "conversation", "turn", "about", "read_by", "owner", "outcome", "wake_owner")
    assert {None} == {receipt[key] for key in nothing}
    assert receipt["created_at"] == receipt["due_at"]
    assert (False, "next_activity", False) == tuple(receipt[k] for k in ("actionable", "delivery", "wake_accepted"))
    assert "repeated" not in receipt
    assert "context" not in receipt


def test_receipt_names_its_keys_in_the_documents_order(shell, schema):
    """The version comes first, then the document's keys in the order of the schema."""
    keys = [key for key in schema["$defs"]["MailboxFields"]["properties"] if key != "context"]

    assert ["version", *keys] == list(shell.send("hello"))


def test_send_takes_every_option(shell):
    """What the sender says about the message is in the receipt."""
    receipt = shell.send(
        "hello",
        *("--target", "/user", "--session", "one", "--conversation", "two", "--turn", "3", "--about", "old"),
        *("--about-turn", "7", "--delivery", "wake", "--actionable", "--due-at", NEVER, "--actor", "agent:codex/1"),
    )

    expected = {
        "source": "one",
        "conversation": "two",
        "turn": 3,
        "about": "old",
        "about_turn": 7,
        "delivery": "wake",
        "actionable": True,
        "due_at": NEVER,
        "actor": shell.substrate.actor("agent:codex/1"),
    }
    assert expected == {key: receipt[key] for key in expected}


def test_a_message_is_about_the_turn_it_is_addressed_to(shell):
    """Without --about it annotates the conversation and turn that it is sent to."""
    receipt = shell.send("hello", "--conversation", "two", "--turn", "3")

    assert ("two", 3) == (receipt["about"], receipt["about_turn"])


def test_the_actor_is_not_taken_from_the_session(shell):
    """Who wrote is what the transport knows, and a session id proves nothing."""
    assert shell.send("a", "--session", "one")["actor"] == shell.send("b", "--session", "two")["actor"]


def test_a_dated_message_is_a_reminder(shell):
    """With a due time there is work to claim, even where the time is past; the time is kept in UTC."""
    past = shell.send("hello", "--due-at", "2020-01-01T01:30:00+01:30")

    assert (LONG_AGO, True) == (past["due_at"], past["actionable"])


def test_a_delay_counts_from_the_operation(shell):
    """`--delay-seconds` is exact: the due time is the sending time and so many seconds."""
    receipt = shell.send("hello", "--delay-seconds", "1296000")

    assert dt.timedelta(days=15) == _moment(receipt["due_at"]) - _moment(receipt["created_at"])
    assert receipt["actionable"]


def test_two_sends_are_two_messages(shell):
    """Without an idempotency key nothing is taken for a repetition."""
    assert shell.send("hello")["id"] != shell.send("hello")["id"]


def test_list_shows_what_was_sent(shell):
    """The items of a listing are the receipts."""
    receipt = shell.send("hello")

    assert [receipt] == shell.list()


def test_view_shows_every_version(shell):
    """The newest version comes first, is the message itself, and the first is what was sent."""
    sent = shell.send("hello", "--actionable")
    claimed = shell.step("claim", sent)

    view = shell.view(sent)

    history = view.pop("history")
    assert claimed == view
    assert [claimed, sent] == history


def test_ack_leaves_a_read_receipt(shell):
    """Whoever acknowledged it is named, it leaves the unread and stays among the open."""
    read = shell.step("ack", shell.send("hello"))

    assert ("one", 2) == (read["read_by"], read["version"])
    assert [] == shell.list("--session", "one")
    assert [read] == shell.list("--status", "open")


def test_claim_grants_a_lease_of_half_an_hour(shell):
    """The claim is a read receipt and a lease with a token."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    assert ("one", "one") == (claimed["owner"], claimed["read_by"])
    assert claimed["claim_token"]
    assert dt.timedelta(minutes=30) == _moment(claimed["claim_until"]) - _moment(claimed["read_at"])


def test_renew_prolongs_the_lease(shell):
    """The lease runs for another half hour from now, under the same token."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    renewed = shell.step("renew", claimed, token=claimed["claim_token"])

    assert renewed["claim_until"] > claimed["claim_until"]
    assert renewed["claim_token"] == claimed["claim_token"]


def test_release_makes_it_unread_again(shell):
    """Ownership and receipt are gone, and a listing shows it again."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    released = shell.step("release", claimed, token=claimed["claim_token"])

    assert {None} == {released[key] for key in ("owner", "claim_token", "claim_until", "read_by", "read_at")}
    assert [released] == shell.list("--session", "two")


def test_complete_closes_it_with_an_outcome(shell):
    """It is done, and the finding is kept."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    done = shell.step("complete", claimed, "--outcome", "Fixed in 1.2", token=claimed["claim_token"])

    assert ("done", "Fixed in 1.2") == (done["status"], done["outcome"])
    assert [done] == shell.list("--status", "closed")
    assert [] == shell.list("--status", "open")


def test_snooze_brings_it_back_as_a_new_occurrence(shell):
    """Same id, next occurrence, nobody's work; not delivered before its time; earlier findings stay in the history."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    snoozed = shell.step(
        "snooze", claimed, "--outcome", "No fix yet", "--delay-seconds", "1209600", token=claimed["claim_token"]
    )

    assert (claimed["id"], 2, "open") == tuple(snoozed[key] for key in ("id", "occurrence", "status"))
    assert {None} == {snoozed[key] for key in ("owner", "claim_token", "read_by", "wake_owner")}
    assert [] == shell.list()
    assert [snoozed] == shell.list("--status", "scheduled")
    assert "No fix yet" == shell.view(snoozed)["history"][0]["outcome"]


def test_a_snoozed_message_returns(shell):
    """When its time has come it is unread, at the new occurrence, and can be claimed."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))
    snoozed = shell.step("snooze", claimed, "--outcome", "Wait", "--delay-seconds", "1", token=claimed["claim_token"])

    deadline = time.monotonic() + 30
    while not (items := shell.list()) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert [snoozed] == items
    assert "two" == shell.step("claim", snoozed, session="two")["owner"]


def test_cancel_by_the_sender_before_it_is_due(shell):
    """Nobody needs to do it any more; an outcome may say why."""
    sent = shell.send("hello", "--session", "sender", "--conversation", "other", "--due-at", NEVER)

    cancelled = shell.step("cancel", sent, "--outcome", "Obsolete", session="sender")

    assert ("cancelled", "Obsolete") == (cancelled["status"], cancelled["outcome"])


def test_cancel_under_anothers_claim(shell):
    """A recipient may call the work off while another session is at it."""
    claimed = shell.step("claim", shell.send("hello", "--actionable"))

    assert "cancelled" == shell.step("cancel", claimed, session="two")["status"]


def test_versions_of_a_claim_grow(shell):
    """The version of a claim's receipt is a fence for outside resources: every later claim has a greater one."""
    first = shell.step("claim", shell.send("hello", "--actionable"))
    released = shell.step("release", first, token=first["claim_token"])
    second = shell.step("claim", released, session="two")

    assert second["version"] > first["version"]
    assert second["claim_token"] != first["claim_token"]


def test_a_lifecycle_command_may_name_the_target(shell):
    """With --target the message is looked for there."""
    sent = shell.send("hello", "--target", "/user")

    assert "one" == shell.step("ack", sent, "--target", "/user")["read_by"]


def test_an_upper_case_id_is_the_same_id(shell):
    """A message id is a uuid, whatever its case."""
    sent = shell.send("hello")

    assert 2 == shell.step("ack", sent | {"id": sent["id"].upper()})["version"]
