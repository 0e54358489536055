"""The root folder of a store."""

import json
import os
import stat
import uuid

import pytest
from unit import processes

from fencepost.journal.errors import ClosedHandle, JournalUnavailable, NewerStore, NotAStore
from fencepost.mailbox import Mailbox, Mount, open_store

FORK = """
import os, sys
from fencepost.mailbox import Mailbox, Mount, open_store
mounts = [Mount("user:me", "/user")]
store = open_store(sys.argv[1])
box = Mailbox(store, mounts)
sent = box.send("x", actionable=True).message.id
calls = {
    "send": lambda box: box.send("y"),
    "list": lambda box: box.list(),
    "view": lambda box: box.view(sent),
    "claim": lambda box: box.claim(sent, session="s", occurrence=1),
    "look": lambda box: box.look(),
}
child = os.fork()
if child == 0:
    said = []
    for name, call in calls.items():
        try:
            call(box)
            said.append(name + " was done")
        except Exception as error:
            said.append(getattr(error, "code", repr(error)))
    store.close()
    own = Mailbox(open_store(sys.argv[1]), mounts)
    own.send("from the child")
    own.store.close()
    print(*sorted(set(said)), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
box.send("from the parent")
print(len(box.list().items))
"""
FORK_WHILE_BUSY = """
import os, sys, threading, signal
from fencepost.mailbox import Mailbox, Mount, open_store
box = Mailbox(open_store(sys.argv[1]), [Mount("user:me", "/user")])
box.send("x")
stop = threading.Event()
def busy():
    while not stop.is_set():
        box.send("y")
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
bad = 0
for _ in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        try:
            box.send("z")
        except Exception as error:
            os._exit(0 if getattr(error, "code", "") == "forked_handle" else 1)
        os._exit(2)
    bad += os.waitpid(child, 0)[1] != 0
stop.set()
print(bad)
"""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "some" / "where" / "store"


def fill(root):
    """A store with a message in it."""
    store = open_store(root)
    Mailbox(store, [Mount("user:me", "/user")]).send("x")
    return store


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_everything_is_private(root, umask):
    """Folders 0700 and files 0600, whatever the umask; those of the index while it is open too."""
    before = os.umask(umask)
    try:
        store = fill(root)
        modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]}
        store.close()
    finally:
        os.umask(before)

    wrong = {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert {} == wrong
    assert len(modes) > 8


def test_parents_are_private_too(root):
    """Whatever had to be made on the way."""
    fill(root).close()

    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in (root, root.parent, root.parent.parent)}


def test_an_empty_folder_becomes_a_store(root):
    """It need not be made by us."""
    root.mkdir(parents=True)
    fill(root).close()

    assert (root / "store.json").exists()


def test_the_store_says_what_it_is(root):
    """Format, id, generation and key, and nothing else."""
    fill(root).close()
    said = json.loads((root / "store.json").read_bytes())

    assert ["format", "id", "generation", "key"] == list(said)
    assert (1, 32) == (said["format"], len(bytes.fromhex(said["key"])))
    assert uuid.UUID(said["id"])


def test_two_stores_are_two(tmp_path):
    """Each has an id and a key of its own."""
    for name in ("one", "other"):
        fill(tmp_path / name).close()
    one, other = (json.loads((tmp_path / name / "store.json").read_bytes()) for name in ("one", "other"))

    assert one["id"] != other["id"]
    assert one["key"] != other["key"]


@pytest.mark.parametrize(
    "content,error",
    [
        (b'{"format": 2}', NewerStore),
        (b'{"format": 99, "surprise": []}', NewerStore),
        (b'{"format": 0}', NotAStore),
        (b'{"format": "1"}', NotAStore),
        (b'{"format": true}', NotAStore),
        (b'{"format": 1}', NotAStore),
        (b'{"format": 1, "id": "x", "generation": 1, "key": ""}', NotAStore),
        (b'{"format": 1, "id": 7, "generation": 1, "key": ""}', NotAStore),
        (b'{"format": 1, "id": "01234567-89ab-4cde-8f01-23456789abcd", "generation": "?", "key": ""}', NotAStore),
        (b'{"format": 1, "id": "01234567-89ab-4cde-8f01-23456789abcd", "generation": 1, "key": "xy"}', NotAStore),
        (b"[]", NotAStore),
        (b"1", NotAStore),
        (b"", NotAStore),
        (b"\xff\x00", NotAStore),
    ],
)
def test_another_root_is_refused_and_left_alone(root, content, error):
    """A newer format, or what is no store at all: it says which, and changes no byte of it."""
    fill(root).close()
    (root / "store.json").write_bytes(content)
    before = {path: path.read_bytes() for path in root.rglob("*.log")}

    with pytest.raises(error):
        open_store(root)

    assert content == (root / "store.json").read_bytes()
    assert before == {path: path.read_bytes() for path in root.rglob("*.log")}


def test_a_folder_of_other_things_is_refused(root):
    """Nothing is put beside them."""
    root.mkdir(parents=True)
    (root / "thesis.txt").write_text("chapter one")

    with pytest.raises(NotAStore):
        open_store(root)
    assert [root / "thesis.txt"] == list(root.iterdir())


def test_a_file_is_refused(root):
    """So is a folder below a file."""
    root.parent.mkdir(parents=True)
    root.write_text("not a folder")

    for where in (root, root / "below"):
        with pytest.raises(NotAStore):
            open_store(where)
    assert root.read_text() == "not a folder"


def test_a_journal_without_its_store_file_is_refused(root):
    """It would be read with another key; the file has to be restored."""
    fill(root).close()
    (root / "store.json").unlink()

    with pytest.raises(NotAStore):
        open_store(root)


def test_a_link_to_nowhere_is_refused(root):
    """A name that is taken is not written through."""
    root.parent.mkdir(parents=True)
    root.symlink_to(root.parent / "nowhere")

    with pytest.raises((NotAStore, JournalUnavailable)):
        open_store(root)


def test_a_link_to_a_store_is_that_store(root, tmp_path):
    """Both names show the same mail."""
    fill(root).close()
    (tmp_path / "link").symlink_to(root)
    store = open_store(tmp_path / "link")

    assert len(Mailbox(store, [Mount("user:me", "/user")]).list().items) == 1
    store.close()


def test_a_forked_child_refuses_the_handle_and_opens_its_own(root):
    """Every call of the parent's handle is refused in the child, closing it harms nothing, and both can write."""
    assert ["forked_handle", "3"] == processes.run(FORK, root).split()


def test_a_forked_child_is_refused_while_the_parent_is_busy(root):
    """Whatever its threads were in the middle of, the child gets its answer and does not hang."""
    assert processes.run(FORK_WHILE_BUSY, root) == "0"


def test_a_closed_handle_says_so(root):
    """Every call, reading and writing."""
    store = fill(root)
    box = Mailbox(store, [Mount("user:me", "/user")])
    message_id = box.list().items[0].message.id
    store.close()
    store.close()

    for call in (
        lambda: box.send("y"),
        box.list,
        lambda: box.view(message_id),
        lambda: box.ack(message_id, session="s", occurrence=1),
        box.look,
        lambda: box.wait(0),
        lambda: box.link("a", "b"),
        lambda: box.audience("a"),
    ):
        with pytest.raises(ClosedHandle):
            call()


def test_a_folder_that_another_process_makes_meanwhile(tmp_path, monkeypatch):
    """Between two looks at the root another process has made it: that is a store all the same."""
    root = tmp_path / "store"
    look = os.path.isdir

    def made_after_the_first_look(path):
        found = look(path)
        if path == str(root):
            root.mkdir(exist_ok=True)
        return found

    monkeypatch.setattr(os.path, "isdir", made_after_the_first_look)
    open_store(root).close()

    assert (root / "store.json").exists()
