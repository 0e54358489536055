"""
Where the program of a contract test keeps its store: in a folder, in a database, or with a state process over either.

Each is what a person would set up, said to the program through its environment.  What is written is looked at from
outside, so that a test can say that nothing was.
"""

import contextlib
import hashlib
import itertools
import os
import select
import subprocess
import time
import urllib.parse

import psycopg

PATIENCE_S = 30
TOKEN = "a-token-of-the-tests"
_numbers = itertools.count()


class Folder:
    """A store in the home of whoever asks."""

    name = "file"

    def __init__(self, shell):
        self.root = shell.home / ".fencepost"
        self.environ = {}

    def digest(self):
        """A digest of everything in the journal."""
        files = sorted(file for file in (self.root / "journal").rglob("*") if file.is_file())
        return hashlib.sha256(b"".join(bytes(file) + b"\0" + file.read_bytes() for file in files)).hexdigest()

    def actor(self, said):
        """Who is on record as the writer when the program says so."""
        return said

    def close(self):
        """Nothing is running."""


class Database:
    """A store in a database of its own."""

    name = "postgres"

    def __init__(self, shell, server):
        self.root = None
        self.server = server
        self.name_there = f"fencepost_{os.getpid()}_{next(_numbers)}"
        self._ask(server, f"CREATE DATABASE {self.name_there}")
        self.url = server.replace("/postgres?", f"/{self.name_there}?")
        self.environ = {"FENCEPOST_DATABASE_URL": self.url}
        done = subprocess.run(
            [shell.program, "postgres", "init"],
            env=shell.environ | self.environ,
            cwd=shell.here,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert 0 == done.returncode, done.stderr

    @staticmethod
    def _ask(url, statement):
        with psycopg.connect(url, autocommit=True) as db:
            return db.execute(statement)

    def digest(self):
        """A digest of every recorded event."""
        with psycopg.connect(self.url, autocommit=True) as db:
            ((found,),) = db.execute(
                "SELECT coalesce(md5(string_agg(event::text, '|' ORDER BY seq)), '') FROM fencepost.event AS event"
            )
        return found

    def actor(self, said):
        """Who is on record as the writer when the program says so."""
        return said

    def close(self):
        """The database goes."""
        self._ask(self.server, f"DROP DATABASE IF EXISTS {self.name_there} WITH (FORCE)")


class Wire:
    """What a state process keeps, in one of the others."""

    def __init__(self, shell, under):
        self.name = f"wire-{under.name}"
        self.under = under
        self.root = under.root
        where = () if under.root is None else ("--root", str(under.root))
        self.process = subprocess.Popen(
            [shell.program, "serve", "--port", "0", *where],
            env=shell.environ | under.environ | {"FENCEPOST_SERVE_TOKEN": TOKEN},
            cwd=shell.here,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.environ = {"FENCEPOST_URL": self._address(), "FENCEPOST_CLIENT_TOKEN": TOKEN}
        except BaseException:
            self.close()
            raise

    def _address(self):
        deadline = time.monotonic() + PATIENCE_S
        said = b""
        while b"\n" not in said:
            left = deadline - time.monotonic()
            assert select.select([self.process.stdout], [], [], max(left, 0))[0], "it does not say where it is"
            piece = os.read(self.process.stdout.fileno(), 4096)
            assert piece, "it has ended"
            said += piece
        words = said.decode().split()
        (address,) = [word.rstrip(".,") for word in words if urllib.parse.urlsplit(word).scheme == "http"]
        return address

    def digest(self):
        """What the store under it has."""
        return self.under.digest()

    def actor(self, said):
        """Behind the name that the token stands for."""
        return f"client:default/{said}"

    def close(self):
        """It ends, and what is under it goes."""
        with contextlib.ExitStack() as after:
            after.callback(self.under.close)
            after.callback(self.process.stdout.close)
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
