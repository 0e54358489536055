"""Messages and links as documents, for programs that know nothing else."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from serving import CLAIM, ID, LATER, PATH, SCOPE, START, Service, body, text

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec, shapes
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.shelf import Documents


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def box(service):
    times = itertools.count(1)
    begin = START - timedelta(hours=1)
    return Mailbox(service.store, [Mount(SCOPE, "/user")], clock=lambda: begin + timedelta(milliseconds=next(times)))


def names(service, path=PATH):
    return [event.type for event in service.store.events((SCOPE, path))]


def test_a_message_reads_as_its_canonical_document(service, box):
    """Indented JSON with its version, times and actor."""
    sent = box.send("hi", actionable=True).message
    box.claim(sent.id, session="ada", occurrence=1)
    found = service.read(f"messages/{sent.id}")
    history = box.view(sent.id)

    assert codec.document(history.receipt.message).decode() == found["content"]
    assert (2, "host:local", False, {}) == (found["version"], found["actor"], found["redacted"], found["extra"])
    assert ["2026-11-30T11:00:00.001000Z", "2026-11-30T11:00:00.002000Z"] == [
        found["created_at"],
        found["updated_at"],
    ]


def test_messages_and_links_are_listed_among_the_documents(service, box):
    """In the order of the paths, with the prefix that is asked for."""
    sent = box.send("hi").message
    box.link("ada", "old")
    service.write("a.md")
    service.write("z.md")
    entries = service.ask("memory/list_documents", scope=SCOPE)["entries"]

    assert ["a.md", "message-links/ada/old", f"messages/{sent.id}", "z.md"] == [each["path"] for each in entries]
    assert {"path", "version", "created_at", "updated_at", "redacted"} == entries[1].keys()
    for prefix, count in (("m", 2), ("message", 2), ("messages/", 1), ("message-", 1), ("messages/z", 0), ("", 4)):
        assert count == len(service.ask("memory/list_documents", scope=SCOPE, prefix=prefix)["entries"])


def test_every_version_of_a_message_has_all_of_it(service, box):
    """In its versions and in the history of its scope."""
    sent = box.send("hi", actionable=True).message
    claimed = box.claim(sent.id, session="ada", occurrence=1).message
    box.complete(sent.id, session="ada", occurrence=1, token=claimed.lease.token, outcome="done")
    service.write("a.md", "x")
    versions = service.ask("memory/versions", scope=SCOPE, path=f"messages/{sent.id}")["versions"]
    history = service.ask("memory/history", scope=SCOPE)["versions"]

    assert [3, 2, 1] == [each["version"] for each in versions]
    assert ["modified", "modified", "created"] == [each["action"] for each in versions]
    statuses = [(json.loads(each["content"])["status"], json.loads(each["content"])["owner"]) for each in versions]
    assert [("done", "ada"), ("open", "ada"), ("open", None)] == statuses
    assert history[1:] == versions
    assert "a.md" == history[0]["path"]
    since = versions[1]["created_at"]
    assert 3 == len(service.ask("memory/history", scope=SCOPE, since=since)["versions"])


# --- written by others -------------------------------------------------------------------------------


def test_a_message_that_another_program_sends_is_sent(service, box):
    """It is recorded as what happened, by whom, and that it came over the wire."""
    written = service.write(PATH, text(), actor="cli:local", expected_version=0)

    assert (text(), 1, "client:default/cli:local") == (written["content"], written["version"], written["actor"])
    (event,) = service.store.events((SCOPE, PATH))
    assert ("message.sent", "wire") == (event.type, codec.via(event.data))
    assert ID == box.list().items[0].message.id


def test_a_life_that_another_program_leads(service, box):
    """Each write becomes the step that explains it, and our own sessions see it."""
    steps = [
        ("message.sent", {}),
        ("message.claimed", CLAIM),
        ("message.renewed", CLAIM | {"claim_until": "2026-11-30T14:00:00Z"}),
        ("message.released", {}),
        ("message.acknowledged", {"read_by": "bob", "read_at": "2026-11-30T11:45:00Z"}),
        ("message.claimed", CLAIM | {"claim_token": "t2"}),
        ("message.completed", CLAIM | {"claim_token": "t2", "status": "done", "outcome": "fixed"}),
    ]
    for number, (_, changed) in enumerate(steps):
        written = service.write(PATH, text(**changed), expected_version=number)
        assert (text(**changed), number + 1) == (written["content"], written["version"])
        assert written == service.read(PATH)

    assert [name for name, _ in steps] == names(service)
    assert "fixed" == box.view(ID).receipt.message.outcome
    assert all("wire" == codec.via(event.data) for event in service.store.events((SCOPE, PATH)))


def test_our_steps_follow_on_theirs_and_theirs_on_ours(service, box):
    """Whoever reads next knows what the other did."""
    service.write(PATH, text())
    claimed = box.claim(ID, session="ada", occurrence=1).message
    theirs = json.loads(service.read(PATH)["content"]) | {"status": "done", "outcome": "by them"}
    service.write(PATH, json.dumps(theirs, indent=2) + "\n", expected_version=2)

    assert ["message.sent", "message.claimed", "message.completed"] == names(service)
    assert claimed.lease.token == box.view(ID).receipt.message.lease.token


def test_what_no_step_explains_is_kept_whole(service, box):
    """The body is as it was written, and the message is what it says."""
    service.write(PATH, text())
    service.write(PATH, text(body="Another text."))
    service.write(PATH, text(body="Another text."))

    assert ["message.sent", "message.rewritten", "message.rewritten"] == names(service)
    assert "Another text." == box.list().items[0].message.letter.body
    assert 3 == service.read(PATH)["version"]


def test_a_conflict_says_what_stands_there(service):
    """Also where there is nothing yet."""
    error = service.refused("memory/write", scope=SCOPE, path=PATH, content=text(), expected_version=3)
    details = {"scope": SCOPE, "path": PATH, "reason": "version_mismatch", "expected_version": 3, "actual_version": 0}
    assert ("memory_conflict", details) == (error["code"], error["details"])
    service.write(PATH, text())
    error = service.refused("memory/write", scope=SCOPE, path=PATH, content=text(), expected_version=0)
    assert 1 == error["details"]["actual_version"]
    assert 1 == service.read(PATH)["version"]


STRANGE = {
    "empty": "",
    "no JSON": "Hello",
    "newer": text(format=2),
    "another key": text(more=1),
    "no body": json.dumps({"format": 1}),
    "half a lease": text(owner="ada"),
    "another id": text(id="0192f0c1-2222-7333-8444-000000000000"),
    "another scope": text(scope="user:you"),
    "a naive time": text(due_at="2026-11-30T11:00:00"),
    "no time": text(created_at="soon"),
    "before all time": text(due_at="0001-01-01T00:00:00+14:00"),
    "after all time": text(due_at="9999-12-31T23:59:59-14:00"),
    "a huge turn": text(about="c", about_turn=2**63),
    "a turn that is none": text(conversation="c", turn=0),
    "a NUL": text(body="a\0b"),
    "a bool": text(occurrence=True),
    "a status": text(status="lost"),
    "deep": "[" * 5_000,
    "a list": "[]",
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_a_strange_body_is_kept_and_hides_nothing(service, box, content):
    """It is read as it was written, reported as unsupported, and every other message is there."""
    sent = box.send("hi").message
    written = service.write(PATH, content)

    assert (content, 1) == (written["content"], written["version"])
    assert written == service.read(PATH)
    found = box.list()
    assert [sent.id] == [item.message.id for item in found.items]
    assert [(SCOPE, PATH)] == [(each.scope, each.path) for each in found.unsupported]
    page = service.ask("memory/list_documents", scope=SCOPE)
    assert {PATH, f"messages/{sent.id}"} == {each["path"] for each in page["entries"]}
    assert [PATH] == [each["path"] for each in page["unsupported"]]
    history = service.ask("memory/history", scope=SCOPE)["versions"]
    assert [content] == [each["content"] for each in history if each["path"] == PATH]


def test_a_strange_body_can_be_written_over(service, box):
    """Whoever writes it whole needs not know what stood there."""
    service.write(PATH, "strange")
    service.write(PATH, text(), expected_version=1)

    assert [ID] == [item.message.id for item in box.list().items]
    assert [2, 1] == [each["version"] for each in service.ask("memory/versions", scope=SCOPE, path=PATH)["versions"]]


def test_other_spellings_are_the_same_message(service, box):
    """An offset is a time, and the body reads in its canonical form."""
    service.write(PATH, json.dumps(body(due_at="2026-11-30T13:00:00+02:00")))

    assert datetime(2026, 11, 30, 11, tzinfo=UTC) == box.list().items[0].message.due_at
    assert text() == service.read(PATH)["content"]


def test_an_event_of_a_newer_fencepost_is_reported(service, box):
    """Reading it is refused with the code of the wire, and listing the scope is not."""
    new = NewEvent(SCOPE, PATH, "message.invented", b'{"schema": 1, "x": 1}')
    service.store.append(Batch(START, "host:x", (new,)), {(SCOPE, PATH): 0})

    for route in ("read",):
        error = service.refused(f"memory/{route}", scope=SCOPE, path=PATH)
        assert "memory_format_unsupported" == error["code"]
    assert [PATH] == [each["path"] for each in service.ask("memory/list_documents", scope=SCOPE)["unsupported"]]
    assert 1 == len(service.ask("memory/history", scope=SCOPE)["versions"])


def test_a_reference_survives_a_program_that_does_not_know_of_it(service, box):
    """It leaves the key out, and what it did is still a step of the same message."""
    Documents(service.store, [Mount(SCOPE, "/user")]).write("/user/plan.md", "x")
    sent = box.send("hi", actionable=True, context="/user/plan.md").message
    path = f"messages/{sent.id}"
    theirs = json.loads(service.read(path)["content"])
    assert {"scope": SCOPE, "path": "plan.md", "version": 1} == theirs.pop("context")
    service.write(path, json.dumps(theirs | CLAIM, indent=2) + "\n")

    assert ["message.sent", "message.claimed"] == names(service, path)
    assert "plan.md" == box.view(sent.id).receipt.message.letter.context.path


# --- links, and what is not done ------------------------------------------------------------------------


def test_a_link_that_is_written_links(service, box):
    """The path says all there is to say."""
    written = service.write("message-links/new/old", "whatever")

    assert ["session.linked"] == names(service, "message-links/new/old")
    assert {"session": "new", "parent": "old"} == json.loads(written["content"])
    assert {"new", "old"} == box.audience("new")
    assert written == service.read("message-links/new/old")


@pytest.mark.parametrize("path", ["message-links/new", "message-links/a/b/c", "message-links/a b/c"])
def test_a_link_between_no_names_is_refused(service, path):
    """Nothing is recorded."""
    assert "value_error" == service.refused("memory/write", scope=SCOPE, path=path, content="")["code"]


@pytest.mark.parametrize("path", [PATH, "message-links/new/old"])
def test_mail_is_neither_deleted_nor_moved(service, path):
    """It is erased, or stays."""
    service.write(path, text())
    service.write("a.md")
    for route, asked in [
        ("delete", {"path": path}),
        ("rename", {"src": path, "dst": "b.md"}),
        ("rename", {"src": "a.md", "dst": path + "x"}),
    ]:
        error = service.refused(f"memory/{route}", scope=SCOPE, **asked)
        assert ("value_error", "reserved_path") == (error["code"], error["fencepost"]["code"])


@pytest.mark.parametrize("changed", [{}, {"body": " "}, {"source": "two words"}])
@pytest.mark.parametrize("said", ["client:bob/boss", "host:operator", "client:default2", "client:default2/x", "nobody"])
def test_nobody_sends_as_somebody_else(service, box, said, changed):
    """Whatever the document says, and whether it is a message that could have been sent here or is kept as it came."""
    service.write(PATH, text(actor=said, **changed), actor="cli:me")
    sent = box.view(ID).receipt.message
    service.write(PATH, text(actor=said, **changed, read_by="ada", read_at="2026-11-30T11:30:00Z"))
    service.write(PATH, text(actor="host:boss", **changed, due_at="2027-11-30T11:30:00Z"))

    assert ["client:default/cli:me"] * 2 == [sent.letter.actor, box.view(ID).receipt.message.letter.actor]


def test_a_client_says_of_itself_what_it_likes(service):
    """Behind its own name."""
    content = text(actor="client:default/somebody/else")

    assert content == service.write(PATH, content, actor="cli:me")["content"]


LONG = "n" * (shapes.PATH_BYTES_MAX + 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"source": LONG},
        {"conversation": LONG},
        {"about": LONG},
        {"read_by": LONG, "read_at": LATER},
        {"owner": LONG, "claim_token": "t", "claim_until": LATER},
        {"wake_owner": LONG, "wake_token": "t", "wake_until": LATER},
        {"context": {"scope": LONG, "path": "a.md", "version": 1}},
        {"context": {"scope": SCOPE, "path": LONG, "version": 1}},
    ],
)
def test_a_name_that_not_every_store_could_keep_makes_no_message(service, box, changed):
    """It is kept as it came, and listed as such, so that the history can be moved."""
    content = text(**changed)
    service.write(PATH, content)

    assert content == service.read(PATH)["content"]
    assert [[], [PATH]] == [list(box.list().items), [each.path for each in box.list().unsupported]]


@pytest.mark.parametrize("name", ["two words", "a/b", "\u202e", "n" * (shapes.NAME_BYTES_MAX + 1)])
@pytest.mark.parametrize("field", ["source", "conversation", "about"])
def test_a_message_with_a_name_that_nobody_can_say_was_not_sent_here(service, field, name):
    """It stands there whole."""
    content = text(**{field: name})

    assert content == service.write(PATH, content)["content"]
    assert ["message.rewritten"] == names(service)


def test_an_erased_message_keeps_its_skeleton(service, box):
    """Versions, times and actors, in every listing."""
    sent = box.send("secret text", actionable=True).message
    box.ack(sent.id, session="ada", occurrence=1)
    path = f"messages/{sent.id}"
    before = service.read(path)
    assert {"count": 1} == service.ask("memory/redact", scope=SCOPE, path=path)
    after = service.read(path)

    assert ("", True) == (after["content"], after["redacted"])
    assert [before[key] for key in ("version", "created_at", "updated_at", "actor")] == [
        after[key] for key in ("version", "created_at", "updated_at", "actor")
    ]
    for route, asked in (("versions", {"path": path}), ("history", {})):
        found = service.ask(f"memory/{route}", scope=SCOPE, **asked)["versions"]
        assert [("", True, 2), ("", True, 1)] == [
            (each["content"], each["redacted"], each["version"]) for each in found
        ]
    assert [True] == [each["redacted"] for each in service.ask("memory/list_documents", scope=SCOPE)["entries"]]


@pytest.mark.parametrize("expected", [1, None])
@pytest.mark.parametrize("changed", [{}, {"read_by": "ada", "read_at": "2026-11-30T11:30:00Z"}, {"body": "another"}])
def test_an_erased_message_is_never_written_again(service, expected, changed):
    """Whoever has read it before has its version, which erasing does not change."""
    service.write(PATH, text(body="secret text"))
    service.ask("memory/redact", scope=SCOPE, path=PATH)
    content = text(**{"body": "secret text", **changed})
    error = service.refused("memory/write", scope=SCOPE, path=PATH, content=content, expected_version=expected)

    assert "erased" == error["fencepost"]["code"]
    assert ("", 1) == (service.read(PATH)["content"], service.read(PATH)["version"])


def test_a_link_that_was_erased_is_listed_as_such(service):
    """Like every document."""
    service.write("message-links/new/old", "")
    service.ask("memory/redact", scope=SCOPE)

    assert [True] == [each["redacted"] for each in service.ask("memory/list_documents", scope=SCOPE)["entries"]]


def test_a_history_of_much_mail_pages(service, box):
    """In any size of page, newest first."""
    for number in range(12):
        sent = box.send(f"hi {number}", actionable=number % 2 == 0).message
        if number % 3 == 0:
            box.ack(sent.id, session="ada", occurrence=1)
        service.write(f"d{number}.md")
    whole = service.ask("memory/history", scope=SCOPE)["versions"]
    for size in (1, 5, 13):
        found, cursor = [], None
        while True:
            page = service.ask("memory/history", scope=SCOPE, limit=size, cursor=cursor)
            found += page["versions"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert whole == found
    assert 12 + 12 + 4 == len(whole)
    assert orjson.dumps(whole)
