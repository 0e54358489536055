"""A state process without a socket: its application over a store in memory, and what it answers."""

import itertools
from datetime import UTC, datetime, timedelta

import orjson
from starlette.testclient import TestClient

from fencepost.mailbox.server.app import application
from fencepost.mailbox.server.tokens import TOKEN_VARIABLE, tokens
from fencepost.mailbox.store.opening import memory_store

TOKEN = "token-5f2c"
SCOPE = "user:me"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ticking():
    """A clock that goes on by a second each time it is looked at."""
    seconds = itertools.count()
    return lambda: START + timedelta(seconds=next(seconds))


class Service:
    """
    A state process.

    Attributes:
        store: What it serves.
        http: A client of it that sends no token of its own.
    """

    def __init__(self, store=None, said=TOKEN, **options):
        self.store = memory_store() if store is None else store
        options = {"backend": "memory", "clock": ticking()} | options
        self.app = application(self.store, tokens({TOKEN_VARIABLE: said}), **options)
        self.http = TestClient(self.app, raise_server_exceptions=False)

    def raw(self, route, body, token=TOKEN):
        """The response to whatever body."""
        return self.http.post(f"/v1/{route}", content=body, headers={"Authorization": f"Bearer {token}"})

    def ask(self, route, token=TOKEN, **asked):
        """What a route answers, which must be that it was done."""
        response = self.raw(route, orjson.dumps(asked), token)
        assert 200 == response.status_code, response.text
        return response.json()

    def refused(self, route, token=TOKEN, status=400, **asked):
        """The error of a route that must refuse."""
        response = self.raw(route, orjson.dumps(asked), token)
        assert status == response.status_code, response.text
        error = response.json()["error"]
        assert {"code", "message", "details", "fencepost"} == error.keys()
        return error

    def write(self, path, content="text", scope=SCOPE, **asked):
        """A document that was written."""
        return self.ask("memory/write", scope=scope, path=path, content=content, **asked)["document"]

    def read(self, path, scope=SCOPE):
        """A document as it stands."""
        return self.ask("memory/read", scope=scope, path=path)["document"]
