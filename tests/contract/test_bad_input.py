"""
What is not well formed.

Each kind has a code of its own and one sentence, ends with status 1, and has written nothing.
"""

import json
import uuid

import pytest

SURROGATE = "\udcff"  # how a byte that is not UTF-8 arrives in an argument
BIDI = "\u202e"
LONG = "x" * 5000
SEND = ("messages", "send", "--body", "hello")
LIST = ("messages", "list")
ID, TOKEN = "{id}", "{token}"


def _step(command, *words, session="one", message_id=ID, occurrence="1"):
    return (
        *("messages", command, "--session", session, "--message-id", message_id),
        *("--occurrence", occurrence, *words),
    )


def _complete(*words):
    return _step("complete", "--token", TOKEN, *words)


def _snooze(*words):
    return _step("snooze", "--token", TOKEN, "--outcome", "Later", *words)


CASES = {
    # texts
    "body empty": ("blank_text", ("messages", "send", "--body", "")),
    "body blank": ("blank_text", ("messages", "send", "--body", " \t\n\u2003")),
    "body lone surrogate": ("invalid_text", ("messages", "send", "--body", f"a{SURROGATE}b")),
    "body none": ("missing_field", ("messages", "send")),
    "outcome blank": ("blank_text", _complete("--outcome", " ")),
    "outcome lone surrogate": ("invalid_text", _complete("--outcome", SURROGATE)),
    "outcome none": ("missing_field", _complete()),
    "snooze outcome blank": ("blank_text", _step("snooze", "--token", TOKEN, "--outcome", "", "--delay-seconds", "9")),
    "snooze outcome none": ("missing_field", _step("snooze", "--token", TOKEN, "--delay-seconds", "9")),
    "cancel outcome blank": ("blank_text", _step("cancel", "--outcome", "\n")),
    # names
    "id no uuid": ("invalid_name", _step("ack", message_id="1")),
    "id empty": ("invalid_name", _step("ack", message_id="")),
    "id braced uuid": ("invalid_name", _step("ack", message_id="{" + str(uuid.UUID(int=1)) + "}")),
    "id of a path": ("invalid_name", ("messages", "view", "--message-id", "../../etc/passwd")),
    "id lone surrogate": ("invalid_text", _step("ack", message_id=SURROGATE)),
    "session empty": ("invalid_name", _step("ack", session="")),
    "session with a space": ("invalid_name", _step("ack", session="a b")),
    "session with a slash": ("invalid_name", _step("ack", session="a/b")),
    "session with a bidi character": ("invalid_name", _step("ack", session=f"a{BIDI}b")),
    "session with a control": ("invalid_name", _step("ack", session="a\x1bb")),
    "session too long": ("invalid_name", _step("ack", session="x" * 201)),
    "session far too long": ("text_too_long", _step("ack", session=LONG)),
    "session lone surrogate": ("invalid_text", _step("ack", session=SURROGATE)),
    "session of list": ("invalid_name", (*LIST, "--session", "a b")),
    "session of send": ("invalid_name", (*SEND, "--session", "a/b")),
    "session none": ("missing_field", ("messages", "ack", "--message-id", ID, "--occurrence", "1")),
    "conversation with a slash": ("invalid_name", (*SEND, "--conversation", "a/b")),
    "conversation empty": ("invalid_name", (*SEND, "--conversation", "")),
    "about with a space": ("invalid_name", (*SEND, "--about", "a b")),
    "actor without a kind": ("invalid_name", (*SEND, "--actor", "pat")),
    "actor empty": ("invalid_name", (*SEND, "--actor", "")),
    "actor lone surrogate": ("invalid_text", (*SEND, "--actor", f"cli:{SURROGATE}")),
    "scope without a kind": ("invalid_name", (*LIST, "--scope", "pat")),
    "scope of a path": ("invalid_name", (*LIST, "--scope", "user:../other")),
    "scope empty": ("invalid_name", (*LIST, "--scope", "")),
    "mount scope": ("invalid_name", (*LIST, "--mount", "scope=pat,path=/pat")),
    "mount path relative": ("invalid_name", (*LIST, "--mount", "scope=user:pat,path=pat")),
    "mount path with dots": ("invalid_name", (*LIST, "--mount", "scope=user:pat,path=/../pat")),
    "mount twice": ("invalid_name", (*LIST, *("--mount", "scope=user:a,path=/a") * 2)),
    "target unknown": ("unknown_mount", (*LIST, "--target", "/nowhere")),
    "target lone surrogate": ("unknown_mount", (*LIST, "--target", f"/{SURROGATE}")),
    "mount read-only": ("read_only_mount", (*SEND, "--mount", "scope=user:a,path=/a,ro")),
    "message unknown": ("unknown_message", _step("ack", message_id=str(uuid.UUID(int=1)))),
    "token none": ("missing_field", _step("renew")),
    "token empty": ("lease_lost", _step("renew", "--token", "")),
    "message id none": ("missing_field", ("messages", "ack", "--session", "one", "--occurrence", "1")),
    "occurrence none": ("missing_field", ("messages", "ack", "--session", "one", "--message-id", ID)),
    "key empty": ("blank_text", (*SEND, "--idempotency-key", "")),
    "key lone surrogate": ("invalid_text", (*SEND, "--idempotency-key", SURROGATE)),
    "key far too long": ("text_too_long", (*SEND, "--idempotency-key", LONG)),
    # times
    "time naive": ("invalid_time", (*SEND, "--due-at", "2030-01-01T00:00:00")),
    "time without a clock": ("invalid_time", (*SEND, "--due-at", "2030-01-01")),
    "time impossible day": ("invalid_time", (*SEND, "--due-at", "2030-02-30T00:00:00Z")),
    "time impossible month": ("invalid_time", (*SEND, "--due-at", "2030-13-01T00:00:00Z")),
    "time impossible hour": ("invalid_time", (*SEND, "--due-at", "2030-01-01T25:00:00Z")),
    "time impossible offset": ("invalid_time", (*SEND, "--due-at", "2030-01-01T00:00:00+25:00")),
    "time of the year 10000": ("invalid_time", (*SEND, "--due-at", "10000-01-01T00:00:00Z")),
    "time of the year 10000 in UTC": ("invalid_time", (*SEND, "--due-at", "9999-12-31T23:59:59-01:00")),
    "time before 1970": ("invalid_time", (*SEND, "--due-at", "1969-12-31T23:59:59Z")),
    "time of the year 0": ("invalid_time", (*SEND, "--due-at", "0000-01-01T00:00:00Z")),
    "time in words": ("invalid_time", (*SEND, "--due-at", "tomorrow")),
    "time empty": ("invalid_time", (*SEND, "--due-at", "")),
    "time lone surrogate": ("invalid_time", (*SEND, "--due-at", SURROGATE)),
    "time in other digits": ("invalid_time", (*SEND, "--due-at", "\u0662\u0660\u0663\u0660-01-01T00:00:00Z")),
    "time of snooze naive": ("invalid_time", _snooze("--due-at", "2030-01-01T00:00:00")),
    "times both": ("both_times", (*SEND, "--due-at", "2030-01-01T00:00:00Z", "--delay-seconds", "1")),
    "times both of snooze": ("both_times", _snooze("--due-at", "2030-01-01T00:00:00Z", "--delay-seconds", "1")),
    "times neither of snooze": ("missing_time", _snooze()),
    "delay past the year 9999": ("invalid_time", (*SEND, "--delay-seconds", "253402300799")),
    # numbers
    "delay zero": ("invalid_number", (*SEND, "--delay-seconds", "0")),
    "delay negative": ("invalid_number", (*SEND, "--delay-seconds", "-1")),
    "delay huge": ("invalid_number", (*SEND, "--delay-seconds", str(2**63))),
    "delay of a thousand digits": ("invalid_number", (*SEND, "--delay-seconds", "9" * 5000)),
    "delay broken": ("invalid_number", (*SEND, "--delay-seconds", "1.5")),
    "delay in words": ("invalid_number", (*SEND, "--delay-seconds", "soon")),
    "delay empty": ("invalid_number", (*SEND, "--delay-seconds", "")),
    "delay infinite": ("invalid_number", (*SEND, "--delay-seconds", "inf")),
    "delay with an underscore": ("invalid_number", (*SEND, "--delay-seconds", "1_000")),
    "delay in other digits": ("invalid_number", (*SEND, "--delay-seconds", "\u0661")),
    "delay of snooze": ("invalid_number", _snooze("--delay-seconds", "0")),
    "limit zero": ("invalid_number", (*LIST, "--limit", "0")),
    "limit 501": ("invalid_number", (*LIST, "--limit", "501")),
    "limit negative": ("invalid_number", (*LIST, "--limit", "-1")),
    "limit in words": ("invalid_number", (*LIST, "--limit", "all")),
    "turn zero": ("invalid_number", (*SEND, "--conversation", "two", "--turn", "0")),
    "turn without a conversation": ("missing_field", (*SEND, "--turn", "1")),
    "about turn zero": ("invalid_number", (*SEND, "--about", "two", "--about-turn", "0")),
    "about turn without about": ("missing_field", (*SEND, "--about-turn", "1")),
    "occurrence zero": ("invalid_number", _step("ack", occurrence="0")),
    "occurrence in words": ("invalid_number", _step("ack", occurrence="first")),
    "occurrence huge": ("invalid_number", _step("ack", occurrence=str(2**63))),
    # links
    "link to a bad name": ("invalid_name", ("sessions", "link", "--session", "one", "--continues", "a/b")),
    "link without a session": ("missing_field", ("sessions", "link", "--continues", "one")),
    "link of itself": ("invalid_name", ("sessions", "link", "--session", "one", "--continues", "one")),
}


@pytest.fixture(scope="module")
def store(lasting_shell):
    """A shell whose store holds one message, which session `one` has claimed."""
    claimed = lasting_shell.step("claim", lasting_shell.send("hello", "--actionable"))
    return lasting_shell, {ID: claimed["id"], TOKEN: claimed["claim_token"]}


@pytest.mark.parametrize("code,words", CASES.values(), ids=[name.replace(" ", "-") for name in CASES])
def test_bad_input(store, code, words):
    """It has its own code and one sentence, with --json and without, and nothing was written."""
    shell, known = store
    words = [known.get(word, word) for word in words]

    error = shell.refused(code, *words)

    before = shell.digest()
    answer = shell.run(*words)
    assert (1, "") == (answer.status, answer.out)
    assert 1 == len(answer.err.splitlines())
    assert "Traceback" not in answer.err
    assert before == shell.digest()
    assert not error["message"].endswith("\n")


@pytest.mark.parametrize("option", ["--body", "--outcome"])
@pytest.mark.parametrize(
    "raw,code",
    [
        pytest.param(b"a\0b", "invalid_text", id="nul"),
        pytest.param(b"a\xffb", "invalid_text", id="not-utf-8"),
        pytest.param(b"\xed\xa0\x80", "invalid_text", id="surrogate"),
        pytest.param(b"\xff\xfeh\0i\0", "invalid_text", id="utf-16"),
        pytest.param(b"", "blank_text", id="empty"),
        pytest.param(b" \n\t\n", "blank_text", id="blank"),
        pytest.param(b"x" * ((16 << 20) + 1), "text_too_long", id="too-long"),
    ],
)
def test_bad_input_from_a_file(store, tmp_path, option, raw, code):
    """What comes from a file or from standard input is checked like what comes from the command line."""
    shell, known = store
    file = tmp_path / "text"
    file.write_bytes(raw)
    words = ("messages", "send") if option == "--body" else [known.get(word, word) for word in _complete()]

    shell.refused(code, *words, f"{option}-file", str(file))
    shell.refused(code, *words, f"{option}-file", "-", stdin=raw)


@pytest.mark.parametrize("path", ["nothing-there", "."], ids=["missing", "folder"])
def test_a_body_file_that_cannot_be_read(store, path):
    """The file is named, in one sentence."""
    shell, _ = store

    answer = shell.run("messages", "send", "--body-file", path, "--json")

    error = json.loads(answer.out)["error"]
    assert answer.status in (1, 2)
    assert path in error["message"]


def test_a_nul_is_refused_wherever_it_is(store, tmp_path):
    """The position of the character is told, so that it can be found."""
    shell, _ = store
    (tmp_path / "text").write_bytes("üü\0".encode())

    error = shell.refused("invalid_text", "messages", "send", "--body-file", str(tmp_path / "text"))

    assert ("body", 2) == (error["details"]["field"], error["details"]["position"])
