"""What is erased between a look and an append, by others who share the store's handle: no version tells of it."""

import contextlib
from datetime import UTC, datetime

import pytest
from postgres import drop, new_schema

from fencepost.mailbox import Documents, Mailbox, Mount, errors
from fencepost.mailbox.addresses import MESSAGES, SHOWN
from fencepost.mailbox.store.opening import file_store, memory_store

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCOPE = "user:me"
MOUNTS = [Mount(SCOPE, "/user")]


@pytest.fixture(params=["memory", "file", "postgres"])
def store(request, tmp_path):
    with contextlib.ExitStack() as opened:
        if request.param == "postgres":
            pytest.importorskip("psycopg", reason="pip install 'fencepost[postgres]'")
            from fencepost.mailbox.store.postgres.opening import create, postgres_store

            cluster, schema = request.getfixturevalue("cluster"), new_schema()
            create(cluster, schema=schema)
            opened.callback(drop, cluster, schema)
            made = postgres_store(cluster, schema=schema, listen=False)
        else:
            made = memory_store() if request.param == "memory" else file_store(tmp_path / "store")
        opened.callback(made.close)
        yield made


class Late:
    """The store for somebody who was interrupted before what he first appends."""

    def __init__(self, store, path):
        self._store, self._path = store, path

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, *asked, **how):
        if self._path is not None:
            path, self._path = self._path, None
            self._store.redact(SCOPE, path, at=NOON, actor="host:operator")
            self._store.find((SCOPE, path))
        self._store.append(*asked, **how)


def test_a_message_takes_no_step(store):
    """Whoever completes it may repeat what it said."""
    box = Mailbox(store, MOUNTS)
    sent = box.send("the secret", actionable=True).message
    token = box.claim(sent.id, session="s", occurrence=1).message.lease.token
    late = Mailbox(Late(store, MESSAGES + sent.id), MOUNTS)
    with pytest.raises(errors.Erased):
        late.complete(sent.id, session="s", occurrence=1, token=token, outcome="it said the secret")

    assert [None, None] == [each.data for each in store.events((SCOPE, MESSAGES + sent.id))]


def test_nobody_is_shown_a_message(store):
    """The record of who was goes with the message, and does not begin behind it."""
    box = Mailbox(store, MOUNTS)
    sent = box.send("the secret").message
    Mailbox(Late(store, MESSAGES + sent.id), MOUNTS).shown([sent.id], session="s", door="hook")

    assert [] == store.events((SCOPE, SHOWN + sent.id))


def test_a_document_does_not_move(store):
    """What it said would stand at another path."""
    Documents(store, MOUNTS).write("/user/a.md", "the secret")
    with pytest.raises(errors.RedactedDocument):
        Documents(Late(store, "a.md"), MOUNTS).rename("/user/a.md", "/user/b.md")

    assert [] == store.events((SCOPE, "b.md"))


def test_a_document_may_be_written_and_deleted(store):
    """That says nothing of what was erased."""
    shelf = Documents(store, MOUNTS)
    shelf.write("/user/a.md", "the secret")
    Documents(Late(store, "a.md"), MOUNTS).write("/user/a.md", "another", expected_version=1)
    assert "another" == shelf.read("/user/a.md").content
    Documents(Late(store, "a.md"), MOUNTS).delete("/user/a.md", expected_version=2)

    assert 3 == len(store.events((SCOPE, "a.md")))
