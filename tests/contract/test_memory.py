"""`fencepost memory`: documents beside the mail, driven as a shell would."""

import json
import re
import subprocess

import pytest

PLAN = "/project/notes/plan.md"
PROJECT = "user:pat/proj:app"
HOSTILE = "before \x1b]0;owned\x07\x1b[31m\u202e\u2066\x9b after\nsecond"
CONTENT_BYTES_MAX = 16 << 20
MOUNTS = {
    mode: ("--mount", f"scope={PROJECT},path=/project,{mode}", "--mount", "scope=user:pat,path=/user")
    for mode in ("ro", "eo", "rw")
}


def write(shell, path, content, *words, **options):
    """The document as its next version."""
    return shell.ask("MemoryDocument", "memory", "write", path, f"--content={content}", *words, **options)


def read(shell, path, *words):
    return shell.ask("MemoryDocument", "memory", "read", path, *words)


def versions(shell, path, *words):
    return shell.ask("MemoryVersions", "memory", "versions", path, *words)["versions"]


def entries(shell, *words):
    found = shell.ask("MemoryEntries", "memory", "list", *words)
    assert [] == found["unsupported"]
    return found["entries"]


def numbers(found):
    return [version["version"] for version in found]


def actions(found):
    return [version["action"] for version in found]


# --- versions ---------------------------------------------------------------------------------------------------


def test_a_document_is_read_as_it_was_written(shell):
    """Its text, where it is, who wrote it and when; the first version is 1."""
    written = write(shell, PLAN, "First the tests.")

    assert written == read(shell, PLAN)
    assert (PROJECT, "notes/plan.md", "First the tests.", 1) == tuple(
        written[key] for key in ("scope", "path", "content", "version")
    )
    assert "cli:pat" == written["actor"]
    assert written["created_at"] == written["updated_at"]


def test_every_version_is_kept(shell):
    """An earlier version reads as it stood, and its creation stays the creation."""
    first = write(shell, PLAN, "one")
    second = write(shell, PLAN, "two")

    assert first == read(shell, PLAN, "--version", "1")
    assert first["created_at"] == second["created_at"] < second["updated_at"]
    assert [("two", 2), ("one", 1)] == [(each["content"], each["version"]) for each in versions(shell, PLAN)]


def test_the_same_text_is_a_version(shell):
    """Writing what stands there already takes the next number."""
    write(shell, PLAN, "same")

    assert 2 == write(shell, PLAN, "same")["version"]


def test_a_deletion_is_a_version(shell):
    """It takes the next number, and whoever writes anew goes on from there, as a new creation."""
    write(shell, PLAN, "one")
    deleted = shell.ask("MemoryVersion", "memory", "delete", PLAN)
    assert (2, "deleted", "") == (deleted["version"], deleted["action"], deleted["content"])
    assert [] == entries(shell)
    shell.refused("unknown_document", "memory", "read", PLAN)

    again = write(shell, PLAN, "two")

    assert 3 == again["version"]
    assert again["created_at"] == again["updated_at"]
    assert ["created", "deleted", "created"] == actions(versions(shell, PLAN))


def test_a_rename_is_both_or_neither(shell):
    """It is deleted at the source and written at the destination, which goes on with its own history."""
    write(shell, "/project/a", "old")
    shell.ask("MemoryVersion", "memory", "delete", "/project/a")
    write(shell, PLAN, "moves")

    moved = shell.ask("MemoryDocument", "memory", "rename", PLAN, "/project/a")

    assert ("a", "moves", 3) == (moved["path"], moved["content"], moved["version"])
    assert ["deleted", "created"] == actions(versions(shell, PLAN))
    assert ["created", "deleted", "created"] == actions(versions(shell, "/project/a"))
    events = json.loads(shell.run("journal", "log", "--limit", "2", "--json").out)["events"]
    assert ["document.deleted", "document.written"] == [event["type"] for event in events]
    assert 1 == len({event["at"] for event in events})


def test_an_occupied_destination_is_left_alone(shell):
    """A rename onto a document that stands is refused, even onto itself."""
    write(shell, PLAN, "one")
    write(shell, "/project/a", "two")

    for destination, version in (("/project/a", 1), (PLAN, 1)):
        error = shell.refused("memory_conflict", "memory", "rename", PLAN, destination)
        details = error["details"]
        assert ("target_occupied", version) == (details["reason"], details["actual_version"])


def test_two_paths_with_one_name_in_two_mounts(shell):
    """They are two documents, and one moves to the other's scope only by name."""
    write(shell, "/project/a", "here")
    write(shell, "/user/b", "there")

    moved = shell.ask("MemoryDocument", "memory", "rename", "/project/a", "/user/a")

    assert ("user:pat", "a", "here") == (moved["scope"], moved["path"], moved["content"])
    assert ["a", "b"] == [entry["path"] for entry in entries(shell, "/user/")]


# --- expected versions ------------------------------------------------------------------------------------------


def test_an_expected_version(shell):
    """It must be the one that stands there; 0 means that nothing does."""
    write(shell, PLAN, "one", "--expected-version", "0")
    write(shell, PLAN, "two", "--expected-version", "1")

    for wrong in ("0", "1", "3"):
        error = shell.refused("memory_conflict", "memory", "write", PLAN, "--content=x", "--expected-version", wrong)
        expected = {
            "scope": PROJECT,
            "path": "notes/plan.md",
            "reason": "version_mismatch",
            "expected_version": int(wrong),
            "actual_version": 2,
        }
        assert expected == error["details"]
    shell.refused("memory_conflict", "memory", "delete", PLAN, "--expected-version", "1")
    shell.refused("memory_conflict", "memory", "rename", PLAN, "/project/b", "--expected-version", "1")
    shell.refused("invalid_number", "memory", "write", PLAN, "--content=x", "--expected-version", "-1")


def test_a_deleted_document_is_none(shell):
    """Whoever expects it at its last number is told that there is none, and 0 writes it anew."""
    write(shell, PLAN, "one")
    shell.ask("MemoryVersion", "memory", "delete", PLAN, "--expected-version", "1")

    error = shell.refused("memory_conflict", "memory", "write", PLAN, "--content=x", "--expected-version", "2")
    assert 0 == error["details"]["actual_version"]
    assert 3 == write(shell, PLAN, "two", "--expected-version", "0")["version"]


def test_one_of_many_writers_wins(shell):
    """Of those that expect the same version one writes, and the others learn which version stands."""
    write(shell, PLAN, "start")
    words = ("memory", "write", PLAN, "--expected-version", "1", "--json")
    racing = [shell.start(*words, f"--content={number}") for number in range(6)]
    told = [(process.wait(60), json.loads(process.stdout.read())) for process in racing]
    for process in racing:
        process.stdout.close()
        process.stderr.close()

    assert [0, 1, 1, 1, 1, 1] == sorted(status for status, _ in told)
    assert {2} == {each["error"]["details"]["actual_version"] for status, each in told if status}
    assert [2, 1] == numbers(versions(shell, PLAN))


# --- texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "lines\n\n", HOSTILE, "👩‍👩‍👧 e\u0301", '{"error": null}', "--content"])
def test_a_text_is_carried_as_it_is(shell, text):
    """From the command line, from a file and from standard input; it may be empty."""
    assert text == write(shell, "/project/a", text)["content"]
    (shell.here / "text").write_bytes(text.encode())
    from_file = shell.ask("MemoryDocument", "memory", "write", "/project/b", "--content-file", "text")
    piped = ("memory", "write", "/project/c", "--content-file", "-")
    from_pipe = shell.ask("MemoryDocument", *piped, stdin=text.encode())

    assert {text} == {from_file["content"], from_pipe["content"], read(shell, "/project/c")["content"]}


def test_the_largest_text(shell):
    """Sixteen mebibytes of UTF-8 are taken, and one byte more is not."""
    largest = "é" * (CONTENT_BYTES_MAX // 2)
    words = ("memory", "write", PLAN, "--content-file", "-")

    assert largest == shell.ask("MemoryDocument", *words, stdin=largest.encode())["content"]
    shell.refused("text_too_long", *words, stdin=f"{largest}x".encode())


def test_texts_that_are_refused(shell):
    """A NUL character, bytes that are no UTF-8, no text at all, and two texts at once."""
    write(shell, PLAN, "one")
    shell.refused("invalid_text", "memory", "write", PLAN, "--content-file", "-", stdin=b"a\0b")
    shell.refused("invalid_text", "memory", "write", PLAN, "--content-file", "-", stdin=b"\xff")
    shell.refused("missing_field", "memory", "write", PLAN)
    shell.refused("usage", "memory", "write", PLAN, "--content=x", "--content-file", "-", status=2)


@pytest.mark.parametrize("command", ["read", "write", "versions", "history", "list", "log"])
def test_nothing_moves_a_terminal(shell, command):
    """What a person is shown has no escape, bidi or other control character of the document in it."""
    write(shell, PLAN, HOSTILE)
    words = {
        "write": ("memory", "write", PLAN, f"--content={HOSTILE}"),
        "history": ("memory", "history"),
        "list": ("memory", "list"),
        "log": ("journal", "log"),
    }.get(command, ("memory", command, PLAN))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shell.on_terminal(*words))

    assert "notes/plan.md" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


# --- paths and mounts -------------------------------------------------------------------------------------------


def test_a_path_and_its_target(shell):
    """The mount may be named apart, by its path or by its scope."""
    written = write(shell, "notes/plan.md", "one", "--target", "/project")

    assert written == read(shell, "notes/plan.md", "--target", PROJECT) == read(shell, PLAN)


def test_the_longest_mount_is_meant(shell):
    """Where one mount stands in the path of another, a path leads through the longer one."""
    mounts = ("--mount", "scope=user:a,path=/x", "--mount", "scope=user:b,path=/x/y")

    assert "user:b" == write(shell, "/x/y/a", "one", *mounts)["scope"]
    assert "user:a" == write(shell, "/x/ya", "one", *mounts)["scope"]
    shell.refused("unknown_mount", "memory", "read", "/xy/a", *mounts)


@pytest.mark.parametrize(
    "path", ["notes/plan.md", "/project", "/project/", "/project//a", "/project/../a", "/project/a\n"]
)
def test_a_path_that_is_none(shell, path):
    """It needs a mount and a name, and no dots alone."""
    write(shell, PLAN, "one")

    shell.refused("invalid_name", "memory", "write", path, "--content=x")
    shell.refused("invalid_name", "memory", "read", path)


@pytest.mark.parametrize("reserved", ["messages/x", "message-links/a/b"])
def test_the_mail_is_out_of_reach(shell, reserved):
    """Where the mailbox keeps its own, nothing is written, moved, deleted, read or listed by path."""
    write(shell, PLAN, "one")
    path = f"/project/{reserved}"
    for words in (
        ("write", path, "--content=x"),
        ("delete", path),
        ("rename", path, "/project/b"),
        ("rename", PLAN, path),
        ("read", path),
        ("versions", path),
        ("list", f"/project/{reserved.partition('/')[0]}/"),
    ):
        shell.refused("reserved_path", "memory", *words)


def test_a_sent_message_is_no_document(shell):
    """Mail and links stand in no listing and no history of documents, nor documents in the mail's."""
    sent = shell.send("hello")
    shell.ask("Session", "sessions", "link", "--session", "b", "--continues", "a")
    written = write(shell, PLAN, "one")

    assert ["notes/plan.md"] == [entry["path"] for entry in entries(shell)]
    assert [1] == numbers(shell.ask("MemoryVersions", "memory", "history")["versions"])
    assert [sent] == shell.list("--status", "all")
    assert written == read(shell, PLAN)


def test_a_read_only_mount(shell):
    """It is read, and nothing in it changes."""
    written = write(shell, PLAN, "one")

    assert written == read(shell, PLAN, *MOUNTS["ro"])
    for words in (
        ("write", PLAN, "--content=x"),
        ("delete", PLAN),
        ("rename", PLAN, "/user/a"),
        ("rename", "/user/b", "/project/b"),
    ):
        shell.refused("read_only_mount", "memory", *words, *MOUNTS["ro"])


def test_an_edit_only_mount(shell):
    """What stands there is changed, and nothing is added, neither anew nor after it was deleted."""
    write(shell, PLAN, "one")

    assert 2 == write(shell, PLAN, "two", *MOUNTS["eo"])["version"]
    shell.refused("read_only_mount", "memory", "write", "/project/new", "--content=x", *MOUNTS["eo"])
    shell.refused("read_only_mount", "memory", "rename", PLAN, "/project/new", *MOUNTS["eo"])
    shell.ask("MemoryVersion", "memory", "delete", PLAN, *MOUNTS["eo"])
    shell.refused("read_only_mount", "memory", "write", PLAN, "--content=x", *MOUNTS["eo"])


def test_what_is_not_there(shell):
    """A document, a version and a mount each have a code of their own."""
    write(shell, PLAN, "one")
    shell.ask("MemoryVersion", "memory", "delete", PLAN)

    for words in (("read", "/project/b"), ("versions", "/project/b"), ("delete", PLAN), ("rename", PLAN, "/project/b")):
        shell.refused("unknown_document", "memory", *words)
    for version in ("2", "3"):
        error = shell.refused("unknown_version", "memory", "read", PLAN, "--version", version)
        assert 2 == error["details"]["latest"]
    shell.refused("invalid_number", "memory", "read", PLAN, "--version", "0")
    shell.refused("unknown_mount", "memory", "read", "/elsewhere/a")


# --- proof ------------------------------------------------------------------------------------------------------


def test_the_journal_tells_documents(shell):
    """Their events are logged, replayed, explained and proven like those of the mail."""
    write(shell, PLAN, "one")
    write(shell, PLAN, "two")
    shell.ask("MemoryVersion", "memory", "delete", PLAN)

    log = json.loads(shell.run("journal", "log", "--json").out)["events"]
    assert ["document.written", "document.written", "document.deleted"] == [event["type"] for event in log]
    for event in log:
        shell.check(event["type"], event["data"])
    (then,) = json.loads(shell.run("journal", "replay", "--until", "2", "--path", "notes/plan.md", "--json").out)[
        "documents"
    ]
    assert ("two", "modified", 2) == (then["content"]["content"], then["content"]["action"], then["version"])
    life = json.loads(shell.run("journal", "explain", "notes/plan.md", "--json").out)
    assert [1, 2, 3] == [step["event"]["version"] for step in life["steps"]]
    assert {"field": "content", "before": "one", "after": "two"} in life["steps"][1]["changes"]
    assert 0 == shell.run("journal", "verify").status


def test_a_path_in_two_scopes(shell):
    """`explain` asks for the scope where it is needed, and says so where there is nothing."""
    write(shell, "/project/a", "x")
    write(shell, "/user/a", "y")

    shell.refused("usage", "journal", "explain", "a", status=2)
    life = json.loads(shell.run("journal", "explain", "a", "--scope", "user:pat", "--json").out)
    assert "user:pat" == life["document"]["scope"]
    shell.refused("unknown_document", "journal", "explain", "b")


def test_documents_come_back_with_the_index(shell):
    """Listings, versions and history are the same when the index was made anew."""
    write(shell, PLAN, "one")
    write(shell, "/project/a", "two")
    shell.ask("MemoryVersion", "memory", "delete", "/project/a")
    commands = (("list",), ("versions", "/project/a"), ("history",), ("read", PLAN))
    before = [shell.run("memory", *words, "--json").out for words in commands]

    assert 0 == shell.run("journal", "rebuild-index").status
    assert before == [shell.run("memory", *words, "--json").out for words in commands]


def test_a_reader_that_goes_away(shell):
    """A pipe that closes early is no error."""
    shell.ask("MemoryDocument", "memory", "write", PLAN, "--content-file", "-", stdin=b"x\n" * 100_000)
    done = subprocess.run(
        ["sh", "-c", f'"{shell.program}" memory read {PLAN} | head -1'],
        env=shell.environ,
        cwd=shell.here,
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (0, b"") == (done.returncode, done.stderr)
