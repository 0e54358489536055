"""The files for agents: named by what is in them, and there for as long as somebody may read them."""

import os
import time
from pathlib import Path

import pytest

from fencepost.mailbox.fleet.files import Files

DAY_S = 86_400


@pytest.fixture
def files(tmp_path):
    return Files(str(tmp_path / "files"))


def age(*stored, days):
    for each in stored:
        os.utime(each.path, (time.time() - days * DAY_S,) * 2)


def test_a_file_has_what_its_name_says(files):
    """Whatever somebody has written into it meanwhile."""
    stored = files.put(b"pay 100")
    Path(stored.path).write_bytes(b"pay 999")
    files.put(b"pay 100")

    assert Path(stored.path).read_bytes() == b"pay 100"


def test_what_an_input_names_is_kept_anew(files):
    """What stands in its frame, on however many lists; and not what somebody only speaks of."""
    named, on_list, spoken_of, other = (files.put(each) for each in (b"1", b"2", b"3", b"4"))
    listing = files.put(f"[fencepost] 1.1 from @ann:example.org, message: {on_list}\n| {spoken_of}\n".encode())
    age(named, on_list, spoken_of, other, listing, days=9)
    files.renew(f"[fencepost] 1.1 from @ann:example.org, message: {named}\n[fencepost] The list of them: {listing}\n")

    assert 2 == files.sweep(8)
    assert all(Path(each.path).exists() for each in (named, on_list, listing))


def test_what_is_not_there_any_more_is_not_kept(files):
    """Somebody may have removed it, with the list that names it; that keeps no agent from its input."""
    stored = files.put(b"1")
    Path(stored.path).unlink()

    files.renew(f"[fencepost] The list of them: {stored}\n")
