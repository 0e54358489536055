"""The state machine, over a store at the other end of a wire, which the real state process keeps."""

import pytest
from property.databases import PostgresPlace
from wire_places import WireFolderPlace, WirePlace, WirePostgresPlace

from fencepost.mailbox.testing import run_on


class TestWire(run_on(WirePlace)):
    """No sequence of commands makes a store at the other end of a wire differ from the model."""


class TestWireOfFiles(run_on(WireFolderPlace)):
    """Nor one in files there, used by two clients, whose state process is cut off."""


@pytest.fixture(scope="class")
def server(cluster):
    PostgresPlace.url = cluster


@pytest.mark.usefixtures("server")
class TestWireOfPostgres(run_on(WirePostgresPlace)):
    """Nor one in a database there."""
