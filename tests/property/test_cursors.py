"""Pages: every row comes once, whatever others write meanwhile, and a cursor is good for its own question."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some
from property.paging import pages

from fencepost.mailbox import Documents, Mount, cursors, errors, open_store, shapes

MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user"))
_paths = st.sampled_from(tuple(f"{name}.md" for name in "abcdefgh"))


@given(st.sets(_paths), st.lists(st.tuples(st.booleans(), _paths), max_size=12), st.integers(1, 3))
def test_pages_repeat_and_lose_nothing_while_others_write(first, changes, limit):
    """What stands all the while comes exactly once; what comes or goes meanwhile, at most once."""
    door = Documents(open_store(":memory:"), MOUNTS)
    for path in sorted(first):
        door.write(f"/project/{path}", "x")
    touched = {path for _, path in changes}
    found, cursor = [], None
    while True:
        page = door.list("/project", cursor=cursor, limit=limit)
        found += [entry.path for entry in page.entries]
        cursor = page.next_cursor
        for gone, path in changes[:2]:
            if not gone:
                door.write(f"/project/{path}", "y")
            elif door.list(f"/project/{path}").entries:
                door.delete(f"/project/{path}")
        del changes[:2]
        if cursor is None:
            break

    assert sorted(set(found)) == found
    assert first - touched == set(found) - touched


@given(st.data())
def test_versions_repeat_and_lose_nothing_while_others_write(data):
    """Newer ones come in front of the first page and disturb none behind it."""
    door = Documents(open_store(":memory:"), MOUNTS)
    count = data.draw(st.integers(1, 6))
    for number in range(count):
        door.write("/project/a", str(number))
    limit = data.draw(st.integers(1, 3))
    for ask in (lambda **page: door.versions("/project/a", **page), lambda **page: door.history("/project", **page)):
        newest = door.read("/project/a").version

        def asked(ask=ask, **page):
            found = ask(**page)
            door.write("/project/a", "meanwhile")
            return found

        found = pages(asked, lambda page: page.versions, limit)
        assert list(range(newest, 0, -1)) == [version.version for version in found]


@given(st.lists(st.integers(-3, 3), max_size=8), st.integers(-3, 3), st.integers(1, 3))
def test_history_since_a_time_misses_nothing_when_clocks_go_back(minutes, since, limit):
    """Order is by sequence, so what is recent enough may stand behind what is not."""
    clock = iter(minutes)
    door = Documents(open_store(":memory:"), MOUNTS, clock=lambda: some.NOON + timedelta(minutes=next(clock)))
    for _ in minutes:
        door.write("/project/a", "x")
    start = some.NOON + timedelta(minutes=since)
    found = pages(lambda **page: door.history(since=start, **page), lambda page: page.versions, limit)

    recent = [number for number, minute in enumerate(minutes, 1) if minute >= since]
    assert recent[::-1] == [version.version for version in found]


_questions = st.sampled_from(
    (("list", "user:me", ""), ("list", "user:me", "a"), ("list", "user:you", ""), ("versions", "user:me", "a"))
)


_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)


@given(_questions, _questions, _names | st.integers(1, 2**63 - 1))
def test_a_cursor_answers_its_own_question_only(asked, other, place):
    """It gives the place back to the same question, and is refused by every other."""
    cursor = cursors.give(asked, place)
    take, wrong = (cursors.path, cursors.number) if isinstance(place, str) else (cursors.number, cursors.path)

    assert place == take(cursor, asked)
    for question, reader in ((other, take), (asked, wrong)):
        if (question, reader) != (asked, take):
            with pytest.raises(errors.InvalidCursor):
                reader(cursor, question)


@given(_questions, st.text(max_size=40))
def test_no_text_is_mistaken_for_a_cursor(question, text):
    """Whatever it is, it is refused."""
    for reader in (cursors.path, cursors.number):
        with pytest.raises(errors.InvalidCursor):
            reader(text, question)


@given(st.text() | st.sampled_from(("a\0b", "x" * 1_001)))
def test_a_cursor_that_names_what_no_path_is_is_none(place):
    """Who makes one up is told so, and not by a store that cannot look for it."""
    question = ("list", "user:me", "")
    try:
        shapes.text(place, "path", shapes.PATH_BYTES_MAX)
    except errors.BadInput:
        with pytest.raises(errors.InvalidCursor):
            cursors.path(cursors.give(question, place), question)
    else:
        assert place == cursors.path(cursors.give(question, place), question)
