"""Places in a database."""

from postgres import drop, new_schema

from fencepost.mailbox.store.postgres.opening import create, postgres_store
from fencepost.mailbox.testing import Place


class PostgresPlace(Place):
    """A store in a schema of its own.  Of a power cut nothing is known here: what was committed is durable."""

    reopens = True
    shares = True
    #: Set by whoever runs it: the URL of a server.
    url = None

    def __init__(self):
        super().__init__()
        self.schema = new_schema()
        create(self.url, schema=self.schema)

    def open(self):
        # Another handle's work shows in the mark at once, so that the machine can say who wrote.
        return postgres_store(self.url, schema=self.schema, fresh_s=0, listen=False)

    def discard(self):
        super().discard()
        drop(self.url, self.schema)
