"""
Who takes work off a shared Postgres: fencepost, and others who do the same on the same server.
"""

import asyncio
import contextlib
import logging
import os
import random

import psycopg
from subject import Subject
from texts import BODY, OUTCOME

from fencepost.mailbox import Draft, Mailbox, Mount
from fencepost.mailbox.errors import Refused
from fencepost.mailbox.store.postgres.opening import postgres_store

#: Work that is looked at in one listing.
_LOOK = 50


class FencepostPostgres(Subject):
    """
    A worker with a mailbox in Postgres: it lists what is unread, claims, completes.

    Args:
        folder: The URL of the database.
        scopes: The scopes that work is in; each is written by one transaction at a time.
        first: Where this worker begins to look.
    """

    def __init__(self, folder, *, scopes=1, first=0):
        self.store = postgres_store(folder)
        names = [f"user:bench/proj:{each}" for each in range(scopes)]
        names = names[first % scopes :] + names[: first % scopes]
        mounts = [Mount(name, f"/{number}") for number, name in enumerate(names)]
        self.box = Mailbox(self.store, mounts, actor="host:bench")
        self.paths = [mount.path for mount in mounts]
        self.session = f"worker-{os.getpid()}"

    def ready(self, work, count):
        """Put so much work there."""
        for number, path in enumerate(self.paths):
            share = count // len(self.paths) + (number < count % len(self.paths))
            for begin in range(0, share, 100):
                self.box.send_many([Draft(BODY, target=path, actionable=True)] * min(100, share - begin))

    def drain(self, count):
        """Work until nothing is left; how much was done."""
        done = 0
        for path in self.paths:
            while items := list(self.box.list(target=path, limit=_LOOK).items):
                random.shuffle(items)  # others look at the same listing
                with contextlib.suppress(Refused):  # somebody else has it, so the listing is old
                    for item in items:
                        self._work(item.message, path)
                        done += 1
        return done

    def _work(self, message, path):
        fence = {"session": self.session, "occurrence": message.occurrence, "target": path}
        held = self.box.claim(message.id, **fence).message
        self.box.complete(message.id, token=held.lease.token, outcome=OUTCOME, **fence)

    def close(self):
        self.store.close()


class SkipLocked(Subject):
    """What one writes in an afternoon: a table, `FOR UPDATE SKIP LOCKED`, and a token."""

    def __init__(self, folder):
        self.db = psycopg.connect(folder)
        with self.db.transaction():
            self.db.execute("SELECT pg_advisory_xact_lock(1)")
            self.db.execute(
                "CREATE TABLE IF NOT EXISTS bare_job (id bigserial PRIMARY KEY, body text, status int DEFAULT 0,"
                " token uuid, until timestamptz, outcome text)"
            )
            self.db.execute("CREATE INDEX IF NOT EXISTS bare_todo ON bare_job (id) WHERE status = 0")

    def ready(self, work, count):
        with self.db.transaction():
            self.db.execute("INSERT INTO bare_job (body) SELECT %s FROM generate_series(1, %s)", (BODY, count))

    def drain(self, count):
        done = 0
        while True:
            with self.db.transaction():
                row = self.db.execute(
                    "UPDATE bare_job SET status = 1, token = gen_random_uuid(), until = now() + interval '30 minutes'"
                    " WHERE id = (SELECT id FROM bare_job WHERE status = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
                    " RETURNING id, token"
                ).fetchone()
            if row is None:
                return done
            with self.db.transaction():
                self.db.execute(
                    "UPDATE bare_job SET status = 2, outcome = %s WHERE id = %s AND token = %s", (OUTCOME, *row)
                )
            done += 1

    def close(self):
        self.db.close()


class Procrastinate(Subject):
    """The worker of procrastinate, with a task that does nothing, one at a time."""

    def __init__(self, folder):
        import procrastinate

        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        self.app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=folder, max_size=4))
        self.done = 0

        @self.app.task(name="work")
        async def work(body):
            self.done += 1

        self.work = work
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.app.open_async())

    def ready(self, work, count):
        self.loop.run_until_complete(self._fill(count))

    async def _fill(self, count):
        if not await self.app.check_connection_async():
            await self.app.schema_manager.apply_schema_async()
        await self.work.batch_defer_async(*[{"body": BODY}] * count)

    def drain(self, count):
        self.done = 0
        options = {"wait": False, "concurrency": 1, "listen_notify": False, "install_signal_handlers": False}
        self.loop.run_until_complete(self.app.run_worker_async(**options))
        return self.done

    def close(self):
        self.loop.run_until_complete(self.app.close_async())
