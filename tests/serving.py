"""A state process without a socket: its application over a store in memory, and what it answers."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import orjson
from starlette.testclient import TestClient

from fencepost.mailbox.server.app import application
from fencepost.mailbox.server.tokens import TOKEN_VARIABLE, tokens
from fencepost.mailbox.store.opening import memory_store

TOKEN = "token-5f2c"
SCOPE = "user:me"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
ID = "0192f0c1-2222-7333-8444-555566667777"
PATH = f"messages/{ID}"
LATER = "2026-11-30T13:00:00Z"


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


def body(**changed):
    """A format-1 body as another program has it."""
    return {
        "format": 1,
        "id": ID,
        "scope": SCOPE,
        "conversation": None,
        "turn": None,
        "source": None,
        "about": None,
        "about_turn": None,
        "actor": "client:default",
        "body": "Look at the build.",
        "created_at": "2026-11-30T11:00:00Z",
        "due_at": "2026-11-30T11:00:00Z",
        "delivery": "next_activity",
        "actionable": True,
        "occurrence": 1,
        "status": "open",
        "read_by": None,
        "read_at": None,
        "owner": None,
        "claim_token": None,
        "claim_until": None,
        "outcome": None,
        "wake_owner": None,
        "wake_token": None,
        "wake_until": None,
        "wake_accepted": False,
    } | changed


def text(**changed):
    """It as a document: two-space indent and a final newline."""
    return json.dumps(body(**changed), indent=2, ensure_ascii=False) + "\n"


CLAIM = {
    "read_by": "ada",
    "read_at": "2026-11-30T11:30:00Z",
    "owner": "ada",
    "claim_token": "t1",
    "claim_until": LATER,
}
