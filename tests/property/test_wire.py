"""A state process takes any JSON for a request: it is answered, or refused as what was given."""

import copy
from typing import get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property import strategies as some

from fencepost.journal.errors import BadInput, JournalConflict
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.events import AnnotationsRedacted, Event, FleetEvent, Redacted, Rewritten
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.talks import Conversations
from fencepost.mailbox.turns import TURNS, scope_of
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.port import METHODS, answer

SCOPE = "user:me"
ID = "00000000-0000-4000-8000-000000000001"
STREAM = [SCOPE, "messages/" + ID]
QUERY = {"listing": "all", "scopes": [SCOPE], "session": "a", "now": "2026-12-01T00:00:00Z", "limit": 5, "links": []}
SIGHT = {"scopes": [SCOPE], "conversations": ["a"]}
EVENT = {
    "scope": SCOPE,
    "stream": "notes/a.md",
    "type": "document.written",
    "data": '{"schema":1,"content":"x"}',
    "key": None,
}
BATCH = {"at": "2026-11-30T12:00:00Z", "actor": "me", "events": [EVENT], "erases": []}
GOOD = {
    "find": {"stream": STREAM},
    "append": {"batch": BATCH, "expect": [[SCOPE, "notes/a.md", 1]]},
    "redact": {"scope": SCOPE, "path": "none", "at": "2026-11-30T12:00:00Z", "actor": "me", "reason": "x"},
    "inbox": {"query": QUERY},
    "events": {"stream": STREAM},
    "events_from": {"stream": [scope_of("a"), TURNS], "after": 0, "limit": 5},
    "annotations": {"conversation": "a", "turn": 1},
    "search": {"name": "said", "terms": ["x"], "sight": SIGHT, "limit": 5},
    "search_turns": {"terms": ["xyz"], "sight": SIGHT, "limit": 5},
    "entries": {"scope": SCOPE, "prefix": "n", "after": "a", "limit": 5},
    "versions": {"stream": [SCOPE, "notes/a.md"], "before": 9, "limit": 5},
    "history": {"scope": SCOPE, "since": "2026-11-30T12:00:00Z", "before": 9, "limit": 5},
    "record_at": {"stream": [SCOPE, "notes/a.md"], "version": 1},
    "audience": {"session": "a", "scopes": [SCOPE]},
    "sent_under": {"scope": SCOPE, "key": "x"},
    "has_seen": {"session": "a"},
    "feed_bounds": {},
    "changes": {"after": 0, "limit": 5, "scopes": {"scopes": [SCOPE], "conversations": True}, "look": 9},
    "batches": {"after": 0, "limit": 5},
    "secret": {},
    "restore": {"batches": [BATCH | {"digests": [None]}], "behind": 1, "secret": "0" * 64},
    "change_mark": {},
    "next_change": {"query": QUERY},
}


def paths(value, path=()):
    """Where anything stands in a request."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from paths(each, (*path, key))


@st.composite
def requests(draw):
    """A request in which some part is missing, or something else."""
    method = draw(st.sampled_from(sorted(GOOD)))
    asked = copy.deepcopy(GOOD[method])
    for _ in range(draw(st.integers(1, 2))):
        *above, last = draw(st.sampled_from([*paths({"": asked})][1:]))
        whole = {"": asked}
        place = whole
        for key in above:
            place = place[key]
        if draw(st.booleans()) and isinstance(place, dict) and above:
            del place[last]
        else:
            place[last] = draw(some.anything | some.json_data)
        asked = whole[""]
        if not isinstance(asked, dict):
            break
    return method, asked


@pytest.fixture(scope="module")
def store():
    """A store with something of what is asked for."""
    store = memory_store()
    Mailbox(store, [Mount(SCOPE, "/me")], new_id=lambda: ID).send("x", conversation="a")
    Documents(store, [Mount(SCOPE, "/me")]).write("/me/notes/a.md", "x")
    Conversations(store).append_turn("a", [{"role": "user", "content": "xyz"}])
    yield store
    store.close()


def test_every_method_is_tried():
    """None is left out, and each of these is answered where nothing is changed in it."""
    assert GOOD.keys() == METHODS.keys()


@given(request=requests(), allowed=st.sampled_from(((), ("user:", "a"), ("team:",))))
@settings(max_examples=400)
def test_any_json_is_answered_or_refused(store, request, allowed):
    """Nothing but an answer that is JSON, a refusal of what was given, or a conflict; and all of it stays readable."""
    method, asked = request
    try:
        told = answer(store, method, asked, Client("x", *allowed))
    except (BadInput, JournalConflict):
        return
    orjson.dumps(told)
    orjson.dumps(answer(store, "batches", {"after": 0, "limit": 500}, Client("x")))


@given(name=st.sampled_from(("message.sent", "session.linked", "turn.appended", "message.claimed")), data=some.anything)
def test_any_event_is_refused_or_can_be_read(store, name, data):
    """Whatever stands in its data, and wherever it shall go."""
    for stream in (STREAM, [scope_of("a"), TURNS], [SCOPE, "notes/new.md"]):
        event = {**EVENT, "scope": stream[0], "stream": stream[1], "type": name, "data": data}
        document = store.find(tuple(stream))
        version = 0 if document is None else document.version
        asked = {"batch": {**BATCH, "events": [event]}, "expect": [[*stream, version]]}
        with pytest.raises(BadInput):
            answer(store, "append", asked, Client("x"))


def test_every_event_is_known_here():
    """A client may add what the doors add, and an event that is new has to say what it is for."""
    from fencepost.mailbox.wire.admission import _RULES

    made_by_the_store = {Redacted, Rewritten, AnnotationsRedacted}
    recorded_where_agents_run = {*get_args(FleetEvent)}
    assert {*get_args(Event)} - made_by_the_store - recorded_where_agents_run == {*_RULES}
