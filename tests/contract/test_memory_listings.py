"""What `fencepost memory` lists: documents, versions and history, page by page."""

import json

PLAN = "/project/notes/plan.md"
PROJECT = "user:pat/proj:app"


def write(shell, path, content):
    """The document as its next version."""
    return shell.ask("MemoryDocument", "memory", "write", path, f"--content={content}")


def entries(shell, *words):
    found = shell.ask("MemoryEntries", "memory", "list", *words)
    assert [] == found["unsupported"]
    return found["entries"]


def numbers(found):
    return [version["version"] for version in found]


def walk(shell, rows, *words, limit="2"):
    """All rows of a listing, two at a time."""
    shape = "MemoryEntries" if rows == "entries" else "MemoryVersions"
    found, cursor = [], ()
    while True:
        page = shell.ask(shape, "memory", *words, "--limit", limit, *cursor)
        found += page[rows]
        if page["next_cursor"] is None:
            return found
        cursor = ("--cursor", page["next_cursor"])


def test_a_listing_by_prefix(shell):
    """Documents whose path begins so, in the order of their paths, page by page."""
    for path in ("b", "a/2", "a/1", "ab", "c"):
        write(shell, f"/project/{path}", "x")
    write(shell, "/user/a/3", "x")

    assert ["a/1", "a/2", "ab", "b", "c"] == [entry["path"] for entry in walk(shell, "entries", "list")]
    assert ["a/1", "a/2"] == [entry["path"] for entry in entries(shell, "/project/a/")]
    assert ["a/1", "a/2", "ab"] == [entry["path"] for entry in entries(shell, "a", "--target", PROJECT)]
    assert ["a/3"] == [entry["path"] for entry in entries(shell, "/user")]


def test_versions_and_history_page_by_page(shell):
    """Newest first, one after the other, without a gap."""
    for number in range(3):
        write(shell, PLAN, str(number))
        write(shell, "/project/a", str(number))

    assert [3, 2, 1] == numbers(walk(shell, "versions", "versions", PLAN))
    found = walk(shell, "versions", "history")
    assert [(path, n) for n in (3, 2, 1) for path in ("a", "notes/plan.md")] == [
        (each["path"], each["version"]) for each in found
    ]


def test_history_since_a_time(shell):
    """What is older is left out."""
    write(shell, PLAN, "one")
    second = write(shell, PLAN, "two")

    found = shell.ask("MemoryVersions", "memory", "history", "--since", second["updated_at"])
    assert [2] == numbers(found["versions"])
    shell.refused("invalid_time", "memory", "history", "--since", "2026-11-30T12:00:00")


def test_limits(shell):
    """0 is an empty page that nothing follows; 500 is the most."""
    write(shell, PLAN, "one")
    for words, rows in ((("list",), "entries"), (("versions", PLAN), "versions"), (("history",), "versions")):
        page = json.loads(shell.run("memory", *words, "--limit", "0", "--json").out)
        assert ([], None) == (page[rows], page["next_cursor"])
        assert 0 == shell.run("memory", *words, "--limit", "500").status
        shell.refused("invalid_number", "memory", *words, "--limit", "501")
        shell.refused("invalid_number", "memory", *words, "--limit", "-1")


def test_a_cursor_is_good_for_its_own_listing(shell):
    """With other arguments, or made up, it is refused."""
    for path in ("a", "b"):
        write(shell, f"/project/{path}", "x")
        write(shell, f"/project/{path}", "x")
    cursor = shell.ask("MemoryEntries", "memory", "list", "--limit", "1")["next_cursor"]

    for words in (
        ("list", "/project/b"),
        ("list", "/user"),
        ("versions", "/project/a"),
        ("history",),
        ("history", "--since", "2026-11-30T12:00:00Z"),
    ):
        shell.refused("invalid_cursor", "memory", *words, "--cursor", cursor)
    shell.refused("invalid_cursor", "memory", "list", "--cursor", "made up")
    assert ["b"] == [entry["path"] for entry in entries(shell, "--cursor", cursor)]


def test_a_home_that_is_not_there(shell):
    """Reading makes no store: it is an empty one."""
    assert [] == entries(shell)
    shell.refused("unknown_document", "memory", "read", PLAN)

    assert not shell.root.exists()
