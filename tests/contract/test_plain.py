"""The program over a state process with nothing beside wire 6, as other programs have it."""

import pytest


@pytest.fixture(scope="module")
def over():
    return "wire-plain"


def test_what_it_has_no_words_for(shell):
    """It is refused by its own code, and nothing is written."""
    shell.refused("not_carried", "messages", "send", "--body", "x", "--idempotency-key", "once")
    shell.refused("not_carried", "changes", "poll")
    assert "x" == shell.send("x")["body"]
