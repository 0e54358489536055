"""What there is in a store, and bringing back what was taken from another one."""

import pytest
from serving import CLAIM, PATH, SCOPE, Service, text

LIMIT = 500


@pytest.fixture
def service():
    return Service()


def archive(service, scope=SCOPE):
    """Everything of a scope, as a peer takes it away."""
    entries = service.ask("memory/list_documents", scope=scope)["entries"]
    documents = [service.ask("memory/read", scope=scope, path=each["path"])["document"] for each in entries]
    versions = service.ask("memory/history", scope=scope)["versions"]
    return {
        "documents": documents,
        "versions": versions,
        "redactions": service.ask("memory/redactions", scope=scope)["redactions"],
    }


def talk(service, name="c1"):
    """Everything of a conversation."""
    trail = service.ask("conversation/turn_redactions", conversations=[name])["redactions"]
    return {
        "turns": service.ask("conversation/read_turns", conversation_id=name)["turns"],
        "projections": service.ask("conversation/read_projections", conversation_id=name)["entries"],
        "redactions": trail,
    }


def test_what_there_is(service):
    """Scopes and conversations apart, in order, and nothing that is the mailbox's own."""
    service.write("a.md", scope="user:you")
    service.write("a.md")
    for name in ("c2", "c1"):
        service.ask("conversation/append_turn", conversation_id=name, messages=[{"role": "user", "content": "x"}])

    assert {"scopes": ["user:me", "user:you"]} == service.ask("store/scopes")
    assert {"conversations": ["c1", "c2"]} == service.ask("store/conversations")


def test_a_scope_is_restored_as_it_was(service):
    """Versions, actors, times, what was deleted, erased and sent."""
    service.write("a.md", "one", actor="me")
    service.write("a.md", "two")
    service.write("b.md", "gone")
    service.ask("memory/delete", scope=SCOPE, path="b.md")
    service.write("b.md", "back")
    service.write("c.md", "secret")
    service.ask("memory/redact", scope=SCOPE, path="c.md", actor="ops")
    service.write("c.md", "later")
    service.write(PATH, text())
    service.write(PATH, text(**CLAIM))
    service.write("message-links/new/old", "")
    before = archive(service)
    other = Service()
    assert {} == other.ask("store/restore_scope", scope=SCOPE, **before)

    assert before == archive(other)
    assert ["message.sent", "message.claimed"] == [event.type for event in other.store.events((SCOPE, PATH))]
    assert 4 == other.write("b.md")["version"]


def test_a_conversation_is_restored_as_it_was(service):
    """Turns, projections and what was erased."""
    for number in range(3):
        messages = [{"role": "user", "content": str(number), "extra": {"n": number}}]
        service.ask("conversation/append_turn", conversation_id="c1", messages=messages, actor="me")
    entries = [{"turn": 3, "kind": "log", "text": "t"}]
    service.ask("conversation/append_projections", conversation_id="c1", entries=entries)
    service.ask("conversation/redact_turns", conversation_id="c1", turns=[2])
    before = talk(service)
    other = Service()
    assert {} == other.ask("store/restore_conversation", conversation_id="c1", **before)

    assert before == talk(other)
    other = Service()
    other.ask("store/restore_conversation", conversation_id="c1", **(before | {"redactions": None}))
    assert before["turns"] == talk(other)["turns"]


def test_the_target_must_be_empty(service):
    """With the codes and details of the wire."""
    service.write("a.md")
    service.ask("conversation/append_turn", conversation_id="c1", messages=[{"role": "user", "content": "x"}])
    error = service.refused("store/restore_scope", scope=SCOPE, documents=[], versions=[], redactions=[])
    assert ("memory_conflict", "target_occupied", SCOPE) == (
        error["code"],
        error["details"]["reason"],
        error["details"]["scope"],
    )
    error = service.refused("store/restore_conversation", conversation_id="c1", turns=[], projections=[])
    assert "agent_conversation_conflict" == error["code"]
    assert {"conversation_id": "c1", "reason": "target_occupied"} == error["details"]


def version(number=1, **changed):
    return {
        "path": "a.md",
        "version": number,
        "action": "created",
        "content": "x",
        "actor": "cli:me",
        "created_at": "2026-01-01T00:00:00Z",
        "redacted": False,
    } | changed


@pytest.mark.parametrize(
    "versions",
    [
        [version(2)],
        [version(1), version(1)],
        [version(0)],
        [version(action="invented")],
        [version(created_at="2026-01-01T00:00:00")],
        [version(actor="nobody")],
        [version(path="../a")],
        [version(content=1)],
        [version(1, action="deleted")],
        [1],
    ],
)
def test_what_cannot_have_been_is_refused_whole(service, versions):
    """Nothing is written."""
    error = service.refused("store/restore_scope", scope=SCOPE, documents=[], versions=versions, redactions=[])

    assert "value_error" == error["code"]
    assert {"scopes": []} == service.ask("store/scopes")


def test_a_document_without_its_versions_is_refused(service):
    """The live documents are a check."""
    service.write("a.md")
    taken = archive(service) | {"versions": []}

    assert "value_error" == Service().refused("store/restore_scope", scope=SCOPE, **taken)["code"]


def test_a_long_history_is_restored(service):
    """Many rows of one time are put together, and none is lost."""
    versions = [version(number + 1, content=str(number), action="modified") for number in range(450)]
    service.ask("store/restore_scope", scope=SCOPE, documents=[], versions=versions, redactions=[])

    found = service.ask("memory/history", scope=SCOPE)["versions"]
    assert [str(number) for number in reversed(range(450))] == [each["content"] for each in found]
