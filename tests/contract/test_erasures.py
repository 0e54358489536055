"""`fencepost memory redact`: documents and whole scopes, as a shell and `grep` see it."""

import subprocess

import pytest

SECRET = "swordfish"
PLAN = "/project/notes/plan.md"
PROJECT = "user:pat/proj:app"


def write(shell, path, content):
    return shell.ask("MemoryDocument", "memory", "write", path, f"--content={content}")


def holding(shell):
    """The files that hold the secret, by grep."""
    done = subprocess.run(["grep", "-rlaF", SECRET, str(shell.root)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


@pytest.fixture
def plan(shell):
    """A document with the secret in two of its three versions, and the message that refers to it."""
    write(shell, PLAN, f"The password is {SECRET}.")
    write(shell, PLAN, f"The password is {SECRET}, still.")
    write(shell, PLAN, "Ask Ada.")
    write(shell, "/project/other.md", "Nothing to hide.")
    assert holding(shell)
    return shell.send("Look at the plan.", "--context", PLAN)


def test_every_version_of_a_document_is_erased(shell, plan):
    """The answer names the messages that refer to it; no file holds it; its skeleton stays."""
    done = shell.ask("Redaction", "memory", "redact", PLAN)
    referring = [{"scope": PROJECT, "path": f"messages/{plan['id']}"}]
    versions = shell.ask("MemoryVersions", "memory", "versions", PLAN)["versions"]
    document = shell.ask("MemoryDocument", "memory", "read", PLAN)

    assert {"scope": PROJECT, "path": "notes/plan.md", "count": 1, "referring": referring} == done
    assert [] == holding(shell)
    assert [(3, "", True), (2, "", True), (1, "", True)] == [
        (each["version"], each["content"], each["redacted"]) for each in versions
    ]
    assert ("", True, 3) == (document["content"], document["redacted"], document["version"])
    assert "Nothing to hide." == shell.ask("MemoryDocument", "memory", "read", "/project/other.md")["content"]
    assert plan["context"] == shell.view(plan)["context"]


def test_what_was_erased_cannot_be_referred_to(shell, plan):
    """There is nothing to look at."""
    shell.ask("Redaction", "memory", "redact", PLAN)
    shell.refused("redacted_document", "messages", "send", "--body", "x", "--context", PLAN)


def test_what_was_erased_cannot_be_moved(shell, plan):
    """Elsewhere it would look as if it had been empty."""
    shell.ask("Redaction", "memory", "redact", PLAN)
    shell.refused("redacted_document", "memory", "rename", PLAN, "/project/elsewhere.md")


def test_erasing_again_answers_the_same(shell, plan):
    """And is on record once more."""
    first = shell.ask("Redaction", "memory", "redact", PLAN, "--reason", "A password.")

    assert first == shell.ask("Redaction", "memory", "redact", PLAN)
    found = shell.ask("Redactions", "memory", "redactions")["redactions"]
    assert [("notes/plan.md", 1, None), ("notes/plan.md", 1, "A password.")] == [
        (each["path"], each["count"], each["reason"]) for each in found
    ]


def test_a_document_can_be_written_anew(shell, plan):
    """Its number goes on, and what is written then can be read."""
    shell.ask("Redaction", "memory", "redact", PLAN)

    assert (4, False) == (write(shell, PLAN, "Ask Ada.")["version"], write(shell, PLAN, "x")["redacted"])
    assert [5, 4, 3, 2, 1] == [
        each["version"] for each in shell.ask("MemoryVersions", "memory", "versions", PLAN)["versions"]
    ]


def test_a_whole_scope_is_erased(shell, plan):
    """Documents and mail, and nothing of another scope."""
    shell.send(f"It is {SECRET}.")
    shell.send("Kept.", "--target", "/user")
    done = shell.ask("Redaction", "memory", "redact", "--target", "/project", "--whole-scope")

    assert (PROJECT, None, 4) == (done["scope"], done["path"], done["count"])
    assert [] == holding(shell)
    assert ["Kept."] == [item["body"] for item in shell.list()]
    (record,) = shell.ask("Redactions", "memory", "redactions", "--target", "/project")["redactions"]
    assert (1, None, 4, "cli:pat") == tuple(record[key] for key in ("number", "path", "count", "actor"))


def test_the_record_is_paged(shell, plan):
    """Newest first, and good for the same question only."""
    for _ in range(3):
        shell.ask("Redaction", "memory", "redact", PLAN)
    first = shell.ask("Redactions", "memory", "redactions", "--limit", "2")
    rest = shell.ask("Redactions", "memory", "redactions", "--limit", "2", "--cursor", first["next_cursor"])

    assert ([3, 2], [1], None) == (
        [each["number"] for each in first["redactions"]],
        [each["number"] for each in rest["redactions"]],
        rest["next_cursor"],
    )
    shell.refused("invalid_cursor", "memory", "redactions", "--target", "/user", "--cursor", first["next_cursor"])


@pytest.mark.parametrize(
    "words, code, status",
    [
        pytest.param([], "usage", 2, id="nothing-named"),
        pytest.param(["--whole-scope"], "usage", 2, id="no-target"),
        pytest.param([PLAN, "--whole-scope", "--target", "/project"], "usage", 2, id="both"),
        pytest.param(["/project/none.md"], "unknown_document", 1, id="not-there"),
        pytest.param(["/elsewhere/x"], "unknown_mount", 1, id="not-mounted"),
        pytest.param([PLAN, "--reason", " "], "blank_text", 1, id="blank-reason"),
        pytest.param([PLAN, "--mount", f"scope={PROJECT},path=/project,ro"], "read_only_mount", 1, id="read-only"),
    ],
)
def test_what_does_not_fit_erases_nothing(shell, plan, words, code, status):
    """By its own code."""
    shell.refused(code, "memory", "redact", *words, status=status)
    assert holding(shell)
