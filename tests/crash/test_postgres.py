"""A server is killed and a connection is cut: what was acknowledged is there, and what is told is so."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from postgres import LACKING, Server, can_run, drop, new_schema, psycopg_or_none

from fencepost.journal.errors import JournalError, JournalUnavailable, OutcomeUnknown, ReadOnlyStore
from fencepost.mailbox import Changes, Documents, Mailbox, Mount, Past
from fencepost.mailbox.errors import Erased
from fencepost.mailbox.store.postgres import asking
from fencepost.mailbox.store.postgres.opening import create, postgres_store

psycopg = psycopg_or_none()
pytestmark = pytest.mark.sample
PROJECT = Mount("user:me/proj:app", "/project")


@pytest.fixture
def schema(cluster):
    name = new_schema()
    create(cluster, schema=name)
    yield name
    drop(cluster, name)


@pytest.fixture
def server(cannot):
    """One of our own, whose disk is asked to keep things."""
    if not can_run():
        cannot(LACKING)
    made = Server(options="-c shared_buffers=32MB")
    try:
        yield made.start()
    finally:
        made.remove()


class Proxy:
    """Stands between a client and a server, and cuts the connection at what writes when it is told to."""

    def __init__(self, folder, behind):
        self.behind = str(behind)
        self.cut = None  # "before" or "after" the server has it; or it has it "late", when `late` is set
        self.late = threading.Event()
        self.written = threading.Event()
        self.refuse = False
        self.cuts = 0
        self.sockets = []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(folder / ".s.PGSQL.5433"))
        self.listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, server = self.listening.accept()[0], socket.socket(socket.AF_UNIX)
                self.sockets += [client, server]
                if self.refuse:
                    client.close()
                    continue
                server.connect(self.behind)
                muted = threading.Event()
                for source, target, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass, args=(source, target, asks, muted), daemon=True).start()

    def _pass(self, source, target, asks, muted):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not asks and muted.is_set():
                    continue
                if asks and self.cut and b'"event":' in data:  # with it comes all that writes, and the commit
                    self.cuts += 1
                    how, self.cut = self.cut, None
                    if how == "late":
                        muted.set()
                        source.shutdown(socket.SHUT_RDWR)
                        self.late.wait(30)
                    if how != "before":
                        muted.set()
                        target.sendall(data)
                        source.settimeout(0.3)  # it commits, perhaps by what comes next; its answer goes nowhere
                        with contextlib.suppress(OSError):
                            while more := source.recv(1 << 16):
                                target.sendall(more)
                    self.written.set()
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in (self.listening, *self.sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def proxy(cluster, tmp_path):
    parameters = psycopg.conninfo.conninfo_to_dict(cluster)
    if not str(parameters.get("host", "")).startswith("/"):
        pytest.skip("the server is not on a Unix socket of this machine")
    made = Proxy(tmp_path, f"{parameters['host']}/.s.PGSQL.{parameters.get('port', 5432)}")
    made.url = psycopg.conninfo.make_conninfo(cluster, host=str(tmp_path), port=5433)
    yield made
    made.close()


def test_a_lost_answer_is_looked_up(proxy, cluster, schema):
    """The connection is cut when the server has committed: the store looks, and the send has succeeded."""
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    box.send("before")
    proxy.cut = "after"
    sent = box.send("hello").message

    assert 1 == proxy.cuts
    assert sent in [each.message for each in box.list().items]
    assert 2 == len(box.list().items)
    store.close()


def test_what_never_arrived_is_sent_again(proxy, schema):
    """The connection is cut before the server has it: the store connects again, and it is there once."""
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    box.send("before")
    proxy.cut = "before"
    box.send("hello")

    assert 1 == proxy.cuts
    assert ["before", "hello"] == [each.message.letter.body for each in box.list().items]
    store.close()


def test_what_arrives_late_changes_nothing(proxy, schema):
    """It was sent again meanwhile, so the versions that it expects are past."""
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    work = box.send("hello", actionable=True).message
    proxy.cut = "late"
    held = box.claim(work.id, session="ada", occurrence=1).message.lease
    done = box.complete(work.id, session="ada", occurrence=1, token=held.token, outcome="done")
    proxy.late.set()
    assert proxy.written.wait(30)

    assert 1 == proxy.cuts
    assert done.message == box.view(work.id).receipt.message
    assert 3 == len(box.view(work.id).versions)
    store.close()


def test_an_erasure_that_never_arrived_is_none(proxy, schema):
    """The connection is cut before the server has its commit: nothing was erased, and that is what is said."""
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    sent = box.send("secret").message
    proxy.cut = "before"
    with pytest.raises(JournalUnavailable):
        box.redact(sent.id)

    assert 1 == proxy.cuts
    assert sent == box.view(sent.id).receipt.message
    store.close()


def test_an_erasure_whose_answer_is_lost(proxy, schema):
    """The store looks, and it has happened."""
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    sent = box.send("secret").message
    proxy.cut = "after"

    assert 1 == box.redact(sent.id).count
    assert 1 == proxy.cuts
    with pytest.raises(Erased):
        box.view(sent.id)
    store.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_where_nobody_can_say(proxy, cluster, schema, monkeypatch, cut):
    """The server cannot be asked either: then that is what is said, and a repeat under the same key is safe."""
    monkeypatch.setattr(asking, "_LEARN_S", 0.5)
    store = postgres_store(proxy.url, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    box.send("before")
    proxy.cut = cut
    proxy.refuse = True
    with pytest.raises(OutcomeUnknown, match="may or may not"):
        box.send("hello", idempotency_key="once")
    proxy.refuse = False

    assert (cut == "after") == box.send("hello", idempotency_key="once").repeated
    assert 2 == len(box.list().items)
    store.close()


def test_idle_connections_that_were_cut_are_replaced(cluster, schema):
    """Whoever calls next notices nothing."""
    store = postgres_store(cluster, schema=schema, listen=False)
    box = Mailbox(store, [PROJECT])
    for deed in (lambda: box.send("hello"), box.list):
        deed()
        with psycopg.connect(cluster, autocommit=True) as db:
            for idle in store._connections._idle:
                db.execute("SELECT pg_terminate_backend(%s, 5000)", (idle.info.backend_pid,))
        deed()
    store.close()


def test_a_server_that_is_killed_keeps_what_it_acknowledged(server):
    """Several send while it is stopped without mercy and started again: each answer was true."""
    create(server.url)
    told, unknown, stop = [], [], threading.Event()

    def send(number):
        store = postgres_store(server.url, listen=False)
        box = Mailbox(store, [Mount(f"user:w{number}", "/w")])
        count = 0
        while not stop.is_set():
            count += 1
            body = f"{number} {count}"
            try:
                box.send(body)
                told.append(body)
            except OutcomeUnknown:
                unknown.append(body)
            except JournalError:
                time.sleep(0.02)
        store.close()

    senders = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for sender in senders:
        sender.start()
    for _ in range(2):
        before = len(told)
        deadline = time.monotonic() + 30
        while len(told) < before + 40:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.stop("immediate")
        server.start()
    stop.set()
    for sender in senders:
        sender.join(60)

    store = postgres_store(server.url, listen=False)
    box = Mailbox(store, [Mount(f"user:w{number}", f"/w{number}") for number in range(4)])
    found = [
        each.message.letter.body
        for number in range(4)
        for each in box.list(target=f"/w{number}", status="all", limit=500).items
    ]
    store.close()

    assert len(set(found)) == len(found)
    assert set(told) <= set(found) <= set(told) | set(unknown)


def test_a_replica_is_read(server):
    """What it has is shown; writing and the feed are refused, and say where to go."""
    create(server.url)
    primary = postgres_store(server.url, listen=False)
    Mailbox(primary, [PROJECT]).send("hello", actionable=True)
    replica = Server.__new__(Server)
    replica.__dict__.update(server.__dict__)
    replica.data, replica.port = server.folder / "replica", 5434
    server._run("pg_basebackup", "-h", server.folder, "-U", "postgres", "-D", replica.data, "-R", "-c", "fast")
    replica.options += " -c port=5434"
    replica.start()
    try:
        store = postgres_store(f"postgresql://postgres@/postgres?host={server.folder}&port=5434", listen=False)
        box = Mailbox(store, [PROJECT])
        (item,) = box.list().items
        assert "hello" == box.view(item.message.id).receipt.message.letter.body
        assert 1 == len(Past(store, [PROJECT]).search("hello").hits)
        for refused in (
            lambda: box.send("never"),
            lambda: box.claim(item.message.id, session="ada", occurrence=1),
            lambda: box.redact(item.message.id),
            lambda: Documents(store, [PROJECT]).write("/project/a", "never"),
        ):
            with pytest.raises(ReadOnlyStore, match="primary"):
                refused()
        with pytest.raises(JournalUnavailable, match="replica"):
            Changes(store, None).poll()
        mark = store.change_mark()
        Mailbox(primary, [PROJECT]).send("news")
        deadline = time.monotonic() + 20
        while store.change_mark() == mark:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        store.close()
    finally:
        replica.stop("immediate")
    primary.close()


@pytest.fixture
def pooled(cluster, cannot):
    """The URL of the same server through pgbouncer, which gives each transaction another connection."""
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        cannot("there is no pgbouncer: install it")
    there = psycopg.conninfo.conninfo_to_dict(cluster)
    if not str(there.get("host", "")).startswith("/"):
        pytest.skip("the server is not on a Unix socket of this machine")
    folder = Path(tempfile.mkdtemp(prefix="fencepost-pgbouncer-", dir="/tmp"))
    folder.chmod(0o777)  # it refuses to run as root
    port = 5435
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={there['host']} port={there.get('port', 5432)} user=postgres\n"
        f"[pgbouncer]\npool_mode = transaction\nlisten_port = {port}\nunix_socket_dir = {folder}\n"
        f"auth_type = any\nauth_file = {folder}/users\ndefault_pool_size = 3\nmax_client_conn = 100\n"
    )
    user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([*user, program, folder / "pgbouncer.ini"], stdout=log, stderr=log)
    url = psycopg.conninfo.make_conninfo(dbname=there["dbname"], user="postgres", host=str(folder), port=port)
    try:
        deadline = time.monotonic() + 10
        while not _answers(url):
            if time.monotonic() > deadline or running.poll() is not None:
                cannot(f"pgbouncer does not start: {(folder / 'log').read_text()}")
            time.sleep(0.05)
        yield url
    finally:
        running.kill()
        running.wait(20)
        shutil.rmtree(folder)


def _answers(url):
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_through_a_pooler(pooled, schema):
    """Many threads over few connections, each transaction on another one; and who waits is woken."""
    store = postgres_store(pooled, schema=schema)
    assert store._news._connect is None
    trouble = []

    def work(number):
        try:
            box = Mailbox(store, [Mount(f"user:w{number}", "/w"), PROJECT])
            for count in range(12):
                sent = box.send(f"{number} {count}", actionable=True).message
                token = box.claim(sent.id, session="ada", occurrence=1).message.lease.token
                box.complete(sent.id, session="ada", occurrence=1, token=token, outcome="done")
                box.send(f"note {count}", target="/project", conversation="ben", session="ada")
        except Exception as error:  # noqa: BLE001 - it is shown below
            trouble.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [] == trouble
    box = Mailbox(store, [PROJECT])
    assert 8 * 12 == len(box.list(session="ben", limit=500).items)
    assert 8 * 12 * 4 == len(Changes(store, None).poll(limit=500).items)
    box.redact(box.list(session="ben").items[0].message.id)
    assert 8 == len(Past(store, [PROJECT]).search("note 11").hits)

    timer = threading.Timer(0.3, lambda: box.send("news"))
    timer.start()
    assert 1 == len(box.wait(20).items)
    timer.join()
    store.close()
