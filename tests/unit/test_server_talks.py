"""The routes of conversations."""

import pytest
from serving import Service


@pytest.fixture
def service():
    return Service()


def say(service, text, talk="c1", **asked):
    messages = [{"role": "user", "content": text}]
    return service.ask("conversation/append_turn", conversation_id=talk, messages=messages, **asked)["turn"]


def test_a_turn_is_numbered_and_comes_back(service):
    """With the keys of the wire; what nobody knows is dropped, and `extra` is carried."""
    call = {"id": "1", "name": "look", "arguments": {"at": [1, None]}}
    messages = [
        {"role": "user", "content": "hi", "unknown": 1},
        {"role": "assistant", "content": [{"type": "text", "text": "so"}], "tool_calls": [call], "extra": {"q": [1]}},
        {"role": "tool", "content": None, "tool_call_id": "1", "reasoning": "why"},
    ]
    turn = service.ask("conversation/append_turn", conversation_id="c1", messages=messages, actor="me")["turn"]

    nothing = {"reasoning": None, "tool_calls": [], "tool_call_id": None}
    assert {
        "conversation_id": "c1",
        "turn": 1,
        "messages": [
            {"role": "user", "content": "hi", **nothing},
            {
                **nothing,
                "role": "assistant",
                "content": messages[1]["content"],
                "tool_calls": [call],
                "extra": {"q": [1]},
            },
            {**nothing, "role": "tool", "content": None, "tool_call_id": "1", "reasoning": "why"},
        ],
        "created_at": turn["created_at"],
        "actor": "client:default/me",
        "redacted": False,
    } == turn
    assert {"turns": [turn], "next_after": None} == service.ask("conversation/read_turns", conversation_id="c1")
    assert {"turn": 1} == service.ask("conversation/last_turn_number", conversation_id="c1")
    assert {"turn": 0} == service.ask("conversation/last_turn_number", conversation_id="c2")


@pytest.mark.parametrize(
    "message",
    [
        1,
        {},
        {"role": 1},
        {"role": "user", "content": 1},
        {"role": "user", "content": ["x"]},
        {"role": "user", "content": [{"type": "odd"}]},
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": 1}]},
        {"role": "user", "tool_calls": [{"id": 1, "name": "x", "arguments": {}}]},
        {"role": "user", "tool_calls": [{"id": "1", "name": "x", "arguments": []}]},
        {"role": "user", "content": "a\0b"},
        {"role": "user", "extra": []},
    ],
)
def test_what_is_no_chat_message_is_refused(service, message):
    """Nested types are checked too."""
    asked = {"conversation_id": "c1", "messages": [message]}
    assert "value_error" == service.refused("conversation/append_turn", **asked)["code"]


def test_turns_page_by_their_numbers(service):
    """Oldest first; an empty page has no continuation."""
    for number in range(5):
        say(service, str(number))
    first = service.ask("conversation/read_turns", conversation_id="c1", limit=2)
    rest = service.ask("conversation/read_turns", conversation_id="c1", after=first["next_after"], limit=3)

    assert ([1, 2], 2) == ([each["turn"] for each in first["turns"]], first["next_after"])
    assert ([3, 4, 5], None) == ([each["turn"] for each in rest["turns"]], rest["next_after"])
    assert {"turns": [], "next_after": None} == service.ask("conversation/read_turns", conversation_id="c1", limit=0)
    for asked in ({"after": -1}, {"limit": -1}):
        assert "value_error" == service.refused("conversation/read_turns", conversation_id="c1", **asked)["code"]


def test_a_search_finds_every_term(service):
    """Newest first, in the conversations that are named."""
    for text, talk in [("alpha Beta", "c1"), ("beta alpha", "c2"), ("alpha", "c1")]:
        say(service, text, talk)

    def found(**asked):
        turns = service.ask("conversation/search_turns", **asked)["turns"]
        return [(each["conversation_id"], each["turn"]) for each in turns]

    assert [("c2", 1), ("c1", 1)] == found(query="BETA alpha")
    assert [("c1", 1)] == found(query="beta", conversations=["c1"])
    assert [] == found(query="beta", conversations=[])
    assert [("c1", 2)] == found(query="alpha", limit=1)
    for asked in ({"query": " "}, {"query": "a", "limit": 0}, {"query": "a", "limit": 501}):
        assert "value_error" == service.refused("conversation/search_turns", **asked)["code"]


def test_projections_end_on_a_whole_turn(service):
    """However few were asked for."""
    entries = [
        {"turn": 1, "kind": "log", "text": "a"},
        {"turn": 1, "kind": "digest", "text": "b", "span": 1},
        {"turn": 2, "kind": "epoch", "text": "c", "span": 2},
    ]
    assert {} == service.ask("conversation/append_projections", conversation_id="c1", entries=entries)
    page = service.ask("conversation/read_projections", conversation_id="c1", limit=1)
    rest = service.ask("conversation/read_projections", conversation_id="c1", after=1)

    shown = [each | {"span": each.get("span", 1)} for each in entries]
    assert {"entries": shown[:2], "next_after": 1} == page
    assert {"entries": shown[2:], "next_after": None} == rest


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {},
        {"turn": True, "kind": "log", "text": "x"},
        {"turn": 1, "kind": "odd", "text": "x"},
        {"turn": 1, "kind": "log", "text": None},
        {"turn": 1, "kind": "log", "text": "x", "span": 0},
        {"turn": 0, "kind": "log", "text": "x"},
    ],
)
def test_what_is_no_projection_is_refused(service, entry):
    """Each field has its type."""
    asked = {"conversation_id": "c1", "entries": [entry]}
    assert "value_error" == service.refused("conversation/append_projections", **asked)["code"]


def test_turns_are_erased_and_counted(service):
    """Those that were erased before are counted again, and the trail tells of each act."""
    for number in range(3):
        say(service, str(number))

    def erase(**asked):
        return service.ask("conversation/redact_turns", conversation_id="c1", **asked)["count"]

    assert 1 == erase(turns=[2, 9])
    assert 2 == erase(through=2)
    assert 0 == erase(turns=[9])
    assert (
        "value_error"
        == service.refused("conversation/redact_turns", conversation_id="c1", through=1, turns=[1])["code"]
    )
    turns = service.ask("conversation/read_turns", conversation_id="c1")["turns"]
    assert [([], True), ([], True), (1, False)] == [
        (each["messages"] and len(each["messages"]), each["redacted"]) for each in turns
    ]
    trail = service.ask("conversation/turn_redactions")["redactions"]
    assert [[1, 2], [2]] == [each["turns"] for each in trail]
    assert {"conversation_id", "turns", "actor", "created_at"} == trail[0].keys()


def test_whoever_names_no_turn_means_all(service):
    """As the peers of this wire do."""
    for number in range(3):
        say(service, str(number))

    assert {"count": 3} == service.ask("conversation/redact_turns", conversation_id="c1")


def test_the_trail_is_of_all_conversations_or_of_some(service):
    """Newest first, since a time, and never more than asked for."""
    for talk in ("c1", "c2", "c1"):
        say(service, "x", talk)
        service.ask("conversation/redact_turns", conversation_id=talk, through=9)

    def trail(**asked):
        return [each["conversation_id"] for each in service.ask("conversation/turn_redactions", **asked)["redactions"]]

    assert ["c1", "c2", "c1"] == trail()
    assert ["c1", "c1"] == trail(conversations=["c1", "c1"])
    assert ["c1"] == trail(limit=1)
    since = service.ask("conversation/turn_redactions")["redactions"][1]["created_at"]
    assert ["c1", "c2"] == trail(since=since)
    for asked in ({"limit": 0}, {"limit": 501}, {"since": "2026-11-30T12:00:00"}):
        assert "value_error" == service.refused("conversation/turn_redactions", **asked)["code"]
