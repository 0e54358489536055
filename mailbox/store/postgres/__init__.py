"""A store in a Postgres database, for workers on many machines."""
