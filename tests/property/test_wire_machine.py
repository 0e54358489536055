"""The state machine, over a store at the other end of a wire."""

from wire_places import WireFolderPlace, WirePlace

from fencepost.mailbox.testing import run_on


class TestWire(run_on(WirePlace)):
    """No sequence of commands makes a store at the other end of a wire differ from the model."""


class TestWireOfFiles(run_on(WireFolderPlace)):
    """Nor one in files there, used by two clients, whose state process is cut off."""
