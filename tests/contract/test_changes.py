"""`fencepost changes` and `messages receipts`: what changed and where a message is, driven as a shell would."""

import json
import subprocess
import sys
import time

import pytest

PROJECT = "user:pat/proj:app"
#: Beside the mail there is no command that says something was shown: hooks do, through the library.
SHOW = """
import sys
from fencepost.mailbox import Mailbox, Mount, open_store
store = open_store(sys.argv[1])
box = Mailbox(store, [Mount(sys.argv[2], "/project")], actor="hook:demo")
print(box.shown([sys.argv[3]], session=sys.argv[4], door="hook"))
store.close()
"""


def poll(shell, *words):
    return shell.ask("News", "changes", "poll", *words)


def checkpoint(shell, *words):
    return shell.ask("Checkpoint", "changes", "checkpoint", *words)


def receipts(shell, receipt):
    return shell.ask("ReceiptFacts", "messages", "receipts", "--message-id", receipt["id"])


def show_to(shell, receipt, session):
    """How many showings were recorded."""
    words = [sys.executable, "-P", "-c", SHOW, str(shell.root), receipt["scope"], receipt["id"], session]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=shell.environ)
    return int(done.stdout)


def trimmed(shell):
    """A store whose first segments were moved to an archive; the last position that is told no more."""
    body = shell.here / "long"
    body.write_text("x" * (9 << 20))
    for _ in range(3):
        shell.send("short")
        shell.ask("Receipt", "messages", "send", "--body-file", str(body))
    moved = shell.run("journal", "retain", "--before", "2999-01-01T00:00:00Z", "--json")
    assert 0 == moved.status, moved
    return poll(shell)["items"][0]["through"]


# --- the feed -----------------------------------------------------------------------------------------------------


def test_every_change_is_told_without_what_it_says(shell):
    """Where, what was done, in which version, by whom and when; in order, and nothing of the text."""
    receipt = shell.send("swordfish", "--actionable")
    shell.step("claim", receipt)
    shell.run("memory", "write", "/user/notes.md", "--content", "swordfish")
    shell.run("memory", "delete", "/user/notes.md")
    shell.run("sessions", "link", "--session", "two", "--continues", "one")
    shell.run("messages", "redact", "--message-id", receipt["id"], "--yes")
    news = poll(shell)
    path = f"messages/{receipt['id']}"

    assert [
        (1, "state.message", PROJECT, path, 1, "sent"),
        (2, "state.message", PROJECT, path, 2, "claimed"),
        (3, "state.document", "user:pat", "notes.md", 1, "written"),
        (4, "state.document", "user:pat", "notes.md", 2, "deleted"),
        (5, "state.link", PROJECT, "message-links/two/one", 1, "linked"),
        (6, "state.redaction", PROJECT, path, None, "redacted"),
    ] == [tuple(item[key] for key in ("id", "type", "scope", "path", "version", "action")) for item in news["items"]]
    assert {"cli:pat"} == {item["actor"] for item in news["items"]}
    assert (6, 6, False) == (news["position"], news["end"], news["more"])
    assert "swordfish" not in json.dumps(news)


def test_pages_go_on_where_the_last_one_ended(shell):
    """Nothing comes twice, nothing is missing."""
    for number in range(5):
        shell.send(str(number))
    found, position = [], 0
    while len(found) < 5:
        news = poll(shell, "--after", str(position), "--limit", "2")
        found += [item["id"] for item in news["items"]]
        position = news["position"]

    assert [1, 2, 3, 4, 5] == found
    assert [] == poll(shell, "--after", str(position))["items"]


def test_only_what_is_mounted_is_told_unless_all_is_asked_for(shell):
    """Another scope's changes are another's."""
    shell.send("x")
    shell.send("x", "--scope", "user:you")

    assert [1] == [item["id"] for item in poll(shell)["items"]]
    assert [2] == [item["id"] for item in poll(shell, "--scope", "user:you")["items"]]
    assert [1, 2] == [item["id"] for item in poll(shell, "--all-scopes")["items"]]
    assert [] == poll(shell, "--target", "/user")["items"]


def test_a_store_that_is_not_there_has_an_empty_feed(shell):
    """And none is made."""
    assert {"items": [], "position": 0, "more": False, "end": 0} == poll(shell)
    assert 0 == checkpoint(shell, "indexer")["position"]
    assert not shell.root.exists()


def test_waiting_ends_with_the_first_change(shell):
    """Or when the time is up."""
    shell.send("x")
    waiting = shell.start("changes", "poll", "--after", "1", "--wait", "50", "--json")
    time.sleep(0.5)
    shell.send("y")
    out, _ = waiting.communicate(timeout=60)

    assert [2] == [item["id"] for item in json.loads(out)["items"]]
    assert [] == poll(shell, "--after", "2", "--wait", "0.1")["items"]


def test_what_was_archived_is_a_gap(shell):
    """It says from where to where; who takes none is told `expired`, and beyond the end it is `ahead`."""
    through = trimmed(shell)
    first, *rest = poll(shell)["items"]

    assert {"type": "gap", "after": 0, "through": through} == first
    assert list(range(through + 1, 7)) == [item["id"] for item in rest]
    shell.check("Gap", first)
    assert str(through) in json.dumps(shell.refused("expired", "changes", "poll", "--no-gaps"))
    assert 6 == shell.refused("ahead", "changes", "poll", "--after", "7")["details"]["end"]
    assert rest == poll(shell, "--after", str(through), "--no-gaps")["items"]
    history = shell.run("journal", "verify", "--json")
    assert 0 == history.status, history


def test_a_person_reads_the_feed(shell):
    """One line for each change, hostile names escaped, and how to go on."""
    shell.send("x")
    answer = shell.run("changes", "poll")

    assert answer.out.startswith("1  message sent  messages/")
    assert "--after 1" in answer.err


@pytest.mark.parametrize(
    "words",
    [("--after", "-1"), ("--after", "x"), ("--limit", "0"), ("--limit", "501"), ("--wait", "nan"), ("--wait", "-1")],
)
def test_numbers_out_of_range_are_refused(shell, words):
    """With the range."""
    shell.refused("invalid_number", "changes", "poll", *words)


def test_two_beginnings_are_refused(shell):
    """A position and a checkpoint at once."""
    shell.refused("usage", "changes", "poll", "--after", "1", "--checkpoint", "indexer", status=2)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_moves_forward_only(shell):
    """Back and beyond the end are refused by different codes; standing still writes nothing."""
    for _ in range(3):
        shell.send("x")
    moved = checkpoint(shell, "indexer", "2")

    assert ("indexer", 2, "cli:pat") == (moved["name"], moved["position"], moved["actor"])
    before = shell.digest()
    assert moved == checkpoint(shell, "indexer", "2") == checkpoint(shell, "indexer")
    assert before == shell.digest()
    assert 2 == shell.refused("moves_back", "changes", "checkpoint", "indexer", "1")["details"]["current"]
    shell.refused("ahead", "changes", "checkpoint", "indexer", "99")
    assert [3] == [item["id"] for item in poll(shell, "--checkpoint", "indexer")["items"]]
    assert 3 == len(poll(shell, "--checkpoint", "another")["items"])


def test_a_checkpoint_is_no_change(shell):
    """It is in no feed, of whatever scopes, and in no listing."""
    shell.send("x")
    checkpoint(shell, "indexer", "1")

    assert [1] == [item["id"] for item in poll(shell, "--all-scopes")["items"]]
    found = shell.ask("MemoryEntries", "memory", "list", "--scope", "feed:checkpoints")
    assert ([], []) == (found["entries"], found["unsupported"])


def test_a_checkpoint_name_has_one_part(shell):
    """No slash, no white space."""
    shell.send("x")
    shell.refused("invalid_name", "changes", "checkpoint", "a/b", "1")


# --- receipts ---------------------------------------------------------------------------------------------------------


def test_where_a_message_is(shell):
    """Stored, shown, claimed and finished are facts of their own, each with who and when."""
    receipt = shell.send("x", "--actionable", "--session", "sender")
    assert 1 == show_to(shell, receipt, "one")
    assert 0 == show_to(shell, receipt, "one")
    claimed = shell.step("claim", receipt)
    shell.step("complete", receipt, "--outcome", "Done", token=claimed["claim_token"])
    found = receipts(shell, receipt)

    assert [
        ("stored", "sender", None, "cli:pat", None),
        ("shown", "one", "hook", "hook:demo", None),
        ("claimed", "one", None, "cli:pat", None),
        ("finished", "one", None, "cli:pat", "done"),
    ] == [tuple(fact[key] for key in ("fact", "session", "door", "actor", "outcome")) for fact in found["facts"]]
    assert ("done", 3, False) == (found["status"], found["version"], found["erased"])


def test_showing_leaves_a_message_unread_and_in_its_version(shell):
    """Nor is it a change."""
    receipt = shell.send("x")
    show_to(shell, receipt, "one")

    assert [receipt] == shell.list("--session", "one")
    assert 1 == len(poll(shell)["items"])


def test_an_erased_message_tells_no_names(shell):
    """That it was shown stays on record, and not to whom; `grep` finds the session nowhere."""
    receipt = shell.send("x")
    show_to(shell, receipt, "ada-lovelace")
    shell.run("messages", "redact", "--message-id", receipt["id"], "--yes")
    found = receipts(shell, receipt)

    assert [("stored", None), ("shown", None)] == [(fact["fact"], fact["session"]) for fact in found["facts"]]
    grep = subprocess.run(["grep", "-rlaF", "ada-lovelace", str(shell.root)], capture_output=True, check=False)
    assert b"" == grep.stdout


def test_the_journal_commands_know_of_them(shell):
    """What was shown and where readers are is replayed, listed and verified like everything else."""
    receipt = shell.send("x")
    show_to(shell, receipt, "one")
    checkpoint(shell, "indexer", "1")

    for words in (
        ("verify",),
        ("replay",),
        ("log",),
        ("explain", receipt["id"]),
        ("stats",),
    ):
        for form in ((), ("--json",)):
            answer = shell.run("journal", *words, *form)
            assert (0, "") == (answer.status, answer.err), answer


def test_a_message_that_is_not_there(shell):
    """Is refused, as everywhere."""
    shell.send("x")
    shell.refused("unknown_message", "messages", "receipts", "--message-id", "0b0e7f3e-3c55-4d6c-9d0e-0c1d2e3f4a5b")
    shell.refused("missing_field", "messages", "receipts")
