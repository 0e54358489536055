"""
A fleet, end to end: rooms of a real homeserver, real clients, and a model that says what it is told: `tox -e fleet`.

The homeserver is one for all tests, as it takes seconds to start; users and rooms are new in each.  A test that stops
it, or needs it otherwise, has one of its own.
"""

import uuid

import pytest
from agents.conftest import LACKING as LACKING_CLIENTS
from agents.conftest import installed
from agents.model import Model
from fleet import homeserver as synapse
from fleet import launch


def pytest_configure(config):
    config.addinivalue_line("markers", "fast: a test of tests/fleet that is in the default run")


@pytest.fixture(scope="session")
def homeserver(tmp_path_factory, cannot):
    """The homeserver that all share: nobody stops it."""
    if not synapse.can_run():
        cannot(synapse.LACKING, "synapse")
    server = synapse.Homeserver(tmp_path_factory.mktemp("homeserver"))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def own_homeserver(tmp_path_factory, cannot):
    """A homeserver of the test's own, to be started as the test needs it."""
    if not synapse.can_run():
        cannot(synapse.LACKING, "synapse")
    server = synapse.Homeserver(tmp_path_factory.mktemp("homeserver"))
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def person(homeserver):
    """A new user of the shared homeserver, whose name begins as asked; each call makes one."""
    return lambda name, **options: homeserver.register(f"{name}-{uuid.uuid4().hex[:8]}", **options)


@pytest.fixture
def model():
    """The model."""
    with Model() as model:
        yield model


@pytest.fixture
def codex(tmp_path, model, cannot):
    """How Codex is started; each call with a name has a home of its own."""
    if not installed(launch.CODEX):
        cannot(LACKING_CLIENTS, "codex")
    return lambda name="codex": launch.codex(tmp_path / name, model.url)


@pytest.fixture
def pi(tmp_path, model, cannot):
    """How Pi is started; each call with a name has a home of its own."""
    if not installed(launch.PI) or not installed(launch.NODE):
        cannot(LACKING_CLIENTS, "pi")
    return lambda name="pi": launch.pi(tmp_path / name, model.url)
