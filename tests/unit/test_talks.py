"""Conversations: what is appended while turns are being erased."""

import pytest

from fencepost.mailbox import Projection
from fencepost.mailbox.addresses import REDACTIONS
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.turns import PROJECTIONS, TURNS, scope_of

TALK = "s-1"
SAID = [{"role": "user", "content": "a secret"}]


class Meddled:
    """A store in which somebody does something right after it was asked for the so-manieth time."""

    def __init__(self, store, deed, when):
        self._store, self._deed, self._left = store, deed, when

    def __getattr__(self, name):
        known = getattr(self._store, name)
        return self._asking(known) if name in {"find", "events", "events_from"} else known

    def _asking(self, ask):
        def asked(*arguments):
            answer = ask(*arguments)
            self._left -= 1
            if self._left == 0:
                self._deed()
            return answer

        return asked


@pytest.mark.parametrize("when", range(1, 5))
@pytest.mark.parametrize("what", ["a turn", "a projection"])
def test_nothing_that_came_before_the_record_of_an_erasure_is_left(what, when):
    """Whatever is appended, and at whichever moment."""
    store = memory_store()
    other = Conversations(store, actor="host:other")
    other.append_turn(TALK, SAID)

    def deed():
        if what == "a turn":
            other.append_turn(TALK, SAID)
        else:
            other.append_projections(TALK, [Projection(1, "log", "it quotes a secret")])

    Conversations(Meddled(store, deed, when), actor="host:operator").redact_turns(TALK, through=9)

    (act,) = store.events((scope_of(TALK), REDACTIONS))
    before = [each for stream in (TURNS, PROJECTIONS) for each in store.events((scope_of(TALK), stream))]
    assert [] == [each for each in before if each.seq < act.seq and each.data is not None]
