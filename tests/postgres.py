"""
A Postgres to test against.

`cluster` (a fixture) is the server that $FENCEPOST_TEST_DATABASE_URL names, or a private one: on a Unix socket in a
temporary folder, without a port, as the user `postgres` where we are root, and gone when the tests are over.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

LACKING = "there is no Postgres: install the server (`initdb` and `pg_ctl`), or set $FENCEPOST_TEST_DATABASE_URL"
URL_VARIABLE = "FENCEPOST_TEST_DATABASE_URL"
_USER = "postgres"
_FAST = "-c fsync=off -c full_page_writes=off -c max_connections=100 -c shared_buffers=32MB"


def program(name):
    """A program of the server, which may be off the path; None where there is none."""
    found = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)]
    return shutil.which(name) or next(iter(found), None)


def psycopg_or_none():
    try:
        import psycopg
    except ImportError:
        return None
    return psycopg


class Server:
    """A server of our own, in a folder that the user it runs as owns."""

    def __init__(self, options=_FAST):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="fencepost-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self.folder.chmod(0o755)
        self.port = 5432  # of a socket in a folder of its own, so nobody else has it
        self._as = []
        if os.getuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
        self._run("initdb", "-D", self.data, "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def _run(self, name, *words):
        done = subprocess.run(
            [*self._as, program(name), *map(str, words)],
            check=False,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout

    def start(self):
        socket = f"-c listen_addresses='' -c unix_socket_directories={self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", log, "-o", f"{self.options} {socket}", "start")
        return self

    def stop(self, mode="fast"):
        self._run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def remove(self):
        with contextlib.suppress(AssertionError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self):
        return f"postgresql://{_USER}@/postgres?host={self.folder}&port={self.port}"


def can_run():
    """Can a server of our own be started here?"""
    if psycopg_or_none() is None or program("initdb") is None or program("pg_ctl") is None:
        return False
    if os.getuid() != 0:
        return True
    with contextlib.suppress(KeyError):
        return shutil.which("setpriv") is not None and pwd.getpwnam(_USER) is not None
    return False


@pytest.fixture(scope="session")
def cluster(cannot):
    """The URL of a server on which tests may make schemas."""
    given = os.environ.get(URL_VARIABLE)
    if given and psycopg_or_none() is not None:
        yield given
        return
    if not can_run():
        cannot(LACKING)
    server = Server()
    try:
        yield server.start().url
    finally:
        server.remove()


def new_schema():
    """The name of a schema that is not there."""
    return f"test_{uuid.uuid4().hex[:20]}"


def drop(url, schema):
    """Remove a schema and all that is in it."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET client_min_messages = warning")
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
