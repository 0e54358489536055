"""A history moves from any kind of store to any other, and is the same there."""

import contextlib
from datetime import UTC, datetime
from functools import partial

import pytest
from postgres import drop, new_schema
from wire_places import TOKEN, serving

from fencepost.journal.errors import CopyDamaged, JournalConflict, TargetOccupied
from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import Conversations, Documents, Mailbox, Mount, open_store
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.digest import replay_digest
from fencepost.mailbox.events import AgentBound, DeliverySaved, DeliverySubmitted, Passed, Read, RoomOpened
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.http.opening import remote_store
from fencepost.mailbox.store.postgres.opening import create, postgres_store
from fencepost.mailbox.store.replay import recordable
from fencepost.mailbox.transfer import export_from, import_into

MOUNTS = [Mount("user:me/proj:app", "/project"), Mount("user:me", "/user")]
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KINDS = ("memory", "file", "postgres", "wire-file", "wire-postgres")


@pytest.fixture
def new(tmp_path, request):
    """Opens an empty store of a kind."""
    with contextlib.ExitStack() as after:
        count = iter(range(100))

        def new(kind):
            if kind.startswith("wire-"):
                _, url = after.enter_context(serving(new(kind.removeprefix("wire-"))))
                store = remote_store(url, TOKEN)
            elif kind == "postgres":
                server, schema = request.getfixturevalue("cluster"), new_schema()
                create(server, schema=schema)
                after.callback(drop, server, schema)
                store = postgres_store(server, schema=schema, fresh_s=0, listen=False)
            else:
                store = open_store(":memory:" if kind == "memory" else tmp_path / f"store-{next(count)}")
            after.callback(store.close)
            return store

        yield new


def fill(store, *, whole=True):
    """
    Mail in several standings, a key, documents, a link, turns, an agent, and something of each kind that was erased.

    A client of a state process feeds no agents, so its history is not whole.
    """
    box, notes, talks = Mailbox(store, MOUNTS), Documents(store, MOUNTS), Conversations(store)
    held = box.claim(box.send("work", actionable=True, idempotency_key="once").message.id, session="s", occurrence=1)
    box.complete(held.message.id, session="s", occurrence=1, token=held.message.lease.token, outcome="done")
    secret = box.send("secret", about="talk", about_turn=1, idempotency_key="twice")
    box.shown([secret.message.id], session="s", door="hook")
    notes.write("/project/a", "one")
    notes.write("/project/a", "two")
    notes.write("/user/b", "gone")
    notes.delete("/user/b")
    box.link("t", "s")
    for text in ("one", "secret", "three"):
        talks.append_turn("talk", [{"role": "user", "content": text}])
    talks.redact_turns("talk", turns=[2])
    box.redact(secret.message.id)
    box.send("after")
    if whole:
        ledger = Ledger(store, "chef")
        ledger.record(AgentBound("s-1", "/h"), rooms_too={"!r": [RoomOpened("t1", utc_now())]})
        read = Read("!r", "t2", ("$1",), (Passed("$2", "muted"),))
        ledger.record(DeliverySaved("d-1", "Look.", "/h", 0, (read,)), DeliverySubmitted(1))


def through(store):
    place = 0
    while found := store.batches(place, 3):
        yield from found
        place = found[-1].seq


def digest(store):
    return replay_digest(partial(through, store)).digest


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_a_history_moves(new, tmp_path, source, target):
    """Versions, times, actors, keys and what was erased: the replay digests are the same all the way."""
    one, other = new(source), new(target)
    fill(one, whole=not source.startswith("wire"))

    exported = export_from(one, tmp_path / "export")
    assert exported == import_into(tmp_path / "export", other, dry_run=True)
    assert 0 == other.feed_bounds()[1]
    assert exported == import_into(tmp_path / "export", other)

    assert {exported.replay_digest} == {digest(one), digest(other)}
    repeated = Mailbox(other, MOUNTS).send("work", actionable=True, idempotency_key="once")
    assert repeated.repeated
    assert exported.erased == sum(event.data is None for batch in through(other) for event in batch.events) > 0


@pytest.mark.parametrize("target", KINDS)
def test_nothing_is_imported_over_a_history(new, tmp_path, target):
    """A store in which anything was ever recorded is left as it is."""
    one, other = new("memory"), new(target)
    fill(one)
    export_from(one, tmp_path / "export")
    Mailbox(other, MOUNTS).send("mine")
    before = digest(other)

    with pytest.raises(TargetOccupied):
        import_into(tmp_path / "export", other)
    with pytest.raises(TargetOccupied):
        other.restore(list(recordable(through(one), "one")), 0, one.secret())

    assert before == digest(other)


@pytest.mark.parametrize("target", KINDS)
def test_what_is_recorded_again_follows_what_was(new, target):
    """Somebody who writes meanwhile is noticed, and not overwritten."""
    one, other = new("memory"), new(target)
    fill(one)
    batches = list(recordable(through(one), "one"))
    behind = other.restore(batches[:2], 0, one.secret())
    Mailbox(other, MOUNTS).send("mine")

    with pytest.raises(TargetOccupied):
        other.restore(batches[2:], behind, one.secret())


def test_an_erasure_that_nothing_accounts_for(new):
    """It would be told as something that was never said, so it is refused."""
    one = new("memory")
    fill(one)
    batches = [each for each in through(one) if not any(event.stream == "/redactions" for event in each.events)]

    with pytest.raises(CopyDamaged):
        list(recordable(batches, "one"))


def test_what_is_erased_while_it_is_exported_is_in_no_export(new, tmp_path, monkeypatch):
    """It is read again."""
    store = new("memory")
    fill(store)
    secret = Mailbox(store, MOUNTS).send("a word to be erased")
    look = store.batches

    def erasing(after, limit):
        found = look(after, limit)
        monkeypatch.setattr(store, "batches", look)
        Mailbox(store, MOUNTS).redact(secret.message.id)
        return found

    monkeypatch.setattr(store, "batches", erasing)
    export_from(store, tmp_path / "export")

    files = [file.read_bytes() for file in (tmp_path / "export").rglob("*") if file.is_file()]
    assert not any(b"a word to be erased" in data for data in files)


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_a_handle_from_before_an_import_sends_once(new, tmp_path, request, kind, looked):
    """What is digested with the key of the store as it was is not appended any more."""
    origin = new("memory")
    first = Mailbox(origin, MOUNTS).send("pay", idempotency_key="once")
    with contextlib.ExitStack() as after:
        if kind == "file":
            target, before = (after.enter_context(contextlib.closing(open_store(tmp_path / "two"))) for _ in range(2))
        else:
            server, schema = request.getfixturevalue("cluster"), new_schema()
            create(server, schema=schema)
            after.callback(drop, server, schema)
            handles = (postgres_store(server, schema=schema, listen=False) for _ in range(2))
            target, before = map(after.enter_context, map(contextlib.closing, handles))
        _sends_once(origin, first.message.id, target, before, looked)


def _sends_once(origin, first, target, before, looked):
    if looked:
        assert None is before.sent_under("user:me/proj:app", "once")
        assert None is before.find(("user:me/proj:app", "notes"))
    target.restore(list(recordable(through(origin), "origin")), 0, origin.secret())
    late = NewEvent("user:me/proj:app", "messages/late", "message.later", b"{}", key="once")
    with pytest.raises(JournalConflict):
        before.append(Batch(NOON, "host:me", (late,)), {("user:me/proj:app", "messages/late"): 0})
    second = Mailbox(before, MOUNTS).send("pay", idempotency_key="once")

    assert (True, first) == (second.repeated, second.message.id)
    assert origin.secret() == before.secret()
    assert 1 == len(Mailbox(target, MOUNTS).list().items)
