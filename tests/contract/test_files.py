"""The store's own files: who may read them, and what happens when they cannot be written."""

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

#: Fills the file system that the store is on, tries to send, makes room, and sends again.
FULL_DISK = """
import json, os, subprocess, sys
program, place = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", place], check=True)

def fencepost(*words):
    words = [program, "messages", *words, "--root", place + "/store", "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE)
    return done.returncode, json.loads(done.stdout)

with open(place + "/body", "w") as body:
    body.write("x" * 1_000_000)
said = [fencepost("send", "--body", "first")]
try:
    with open(place + "/filler", "wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
except OSError:
    pass
said.append(fencepost("send", "--body-file", place + "/body"))
said.append(fencepost("list"))
os.unlink(place + "/filler")
said.append(fencepost("send", "--body", "second"))
said.append(fencepost("list"))
print(json.dumps(said))
"""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777], ids=oct)
def test_private_whatever_the_umask(shell, umask):
    """Folders are 0700 and files 0600: mail is nobody else's business."""
    sent = shell.send("hello", "--actionable", umask=umask)
    shell.ask("Receipt", *shell.words("claim", sent), umask=umask)
    shell.list(umask=umask)

    found = {shell.root, *shell.root.rglob("*")}
    modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in found}
    expected = {str(path): 0o700 if path.is_dir() else 0o600 for path in found}
    assert expected == modes
    assert len(found) > 4


def test_not_a_store(shell, tmp_path):
    """A folder with something else in it is left alone."""
    place = tmp_path / "precious"
    place.mkdir()
    (place / "thesis.tex").write_text("precious", encoding="utf-8")

    for words in (("list",), ("send", "--body", "hello")):
        shell.refused("not_a_store", "messages", *words, "--root", str(place))

    assert ["thesis.tex"] == [file.name for file in place.iterdir()]


def test_an_empty_folder_becomes_a_store(shell, tmp_path):
    """A folder that somebody has made for the store is taken."""
    place = tmp_path / "mine"
    place.mkdir(mode=0o700)

    shell.send("hello", "--root", str(place))

    assert (place / "journal").is_dir()


def test_a_newer_store(shell):
    """A store of a later format is refused and left as it is."""
    sent = shell.send("hello")
    described = shell.root / "store.json"
    fields = json.loads(described.read_text(encoding="utf-8"))
    described.write_text(json.dumps(fields | {"format": 99}), encoding="utf-8")

    for words in (
        ("messages", "send", "--body", "hello"),
        ("messages", "list"),
        ("messages", "view", "--message-id", sent["id"]),
        shell.words("ack", sent),
    ):
        error = shell.refused("newer_store", *words)
        assert 99 == error["details"]["found"]


def test_a_root_that_cannot_be_made(shell):
    """Where no folder can be made, the error says so."""
    answer = shell.run("messages", "send", "--body", "hello", "--root", "/proc/fencepost/store", "--json")

    assert (1, "journal_unavailable") == (answer.status, json.loads(answer.out)["error"]["code"])


def test_a_root_that_is_a_file(shell, tmp_path):
    """A file is no store, nor is anything below it."""
    (tmp_path / "file").write_text("precious", encoding="utf-8")

    for root in (tmp_path / "file", tmp_path / "file" / "store"):
        shell.refused("not_a_store", "messages", "send", "--body", "hello", "--root", str(root))

    assert "precious" == (tmp_path / "file").read_text(encoding="utf-8")


@pytest.fixture
def plain(cannot):
    """What to start a program through so that modes mean something to it."""
    if os.geteuid() != 0:
        return ()
    # To root a mode forbids nothing until root lays down its capabilities.
    if shutil.which("setpriv") is None:
        cannot("setpriv is not installed, and root may write anywhere")
    return ("setpriv", "--bounding-set", "-all")


def test_an_unwritable_folder(shell, tmp_path, plain):
    """A folder that may not be written to is named, and nothing is acknowledged."""
    place = tmp_path / "closed"
    place.mkdir(mode=0o500)

    words = ("messages", "send", "--body", "hello", "--root", str(place / "store"))
    error = shell.refused("journal_unavailable", *words, before=plain)

    assert str(place) in error["details"]["path"]
    assert [] == list(place.iterdir())


def test_an_unwritable_store(shell, plain):
    """Where nothing may be written a send is refused, and what is there can be read."""
    sent = shell.send("hello")
    everything = [*shell.root.rglob("*"), shell.root]
    for path in everything:
        path.chmod(0o500 if path.is_dir() else 0o400)

    answer = shell.run("messages", "send", "--body", "again", "--json", before=plain)

    error = json.loads(answer.out)["error"]
    assert 1 == answer.status
    assert error["code"] in ("journal_unavailable", "read_only_store")
    assert [sent] == shell.list(before=plain)
    for path in everything:
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert [sent] == shell.list()


def test_a_full_disk(shell, tmp_path, cannot):
    """The send fails whole, earlier mail is intact, and once there is room the next send works."""
    place = tmp_path / "small"
    place.mkdir()
    alone = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        cannot("no small file system can be mounted here")

    done = subprocess.run(
        [*alone, sys.executable, "-c", FULL_DISK, shell.program, str(place)],
        env=shell.environ,
        cwd=shell.here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    (_, first), (status, refusal), (_, during), (sent, second), (_, after) = json.loads(done.stdout)
    assert (1, "disk_full") == (status, refusal["error"]["code"])
    assert [first] == during["items"]
    assert 0 == sent
    assert [first, second] == after["items"]


def test_the_index_comes_back(shell):
    """What is derived from the journal may be deleted."""
    shell.send("first")
    for file in shell.root.glob("index-*"):
        file.unlink()
    shell.send("second")

    assert ["first", "second"] == [item["body"] for item in shell.list()]


def test_a_damaged_journal_is_named_and_left_alone(shell):
    """A flipped byte in acknowledged mail refuses every write, and nothing is cut away."""
    shell.send("first")
    shell.send("second")
    (segment,) = (shell.root / "journal").glob("*.log")
    good = segment.read_bytes()
    at = good.index(b"first")
    segment.write_bytes(good[:at] + b"F" + good[at + 1 :])
    for file in shell.root.glob("index-*"):
        file.unlink()

    error = shell.refused("journal_corrupt", "messages", "send", "--body", "third")

    assert segment.name in error["details"]["file"]
