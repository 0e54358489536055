"""What a listing shows, to whom, and that showing is not reading."""

import pytest

LATER = "9999-12-31T23:59:59Z"


@pytest.fixture
def five(shell):
    """One message for each way to stand, by name."""
    scheduled = shell.send("scheduled", "--due-at", LATER)
    unread = shell.send("unread", "--actionable")
    read = shell.step("ack", shell.send("read"))
    claimed = shell.step("claim", shell.send("claimed", "--actionable"))
    closed = shell.step("cancel", shell.send("closed"))
    return {"scheduled": scheduled, "unread": unread, "read": read, "claimed": claimed, "closed": closed}


@pytest.mark.parametrize(
    "status,names",
    [
        ("unread", ["unread"]),
        ("open", ["unread", "read", "claimed"]),
        ("scheduled", ["scheduled"]),
        ("closed", ["closed"]),
        ("all", ["unread", "read", "claimed", "closed", "scheduled"]),
    ],
)
def test_status(shell, five, status, names):
    """Each listing shows its messages, the first due first."""
    assert [five[name] for name in names] == shell.list("--status", status)


def test_unread_is_the_default(shell, five):
    """Without --status the pending ones are shown."""
    assert [five["unread"]] == shell.list()


def test_order(shell):
    """By due time, then by sending time."""
    words = ("--status", "all")
    second = shell.send("second", "--due-at", "2021-01-01T00:00:00Z")
    third = shell.send("third", "--due-at", "2021-01-01T00:00:00Z")
    first = shell.send("first", "--due-at", "2020-01-01T00:00:00Z")

    assert [first, second, third] == shell.list(*words)


def test_limit(shell):
    """At most so many are shown, from the front."""
    first = shell.send("first")
    second = shell.send("second")
    shell.send("third")

    assert [first, second] == shell.list("--limit", "2")


def test_the_default_limit_is_50(shell):
    """Fifty at once unless more are asked for."""
    loop = 'i=0; while [ $i -lt 51 ]; do "$0" messages send --body "$i" >/dev/null || exit 1; i=$((i+1)); done'
    assert (b"", b"") == shell.loop(loop).communicate(timeout=300)

    assert 50 == len(shell.list())
    assert 51 == len(shell.list("--limit", "500"))


def test_looking_changes_nothing(shell, five):
    """Listing and viewing consume nothing, in any form."""
    before = shell.digest()

    for _ in range(2):
        assert [five["unread"]] == shell.list("--session", "one")
    shell.view(five["unread"])
    shell.run("messages", "list")
    shell.run("messages", "view", "--message-id", five["unread"]["id"])

    assert before == shell.digest()
    assert [five["unread"]] == shell.list()


def test_another_sessions_claim_hides_it(shell, five):
    """What one session works on is unread to nobody, and open to all."""
    for session in ("one", "two"):
        assert five["claimed"] not in shell.list("--session", session)
        assert five["claimed"] in shell.list("--session", session, "--status", "open")


def test_a_conversations_message_reaches_that_conversation(shell):
    """It is listed for the session of that id and for no other."""
    sent = shell.send("hello", "--conversation", "two")

    assert [sent] == shell.list("--session", "two")
    assert [] == shell.list("--session", "three")


def test_a_continuation_receives_too(shell):
    """A linked session, and one linked to that, get what is sent to the conversation, before and after the link."""
    before = shell.send("before", "--conversation", "one")
    shell.ask("Session", "sessions", "link", "--session", "two", "--continues", "one")
    shell.ask("Session", "sessions", "link", "--session", "three", "--continues", "two")
    after = shell.send("after", "--conversation", "one")

    assert [before, after] == shell.list("--session", "three")
    assert "three" == shell.step("ack", after, session="three")["read_by"]
    assert [] == shell.list("--session", "four")


def test_a_link_leads_one_way(shell):
    """The conversation does not receive what is sent to its continuation."""
    shell.ask("Session", "sessions", "link", "--session", "two", "--continues", "one")
    shell.send("hello", "--conversation", "two")

    assert [] == shell.list("--session", "one")


def test_continuing_in_a_circle(shell):
    """Cycles are harmless: each of them receives what any of them is sent."""
    shell.ask("Session", "sessions", "link", "--session", "two", "--continues", "one")
    shell.ask("Session", "sessions", "link", "--session", "one", "--continues", "two")
    sent = shell.send("hello", "--conversation", "one")

    assert [sent] == shell.list("--session", "two")
    assert [sent] == shell.list("--session", "one")


def test_linking_again(shell):
    """A link that stands already is not written again."""
    link = ("sessions", "link", "--session", "two", "--continues", "one")
    first = shell.ask("Session", *link)
    before = shell.digest()

    assert first == shell.ask("Session", *link)
    assert before == shell.digest()


def test_a_project_message_reaches_every_session(shell):
    """Without a conversation it is for all who mount the scope."""
    sent = shell.send("hello", "--session", "one")

    for session in ("one", "two"):
        assert [sent] == shell.list("--session", session)
