"""`fencepost turns`, `search` and `recall`: conversations and what was said, driven as a shell would."""

import json
import subprocess

import pytest

SECRET = "swordfish"
HOSTILE = "before \x1b]0;owned\x07\x1b[31m\u202e\u2066\x9b after\nsecond"


def append(shell, talk, *messages):
    """The turn that these chat messages became."""
    raw = json.dumps(messages).encode()
    return shell.ask("Turn", "turns", "append", talk, "--file", "-", stdin=raw)


def says(content):
    return {"role": "user", "content": content}


def read(shell, talk, *words):
    return shell.ask("Turns", "turns", "read", talk, *words)


def search(shell, query, *words):
    found = shell.ask("Hits", "search", query, *words)
    assert found["complete"]
    return found["hits"]


def recall(shell, talk, *words):
    return shell.ask("Recalled", "recall", talk, *words)


def holding(shell):
    """The files that hold the secret, by grep."""
    done = subprocess.run(["grep", "-rlaF", SECRET, str(shell.root)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


# --- turns ------------------------------------------------------------------------------------------------------


def test_turns_are_numbered_and_come_back(shell):
    """From 1 without gaps, as they were given, with who and when."""
    call = {"id": "c", "name": "read", "arguments": {"path": "src/main.py"}}
    messages = [
        says("Look."),
        {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}], "extra": {"ms": [1.5, None]}},
    ]
    first = append(shell, "s-42", *messages)
    second = append(shell, "s-42", says("And?"))

    assert (1, 2) == (first["turn"], second["turn"])
    assert (messages, "cli:pat", False) == (first["messages"], first["actor"], first["redacted"])
    assert {"conversation_id": "s-42", "turns": [first, second], "next_after": None} == read(shell, "s-42")
    assert 1 == append(shell, "s-43")["turn"]


def test_unknown_keys_are_dropped(shell):
    """What is carried stands under extra."""
    turn = append(shell, "s", says("x") | {"id": 7, "extra": {"id": 7}})

    assert [says("x") | {"extra": {"id": 7}}] == turn["messages"]


def test_turns_are_read_in_pages(shell):
    """Behind a turn, so many, and whether there are more; nothing of a conversation that is not there."""
    for n in range(3):
        append(shell, "s", says(str(n)))

    page = read(shell, "s", "--limit", "2")
    assert ([1, 2], 2) == ([turn["turn"] for turn in page["turns"]], page["next_after"])
    page = read(shell, "s", "--after", "2")
    assert ([3], None) == ([turn["turn"] for turn in page["turns"]], page["next_after"])
    assert ([], None) == tuple(read(shell, "s", "--limit", "0")[key] for key in ("turns", "next_after"))
    assert [] == read(shell, "nobody")["turns"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"role": "user"}',
        b'[{"content": "x"}]',
        b'["x"]',
        b'[{"role": "user", "extra": {"x": NaN}}]',
        b'[{"role": "user", "extra": {"x": 123456789012345678901234567890}}]',
        b"[" * 100_000,
    ],
)
def test_what_is_no_turn(shell, raw):
    """It is refused by code, and nothing is written."""
    append(shell, "s", says("x"))
    shell.refused("invalid_turn", "turns", "append", "s", "--file", "-", stdin=raw)


def test_refusals(shell):
    """Odd texts, names and numbers, as everywhere."""
    append(shell, "s", says("x"))
    shell.refused("invalid_text", "turns", "append", "s", "--file", "-", stdin=b'[{"role":"user","content":"\\u0000"}]')
    shell.refused("invalid_text", "turns", "append", "s", "--file", "-", stdin=b'[{"role":"user","content":"\\ud800"}]')
    shell.refused("missing_field", "turns", "append", "s")
    shell.refused("unreadable_file", "turns", "append", "s", "--file", "nothing.json")
    shell.refused("invalid_name", "turns", "append", "a/b", "--file", "-", stdin=b"[]")
    shell.refused("invalid_number", "turns", "read", "s", "--after", "-1")
    shell.refused("invalid_number", "turns", "read", "s", "--limit", "501")
    shell.refused("which_turns", "turns", "redact", "s")
    shell.refused("which_turns", "turns", "redact", "s", "--turn", "1", "--through", "1")
    shell.refused("unknown_turn", "recall", "s", "--turn", "2")
    shell.refused("unknown_turn", "recall", "nobody", "--turn", "1")


def test_a_turn_is_shown_without_harm(shell):
    """Whatever stands in it and in who says it."""
    append(shell, "s", {"role": "us\x1b[2Jer", "content": HOSTILE})
    for words in (("turns", "read", "s"), ("recall", "s"), ("search", "owned")):
        out = shell.run(*words).out
        assert "owned" in out
        assert not [character for character in out if not (character.isprintable() or character == "\n")]


# --- search -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query,text",
    [
        ("pol-358", "POL-358 is back"),
        ("DON'T", "I don't know"),
        ("50%", "at 50% now"),
        ("src/main.py", "in src/main.py, line 3"),
        ("a,b", "(a,b)"),
        ('"quoted"', 'a "quoted" word'),
        ("\U0001f600", "well \U0001f600"),
        ("q", "Quite"),
        ("istanbul", "ISTANBUL"),
        ("strasse", "Große Straße"),
        ("STRASSE große", "Große Straße"),
        ("OR", "this OR that"),
        ("*", "2 * 2"),
    ],
)
def test_search_finds_in_any_case(shell, query, text):
    """In a body, in an outcome and in a turn; and nothing in what has no such text."""
    sent = shell.send(text)
    shell.send("zzz")
    shell.step("cancel", shell.send("zzz"), "--outcome", text)
    append(shell, "s", says(text))
    append(shell, "s", says("zzz"))

    found = search(shell, query)

    assert ["turn", "outcome", "body"] == [hit["source"] for hit in found]
    assert [text] * 3 == [hit["snippet"] for hit in found]
    assert (sent["id"], "open", 1) == tuple(found[2][key] for key in ("message_id", "status", "version"))
    assert "cancelled" == found[1]["status"]


def test_a_query_that_is_none(shell):
    """An error with a code of its own, and never an empty list."""
    shell.send("hello")
    for words in (("search",), ("memory", "search")):
        for query in ("", "  ", "\n"):
            shell.refused("blank_query", *words, query)
        for limit in ("0", "501", "-1", "x"):
            shell.refused("invalid_number", *words, "hello", "--limit", limit)
    assert [] == search(shell, "nothing of the kind")


def test_search_stays_within_the_mounts(shell):
    """Messages of scopes that are not mounted are not found, and turns of others where some are named."""
    shell.send("secret plan", "--target", "/user")
    append(shell, "s-42", says("secret turn"))

    assert 2 == len(search(shell, "secret"))
    assert ["turn"] == [hit["source"] for hit in search(shell, "secret", "--scope", "user:pat/proj:other")]
    assert ["body"] == [hit["source"] for hit in search(shell, "secret", "--conversation", "s-43")]
    assert ["turn"] == [hit["source"] for hit in search(shell, "secret", "--target", "/project")]


def test_searching_reads_nothing(shell):
    """A message that was found is as unread as before."""
    shell.send("hello")
    before = shell.digest()
    search(shell, "hello")
    assert before == shell.digest()
    assert [None] == [item["read_by"] for item in shell.list()]


def test_memory_is_searched_apart(shell):
    """Documents as they stand, and neither mail nor turns; and the other way round."""
    for content in ("old words", "new words"):
        shell.ask("MemoryDocument", "memory", "write", "/project/a", "--content", content)
    shell.ask("MemoryDocument", "memory", "write", "/user/b", "--content", "other words")
    shell.send("words")
    append(shell, "s", says("words"))

    found = shell.ask("MemoryHits", "memory", "search", "WORDS")["hits"]

    assert [("b", "other words"), ("a", "new words")] == [(hit["path"], hit["snippet"]) for hit in found]
    assert [] == shell.ask("MemoryHits", "memory", "search", "old")["hits"]
    assert ["turn", "body"] == [hit["source"] for hit in search(shell, "words")]


# --- recall -----------------------------------------------------------------------------------------------------


def test_a_correction_of_an_old_turn(shell):
    """It is found with the turn and recalled behind it, by everybody, whatever became of it."""
    append(shell, "s-42", says("The port is 8080."))
    append(shell, "s-42", says("Thanks."))
    about = ("--about", "s-42", "--about-turn", "1")
    fix = shell.send("It is 8081 since Monday.", *about, "--actionable")
    wrong = shell.send("It is 9.", *about, "--conversation", "s-99")
    whole = shell.send("All of this is from May.", "--about", "s-42")
    claimed = shell.step("claim", fix)
    shell.step("complete", fix, "--outcome", "Noted.", token=claimed["claim_token"])
    shell.step("cancel", wrong, session="s-99")

    (hit,) = search(shell, "port 8080")
    recalled = recall(shell, "s-42", "--turn", "1")

    (only,) = recalled["turns"]
    assert [says("The port is 8080.")] == only["turn"]["messages"]
    assert hit["annotations"] == only["annotations"]
    assert [(fix["id"], "done"), (wrong["id"], "cancelled")] == [
        (each["message_id"], each["message"]["status"]) for each in only["annotations"]
    ]
    assert [whole["id"]] == [each["message_id"] for each in recall(shell, "s-42")["annotations"]]
    assert [] == recall(shell, "s-42", "--scope", "user:pat")["turns"][0]["annotations"]
    told = shell.run("recall", "s-42").out
    for line in ("| The port is 8080.", "| It is 8081 since Monday.", "CANCELLED", "outcome: Noted.", "by cli:pat"):
        assert line in told


def test_an_erased_turn_is_in_no_file(shell):
    """Nor in the index of the search; the journal verifies, and who and when stay."""
    kept = append(shell, "s", says("hello"))
    secret = append(shell, "s", says(f"The password is {SECRET}."))
    assert 1 == len(search(shell, SECRET))
    assert holding(shell)

    done = shell.ask("TurnsRedaction", "turns", "redact", "s", "--turn", "2", "--reason", "A password.")

    assert [] == holding(shell)
    assert {"conversation_id": "s", "count": 1} == done
    assert done == shell.ask("TurnsRedaction", "turns", "redact", "s", "--turn", "2")
    assert [] == search(shell, SECRET)
    assert [kept, secret | {"messages": [], "redacted": True}] == read(shell, "s")["turns"]
    assert 3 == append(shell, "s", says("on"))["turn"]
    assert json.loads(shell.run("journal", "verify", "--json").out)["good"]
    shell.run("journal", "rebuild-index")
    assert [1, 3] == [turn["turn"] for turn in read(shell, "s")["turns"] if not turn["redacted"]]
    assert [] == holding(shell)


def test_an_erased_message_is_found_no_more(shell):
    """Neither by what it said nor by an outcome."""
    receipt = shell.send(f"{SECRET} one", "--actionable")
    claimed = shell.step("claim", receipt)
    shell.step("complete", receipt, "--outcome", f"{SECRET} two", token=claimed["claim_token"])
    assert 2 == len(search(shell, SECRET))

    shell.ask("Redaction", "messages", "redact", "--message-id", receipt["id"])

    assert [] == search(shell, SECRET)
    assert [] == holding(shell)


def test_an_erased_annotation_says_so(shell):
    """Whoever recalls the turn sees that something was said about it, and not what."""
    append(shell, "s", says("hello"))
    receipt = shell.send(f"It is {SECRET}.", "--about", "s", "--about-turn", "1")
    shell.ask("Redaction", "messages", "redact", "--message-id", receipt["id"])

    for _ in range(2):
        (note,) = recall(shell, "s", "--turn", "1")["turns"][0]["annotations"]
        assert (receipt["id"], None, "erased") == tuple(note[key] for key in ("message_id", "message", "why"))
        shell.run("journal", "rebuild-index")
    assert f"{receipt['id']} in {receipt['scope']}: erased" in shell.run("recall", "s").out
    assert [] == holding(shell)


def test_the_journal_copes_with_turns(shell):
    """Replay, log and verify show them as they are."""
    append(shell, "s", says("hello"))
    append(shell, "s", says("again"))
    answer = shell.run("journal", "replay", "--json")
    (document,) = json.loads(answer.out)["documents"]
    events = json.loads(shell.run("journal", "log", "--json").out)["events"]

    assert ("conversation:s", "/turns", 2, None) == tuple(
        document[key] for key in ("scope", "path", "version", "unsupported")
    )
    assert ["turn.appended"] * 2 == [event["type"] for event in events]
    life = json.loads(shell.run("journal", "explain", "/turns", "--json").out)
    assert ["turn.appended"] * 2 == [step["event"]["type"] for step in life["steps"]]
    assert json.loads(shell.run("journal", "verify", "--json").out)["good"]
