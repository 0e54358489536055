"""Bodies and outcomes: as they were given to the store, and harmless on a terminal."""

import re

import pytest

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROLS = "".join(map(chr, [*range(1, 32), 127, *range(128, 160)]))
HOSTILE = f"before \x1b]0;owned\x07 \x1b[31m{CONTROLS}{BIDI}\u2028\u2029 after"
BODY_BYTES_MAX = 16 << 20
#: What a terminal may be sent: no control but the line feed, and none of the bidi characters.
HARMFUL = re.compile(f"[{re.escape(CONTROLS.replace(chr(10), '') + BIDI)}]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

TEXTS = {
    "plain": "hello",
    "lines": "first\nsecond\n\nlast",
    "controls": HOSTILE,
    "emoji": "👩‍👩‍👧 ✅",
    "decomposed": "e\u0301",
    "not-in-unicode-yet": "\U000e0fff\uffff",
    "dashes": "--body",
    "json": '{"error": null}',
    "shell": "`rm -rf ~` $(id) ; & | > '\"",
}


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_from_a_file(shell, tmp_path, body):
    """--body-file takes the text as it is, to the byte, and no shell has touched it."""
    (tmp_path / "body").write_bytes(body.encode())

    sent = shell.ask("Receipt", "messages", "send", "--body-file", str(tmp_path / "body"))

    assert body == sent["body"]
    assert [sent] == shell.list()


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_from_standard_input(shell, body):
    """--body-file - takes it from standard input."""
    assert body == shell.ask("Receipt", "messages", "send", "--body-file", "-", stdin=body.encode())["body"]


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_from_the_command_line(shell, body):
    """--body takes the same texts."""
    assert body == shell.ask("Receipt", "messages", "send", f"--body={body}")["body"]


def test_an_outcome_from_a_file(shell, tmp_path):
    """--outcome-file takes a finding from a file or from standard input."""
    (tmp_path / "finding").write_text("No fix\nyet", encoding="utf-8")
    claimed = shell.step("claim", shell.send("hello", "--actionable"))
    snoozed = shell.step(
        *("snooze", claimed, "--due-at", "2099-01-01T00:00:00Z", "--outcome-file", str(tmp_path / "finding")),
        token=claimed["claim_token"],
    )
    assert "No fix\nyet" == snoozed["outcome"]

    words = shell.words("cancel", snoozed, "--outcome-file", "-")
    assert "Obsolete" == shell.ask("Receipt", *words, stdin=b"Obsolete")["outcome"]


def test_larger_than_an_argument_can_be(shell, tmp_path):
    """A body that no command line could carry goes through a file."""
    body = "x" * 200_000
    (tmp_path / "body").write_text(body, encoding="utf-8")

    assert body == shell.ask("Receipt", "messages", "send", "--body-file", str(tmp_path / "body"))["body"]


def test_the_largest(shell, tmp_path):
    """Sixteen mebibytes are taken, and one byte more is not; both are counted in UTF-8."""
    body = "é" * (BODY_BYTES_MAX // 2)
    (tmp_path / "body").write_text(body, encoding="utf-8")
    sent = shell.ask("Receipt", "messages", "send", "--body-file", str(tmp_path / "body"))
    assert body == sent["body"]
    assert [sent] == shell.list()

    (tmp_path / "body").write_text(body + "x", encoding="utf-8")
    error = shell.refused("text_too_long", "messages", "send", "--body-file", str(tmp_path / "body"))
    assert (BODY_BYTES_MAX + 1, BODY_BYTES_MAX) == (error["details"]["size_bytes"], error["details"]["limit_bytes"])


@pytest.fixture
def hostile(shell):
    """A finished message, hostile in body and outcome."""
    words = ("--actionable", "--body-file", "-")
    sent = shell.ask("Receipt", "messages", "send", *words, stdin=HOSTILE.encode())
    claimed = shell.step("claim", sent)
    words = shell.words("complete", claimed, "--outcome-file", "-", token=claimed["claim_token"])
    return shell.ask("Receipt", *words, stdin=HOSTILE.encode())


def _forms(receipt):
    yield "messages", "list", "--status", "all"
    yield "messages", "view", "--message-id", receipt["id"]


def test_shown_to_a_pipe(shell, hostile):
    """Without a terminal there are no colours either: every control and bidi character is escaped."""
    for words in _forms(hostile):
        answer = shell.run(*words)
        assert 0 == answer.status
        assert [] == HARMFUL.findall(answer.out + answer.err)
        assert "before" in answer.out


def test_shown_on_a_terminal(shell, hostile):
    """On a terminal, colours are the only control sequences, and they are the program's own."""
    for words in _forms(hostile):
        shown = COLOUR.sub("", shell.on_terminal(*words))
        assert [] == HARMFUL.findall(shown)
        assert "before" in shown


def test_a_body_cannot_forge_a_colour(shell):
    """Even a sequence that the program itself would use is escaped."""
    shell.ask("Receipt", "messages", "send", "--body-file", "-", stdin=b"plain \x1b[31;7;5mEVIL\x1b[0m")

    for words in (("messages", "list"), ("messages", "list", "--status", "all")):
        assert "\x1b[31;7;5m" not in shell.on_terminal(*words)


def test_a_body_cannot_forge_a_row(shell):
    """In a table a message stays on its own line."""
    shell.ask("Receipt", "messages", "send", "--body-file", "-", stdin=b"first\nFORGED row\r\nFORGED again")

    assert [] == [line for line in shell.run("messages", "list").out.splitlines() if line.startswith("FORGED")]


def test_receipts_are_shown_safely(shell, hostile):
    """The commands that change a message show it as carefully as those that only show it."""
    answer = shell.run("messages", "send", "--body-file", "-", stdin=HOSTILE.encode())
    assert 0 == answer.status
    assert [] == HARMFUL.findall(answer.out + answer.err)


@pytest.mark.parametrize(
    "words",
    [
        ("messages", "list", "--target", HOSTILE),
        ("messages", "list", "--status", HOSTILE),
        ("messages", "list", "--session", HOSTILE),
        ("messages", "list", "--limit", HOSTILE),
        ("messages", "list", "--root", HOSTILE + "/x"),
        ("messages", "list", "--mount", HOSTILE),
        ("messages", "send", "--body", "x", "--due-at", HOSTILE),
        ("messages", "send", "--body", "x", "--delivery", HOSTILE),
        ("messages", "send", "--body-file", HOSTILE),
        ("messages", "view", "--message-id", HOSTILE),
        ("messages", "view", f"--{HOSTILE}"),
        ("messages", "view", HOSTILE),
        ("messages", HOSTILE),
        (HOSTILE,),
    ],
    ids=lambda words: "-".join(words).replace(HOSTILE, "hostile").strip("-"),
)
def test_errors_are_shown_safely(shell, words):
    """What is quoted in an error is escaped as well."""
    answer = shell.run(*words)

    assert [] == HARMFUL.findall(answer.out + answer.err)
