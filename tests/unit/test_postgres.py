"""The store in a database: opening it, its feed, its locks, and what a host does together with it."""

import contextlib
import json
import logging
import os
import random
import string
import sys
import threading
import time
from datetime import UTC, datetime
from functools import partial

import attrs
import pytest
from postgres import drop, new_schema
from unit import processes

from fencepost.journal.errors import (
    ClosedHandle,
    JournalBusy,
    JournalConflict,
    JournalError,
    JournalUnavailable,
    MissingExtra,
    NewerStore,
    NoStore,
    NotErasable,
    ReadOnlyStore,
)
from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import Changes, Documents, Draft, Erasures, Mailbox, Mount, Past, codec, errors, open_store
from fencepost.mailbox.addresses import MESSAGES
from fencepost.mailbox.events import Rewritten
from fencepost.mailbox.message import Context, Reading
from fencepost.mailbox.shapes import PATH_BYTES_MAX
from fencepost.mailbox.store.postgres.asking import Ask, Own, answers
from fencepost.mailbox.store.postgres.connections import Connections
from fencepost.mailbox.store.postgres.horizon import Locks
from fencepost.mailbox.store.postgres.opening import create, postgres_store
from fencepost.mailbox.store.postgres.schema import GENERATION, ddl, step
from fencepost.mailbox.store.postgres.store import PostgresStore
from fencepost.mailbox.store.postgres.writing import Writer

psycopg = pytest.importorskip("psycopg", reason="pip install 'fencepost[postgres]'")
from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: E402 - behind the skip

from fencepost.mailbox.store.postgres.troubles import translated  # noqa: E402 - it needs psycopg

PROJECT, USER = Mount("user:me/proj:app", "/project"), Mount("user:me", "/user")
SECRET = "hunter2-and-more"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def schema(cluster):
    name = new_schema()
    create(cluster, schema=name)
    yield name
    drop(cluster, name)


@pytest.fixture
def opened(cluster, schema):
    """Opens handles of one store."""
    made = []

    def open_one(**how):
        made.append(postgres_store(cluster, schema=schema, **{"fresh_s": 0, "listen": False, **how}))
        return made[-1]

    yield open_one
    for store in made:
        store.close()


@pytest.fixture
def connection(cluster):
    with psycopg.connect(cluster) as db:
        yield db


def feed_of(store):
    return [(each.scope, each.action) for each in Changes(store, None).poll().items]


# --- opening ------------------------------------------------------------------------------------------------------


def test_a_store_is_made_on_purpose(cluster):
    """Where there is none, opening says what makes one, and makes nothing."""
    with pytest.raises(NoStore, match="fencepost postgres init"):
        postgres_store(cluster, schema=new_schema())


@pytest.mark.parametrize(
    "changed,hint",
    [
        ({"host": "127.0.0.1", "port": "1"}, "check host and port"),
        ({"host": "nowhere.invalid"}, "check the host"),
        ({"dbname": "not_there"}, "check the database's name"),
        ({"user": "nobody_of_that_name"}, "check the user"),
        ({"host": "/nowhere"}, "name a host"),
        ({"service": "nope"}, "check the service"),
    ],
)
def test_who_cannot_connect_is_told_what_to_look_at(cluster, changed, hint):
    """Each reason has its own advice."""
    said = {**conninfo_to_dict(cluster), "connect_timeout": "5", **changed}
    with pytest.raises(JournalUnavailable) as told:
        postgres_store(make_conninfo(**said))
    assert hint in str(told.value)


@pytest.mark.parametrize(
    "said,hint",
    [
        ('FATAL:  password authentication failed for user "pw"', "check the password"),
        ("fe_sendauth: no password supplied", "put one into"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "x", database "y"', "pg_hba.conf lets in"),
        ("connection timeout expired", "what stands between"),
        ("something new", ""),
    ],
)
def test_what_a_server_says_at_the_door_has_advice(said, hint):
    """Where it has no code, by its words."""
    told = str(translated(psycopg.OperationalError(said), "there"))
    assert said in told
    assert hint in told


def test_the_longest_names_that_a_message_can_have_are_kept(opened):
    """Also where they are those of another program, and do not compress: a folder takes them too."""
    scope, *names = ("".join(random.choices(string.ascii_letters, k=PATH_BYTES_MAX)) for _ in range(6))
    store, path = opened(), MESSAGES + "00000000-0000-4000-8000-000000000001"
    scope = f"user:{scope}"[:PATH_BYTES_MAX]
    Mailbox(store, [Mount(scope, "/user")], new_id=lambda: path.removeprefix(MESSAGES)).send("hi")
    sent = store.find((scope, path)).content
    source, conversation, about, reader, referred = names
    context = Context(scope, referred, 1)
    letter = attrs.evolve(sent.letter, source=source, conversation=conversation, about=about, context=context)
    whole = attrs.evolve(sent, letter=letter, reading=Reading(reader, NOON))
    event = Rewritten(codec.document(whole).decode())
    store.append(
        Batch(NOON, "host:me", (NewEvent(scope, path, *codec.encode(event), meaning=event),)), {(scope, path): 1}
    )

    assert whole == store.find((scope, path)).content


@pytest.mark.parametrize("rights", ["SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE"])
def test_who_may_not_write_all_of_it_is_told_so(cluster, schema, connection, rights):
    """By the look that serving begins with, not by the first who needs what is missing."""
    with connection.transaction():
        connection.execute(f"CREATE ROLE {schema} LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {schema}')
        connection.execute(f'GRANT {rights} ON ALL TABLES IN SCHEMA "{schema}" TO {schema}')
        connection.execute(f'GRANT SELECT, USAGE ON SEQUENCE "{schema}".number TO {schema}')
    mine = psycopg.conninfo.make_conninfo(cluster, options=f"-c role={schema}")
    try:
        with contextlib.closing(postgres_store(cluster, schema=schema, listen=False)) as store:
            store.check()
        made = partial(psycopg.connect, mine)
        with contextlib.closing(Connections(made)) as some:
            store = PostgresStore(Own(some, "there", 1_000), Writer(schema, b"", Locks(schema, 1)))
            with pytest.raises(ReadOnlyStore, match="may write"):
                store.check()
            connection.execute(f'GRANT UPDATE, INSERT, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO {schema}')
            connection.commit()
            store.check()
    finally:
        connection.execute(f"DROP OWNED BY {schema}")
        connection.execute(f"DROP ROLE {schema}")
        connection.commit()


@pytest.mark.parametrize("place", range(3))
def test_a_failure_is_told_to_nobody_but_the_caller(connection, caplog, place):
    """Neither what failed nor where the database is comes into a log."""
    asks = [Ask("SELECT 1")] * 3
    asks[place] = Ask("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        answers(connection, asks)

    assert [] == caplog.records


def test_making_it_again_changes_nothing(cluster, schema, opened):
    """Twice in a row: what is in it stays."""
    Mailbox(opened(), [PROJECT]).send("hello")

    assert (GENERATION, GENERATION) == create(cluster, schema=schema)[1:]
    assert 1 == len(Mailbox(opened(), [PROJECT]).list().items)


def test_two_who_make_it_at_once(cluster):
    """One makes it, and the other finds it made."""
    name, done = new_schema(), []
    makers = [threading.Thread(target=lambda: done.append(create(cluster, schema=name)[1:])) for _ in range(6)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()

    assert [(0, GENERATION), *[(GENERATION, GENERATION)] * 5] == sorted(done)
    drop(cluster, name)


def test_a_newer_store_is_left_alone(cluster, schema, connection):
    """By opening and by init."""
    connection.execute(f"UPDATE {schema}.meta SET generation = 99")
    connection.commit()
    for use in (postgres_store, create):
        with pytest.raises(NewerStore) as caught:
            use(cluster, schema=schema)
        assert 99 == caught.value.found


@pytest.mark.parametrize("before", range(1, GENERATION))
def test_an_older_store_is_brought_up_to_date(cluster, connection, before):
    """Opening it says what does so; afterwards it works."""
    name = new_schema()
    connection.execute(f"CREATE SCHEMA {name}")
    for number in range(1, before + 1):
        connection.execute(step(number, name))
    connection.commit()
    with pytest.raises(JournalUnavailable, match="fencepost postgres init"):
        postgres_store(cluster, schema=name)

    assert (before, GENERATION) == create(cluster, schema=name)[1:]
    store = postgres_store(cluster, schema=name, listen=False)
    box = Mailbox(store, [PROJECT])
    box.send("hello")
    assert 1 == len(box.list().items)
    store.close()
    drop(cluster, name)


def test_a_schema_may_be_a_word_of_sql(cluster):
    """It is a name all the same."""
    create(cluster, schema="order")
    store = postgres_store(cluster, schema="order", listen=False)
    box = Mailbox(store, [PROJECT])
    assert 1 == box.redact(box.send("hello").message.id).count
    store.close()
    with psycopg.connect(cluster, autocommit=True) as db:
        db.execute("SET client_min_messages = warning")
        db.execute('DROP SCHEMA "order" CASCADE')


def test_the_printed_sql_makes_the_same_store(cluster):
    """For whoever runs it by hand."""
    name = new_schema()
    with psycopg.connect(cluster, autocommit=True) as db:
        db.execute(ddl(name))
    assert (GENERATION, GENERATION) == create(cluster, schema=name)[1:]
    store = postgres_store(cluster, schema=name, listen=False)
    Mailbox(store, [PROJECT]).send("hello")
    store.close()
    drop(cluster, name)


def test_who_may_only_use_it_needs_no_more(cluster, schema, opened):
    """Reading and writing rows is all; whoever may not make schemas can still ask for one that is there."""
    user = f"worker_{schema}"
    with psycopg.connect(cluster, autocommit=True) as db:
        db.execute(f"CREATE USER {user}")
        db.execute(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
        db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}")
        db.execute(f"GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {user}")
    url = psycopg.conninfo.make_conninfo(cluster, user=user)
    assert (GENERATION, GENERATION) == create(url, schema=schema)[1:]
    store = postgres_store(url, schema=schema)
    box = Mailbox(store, [PROJECT])
    sent = box.send("hello").message
    assert 1 == box.redact(sent.id).count
    assert 2 == len(Changes(store, None).poll().items)
    store.close()
    with psycopg.connect(cluster, autocommit=True) as db:
        db.execute(f"DROP OWNED BY {user}")
        db.execute(f"DROP USER {user}")


@pytest.mark.parametrize("name", ["", "a b", 'x"; drop', "pg_mine", "A", "1a", "x" * 64])
def test_a_schema_has_a_plain_name(name):
    """Which needs no quoting, so nothing can be smuggled in by it."""
    with pytest.raises(errors.InvalidName):
        postgres_store("postgresql://localhost/x", schema=name)


def test_who_cannot_be_reached(tmp_path):
    """Is an error at once, which names the place."""
    with pytest.raises(JournalUnavailable, match="database nothing"):
        postgres_store(f"postgresql:///nothing?host={tmp_path}")


def test_what_is_missing_is_named(monkeypatch):
    """One sentence, and what to install."""
    for module in [name for name in sys.modules if name.startswith("fencepost.mailbox.store.postgres.address")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fencepost\[postgres\]'"):
        postgres_store("postgresql://localhost/x")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@localhost/x",
        f"postgresql://me@localhost/x?password={SECRET}",
        f"host=localhost password={SECRET}",
    ],
)
def test_a_password_is_refused_where_it_can_be_read(url):
    """As what a program is called with can."""
    with pytest.raises(errors.PasswordInUrl) as caught:
        postgres_store(url, may_hold_password=False)
    assert SECRET not in repr(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{}@[localhost/x",
        "postgresql://me:{}@nowhere.invalid:1/x",
        "postgresql://me:@{}@nowhere.invalid/x",
        "postgresql://me:1/{}@nowhere.invalid/x",
        "postgresql://me:{}/@nowhere.invalid/x",
        "postgresql://me:{}@nowhere.invalid/x?nonsense=1",
        "postgresql://me:%zz{}@nowhere.invalid/x",
        "host=nowhere.invalid password='{}",
        "host=nowhere.invalid password={} nonsense",
        "{}",
    ],
)
def test_a_password_is_in_no_error(url, caplog):
    """However the URL is broken, and whatever cannot be reached: not in the sentence, its causes or a log."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises((errors.BadInput, JournalError)) as caught:
        postgres_store(url.format(SECRET))
    error = caught.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in caplog.text


def test_a_store_does_not_show_its_password(cluster, schema):
    """In no representation of it or of what it holds."""
    store = postgres_store(f"{cluster}&password={SECRET}", schema=schema)
    shown = f"{store!r} {vars(store)} {vars(store._db)} {vars(store._connections)} {vars(store._news)}"
    store.close()

    assert SECRET not in shown


def test_a_url_opens_it(cluster):
    """As `open_store` says; the schema is the usual one."""
    create(cluster)
    store = open_store(cluster)
    Mailbox(store, [PROJECT]).send("hello")
    store.close()
    with pytest.raises(ClosedHandle):
        store.change_mark()
    store.close()
    drop(cluster, "fencepost")


# --- the feed --------------------------------------------------------------------------------------------------


def test_an_open_transaction_is_never_skipped(opened, connection):
    """What others commit meanwhile is listed at once, and told by the feed after what has the smaller number."""
    store = opened()
    box, feed = Mailbox(store, [USER]), Changes(store, None)
    box.send("before")
    late = Mailbox(store.within(connection), [PROJECT])
    late.send("late")
    for _ in range(3):
        box.send("meanwhile")

    assert 4 == len(box.list().items)
    first = feed.poll()
    assert [USER.scope] == [each.scope for each in first.items]
    assert first.position == first.end
    late.send("late too")
    box.send("meanwhile")
    assert () == feed.poll(first.position).items
    connection.commit()

    rest = feed.poll(first.position)
    assert [PROJECT.scope, *[USER.scope] * 3, PROJECT.scope, USER.scope] == [each.scope for each in rest.items]
    assert rest.position == rest.end


def test_a_transaction_that_is_rolled_back_holds_nothing_up(opened, connection):
    """Its numbers are a gap."""
    store = opened()
    Mailbox(store.within(connection), [PROJECT]).send("never")
    Mailbox(store, [USER]).send("hello")
    assert [] == feed_of(store)
    connection.rollback()

    assert [(USER.scope, "sent")] == feed_of(store)


def test_nobody_reads_past_a_slow_one(opened, cluster):
    """Writers in many transactions, some slow, and a reader who polls all the while: it sees each change, in order."""
    store = opened()
    trouble = []

    def write(number):
        try:
            mount = Mount(f"user:w{number}", "/w")
            with psycopg.connect(cluster) as db:
                for count in range(15):
                    Mailbox(store.within(db), [mount]).send(f"{count}")
                    time.sleep(0.003 * (number % 3))
                    if count % 5 == 4:
                        db.rollback()
                    else:
                        db.commit()
        except Exception as error:  # noqa: BLE001 - it is shown below
            trouble.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for writer in writers:
        writer.start()
    seen, position, over = [], 0, False
    feed = Changes(opened(), None)
    while not over:
        over = not any(writer.is_alive() for writer in writers)  # before the last look
        news = feed.poll(position, limit=500)
        seen += [each.id for each in news.items]
        position = news.position

    assert [] == trouble
    assert 6 * 12 == len(seen)
    assert sorted(set(seen)) == seen
    assert [each.id for each in Changes(opened(), None).poll(limit=500).items] == seen


def test_the_mark_grows_with_each_commit(opened, connection):
    """Also when a smaller number comes after a greater one, and while somebody holds the feed up."""
    store = opened()
    store.change_mark()
    late = Mailbox(store.within(connection), [PROJECT])
    late.send("late")
    marks = [store.change_mark()]
    for _ in range(2):
        Mailbox(store, [USER]).send("meanwhile")
        marks.append(store.change_mark())
    connection.commit()
    marks.append(store.change_mark())

    assert sorted(set(marks)) == marks


def test_the_mark_grows_where_it_is_counted_anew(opened, monkeypatch):
    """Many events later, and through gaps."""
    monkeypatch.setattr("fencepost.mailbox.store.postgres.news._COUNTED_MAX", 3)
    store = opened()
    box, marks = Mailbox(store, [USER]), [store.change_mark()]
    for _ in range(9):
        box.send("hello")
        marks.append(store.change_mark())
        with pytest.raises(JournalConflict):
            store.append(Batch(NOON, "host:me", (NewEvent("user:me", "x", "y", b"{}"),)), {("user:me", "x"): 7})
        assert marks[-1] == store.change_mark()

    assert sorted(set(marks)) == marks


def test_who_listens_is_told_by_whoever_appends(opened, monkeypatch):
    """Where nothing else would make it look for a long time."""
    monkeypatch.setattr("fencepost.mailbox.store.postgres.news.LISTENING_S", 1000)
    waiting, sending = opened(listen=True, fresh_s=None), opened()
    mark = [waiting.change_mark(), waiting.change_mark()][-1]
    waiting._news._stale.wait(10)  # it has begun to listen
    for _ in range(3):
        mark = waiting.change_mark()
        Mailbox(sending, [PROJECT]).send("hello")
        assert waiting._news._stale.wait(10)
        assert mark < waiting.change_mark()


@pytest.mark.parametrize("listen", [True, False])
def test_who_waits_is_woken(opened, listen):
    """Told by the database, or not."""
    waiting, sending = opened(listen=listen, fresh_s=None), opened()
    box = Mailbox(waiting, [PROJECT])
    timer = threading.Timer(0.5, lambda: Mailbox(sending, [PROJECT]).send("hello"))
    timer.start()
    begun = time.monotonic()

    assert 1 == len(box.wait(20).items)
    assert time.monotonic() - begun < 5
    timer.join()


def test_lost_notifications_only_cost_time(opened, cluster):
    """A listener that was cut off is as good as none: who waits looks all the same."""
    waiting, sending = opened(listen=True, fresh_s=None), opened()
    waiting.change_mark()
    waiting.change_mark()
    listener = waiting._news._listener
    with psycopg.connect(cluster, autocommit=True) as db:
        while not db.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query = %s",
            (f"LISTEN {waiting._locks.channel}",),
        ).fetchone()[0]:
            time.sleep(0.01)
    listener.join(10)
    mark = waiting.change_mark()
    Mailbox(sending, [PROJECT]).send("hello")
    deadline = time.monotonic() + 10
    while waiting.change_mark() == mark:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- within -----------------------------------------------------------------------------------------------------


def test_a_host_commits_its_work_and_a_message_together(opened, schema, connection):
    """Nothing of it is there before; and what is refused leaves the host's work as it was."""
    store = opened()
    connection.execute(f"CREATE TABLE {schema}.work (done text)")
    connection.commit()
    connection.execute(f"INSERT INTO {schema}.work VALUES ('shipped')")
    box = Mailbox(store.within(connection), [PROJECT])
    sent = box.send("shipped", actionable=True).message
    with pytest.raises(errors.StaleOccurrence):
        box.claim(sent.id, session="ada", occurrence=2)
    with pytest.raises(JournalConflict):
        box.store.append(Batch(NOON, "host:me", (NewEvent(PROJECT.scope, "x", "y", b"{}"),)), {(PROJECT.scope, "x"): 7})
    claimed = box.claim(sent.id, session="ada", occurrence=1)
    assert () == Mailbox(store, [PROJECT]).list(status="all").items
    connection.commit()

    found = Mailbox(store, [PROJECT]).list(status="all").items
    assert [claimed.message] == [each.message for each in found]
    assert ("shipped",) == connection.execute(f"SELECT done FROM {schema}.work").fetchone()


def test_a_host_rolls_back_its_work_and_a_message_together(opened, connection):
    """As if neither had been."""
    store = opened()
    box = Mailbox(store.within(connection), [PROJECT])
    box.send("never", idempotency_key="once")
    assert 1 == len(box.list().items)
    assert 1 == len(Past(box.store, [PROJECT]).search("never").hits)
    connection.rollback()

    assert () == Mailbox(store, [PROJECT]).list().items
    assert not Mailbox(store, [PROJECT]).send("never", idempotency_key="once").repeated


def test_a_host_must_be_in_a_transaction(opened, cluster):
    """Each statement would be committed by itself otherwise, or see nothing of what others wrote."""
    with psycopg.connect(cluster, autocommit=True) as db:
        box = Mailbox(opened().within(db), [PROJECT])
        with pytest.raises(JournalUnavailable, match="begin one"):
            box.send("hello")
        with db.transaction():
            box.send("hello")
        with db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            with pytest.raises(JournalUnavailable, match="read committed"):
                box.send("hello")

    assert 1 == len(Mailbox(opened(), [PROJECT]).list().items)


def test_thousands_within_one_transaction(opened, connection):
    """The locks of a transaction do not grow with what it appends."""
    within = opened().within(connection)
    box = Mailbox(within, [PROJECT])
    for _ in range(40):
        box.send("hello")
    (count,) = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
    ).fetchone()

    assert 3 == count


# --- writing ----------------------------------------------------------------------------------------------------


def test_who_waits_too_long_is_told(opened, connection):
    """Somebody holds the scope; others can still write to another one."""
    Mailbox(opened().within(connection), [PROJECT]).send("slow")
    store = opened(lock_wait_ms=50)
    with pytest.raises(JournalBusy):
        Mailbox(store, [PROJECT]).send("hello")

    Mailbox(store, [USER]).send("hello")


def test_a_commit_waits_for_the_disk(cluster, schema, connection):
    """Also where somebody has turned that off for the database, or for the user."""
    store = postgres_store(f"{cluster}&options=-csynchronous_commit%3Doff", schema=schema)
    setting = Ask("SELECT current_setting('synchronous_commit')")
    connection.execute(
        f"CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.actor := current_setting('synchronous_commit'); RETURN NEW; END $$"
    )
    connection.execute(
        f"CREATE TRIGGER note BEFORE INSERT ON {schema}.event FOR EACH ROW EXECUTE FUNCTION {schema}.note()"
    )
    connection.commit()
    stream = (PROJECT.scope, MESSAGES + Mailbox(store, [PROJECT]).send("hello").message.id)

    assert ["on"] == [event.actor for event in store.events(stream)]
    assert [[("off",)]] == store._db.ask(setting)
    assert [[("on",)]] == store._db.write(lambda tx: tx.ask(setting))
    assert [[("off",)]] == store._db.ask(setting)
    store.close()


def test_writers_to_one_scope_share_it(cluster, schema, opened, connection):
    """While one has not committed, others do; but not who goes for the same message, writes a document, or erases."""
    store = opened(lock_wait_ms=50)
    box = Mailbox(store, [PROJECT])
    first, second = (box.send("hello", actionable=True).message.id for _ in range(2))
    connection.execute(f"SELECT FROM {schema}.document WHERE path = %s FOR UPDATE", (MESSAGES + first,))
    slow = threading.Thread(target=lambda: Mailbox(opened(), [PROJECT]).claim(first, session="ada", occurrence=1))
    slow.start()
    waiting = f"SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}%'"
    with psycopg.connect(cluster, autocommit=True) as db:
        while not db.execute(waiting).fetchall():
            time.sleep(0.01)

    box.claim(second, session="ben", occurrence=1)
    box.send("hello")
    for deed in (
        lambda: box.claim(first, session="ben", occurrence=1),
        lambda: Documents(store, [PROJECT]).write("/project/a", "hello"),
        lambda: box.redact(second),
    ):
        with pytest.raises(JournalBusy):
            deed()
    connection.rollback()
    slow.join()
    assert "ada" == box.view(first).receipt.message.lease.owner


def test_two_who_send_under_one_key_at_once(opened):
    """One sends, and the other is answered with that."""
    answers, begin = [], threading.Barrier(8)

    def send(box):
        begin.wait()
        answers.append(box.send("hello", idempotency_key="once"))

    senders = [threading.Thread(target=send, args=(Mailbox(opened(), [PROJECT]),)) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    assert 1 == len({answer.message.id for answer in answers})
    assert [False, *[True] * 7] == sorted(answer.repeated for answer in answers)
    assert 1 == len(Mailbox(opened(), [PROJECT]).list().items)


def test_a_database_of_another_isolation(cluster, schema):
    """Where each transaction would keep to its first look, ours do not."""
    store = postgres_store(
        f"{cluster}&options=-cdefault_transaction_isolation%3Dserializable", schema=schema, listen=False
    )
    other = postgres_store(cluster, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    sent = box.send("hello", actionable=True).message
    Mailbox(other, [PROJECT]).claim(sent.id, session="ada", occurrence=1)
    with pytest.raises(errors.ClaimedByAnother):
        box.claim(sent.id, session="ben", occurrence=1)
    assert ["serializable"] == [level for ((level,),) in store._db.ask(Ask("SHOW transaction_isolation"))]
    store.close()
    other.close()


def test_what_was_found_before_an_erasure_is_not_added_to(opened):
    """Also where the same handle has found something else since."""
    one, two = opened(), opened()
    first, second = (Mailbox(one, [PROJECT]).send("secret", actionable=True).message.id for _ in range(2))
    stream = (PROJECT.scope, MESSAGES + first)
    assert one.find(stream).version == 1
    Mailbox(two, [PROJECT]).redact(first)
    assert one.find((PROJECT.scope, MESSAGES + second)).version == 1
    batch = Batch(NOON, "host:me", (NewEvent(*stream, "message.acknowledged", b"{}"),))
    with pytest.raises(JournalConflict):
        one.append(batch, {stream: 1})


def test_a_large_batch_is_kept_in_parts(opened, monkeypatch):
    """All of it or nothing, and the same as in one."""
    monkeypatch.setattr("fencepost.mailbox.store.postgres.folding._PART_CHARS_MAX", 1000)
    store = opened()
    box = Mailbox(store, [PROJECT])
    big = box.send("x" * (2 << 20)).message
    box.send_many([Draft(f"number {number}") for number in range(150)])
    refused = [NewEvent(PROJECT.scope, f"x{number}", "y", b"{}") for number in range(150)]
    with pytest.raises(JournalConflict):
        store.append(Batch(NOON, "host:me", tuple(refused)), {(PROJECT.scope, MESSAGES + big.id): 7})

    assert 151 == len(box.list(limit=500).items)
    assert 1 == len(Past(store, [PROJECT]).search("number 149").hits)
    assert store.find((PROJECT.scope, "x0")) is None


def test_who_saw_what_was_erased_has_to_look_again(opened):
    """An append that may be based on it is refused once."""
    one, two = opened(), opened()
    sent = Mailbox(one, [PROJECT]).send("secret", actionable=True).message
    stream = (PROJECT.scope, MESSAGES + sent.id)
    assert one.find(stream).version == 1
    Mailbox(two, [PROJECT]).redact(sent.id)
    batch = Batch(NOON, "host:me", (NewEvent(*stream, "message.acknowledged", b"{}"),))
    with pytest.raises(JournalConflict):
        one.append(batch, {stream: 1})

    with pytest.raises(errors.Erased):
        Mailbox(one, [PROJECT]).ack(sent.id, session="ada", occurrence=1)


def test_what_cannot_be_erased(opened):
    """An event that is not there, and the record of an erasure."""
    store = opened()
    sent = Mailbox(store, [PROJECT]).send("secret").message
    Mailbox(store, [PROJECT]).redact(sent.id)
    (record,) = store.events((PROJECT.scope, "/redactions"))
    for seq in (record.seq, 999):
        with pytest.raises(NotErasable):
            store.append(Batch(NOON, "host:me", (NewEvent(PROJECT.scope, "x", "y", b"{}"),), (seq,)), {})
    assert store.find((PROJECT.scope, "x")) is None


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_erased_is_in_no_table(opened, schema, connection, whole):
    """Neither a body, an outcome or a document, nor a session, nor a piece of them."""
    store = opened()
    box, documents = Mailbox(store, [PROJECT]), Documents(store, [PROJECT])
    sent = box.send(SECRET, actionable=True, session=f"s-{SECRET}").message
    box.shown([sent.id], session=f"c-{SECRET}", door="test")
    token = box.claim(sent.id, session=f"c-{SECRET}", occurrence=1).message.lease.token
    box.complete(sent.id, session=f"c-{SECRET}", occurrence=1, token=token, outcome=SECRET)
    documents.write("/project/notes.md", SECRET)
    documents.write("/project/notes.md", f"{SECRET} again")
    connection.commit()
    pieces = connection.execute(f"SELECT count(*) FROM {schema}.said, unnest(pieces)").fetchone()
    assert pieces > (0,)
    connection.execute("ANALYZE")
    connection.commit()
    if whole:
        Erasures(store, [PROJECT]).scope("/project")
    else:
        box.redact(sent.id)
        Erasures(store, [PROJECT]).document("/project/notes.md")
    tables = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
    ).fetchall()
    assert len(tables) > 10
    for (table,) in tables:
        for row in connection.execute(f"SELECT t::text FROM {schema}.{table} t").fetchall():
            assert SECRET not in row[0]
            assert SECRET.encode().hex() not in row[0]
    for row in connection.execute("SELECT s::text FROM pg_stats s WHERE schemaname = %s", (schema,)).fetchall():
        assert SECRET not in row[0]  # what the planner has sampled
    left = connection.execute(f"SELECT (SELECT count(*) FROM {schema}.said), (SELECT count(*) FROM {schema}.noted)")
    assert (0, 0) == left.fetchone()
    assert () == Past(store, [PROJECT]).search(SECRET).hits


def test_a_bound_of_a_search_is_told(opened, monkeypatch):
    """Short terms alone are looked for so far back and no further."""
    monkeypatch.setattr("fencepost.mailbox.store.texts.SCAN_MAX", 2)
    store = opened()
    box, past = Mailbox(store, [PROJECT]), Past(store, [PROJECT])
    for body in ("xy old", "new", "newer"):
        box.send(body)

    assert ((), False) == (past.search("xy").hits, past.search("xy").complete)
    assert (1, True) == (len(past.search("xy old").hits), past.search("xy old").complete)


# --- processes --------------------------------------------------------------------------------------------------


WORKER = """
import json, sys
from fencepost.mailbox import Mailbox, Mount, errors
from fencepost.mailbox.store.postgres.opening import postgres_store

url, schema, name = sys.argv[1:]
box, done = Mailbox(postgres_store(url, schema=schema), [Mount("user:me/proj:app", "/project")]), []
sys.stdin.readline()
while items := box.list(limit=20).items:
    for item in items:
        number = item.message.id
        try:
            token = box.claim(number, session=name, occurrence=1).message.lease.token
            box.complete(number, session=name, occurrence=1, token=token, outcome=name)
        except errors.Refused:
            continue
        done.append(number)
box.store.close()
print(json.dumps(done))
"""


def test_sixteen_workers_do_each_thing_once(cluster, schema, opened):
    """Nothing is lost and nothing is done twice, whoever is quicker."""
    box = Mailbox(opened(), [PROJECT])
    sent = {box.send(f"{number}", actionable=True).message.id for number in range(64)}
    workers = {f"w{number}": processes.start(WORKER, cluster, schema, f"w{number}") for number in range(16)}
    done = {}
    for worker in workers.values():  # all of them wait before one begins
        worker.stdin.write("\n")
        worker.stdin.flush()
    for name, worker in workers.items():
        done[name] = json.loads(worker.communicate(timeout=2 * processes.PATIENCE_S)[0])
        assert worker.returncode == 0

    assert sorted(sent) == sorted(each for some in done.values() for each in some)
    for number in sent:
        found = box.view(number)
        assert number in done[found.receipt.message.outcome]
        assert 3 == len(found.versions)


def test_a_forked_child_has_connections_of_its_own(opened):
    """Both go on, and neither ends the other's."""
    store = opened(listen=True, fresh_s=None)
    box = Mailbox(store, [PROJECT])
    box.send("parent")
    store.change_mark()
    store.change_mark()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            Mailbox(store, [PROJECT]).send("child")
            store.change_mark()
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    box.send("parent again")

    assert 3 == len(box.list().items)
