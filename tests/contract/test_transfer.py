"""`fencepost export` and `fencepost import`, as a shell sees them."""

import json
import shutil
import stat
import subprocess

import pytest

PLAN = "/project/notes/plan.md"
SECRET = "swordfish"
SEGMENT = "journal/0000000000000001.log"


@pytest.fixture
def filled(shell):
    """A store with mail in every standing, documents, a link, a key, and something that was erased."""
    work = shell.send("Work.", "--actionable", "--idempotency-key", "once")
    claimed = shell.step("claim", work)
    shell.step("complete", work, "--outcome", "Done.", token=claimed["claim_token"])
    shell.send("A reminder.", "--delay-seconds", "100000")
    shell.send("To one.", "--conversation", "ada", "--target", "/user")
    shell.run("sessions", "link", "--session", "ben", "--continues", "ada")
    for text in ("First the tests.", "Then the types."):
        shell.ask("MemoryDocument", "memory", "write", PLAN, f"--content={text}")
    secret = shell.send(f"It is {SECRET}.")
    shell.ask("Redaction", "messages", "redact", "--message-id", secret["id"])
    return work


def said(shell, *words):
    answer = shell.run(*words, "--json")
    assert 0 == answer.status, answer
    return json.loads(answer.out)


def export(shell, name="export"):
    return shell.ask("Transfer", "export", str(shell.here / name))


def shown(shell, *root):
    """All that a reader can ask for."""
    return (
        said(shell, "messages", "list", "--status", "all", "--session", "ben", *root),
        said(shell, "memory", "history", *root),
        said(shell, "memory", "redactions", *root),
        said(shell, "journal", "log", *root),
        said(shell, "journal", "replay", *root),
    )


def test_what_is_imported_is_what_was_exported(shell, filled):
    """Every version, time, actor, link and redaction; and an export of it has the same digest."""
    done = export(shell)
    root = ("--root", str(shell.home / "restored"))
    imported = shell.ask("Transfer", "import", str(shell.here / "export"), *root)
    again = shell.ask("Transfer", "export", str(shell.here / "again"), *root)

    assert done == imported == again
    assert shown(shell) == shown(shell, *root)
    assert said(shell, "journal", "verify", *root)["good"]


def test_the_work_goes_on_there(shell, filled):
    """A key that was used is used there too, and sequence numbers go on."""
    done = export(shell)
    root = ("--root", str(shell.home / "restored"))
    shell.ask("Transfer", "import", str(shell.here / "export"), *root)

    again = shell.send("Work.", "--actionable", "--idempotency-key", "once", *root)
    assert (filled["id"], True) == (again["id"], again["repeated"])
    shell.send("More.", *root)
    assert done["events"] + 1 == said(shell, "journal", "head", *root)["seq"]


def test_an_export_can_be_read_where_it_is(shell, filled):
    """It is a store."""
    export(shell)
    root = ("--root", str(shell.here / "export"))

    assert said(shell, "journal", "verify", *root)["good"]
    assert shown(shell) == shown(shell, *root)


def test_it_is_private(shell, filled):
    """Whatever the umask."""
    shell.run("export", str(shell.here / "export"), umask=0)
    for path in [shell.here / "export", *(shell.here / "export").rglob("*")]:
        assert (0o700 if path.is_dir() else 0o600) == stat.S_IMODE(path.stat().st_mode)


def test_what_was_erased_is_in_no_export(shell, filled):
    """By grep."""
    export(shell)
    assert 1 == subprocess.run(["grep", "-rqaF", SECRET, str(shell.here / "export")], check=False).returncode


def test_an_archive_is_exported_too(shell, filled):
    """The export needs no other folder."""
    for _ in range(2):  # a segment has 16 MiB
        shell.ask("Receipt", "messages", "send", "--body-file", "-", stdin=b"x" * (9 << 20))
    elsewhere = shell.home / "elsewhere"
    assert said(shell, "journal", "retain", "--before", "2100-01-01T00:00:00Z", "--archive", str(elsewhere))["moved"]
    done = export(shell)
    shutil.rmtree(elsewhere)
    root = ("--root", str(shell.home / "restored"))

    assert done == shell.ask("Transfer", "import", str(shell.here / "export"), *root)
    assert said(shell, "journal", "verify", *root)["good"]


def test_a_dry_run_writes_nothing_and_answers_the_same(shell, filled):
    """For good exports and for bad ones."""
    export(shell)
    root = ("--root", str(shell.home / "restored"))
    dry = shell.ask("Transfer", "import", str(shell.here / "export"), "--dry-run", *root)

    assert not (shell.home / "restored").exists()
    assert dry == shell.ask("Transfer", "import", str(shell.here / "export"), *root)
    for more in ((), ("--dry-run",)):
        shell.refused("target_occupied", "import", str(shell.here / "export"), *more, *root)


def test_an_empty_store_is_an_empty_target(shell, filled):
    """One that was opened and never written to."""
    export(shell)
    root = ("--root", str(shell.home / "restored"))
    shell.run("messages", "cancel", "--session", "x", "--message-id", filled["id"], "--occurrence", "1", *root)
    assert (shell.home / "restored" / "store.json").exists()
    shell.ask("Transfer", "import", str(shell.here / "export"), *root)

    assert shown(shell) == shown(shell, *root)


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_an_occupied_target_is_left_alone(shell, filled, more):
    """A store with a history, a folder with a file, a file."""
    export(shell)
    shell.refused("target_occupied", "import", str(shell.here / "export"), *more)
    folder = shell.home / "full"
    folder.mkdir()
    (folder / "a").write_text("mine")
    shell.refused("target_occupied", "import", str(shell.here / "export"), *more, "--root", str(folder))
    shell.refused("target_occupied", "import", str(shell.here / "export"), *more, "--root", str(folder / "a"))
    shell.refused("target_occupied", "export", str(folder))

    assert [folder / "a"] == list(folder.iterdir())
    assert "mine" == (folder / "a").read_text()


def spoil(path, change):
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name, change, code",
    [
        pytest.param(SEGMENT, lambda data: data.__setitem__(900, data[900] ^ 1), "export_damaged", id="bit"),
        pytest.param(SEGMENT, lambda data: data.__delitem__(slice(-40, None)), "export_damaged", id="cut"),
        pytest.param(SEGMENT, lambda data: data.extend(b"x"), "export_damaged", id="longer"),
        pytest.param("store.json", lambda data: data.__setitem__(slice(0, 1), b"["), "export_damaged", id="store"),
        pytest.param("manifest.json", lambda data: data.clear(), "not_an_export", id="no-json"),
        pytest.param("manifest.json", lambda data: data.__setitem__(slice(None), b"[]"), "not_an_export", id="array"),
    ],
)
def test_a_damaged_export_is_refused(shell, filled, name, change, code):
    """Whole, by its own code, dry or not, and nothing is left behind."""
    export(shell)
    spoil(shell.here / "export" / name, change)
    root = ("--root", str(shell.home / "restored"))
    for more in (("--dry-run",), ()):
        shell.refused(code, "import", str(shell.here / "export"), *more, *root)
    assert [shell.here / "export"] == list(shell.here.iterdir())
    assert not list(shell.home.glob("*restored*"))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda fields: fields["facts"].update(replay_digest="0" * 64), id="digest"),
        pytest.param(lambda fields: fields.update(events=1), id="count"),
        pytest.param(lambda fields: fields["head"].update(digest="0" * 64), id="head"),
        pytest.param(lambda fields: fields["files"].pop(), id="file-left-out"),
    ],
)
def test_a_manifest_that_lies_is_noticed(shell, filled, change):
    """Whatever it says of the journal is compared with the journal."""
    export(shell)
    path = shell.here / "export" / "manifest.json"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))
    answer = shell.run("import", str(shell.here / "export"), "--root", str(shell.home / "restored"), "--json")

    assert (1, True) == (answer.status, "error" in json.loads(answer.out)), answer
    assert not (shell.home / "restored").exists()


def test_a_manifest_leads_nowhere_else(shell, filled):
    """It may have been written by anybody."""
    export(shell)
    path = shell.here / "export" / "manifest.json"
    fields = json.loads(path.read_text())
    for name in ("../../../etc/passwd", "/etc/passwd", "journal/../../x.log", "journal/torn/x"):
        path.write_text(
            json.dumps({**fields, "files": [*fields["files"], {"name": name, "size_bytes": 1, "sha256": ""}]})
        )
        shell.refused("not_an_export", "import", str(shell.here / "export"), "--root", str(shell.home / "restored"))


def test_what_is_no_export_is_refused(shell, filled):
    """A store, an empty folder, nothing at all."""
    (shell.here / "empty").mkdir()
    for folder in (shell.root, shell.here / "empty", shell.here / "nothing"):
        shell.refused("not_an_export", "import", str(folder), "--root", str(shell.home / "restored"))
    shell.refused("no_store", "export", str(shell.here / "export"), "--root", str(shell.home / "nothing"))


def test_a_person_is_told_what_was_done(shell, filled):
    """In a few lines."""
    told = shell.run("export", str(shell.here / "export")).out
    assert "documents in" in told
    assert "replay digest" in told


def test_a_store_of_the_reference_implementation_is_imported(shell):
    """Its documents, with their versions; here one that was written twice."""
    folder = shell.here / "theirs" / "user%3Apat" / "proj%3Aapp" / "versions"
    folder.mkdir(parents=True)
    rows = [
        {
            "neosian_format": 1,
            "path": "plan",
            "version": number,
            "action": action,
            "content": text,
            "actor": "cli:pat",
            "created_at": f"2026-11-30T12:00:0{number}Z",
            "redacted": False,
        }
        for number, action, text in ((1, "created", "one"), (2, "modified", "two"))
    ]
    (folder / "plan.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    root = ("--root", str(shell.home / "restored"))
    done = shell.ask("Transfer", "import", str(shell.here / "theirs"), *root)

    assert (None, 2, 1) == (done["head"], done["versions"], done["documents"])
    assert "two" == shell.ask("MemoryDocument", "memory", "read", "/project/plan", *root)["content"]


def test_an_export_stays_importable_whatever_is_asked_of_it(shell, filled):
    """It is only read: no question leaves anything in it, and nothing can be written to it."""
    done = export(shell)
    root = ("--root", str(shell.here / "export"))
    before = {path: path.read_bytes() for path in (shell.here / "export").rglob("*") if path.is_file()}
    shown(shell, *root)
    for words in (["turns", "read", "s"], ["changes", "poll"], ["messages", "receipts", "--message-id", filled["id"]]):
        said(shell, *words, *root)
    shell.refused("export_is_read_only", "messages", "send", "--body", "x", *root)

    assert before == {path: path.read_bytes() for path in (shell.here / "export").rglob("*") if path.is_file()}
    assert done == shell.ask("Transfer", "import", str(shell.here / "export"), "--root", str(shell.home / "restored"))
