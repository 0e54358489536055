"""What the history of a program says of a delivery."""

import json
from pathlib import Path

import pytest

from fencepost.mailbox.errors import EntryAltered, NativeHistoryLost, NativeHistoryUnreadable
from fencepost.mailbox.fleet import codex, history, pi

TEXT = "[fencepost] delivery d-1: 1 record\nhello\r\n\u2028 \U0001f600 \x1b"


def of_codex(text=TEXT, delivery="d-1", entry="e-1", **more):
    item = {"type": "UserMessage", "id": entry, "client_id": delivery} | more
    item.setdefault("content", [{"type": "text", "text": text, "text_elements": []}])
    return {"type": "event_msg", "payload": {"type": "item_completed", "thread_id": "t", "item": item}}


def of_older_codex(text=TEXT, delivery="d-1"):
    return {"type": "event_msg", "payload": {"type": "user_message", "client_id": delivery, "message": text}}


def of_pi(text=TEXT, entry="e-1", role="user", **more):
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": entry, "parentId": None, "message": message} | more


@pytest.fixture(params=["codex", "pi"])
def kind(request):
    """A matcher, and its entry for a text."""
    return {"codex": (codex.entry, of_codex), "pi": (pi.entry, of_pi)}[request.param]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "history.jsonl")


def write(path, *lines):
    """Lines, as JSON where they are not bytes; how long the file is then."""
    with Path(path).open("ab") as file:
        file.writelines(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        return file.tell()


def find(path, matcher, offset=0, delivery="d-1", text=TEXT):
    return history.find(path, offset, matcher, delivery, text)


def test_the_entry_is_found_behind_the_place(path, kind):
    """And not before it."""
    matcher, entry = kind
    ends = write(path, {"type": "session"}, entry())
    assert "e-1" == find(path, matcher)
    assert find(path, matcher, ends) is None

    write(path, {"type": "x"}, entry(entry="e-2"))

    assert "e-2" == find(path, matcher, ends)
    assert "e-1" == find(path, matcher)


def test_a_history_that_has_not_begun_has_nothing(path, kind):
    """Neither has an empty one."""
    assert 0 == history.size(path)
    assert find(path, kind[0]) is None
    assert 0 == write(path)
    assert find(path, kind[0]) is None


def test_a_history_that_is_shorter_is_another(path, kind):
    """Or that is gone: what it had cannot be found any more."""
    with pytest.raises(NativeHistoryLost):
        find(path, kind[0], 1)
    ends = write(path, kind[1]())
    assert find(path, kind[0], ends) is None
    with pytest.raises(NativeHistoryLost):
        find(path, kind[0], ends + 1)


def test_what_cannot_be_read_is_said(path, kind, tmp_path):
    """A folder in its place, and a file in the place of its folder."""
    Path(path).mkdir()
    with pytest.raises(NativeHistoryUnreadable):
        find(path, kind[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(NativeHistoryUnreadable):
        history.size(str(tmp_path / "file" / "history"))


def test_a_line_without_an_end_is_none_yet(path, kind):
    """It may be half; when its end is there, it counts."""
    matcher, entry = kind
    write(path, json.dumps(entry()).encode())
    assert find(path, matcher) is None

    write(path, b"\n")

    assert "e-1" == find(path, matcher)


def test_every_cut_of_the_last_line_is_nothing(path, kind):
    """Wherever a crash has cut it."""
    matcher, entry = kind
    line = json.dumps(entry(), ensure_ascii=False).encode() + b"\n"
    for cut in range(len(line)):
        Path(path).write_bytes(line[:cut])
        assert find(path, matcher) is None


def test_a_place_within_a_line_is_no_harm(path, kind):
    """The program may have been writing when it was looked where its history ends."""
    matcher, entry = kind
    ends = write(path, {"type": "x"}, entry(entry="e-0"))
    write(path, entry())

    for offset in range(ends + 1):
        assert find(path, matcher, offset) in {"e-0", "e-1"}
    assert "e-1" == find(path, matcher, ends - 5)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b'"d-1"\n',
        b'{"type": "message", "message": {"role": "user"\n',
        b"[" * 100_000 + b"\n",
        b'{"a": "\\ud83d"}\n',
        b"\0" * 4_096 + b"\n",
    ],
    ids=lambda line: repr(line[:12]),
)
def test_what_is_no_record_is_passed_over(path, kind, line):
    """Whoever wrote it."""
    write(path, line, kind[1]())

    assert "e-1" == find(path, kind[0])


def test_a_line_that_is_too_long_is_passed_over(path, kind, monkeypatch):
    """Whatever is in it, and without having it in memory; at the limit it is one."""
    matcher, entry = kind
    whole = json.dumps(entry(entry="whole")).encode() + b"\n"
    monkeypatch.setattr(history, "LINE_LIMIT_BYTES", len(whole))
    for more in (1, len(whole) - 1, len(whole), 2 * len(whole)):
        write(path, b" " * more + whole)
    assert find(path, matcher) is None

    write(path, whole)

    assert "whole" == find(path, matcher)


@pytest.mark.parametrize(
    "line",
    [
        of_codex(delivery="d-2"),
        of_codex(client_id=None),
        of_codex(type="AgentMessage"),
        of_codex(type="CommandExecution"),
        of_codex(id=None),
        of_codex(content=TEXT),
        of_codex() | {"type": "response_item"},
        {"type": "event_msg", "payload": of_codex()["payload"] | {"type": "item_started"}},
        {"type": "response_item", "payload": {"role": "user", "content": [{"type": "input_text", "text": TEXT}]}},
        {"type": "compacted", "payload": {"message": TEXT, "replacement_history": [of_codex()]}},
        {"type": "event_msg", "payload": [of_codex()]},
        {"type": "event_msg", "payload": {"type": "agent_message", "client_id": "d-1", "message": TEXT}},
        of_older_codex(delivery="d-2"),
        of_pi(),
    ],
    ids=repr,
)
def test_nothing_else_of_codex_is_the_entry(path, line):
    """Not what the model or a tool said, nor what is there for the model, nor another delivery."""
    write(path, line)

    assert find(path, codex.entry) is None


@pytest.mark.parametrize(
    "line",
    [
        of_pi(role="assistant"),
        of_pi(role="toolResult"),
        of_pi(role="system"),
        of_pi(type="custom_message"),
        of_pi(type="compaction"),
        of_pi(id=None),
        of_pi(message=TEXT),
        of_pi(message={"role": "user", "content": []}),
        of_pi(message={"role": "user", "content": [{"type": "image", "text": TEXT}]}),
        of_pi("[fencepost] delivery d-2: 1 record\n" + TEXT),
        of_pi("said: " + TEXT),
        of_codex(),
    ],
    ids=repr,
)
def test_nothing_else_of_pi_is_the_entry(path, line):
    """Not what the model or a tool said, nor another delivery that quotes this one."""
    write(path, line)

    assert find(path, pi.entry) is None


@pytest.mark.parametrize("text", [TEXT + " ", TEXT[:-1], TEXT.replace("\r\n", "\n"), TEXT.replace("\u2028", " ")])
def test_an_entry_with_another_text_proves_nothing(path, kind, text):
    """It is said, because to hand it over again would say it twice; a right one beside it is the proof."""
    matcher, entry = kind
    write(path, entry(text, entry="e-0"))
    with pytest.raises(EntryAltered, match="e-0"):
        find(path, matcher)

    write(path, entry())

    assert "e-1" == find(path, matcher)


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "text", "text": TEXT}, {"type": "image", "url": "x"}],
        [{"type": "text", "text": TEXT}, {"type": "text", "text": "more"}],
        [],
        [None],
    ],
    ids=repr,
)
def test_an_entry_with_more_in_it_is_altered(path, parts):
    """It is not what was handed over."""
    write(path, of_codex(content=parts))

    with pytest.raises(EntryAltered):
        find(path, codex.entry)


def test_an_older_thread_of_codex_proves_as_well(path):
    """It gives its entries no id, so ours is the id."""
    write(path, of_older_codex())

    assert "d-1" == find(path, codex.entry)
    with pytest.raises(EntryAltered):
        find(path, codex.entry, text=TEXT + "!")
