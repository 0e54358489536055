"""The state machine, over each store that is shipped."""

import pytest
from property.databases import PostgresPlace

from fencepost.mailbox.store.opening import file_store, memory_store
from fencepost.mailbox.testing import FolderPlace, Place, run_on, tear_last_segment


class MemoryPlace(Place):
    def open(self):
        return memory_store()


def folder_place():
    return FolderPlace(file_store, tear_last_segment)


class TestMemoryStore(run_on(MemoryPlace)):
    """No sequence of commands, clock readings and bad tokens makes a store in memory differ from the model."""


class TestFileStore(run_on(folder_place)):
    """Nor a store in files, used by two handles that are closed, abandoned and cut off."""


@pytest.fixture(scope="class")
def server(request, cluster):
    request.cls.server_url = cluster
    PostgresPlace.url = cluster


@pytest.mark.usefixtures("server")
class TestPostgresStore(run_on(PostgresPlace)):
    """Nor a store in a database, used by two handles."""
