"""
A store in a Postgres database, for workers on many machines.

    from fencepost.mailbox.store.postgres.opening import postgres_store

    store = postgres_store("postgresql://mail@db.internal/agents")

Everything that a batch does is one transaction: its events, the documents that
they fold to and all that is derived from them.  So there is no index that could
be behind, and what is visible is durable.

Advisory locks, all of which end with the transaction, order it:

- one for each scope that a batch writes to.  Who adds to some messages that it has
  just found shares it with all who do so too, and takes one more for each of these
  messages; whoever writes documents, erases, or is in a host's transaction has the
  scope alone; see `quick`;
- one that says that a transaction is about to take numbers, and the last number
  that was given before;
- one that says the first number that it took.

One more is held by whoever listens, so that nobody is told where nobody does.

The feed tells nothing behind the first number of a transaction that is still
under way, so a batch that commits late is never overtaken; see `horizon`.
"""
