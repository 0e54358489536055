"""Export and import: all of it or nothing, whenever they are interrupted; and the digest that proves it."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from fencepost.journal import file
from fencepost.journal.copying import staged
from fencepost.journal.disk import Disk
from fencepost.journal.errors import FencepostError, NotACopy, NotAStore, TargetOccupied
from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.memory import MemoryJournal
from fencepost.journal.reader import FileReader
from fencepost.journal.reading import read_commits
from fencepost.mailbox import Documents, Mailbox, Mount, open_store
from fencepost.mailbox.digest import replay_digest
from fencepost.mailbox.transfer import export_from, export_store, import_store

MOUNTS = [Mount("user:me/proj:app", "/project"), Mount("user:me", "/user")]


WRITTEN = b'{"schema":1,"content":"x"}'


class Killed(BaseException):
    """The process ended here."""


class Stopping(Disk):
    """Dies before the n-th call that changes something."""

    def __init__(self, left):
        self.left = left

    def _step(self):
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write(self, fd, data, offset):
        self._step()
        super().write(fd, data, offset)

    def sync(self, fd):
        self._step()
        super().sync(fd)

    def sync_folder(self, path):
        self._step()
        super().sync_folder(path)

    def rename(self, source, target):
        self._step()
        super().rename(source, target)

    def make_folder(self, path):
        self._step()
        super().make_folder(path)


@pytest.fixture
def root(tmp_path):
    """A store with mail and documents."""
    where = tmp_path / "store"
    store = open_store(where)
    box, notes = Mailbox(store, MOUNTS), Documents(store, MOUNTS)
    sent = box.send("work", actionable=True)
    box.claim(sent.message.id, session="s", occurrence=1)
    notes.write("/project/a", "one")
    notes.write("/project/a", "two")
    box.redact(box.send("secret").message.id)
    store.close()
    return where


def digest(root):
    reader = FileReader(root)
    found = replay_digest(reader.read)
    reader.close()
    return found


@pytest.mark.parametrize("empty_store", [False, True])
def test_an_interrupted_import_leaves_nothing_or_everything(root, tmp_path, empty_store):
    """Killed before each of its steps; the next one does it."""
    export_store(root, tmp_path / "export")
    expected = digest(root)
    stops = 0
    for left in range(1_000):
        target = tmp_path / f"target-{left}"
        if empty_store:
            open_store(target).close()
        try:
            import_store(tmp_path / "export", target, disk=Stopping(left))
        except Killed:
            stops += 1
        else:
            break
        if target.exists() and FileReader(target).durable():
            assert expected == digest(target)
        else:
            import_store(tmp_path / "export", target)
            assert expected == digest(target)
            assert [] == list(tmp_path.glob(f".target-{left}.*"))  # what the first one left is gone
    assert stops > 8
    assert expected == digest(target)


def test_an_interrupted_export_leaves_nothing_or_everything(root, tmp_path):
    """Likewise."""
    for left in range(1_000):
        folder = tmp_path / f"export-{left}"
        try:
            export_store(root, folder, disk=Stopping(left))
        except Killed:
            if not folder.exists():
                export_store(root, folder)
        else:
            break
        assert digest(root).digest == import_store(folder, tmp_path / f"target-{left}").replay_digest
    assert left > 8


def test_an_export_is_made_beside_a_writer(root, tmp_path):
    """What is added while it is proven is not in it, and disturbs nothing."""
    store = open_store(root)
    box = Mailbox(store, MOUNTS)
    before = digest(root)
    done = export_store(root, tmp_path / "export", each=lambda _: box.send("more"))
    store.close()

    assert before.digest == done.replay_digest == digest(tmp_path / "export").digest
    assert digest(root).documents > before.documents


def history(journal):
    """Some events of two streams, in batches that a caller chose."""
    return replay_digest(journal.read)


def written(*batches):
    journal = MemoryJournal()
    versions = {}
    for stamp, streams in batches:
        events = tuple(NewEvent("user:me", stream, "document.written", WRITTEN) for stream in streams)
        expect = {("user:me", stream): versions.get(stream, 0) for stream in streams}
        journal.append(Batch(stamp, "host:me", events), expect)
        for stream in streams:
            versions[stream] = versions.get(stream, 0) + 1
    return journal


def test_the_digest_does_not_depend_on_how_the_history_came_about(noon):
    """Other batches, another order between documents, other sequence numbers and salts: the same history."""
    assert history(written((noon, ["a", "b"]), (noon, ["a"]))) == history(
        written((noon, ["b"]), (noon, ["a"]), (noon, ["a"]))
    )


def test_the_digest_depends_on_what_happened(noon, later):
    """Another time, another number of versions, another path."""
    digests = [
        history(written(*batches)).digest
        for batches in (
            [(noon, ["a"])],
            [(later, ["a"])],
            [(noon, ["b"])],
            [(noon, ["a"]), (noon, ["a"])],
            [(noon, ["a", "b"])],
            [],
        )
    ]
    assert len(digests) == len(set(digests))


@pytest.fixture
def noon():
    return datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def later(noon):
    return noon + timedelta(seconds=1)


def test_what_another_process_is_staging_stays(tmp_path):
    """Only what a dead one has left is removed."""
    target = str(tmp_path / "target")
    with staged(target, Disk()) as one, staged(target, Disk()) as other:
        assert one != other
        assert {one, other} == {str(path) for path in tmp_path.iterdir()}
    left = tmp_path / ".target.staged-dead"
    left.mkdir()
    with staged(target, Disk()) as one:
        assert [one] == [str(path) for path in tmp_path.iterdir()]
    assert [] == list(tmp_path.iterdir())


def test_a_copied_empty_store_is_an_empty_target(root, tmp_path):
    """Its watermark is another folder's, so its end has to be looked for."""
    open_store(tmp_path / "empty").close()
    shutil.copytree(tmp_path / "empty", tmp_path / "copy")
    export_store(root, tmp_path / "export")
    import_store(tmp_path / "export", tmp_path / "copy")

    assert digest(root) == digest(tmp_path / "copy")


@pytest.mark.parametrize("name", ["manifest.json", "store.json"])
def test_a_pipe_in_an_export_is_not_waited_for(root, tmp_path, name):
    """It is no regular file."""
    export_store(root, tmp_path / "export")
    (tmp_path / "export" / name).unlink()
    os.mkfifo(tmp_path / "export" / name)
    with pytest.raises(FencepostError):
        import_store(tmp_path / "export", tmp_path / "target")


@pytest.mark.parametrize("generation", [10**30, -1, 1.5, True, "1"])
def test_a_store_of_an_impossible_generation_is_none(root, generation):
    """Nobody can count on from it."""
    path = root / "store.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"generation": generation}, indent=2))
    with pytest.raises(NotAStore):
        open_store(root)


def test_a_file_that_is_named_twice_makes_no_export(root, tmp_path):
    """It could be copied only once."""
    export_store(root, tmp_path / "export")
    path = tmp_path / "export" / "manifest.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"files": [*fields["files"], fields["files"][-1]]}))
    with pytest.raises(NotACopy):
        import_store(tmp_path / "export", tmp_path / "target")


@pytest.mark.parametrize("inner", ["inner", "journal/inner", "../link/inner", "."])
def test_a_store_is_not_exported_into_itself(root, tmp_path, inner):
    """Nor through a link, and nothing is left there."""
    (tmp_path / "link").symlink_to(root)
    before = sorted(root.rglob("*"))
    with pytest.raises(TargetOccupied):
        export_store(root, root / inner)

    assert before == sorted(root.rglob("*"))


def test_an_export_is_not_imported_into_itself(root, tmp_path):
    """It would not be what its manifest says any more."""
    export_store(root, tmp_path / "export")
    with pytest.raises(TargetOccupied):
        import_store(tmp_path / "export", tmp_path / "export" / "inner")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_folder_is_that_folder(root, tmp_path, there):
    """For what is exported and what is imported, whether the folder is there already or not."""
    for name in ("export", "target"):
        (tmp_path / name).symlink_to(tmp_path / "far" / name)
        if there:
            (tmp_path / "far" / name).mkdir(parents=True)
    export_store(root, tmp_path / "export")
    import_store(tmp_path / "export", tmp_path / "target")

    assert digest(root) == digest(tmp_path / "far" / "target")
    assert all((tmp_path / name).is_symlink() for name in ("export", "target"))
    assert ["export", "target"] == sorted(each.name for each in (tmp_path / "far").iterdir())


@pytest.mark.parametrize("path", ["a file", "a link to itself"])
def test_what_is_no_folder_is_occupied(root, tmp_path, path):
    """And left alone."""
    target = tmp_path / path
    target.symlink_to(target) if "link" in path else target.write_text("x")
    with pytest.raises(TargetOccupied):
        export_store(root, target)


def test_an_export_that_was_killed_leaves_nothing_behind_the_next_one(root, tmp_path):
    """Also where the history was recorded again for it: that is all that anybody has said."""
    store = open_store(root)
    child = os.fork()
    if child == 0:
        mine = open_store(root)
        ask = mine.batches
        mine.batches = lambda after, _: os._exit(9) if after else ask(after, 1)
        export_from(mine, tmp_path / "export")
    assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ["store"] != sorted(each.name for each in tmp_path.iterdir())
    export_from(store, tmp_path / "export")
    store.close()

    assert ["export", "store"] == sorted(each.name for each in tmp_path.iterdir())


def test_what_was_erased_does_not_make_an_export_read_itself_again(tmp_path, monkeypatch):
    """What is recorded again is read a few times, however often something was erased in it."""
    store = open_store(":memory:")
    box = Mailbox(store, MOUNTS)
    for _ in range(30):
        box.redact(box.send("secret").message.id)
    read = []

    def counted(*asked, **how):
        for commit in read_commits(*asked, **how):
            read.append(commit.seq)
            yield commit

    monkeypatch.setattr(file, "read_commits", counted)
    done = export_from(store, tmp_path / "export")
    store.close()

    assert (60, 30) == (done.events, done.erased)
    assert len(read) <= 4 * 60
