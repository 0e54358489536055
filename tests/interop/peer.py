"""What the public reference's own client does with a state process; run by an interpreter that has it."""

import asyncio
import json
import sys

from neosian import Message, RemoteStore, Role


async def documents(store, scope):
    """Everything of documents, in one life."""
    one = await store.write(scope, "notes/a.md", "one", actor="peer:x")
    two = await store.write(scope, "notes/a.md", "two", expected_version=one.version)
    try:
        await store.write(scope, "notes/a.md", "three", expected_version=1)
    except Exception as error:  # noqa: BLE001 - its name is what is asked for
        conflict = [type(error).__name__, str(error)]
    moved = await store.rename(scope, "notes/a.md", "notes/b.md")
    await store.write(scope, "c.md", "secret")
    erased = await store.redact(scope, path="c.md")
    deleted = await store.delete(scope, "c.md")
    return {
        "two": two.content,
        "conflict": conflict,
        "moved": [moved.path, moved.version, moved.actor],
        "erased": erased,
        "deleted": deleted,
        "missing": await store.read(scope, "nope.md"),
        "listed": [each.path for each in await store.list_documents(scope)],
        "versions": [each.version for each in await store.versions(scope, "notes/a.md")],
        "history": len(await store.history(scope)),
        "redactions": [each.path for each in await store.redactions(scope)],
    }


async def turns(store, talk):
    """Everything of conversations."""
    said = await store.append_turn(talk, [Message(role=Role.USER, content="Hello world")], actor="peer:x")
    await store.append_turn(talk, [Message(role=Role.ASSISTANT, content="so")])
    found = await store.search_turns("WORLD", conversations=[talk])
    erased = await store.redact_turns(talk, turns=[2])
    trail = await store.turn_redactions(conversations=[talk])
    read = await store.read_turns(talk)
    return {
        "said": [said.turn, said.actor],
        "found": [each.turn for each in found],
        "erased": erased,
        "trail": [list(each.turns) for each in trail],
        "read": [[each.turn, each.redacted, len(each.messages)] for each in read],
        "last": await store.last_turn_number(talk),
    }


async def many(store, scope):
    """More than one page."""
    for number in range(7):
        await store.write(scope, f"{number}.md", "x")
    page = await store.list_documents_page(scope, limit=3)
    found, cursor = list(page.items), page.next_cursor
    while cursor is not None:
        page = await store.list_documents_page(scope, limit=3, cursor=cursor)
        found, cursor = found + list(page.items), page.next_cursor
    return [each.path for each in found]


async def main(url, token):
    """Ask for everything, and print what came."""
    store = await RemoteStore.connect(url, token=token)
    try:
        capabilities = await store.capabilities()
        answer = {
            "wire": capabilities["wire_version"],
            "documents": await documents(store, "user:peer"),
            "turns": await turns(store, "talk-1"),
            "many": await many(store, "user:many"),
            "scopes": list(await store.scopes()),
            "conversations": list(await store.conversations()),
        }
    finally:
        await store.aclose()
    sys.stdout.write(json.dumps(answer, default=str))


asyncio.run(main(*sys.argv[1:]))
