"""What a store that is served says beside the rest: what there is, and whether it can be written."""

import contextlib
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from fencepost.journal.errors import ClosedHandle, JournalCorrupt, JournalFull, ReadOnlyStore
from fencepost.mailbox import codec, events
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.codec import VIA_WIRE
from fencepost.mailbox.cursors import NUMBER_MAX
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.opening import file_store, memory_store, reading_store
from fencepost.mailbox.talks import Conversations

SCOPE = "user:me"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    store = memory_store() if request.param == "memory" else file_store(tmp_path / "store", segment_bytes=4_000)
    with contextlib.closing(store):
        yield store


def filled(store, count=30):
    """Mail in batches of several sizes, with documents between; the messages' ids."""
    seconds = iter(range(1_000_000))
    box = Mailbox(store, [Mount(SCOPE, "/user")], clock=lambda: START + timedelta(seconds=next(seconds)))
    shelf = Documents(store, [Mount(SCOPE, "/user"), Mount("user:you", "/you")])
    ids = []
    for number in range(count):
        ids += [each.message.id for each in box.send_many([Draft(body=f"{number}")] * (1 + number % 4))]
        shelf.write(f"/user/{number}.md", "x")
        if number % 5 == 0:
            box.ack(ids[-1], session="ada", occurrence=1)
            box.link("ada", f"c{number}")
    shelf.write("/you/a.md", "x")
    Conversations(store).append_turn("c", [{"role": "user", "content": "x"}])
    return ids


def test_scopes_are_all_there_are(store):
    """In order, those of conversations too."""
    assert [] == list(store.scopes())
    filled(store, 1)

    assert ["conversation:c", "user:me", "user:you"] == list(store.scopes())


def test_mail_is_listed_by_path(store):
    """Pages of it are the whole, with the times of the first event and the last."""
    ids = filled(store)
    whole = list(store.mail(SCOPE, "", None, 1_000))
    assert sorted(f"messages/{each}" for each in ids) == [each.path for each in whole if each.path > "messages/"]
    assert sorted(each.path for each in whole) == [each.path for each in whole]
    for size in (1, 7, 100):
        found = []
        while page := store.mail(SCOPE, "", found[-1].path if found else None, size):
            found += page
        assert whole == found
    for each in whole:
        recorded = store.events((SCOPE, each.path))
        first, last = (datetime.fromisoformat(event.at) for event in (recorded[0], recorded[-1]))
        assert (len(recorded), first, last, False, None) == (
            each.version,
            each.created_at,
            each.updated_at,
            each.redacted,
            each.why,
        )
    assert [] == list(store.mail("user:you", "", None, 10))


def test_the_history_of_mail_is_newest_first(store):
    """Wherever it is cut, within a batch too."""
    filled(store)
    whole = list(store.mail_history(SCOPE, None, NUMBER_MAX, 1_000))
    numbers = [event.seq for event in whole]
    assert sorted(numbers, reverse=True) == numbers
    assert {each.path for each in store.mail(SCOPE, "", None, 1_000)} == {event.stream for event in whole}
    for before in (*numbers, *(number + 1 for number in numbers), 1, 0):
        rest = [event for event in whole if event.seq < before]
        assert rest[:3] == list(store.mail_history(SCOPE, None, before, 3))
    since = datetime.fromisoformat(whole[10].at)
    late = [event for event in whole if datetime.fromisoformat(event.at) >= since]
    assert late == list(store.mail_history(SCOPE, since, NUMBER_MAX, 1_000))


def test_a_store_that_can_be_written_checks_well(store):
    """Before anything was written, and after; nothing is added."""
    store.check()
    filled(store, 1)
    mark = store.change_mark()
    store.check()

    assert mark == store.change_mark()


def test_a_store_that_is_only_read_does_not(tmp_path):
    """It says so."""
    file_store(tmp_path / "store").close()
    with contextlib.closing(reading_store(tmp_path / "store")) as store, pytest.raises(ReadOnlyStore):
        store.check()


@pytest.mark.parametrize("flag,room,error", [(os.ST_RDONLY, 10_000, ReadOnlyStore), (0, 1, JournalFull)])
def test_a_file_system_that_takes_nothing(tmp_path, monkeypatch, flag, room, error):
    """Full, or mounted to be read."""
    real = os.statvfs(tmp_path)
    shown = os.statvfs_result((*real[:4], room, *real[5:8], flag, *real[9:]))
    with contextlib.closing(file_store(tmp_path / "store")) as store:
        monkeypatch.setattr(os, "statvfs", lambda _: shown)
        with pytest.raises(error):
            store.check()


def test_damage_is_remembered(tmp_path):
    """Whatever else would be fine."""
    with contextlib.closing(file_store(tmp_path / "store")) as store:
        store.damage = JournalCorrupt(file="f", offset=0, why="w")
        with pytest.raises(JournalCorrupt):
            store.check()


def test_a_closed_store_cannot_be_written(tmp_path):
    """Nor can anything else be done with it."""
    store = file_store(tmp_path / "store")
    store.close()
    with pytest.raises(ClosedHandle):
        store.check()


def test_how_an_event_was_concluded_is_beside_what_it_says():
    """It reads the same."""
    event = events.Completed("done")
    name, data = codec.encode(event, VIA_WIRE)

    assert event == codec.decode(name, data)
    assert VIA_WIRE == codec.via(data)
    assert codec.via(codec.encode(event)[1]) is None


@pytest.mark.parametrize("lacking", ["starlette", "uvicorn"])
def test_without_its_extra_serving_is_refused_in_one_sentence(lacking, tmp_path):
    """Which says how to install it."""
    program = (
        f"import sys; sys.modules[{lacking!r}] = None; from fencepost.mailbox.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "serve"],
        env=os.environ | {"FENCEPOST_SERVE_TOKEN": "x", "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert 1 == done.returncode
    assert b"pip install 'fencepost[server]' [missing_extra]" in done.stderr
    assert 1 == len(done.stderr.splitlines())
