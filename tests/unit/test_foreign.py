"""Stores of the public reference implementation: nothing that their layout holds is lost, or nothing is imported."""

import json
import os
from urllib.parse import quote

import pytest

from fencepost.journal.reader import FileReader
from fencepost.mailbox import Conversations, Documents, Erasures, Mailbox, Mount, audit, codec, open_store
from fencepost.mailbox.errors import ForeignDamaged, UnsupportedFormat
from fencepost.mailbox.transfer import export_store, import_store

SCOPE = "user:me/proj:app"
MOUNTS = [Mount(SCOPE, "/project"), Mount("user:me", "/user")]
ID = "edfcc183-3fea-490d-8e6c-c433b22ef581"
SENT = {
    "format": 1,
    "id": ID,
    "scope": SCOPE,
    "conversation": None,
    "turn": None,
    "source": None,
    "about": None,
    "about_turn": None,
    "actor": "cli:local",
    "body": "Wörk",
    "created_at": "2026-11-30T12:00:00Z",
    "due_at": "2026-11-30T12:00:00Z",
    "delivery": "next_activity",
    "actionable": True,
    "occurrence": 1,
    "status": "open",
    "read_by": None,
    "read_at": None,
    "owner": None,
    "claim_token": None,
    "claim_until": None,
    "outcome": None,
    "wake_owner": None,
    "wake_token": None,
    "wake_until": None,
    "wake_accepted": False,
}
CLAIM = {
    "read_by": "s1",
    "read_at": "2026-11-30T12:01:00Z",
    "owner": "s1",
    "claim_token": "t",
    "claim_until": "2026-11-30T12:31:00Z",
}
SNOOZED = {"occurrence": 2, "due_at": "2026-12-24T12:00:00Z", "outcome": "Later."}


def indented(body):
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


class Layout:
    """A root in their layout."""

    def __init__(self, root):
        self.root = root
        self.minute = 0

    def scope(self, scope):
        return self.root.joinpath(*(quote(part, safe="") for part in scope.split("/")))

    def add(self, path, content, action="created", scope=SCOPE, **more):
        """A version of a document, and the document."""
        self.minute += 1
        file = self.scope(scope) / "versions" / f"{path}.jsonl"
        version = 1 + len(file.read_text().splitlines()) if file.exists() else 1
        row = {
            "neosian_format": 1,
            "path": path,
            "version": version,
            "action": action,
            "content": content,
            "actor": "cli:local",
            "created_at": f"2026-11-30T12:{self.minute:02d}:00.5Z",
            "redacted": False,
        } | more
        self.line(file, row)
        document = self.scope(scope) / "documents" / f"{path}.md"
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_text("---\n---\n" + content)

    @staticmethod
    def line(file, row):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as handle:
            handle.write(json.dumps(row) + "\n")


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "theirs")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "store"


def imported(layout, target):
    """The doors to what was made of it."""
    done = import_store(layout.root, target)
    store = open_store(target)
    return done, Mailbox(store, MOUNTS), Documents(store, MOUNTS)


def kinds(target):
    reader = FileReader(target)
    return [event.type for commit in reader.read() for event in commit.events]


def test_a_message_keeps_its_life(layout, target):
    """Each version is the event that explains it, with its body to the byte, its actor and its time."""
    bodies = [SENT, SENT | CLAIM, SENT | SNOOZED]
    for body in bodies:
        layout.add(f"messages/{ID}", indented(body), "created" if body is SENT else "modified")
    _, box, _ = imported(layout, target)
    versions = box.view(ID).versions[::-1]

    assert ["message.sent", "message.claimed", "message.snoozed"] == kinds(target)
    assert [indented(body) for body in bodies] == [codec.document(each.message).decode() for each in versions]
    life = audit.explain(FileReader(target).read(), ID, box._clock())
    assert [("cli:local", f"2026-11-30T12:0{n}:00.500000Z") for n in (1, 2, 3)] == [
        (step.event.actor, step.event.at) for step in life.steps if step.event
    ]


def test_what_no_event_explains_is_kept_whole(layout, target):
    """A message that changed in two ways at once, one written otherwise, one of another format, one that is none."""
    other = ID.replace("e", "f")
    layout.add(f"messages/{ID}", indented(SENT))
    layout.add(f"messages/{ID}", indented(SENT | CLAIM | {"outcome": "Odd."}), "modified")
    layout.add(f"messages/{other}", indented(SENT | {"format": 2}))
    layout.add("messages/no-id", "")
    _, box, _ = imported(layout, target)

    assert ["message.sent", *["message.rewritten"] * 3] == kinds(target)
    assert "Odd." == box.view(ID).receipt.message.outcome
    assert {f"messages/{other}", "messages/no-id"} == {each.path for each in box.list(status="all").unsupported}
    with pytest.raises(UnsupportedFormat):
        box.view(other)


def test_documents_keep_their_versions(layout, target):
    """Numbers, actions, texts, actors and times, over a deletion and what was written anew."""
    layout.add("notes/plan", "one\n")
    layout.add("notes/plan", "two", "modified", actor="cli:ada")
    layout.add("notes/plan", "", "deleted")
    layout.add("notes/plan", "three")
    layout.add("a", "über", scope="user:me")
    _, _, notes = imported(layout, target)
    found = notes.versions("/project/notes/plan").versions

    assert [
        (4, "created", "three", "cli:local"),
        (3, "deleted", "", "cli:local"),
        (2, "modified", "two", "cli:ada"),
        (1, "created", "one\n", "cli:local"),
    ] == [(each.version, each.action.value, each.content, each.actor) for each in found]
    assert "über" == notes.read("/user/a").content


def test_what_was_erased_there_is_erased_here(layout, target):
    """With its skeleton and with the record of the act, and no more than that."""
    layout.add("secret", "", redacted=True)
    layout.add("secret", "", "modified", redacted=True)
    layout.add("kept", "open")
    layout.line(
        layout.scope(SCOPE) / "redactions.jsonl",
        {"ts": "2026-11-30T13:00:00Z", "actor": "cli:eve", "path": "secret", "count": 1},
    )
    layout.add(f"messages/{ID}", "", redacted=True)
    done, box, notes = imported(layout, target)

    assert 3 == done.erased
    assert [(2, True), (1, True)] == [
        (each.version, each.redacted) for each in notes.versions("/project/secret").versions
    ]
    assert "open" == notes.read("/project/kept").content
    assert 1 == len(box.skeleton(ID).events)
    acts = Erasures(box.store, MOUNTS).list("/project").redactions
    assert [(f"messages/{ID}", "host:import"), ("secret", "cli:eve")] == [(each.path, each.actor) for each in acts]


def test_continuations_become_links(layout, target):
    """Those that stand in documents of sessions and those that are documents themselves."""
    layout.add("sessions/child", "agent: claude\ncontinues: parent\ncontinues: other\n")
    layout.add("message-links/child/parent", "parent")
    layout.add("message-links/parent/root", "root")
    _, box, notes = imported(layout, target)

    assert {"child", "parent", "other", "root"} == box.audience("child")
    assert "agent: claude" in notes.read("/project/sessions/child").content
    assert 3 == kinds(target).count("session.linked")


def test_a_clock_that_went_back_changes_no_order(layout, target):
    """Versions come in their own order, with the times that they have."""
    layout.add("a", "one", created_at="2026-11-30T12:00:00Z")
    layout.add("a", "two", "modified", created_at="2026-11-30T11:00:00Z")
    _, _, notes = imported(layout, target)

    assert ["two", "one"] == [each.content for each in notes.versions("/project/a").versions]


def test_a_dry_run_answers_the_same_and_writes_nothing(layout, target, tmp_path):
    """And what was imported is exported and imported again as any other store."""
    layout.add("a", "one")
    dry = import_store(layout.root, target, dry_run=True)

    assert not target.exists()
    assert dry == import_store(layout.root, target)
    assert dry.replay_digest == export_store(target, tmp_path / "export").replay_digest
    assert dry.replay_digest == import_store(tmp_path / "export", tmp_path / "again").replay_digest


def wrong(file, change):
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    change(rows)
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


@pytest.mark.parametrize(
    "change, line",
    [
        pytest.param(lambda rows: rows.pop(0), 1, id="first-version-missing"),
        pytest.param(lambda rows: rows.insert(1, rows[0]), 2, id="version-twice"),
        pytest.param(lambda rows: rows[1].update(neosian_format=2), 2, id="newer-format"),
        pytest.param(lambda rows: rows[1].update(action="renamed"), 2, id="unknown-action"),
        pytest.param(lambda rows: rows[1].update(created_at="yesterday"), 2, id="no-time"),
        pytest.param(lambda rows: rows[1].update(content=7), 2, id="no-text"),
        pytest.param(lambda rows: rows[1].update(path="b"), 2, id="another-path"),
        pytest.param(lambda rows: rows[1].pop("content"), 2, id="no-content"),
        pytest.param(lambda rows: rows[1].update(actor="nobody"), 2, id="no-actor"),
        pytest.param(lambda rows: rows.insert(1, "{"), 2, id="no-json"),
        pytest.param(lambda rows: rows.insert(1, "[]"), 2, id="no-object"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_imported(layout, target, change, line):
    """By file and line: leaving it out would lose it in silence."""
    layout.add("a", "one")
    layout.add("a", "two", "modified")
    file = layout.scope(SCOPE) / "versions" / "a.jsonl"
    wrong(file, change)
    for dry_run in (True, False):
        with pytest.raises(ForeignDamaged) as caught:
            import_store(layout.root, target, dry_run=dry_run)
        assert (str(file), line) == (caught.value.file, caught.value.line)
    assert not target.exists()
    assert [layout.root] == list(target.parent.iterdir())


def test_a_document_without_versions_is_named(layout, target):
    """It cannot say when and by whom it was written."""
    layout.add("a", "one")
    (layout.scope(SCOPE) / "versions" / "a.jsonl").unlink()
    with pytest.raises(ForeignDamaged):
        import_store(layout.root, target)


def talk(layout, name, rows):
    for row in rows:
        layout.line(layout.root / "conversations" / "s-42" / name, {"neosian_format": 1} | row)


def test_conversations_keep_their_turns(layout, target):
    """As they were said, with who and when; their projections; and what was erased, erased."""
    said = [{"role": "user", "content": "Zwölf"}, {"role": "assistant", "content": None, "tool_calls": []}]
    at = "2026-11-30T12:00:00Z"
    talk(
        layout,
        "turns.jsonl",
        [
            {"turn": 1, "created_at": at, "messages": said, "actor": "cli:ada"},
            {"turn": 2, "created_at": at, "messages": [], "actor": None, "redacted": True},
            {"turn": 3, "created_at": at, "messages": said, "actor": "cli:ada"},
        ],
    )
    talk(layout, "projections.jsonl", [{"turn": 3, "span": 3, "kind": "digest", "text": "They counted."}])
    talk(layout, "redactions.jsonl", [{"created_at": "2026-11-30T13:00:00Z", "actor": "cli:eve", "turns": [2]}])
    done, box, _ = imported(layout, target)
    talks = Conversations(box.store)
    turns = talks.read_turns("s-42").turns

    assert [(1, "cli:ada", said, False), (2, "host:unknown", [], True), (3, "cli:ada", said, False)] == [
        (each.turn, each.actor, [dict(message) for message in each.messages], each.redacted) for each in turns
    ]
    assert ["They counted."] == [each.text for each in talks.read_projections("s-42").entries]
    assert [((2,), "cli:eve")] == [(each.turns, each.actor) for each in talks.turn_redactions("s-42")]
    assert 1 == done.erased


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"turn": 2, "created_at": "2026-11-30T12:00:00Z", "messages": [], "actor": None}, id="gap"),
        pytest.param({"turn": 1, "created_at": "2026-11-30T12:00:00Z", "messages": [{}], "actor": None}, id="no-role"),
        pytest.param({"turn": 1, "created_at": "2026-11-30T12:00:00Z", "actor": None}, id="no-messages"),
    ],
)
def test_a_turn_that_cannot_be_read_is_named(layout, target, row):
    """By file and line."""
    talk(layout, "turns.jsonl", [row])
    with pytest.raises(ForeignDamaged) as caught:
        import_store(layout.root, target)
    assert 1 == caught.value.line


@pytest.mark.parametrize(
    "row",
    [
        {"path": "a", "count": 1e30},
        {"path": "a", "count": "1"},
        {"path": "a", "count": -1},
        {"path": 123, "count": 1},
        {"path": "a\0", "count": 1},
        {"path": "a"},
    ],
)
def test_a_redaction_that_cannot_be_is_named(layout, target, row):
    """It would be on record for ever."""
    layout.add("a", "one")
    layout.line(layout.scope(SCOPE) / "redactions.jsonl", {"ts": "2026-11-30T13:00:00Z", "actor": "cli:eve"} | row)
    with pytest.raises(ForeignDamaged):
        import_store(layout.root, target)


@pytest.mark.parametrize("content", ["a\0b", "x" * ((16 << 20) + 1)], ids=["nul", "too-long"])
def test_a_document_that_could_not_be_written_here_is_named(layout, target, content):
    """The same limits hold for what is imported."""
    layout.add("a", content)
    with pytest.raises(ForeignDamaged):
        import_store(layout.root, target)


def test_what_is_no_file_is_named(layout, target):
    """A pipe would be waited for, a loop of links leads nowhere."""
    layout.add("a", "one")
    versions = layout.scope(SCOPE) / "versions"
    os.mkfifo(versions / "b.jsonl")
    with pytest.raises(ForeignDamaged):
        import_store(layout.root, target)
    (versions / "b.jsonl").unlink()
    (versions / "b.jsonl").symlink_to(versions / "c.jsonl")
    (versions / "c.jsonl").symlink_to(versions / "b.jsonl")
    with pytest.raises(ForeignDamaged):
        import_store(layout.root, target)


def test_free_text_in_the_document_of_a_session_links_nothing(layout, target):
    """Only names are continued."""
    layout.add("sessions/child", "continues: ..\ncontinues: a/b\n")
    layout.add("sessions/a/b", "continues: x\n")
    imported(layout, target)

    assert "session.linked" not in kinds(target)
