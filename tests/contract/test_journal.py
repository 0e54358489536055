"""`fencepost journal`: what happened, and proof of it, asked from outside."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

#: Makes a store that was used for five days of January 2001, with a segment for each of its twelve events.
LIVED = """
import json, sys
from datetime import UTC, datetime, timedelta
from fencepost.mailbox import Mailbox, Mount
from fencepost.mailbox.store.opening import file_store

now = datetime(2001, 1, 1, 12, tzinfo=UTC)
tokens = iter(range(1, 99))
store = file_store(sys.argv[1], segment_bytes=1)
mounts = [Mount("user:pat/proj:app", "/project")]
box = Mailbox(store, mounts, clock=lambda: now, new_token=lambda: f"token-{next(tokens)}")

def send(body, **options):
    global now
    now = now.replace(day=now.day + 1, hour=12, minute=0)
    return box.send(body, actionable=True, **options).message.id

def claim(message_id, session="one"):
    return box.claim(message_id, session=session, occurrence=1).message.lease.token

done = send("to be done")
fence = {"session": "one", "occurrence": 1, "token": claim(done)}
now += timedelta(minutes=1)
box.complete(done, outcome="Fixed.", **fence)
forgotten = send("to be forgotten")
claim(forgotten)
lost = send("to be taken over")
claim(lost)
now += timedelta(hours=1)
claim(lost, "two")
later = send("to be put off")
fence["token"] = claim(later)
box.snooze(later, outcome="Not yet.", delay_seconds=86_400, **fence)
due = send("to come due", delay_seconds=60)
store.close()
print(json.dumps({"done": done, "forgotten": forgotten, "lost": lost, "later": later, "due": due}))
"""
#: Sends through the library for as long as its standard input is open, and says when it has begun.
WRITER = """
import select, sys
from fencepost.mailbox import Mailbox, Mount, open_store
box = Mailbox(open_store(sys.argv[1]), [Mount("user:pat/proj:app", "/project")])
box.send("begun")
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0.02)[0]:
    box.send("more")
"""
#: Runs each command on a copy of the store that is mounted read-only.
READ_ONLY = """
import json, subprocess, sys
program, place, commands = sys.argv[1:]
subprocess.run(["mount", "--bind", place, place], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
said = []
for words in json.loads(commands):
    done = subprocess.run([program, "journal", *words, "--root", place], stdout=subprocess.PIPE, text=True)
    said.append([done.returncode, done.stdout])
print(json.dumps(said))
"""
NOW = "2001-02-01T00:00:00Z"
#: A time between the second day's events and the third's.
BETWEEN = "2001-01-04T00:00:00Z"
OLDER = [1, 2, 3, 4, 5]


def make(script, *words):
    """What a script that uses the library prints."""
    words = [sys.executable, "-P", "-c", script, *map(str, words)]
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def lived(lasting_shell):
    """The messages of a store in which a good deal has happened; nobody writes to it."""
    lasting_shell.root.mkdir(mode=0o700)
    return json.loads(make(LIVED, lasting_shell.root))


@pytest.fixture
def copied(shell, lasting_shell, lived):
    """The messages of a copy of it, to do as one likes with."""
    shutil.copytree(lasting_shell.root, shell.root)
    return lived


def ask(shell, *words, status=0, **options):
    """The document that a command prints with --json."""
    answer = shell.run("journal", *words, "--json", **options)
    assert status == answer.status, answer
    return json.loads(answer.out)


def tell(shell, *words, status=0):
    """What a command tells a person."""
    answer = shell.run("journal", *words)
    assert status == answer.status, answer
    return answer.out + answer.err


def pick(document, *names):
    return tuple(document[name] for name in names)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def seqs(events):
    return [event["seq"] for event in events]


def tree(root):
    """Everything in a store, byte by byte."""
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return [(str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in found]


def reading(lived):
    """A command of each kind that only reads, but for `stats`, which tells where the segments are."""
    return [
        ["verify", "--json"],
        ["head"],
        ["log", "--json"],
        ["tail", "--json"],
        ["replay", "--until", BETWEEN, "--json"],
        ["replay", "--diff", "1", BETWEEN],
        ["explain", lived["done"], "--at", NOW],
    ]


@pytest.fixture(scope="module")
def answers(lasting_shell, lived):
    """What they answer."""
    return [lasting_shell.run("journal", *words) for words in reading(lived)]


# --- verify and head ------------------------------------------------------------------------------------


def test_a_good_store_is_proven(lasting_shell, lived):
    """Every frame, and that the index holds what they fold to."""
    proven = ask(lasting_shell, "verify")

    expected = {"good": True, "batches": 12, "events": 12, "erased": 0, "documents": 5, "index_seq": 12}
    assert expected == {name: proven[name] for name in expected}
    assert ([], None, None) == (proven["differing"], proven["damage"], proven["expected_found"])
    assert proven["head"] == ask(lasting_shell, "head")
    assert tell(lasting_shell, "verify").endswith("Everything is as it was written.\n")


def flip(shell, text):
    """Flip a bit of a text in an acknowledged message; the file, and the byte at which its frame begins."""
    (segment,) = (path for path in (shell.root / "journal").glob("*.log") if text in path.read_bytes())
    good = segment.read_bytes()
    at = good.index(text)
    segment.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    return segment, good.rfind(b"\n", 0, at) + 1


def test_a_flipped_bit_is_named(shell):
    """By the file and the byte at which the frame begins, with what is proven before it."""
    for body in ("first", "second", "third"):
        shell.send(body)
    segment, offset = flip(shell, b"second")

    proven = ask(shell, "verify", status=1)
    told = tell(shell, "verify", status=1)

    assert (False, 1, 1) == (proven["good"], proven["events"], proven["head"]["seq"])
    assert (str(segment), offset) == (proven["damage"]["file"], proven["damage"]["offset"])
    assert f"DAMAGED: {segment} is damaged at byte {offset}" in told
    assert offset > 0


def test_a_noted_head_stays_part_of_the_history(shell):
    """Whatever is added later."""
    shell.send("first")
    noted = tell(shell, "head").strip()
    shell.send("second")

    for words in (noted, noted.upper().replace(":", " ")):
        assert ask(shell, "verify", "--expect-head", words)["expected_found"]


def test_a_rewritten_history_is_noticed(shell):
    """It is whole in itself, and is not the one whose head was noted."""
    shell.send("first")
    noted = tell(shell, "head").strip()
    shutil.rmtree(shell.root)
    shell.send("first")

    proven = ask(shell, "verify", "--expect-head", noted, status=1)

    assert (False, False, None) == (proven["good"], proven["expected_found"], proven["damage"])
    assert f"REWRITTEN: {noted} is not part" in tell(shell, "verify", "--expect-head", noted, status=1)


@pytest.mark.parametrize(
    "words",
    [
        "nonsense",
        "1:abc",
        ":" + "a" * 64,
        "x:" + "a" * 64,
        "1:" + "z" * 64,
        "1" * 5_000 + ":" + "a" * 64,
    ],
    ids=["no colon", "short", "no number", "no digits", "no hex", "endless"],
)
def test_a_malformed_head(lasting_shell, lived, words):
    """What `head` never printed is a mistake in the words, and no verdict."""
    error = lasting_shell.refused("usage", "journal", "verify", "--expect-head", words, status=2)
    assert "SEQ:DIGEST" in error["message"]


def change_index(shell, statement, *values):
    (index,) = shell.root.glob("index-*.sqlite")
    db = sqlite3.connect(index)
    with db:
        db.execute(statement, values)
    db.close()


def test_an_index_that_differs_is_named(shell, copied):
    """By the document of which it says something else than the journal."""
    path = f"messages/{copied['lost']}"
    change_index(shell, "UPDATE document SET body = replace(body, 'taken over', 'made up') WHERE path = ?", path)

    proven = ask(shell, "verify", status=1)

    assert (False, None, 5) == (proven["good"], proven["damage"], proven["documents"])
    assert [{"scope": "user:pat/proj:app", "path": path}] == proven["differing"]
    assert f"DIFFERS from the index: user:pat/proj:app {path}" in tell(shell, "verify", status=1)


def test_the_number_of_documents_is_that_of_the_journal(shell, copied):
    """However many the index holds."""
    change_index(shell, "DELETE FROM document WHERE path = ?", f"messages/{copied['due']}")

    proven = ask(shell, "verify", status=1)

    assert [{"scope": "user:pat/proj:app", "path": f"messages/{copied['due']}"}] == proven["differing"]
    assert 5 == proven["documents"]


def test_no_index_is_no_damage(shell, copied):
    """It is said, and none is made."""
    for index in shell.root.glob("index-*"):
        index.unlink()

    proven = ask(shell, "verify")

    assert (True, None) == (proven["good"], proven["index_seq"])
    assert "There is no index" in tell(shell, "verify")
    assert [] == list(shell.root.glob("index-*"))


def test_a_lost_end_is_noticed(shell):
    """Where the machine was not started anew, it remembers how far the journal went, without any index."""
    make(LIVED, shell.root)
    (shell.root / "journal" / "0000000000000012.log").unlink()
    for index in shell.root.glob("index-*"):
        index.unlink()

    assert not ask(shell, "verify", status=1)["good"]


def test_a_head_of_less_than_the_index_knows(shell, copied):
    """Nobody is to note it: what the index knew was on the disk."""
    (shell.root / "journal" / "0000000000000012.log").unlink()

    assert "journal_corrupt" == ask(shell, "head", status=1)["error"]["code"]


# --- log and tail -----------------------------------------------------------------------------------------


def test_the_log(lasting_shell, lived):
    """The last events, or the next ones behind a number."""
    for words, expected in (
        ((), range(1, 13)),
        (("--limit", "3"), range(10, 13)),
        (("--after", "10", "--limit", "3"), range(11, 13)),
    ):
        assert [*expected] == seqs(ask(lasting_shell, "log", *words)["events"])
    (event,) = ask(lasting_shell, "log", "--after", "1", "--limit", "1")["events"]
    assert ("2001-01-02T12:00:00Z", "host:local", 2) == (event["at"], event["actor"], event["version"])
    assert ("message.claimed", f"messages/{lived['done']}") == (event["type"], event["stream"])
    assert "token-1" == event["data"]["token"]


def test_the_log_for_a_person(lasting_shell, lived):
    """A line for each event: its number, when, what, and of which message."""
    (line,) = tell(lasting_shell, "log", "--limit", "1").splitlines()
    assert ["12", "2001-01-06T12:00:00Z", "message.sent"] == line.split()[:3]
    assert f"messages/{lived['due']}" in line


@pytest.mark.parametrize("option,value", [("--limit", "0"), ("--limit", "1000001"), ("--after", "x")])
def test_numbers_of_the_log(lasting_shell, lived, option, value):
    """At least one event and at most a million, behind a number."""
    lasting_shell.refused("invalid_number", "journal", "log", option, value)


def test_the_tail(lasting_shell, lived):
    """The last ten events, or those behind a number, one document on each line."""
    assert [*range(3, 13)] == seqs(map(json.loads, tell(lasting_shell, "tail", "--json").splitlines()))
    assert 11 == len(tell(lasting_shell, "tail", "--after", "1").splitlines())


def test_following(shell):
    """What another process sends is printed as it comes."""
    shell.send("first")
    with shell.start("journal", "tail", "-f", "--seconds", "50", "--json") as process:
        try:
            assert [1] == seqs([json.loads(process.stdout.readline())])
            sent = shell.send("second")
            event = json.loads(process.stdout.readline())
        finally:
            process.kill()
    assert (2, f"messages/{sent['id']}") == (event["seq"], event["stream"])


def test_following_ends(lasting_shell, lived):
    """After as many seconds as were asked for."""
    assert 2 == len(tell(lasting_shell, "tail", "-f", "--after", "10", "--seconds", "1").splitlines())


@pytest.mark.parametrize("option,value", [("--seconds", "0"), ("--seconds", "-1"), ("--after", "-1")])
def test_numbers_of_the_tail(lasting_shell, lived, option, value):
    """For at least a second, behind a number that an event may have."""
    words = ("journal", "tail", option, value)
    lasting_shell.refused("invalid_number", *words, before=("timeout", "5"))


# --- replay and explain -----------------------------------------------------------------------------------


def test_replay_ends_with_what_is_there(lasting_shell, lived):
    """The document of each message is what viewing it shows."""
    documents = ask(lasting_shell, "replay")["documents"]
    assert {f"messages/{each}" for each in lived.values()} == {document["path"] for document in documents}

    (document,) = ask(lasting_shell, "replay", "--message-id", lived["done"])["documents"]
    viewed = lasting_shell.view({"id": lived["done"]})
    del viewed["history"]
    assert viewed == {"version": document["version"], **document["content"]}
    assert document in documents


@pytest.mark.parametrize("until", ["7", "2001-01-04T12:59:59.999999Z", "2001-01-04T13:00:00+00:01"])
def test_replay_of_the_past(lasting_shell, lived, until):
    """Up to an event, or up to a time, each document as it stood then."""
    documents = ask(lasting_shell, "replay", "--until", until)["documents"]

    versions = {document["path"].removeprefix("messages/"): document["version"] for document in documents}
    assert {lived["done"]: 3, lived["forgotten"]: 2, lived["lost"]: 2} == versions
    (line,) = tell(lasting_shell, "replay", "--until", until, "--message-id", lived["lost"]).splitlines()
    assert f"messages/{lived['lost']} v2: " in line


def test_nothing_is_there_before_the_first_event(lasting_shell, lived):
    """By number and by time."""
    assert [] == ask(lasting_shell, "replay", "--until", "0")["documents"]
    assert "" == tell(lasting_shell, "replay", "--until", "1999-12-31T00:00:00Z")


def test_what_changed_between_two_points(lasting_shell, lived):
    """Field by field, between events or times, of all messages or of one."""
    changes = ask(lasting_shell, "replay", "--diff", "2", "3")["changes"]
    expected = [("status", "open", "done"), ("outcome", None, "Fixed.")]
    assert expected == [(change["field"], change["before"], change["after"]) for change in changes]
    assert {f"messages/{lived['done']}"} == {change["path"] for change in changes}

    changes = ask(lasting_shell, "replay", "--diff", "2", BETWEEN, "--message-id", lived["forgotten"])["changes"]
    assert {f"messages/{lived['forgotten']}"} == {change["path"] for change in changes}
    assert 'outcome: null -> "Fixed."' in tell(lasting_shell, "replay", "--diff", "2", "3")


def test_one_point_or_two(lasting_shell, lived):
    """A state or a difference, not both; and a point is a number or a time."""
    lasting_shell.refused("usage", *("journal", "replay", "--until", "1", "--diff", "1", "2"), status=2)
    lasting_shell.refused("invalid_time", "journal", "replay", "--until", "yesterday")


@pytest.mark.parametrize(
    "name,answers,notes",
    [
        ("done", ["closed"], []),
        ("forgotten", ["lease_expired"], ["the lease of session one ran out"]),
        (
            "lost",
            ["lease_lost", "lease_expired"],
            ["the lease of session one ran out", "the lease of session two ran out"],
        ),
        ("later", ["stale_occurrence"], ["occurrence 2 came due"]),
        ("due", [], ["occurrence 1 came due"]),
    ],
)
def test_the_life_of_a_message(lasting_shell, lived, name, answers, notes):
    """What was recorded, what time did to it, and what the fences that were given out are worth."""
    life = ask(lasting_shell, "explain", lived[name], "--at", NOW)

    assert answers == [fence["answer"] for fence in life["fences"]]
    assert notes == [step["note"] for step in life["steps"] if step["event"] is None]
    recorded = [step["event"] for step in life["steps"] if step["event"] is not None]
    assert [*range(1, life["document"]["version"] + 1)] == [event["version"] for event in recorded]


def test_the_life_for_a_person(lasting_shell, lived):
    """Event by event, with the fields that each changed, and time between them."""
    told = tell(lasting_shell, "explain", lived["lost"], "--at", NOW).splitlines()

    assert f"user:pat/proj:app messages/{lived['lost']}, version 3" == told[0]
    assert '          owner: "one" -> "two"' in told
    assert f"{'':>8}  2001-01-04T12:30:00Z  (the lease of session one ran out)" in told
    assert [f"What its tokens are worth at {NOW}", "  session one, occurrence 1: lease_lost"] == told[-3:-1]


def test_a_fence_is_worth_what_using_it_brings(shell):
    """One that is running is said to run, and for how long."""
    sent = shell.send("to be done", "--actionable")
    claimed = shell.step("claim", sent)

    (fence,) = ask(shell, "explain", sent["id"])["fences"]
    assert ("one", 1, claimed["claim_token"]) == (fence["session"], fence["occurrence"], fence["token"])
    assert f"runs until {claimed['claim_until']}" == fence["answer"]

    shell.step("complete", sent, "--outcome", "Fixed.", token=claimed["claim_token"])
    code = ask(shell, "explain", sent["id"])["fences"][0]["answer"]
    shell.refused(code, *shell.words("renew", sent, token=claimed["claim_token"]))


def test_the_life_as_of_the_past(lasting_shell, lived):
    """What happened later is not told, and a message that was not there yet is unknown."""
    life = ask(lasting_shell, "explain", lived["lost"], "--at", "2001-01-04T12:10:00Z")
    assert ["runs until 2001-01-04T12:30:00Z"] == [fence["answer"] for fence in life["fences"]]
    assert (2, "one") == (life["document"]["version"], life["document"]["content"]["owner"])

    lasting_shell.refused("unknown_message", "journal", "explain", lived["lost"], "--at", BETWEEN)


# --- stats, the index, and the archive ---------------------------------------------------------------------


def test_stats(lasting_shell, lived):
    """Segments, bytes, and events by kind."""
    found = ask(lasting_shell, "stats")

    expected = {"message.claimed": 5, "message.completed": 1, "message.sent": 5, "message.snoozed": 1}
    assert expected == found["kinds"]
    assert (12, 0, 12, 5) == pick(found, "segments", "archived_segments", "events", "documents")
    assert sum(path.stat().st_size for path in (lasting_shell.root / "journal").glob("*.log")) == found["bytes"]
    assert (0, 0, None) == (found["torn_copies"], found["erased"], found["damage"])
    assert ask(lasting_shell, "head") == found["head"]
    assert "archived segments: 0" in tell(lasting_shell, "stats").splitlines()


def test_the_index_is_made_anew(shell, copied):
    """From the journal alone, whatever was wrong with it."""
    change_index(shell, "UPDATE document SET body = replace(body, 'to be', 'not to be')")

    assert {"generation": 2, "seq": 12} == ask(shell, "rebuild-index")
    assert ask(shell, "verify")["good"]
    assert "generation 3" in tell(shell, "rebuild-index")
    assert ["index-3.sqlite"] == [name for name in names(shell.root) if name.startswith("index-")]


def test_moving_to_an_archive(shell, copied, answers):
    """Sealed segments that are older go; everything is still proven, shown, told and done."""
    assert {"moved": OLDER, "archive": str(shell.root / "archive")} == ask(shell, "retain", "--before", BETWEEN)

    assert [f"{first:016d}.log" for first in OLDER] == names(shell.root / "archive")
    assert answers == [shell.run("journal", *words) for words in reading(copied)]
    assert (12, 5) == pick(ask(shell, "stats"), "segments", "archived_segments")
    assert [3, 2, 1] == [version["version"] for version in shell.view({"id": copied["done"]})["history"]]
    assert 5 == len(shell.list("--status", "all"))
    shell.send("after")
    shell.step("claim", {"id": copied["forgotten"], "occurrence": 1})
    ask(shell, "rebuild-index")
    assert (True, 14, 6) == pick(ask(shell, "verify"), "good", "events", "documents")


def test_an_archive_elsewhere(shell, copied, tmp_path):
    """In one folder and then in another, and again where it has been before."""
    for place, before, moved in (
        ("old", BETWEEN, OLDER),
        ("older", "2001-01-05T00:00:00Z", [6, 7, 8]),
        ("old", NOW, [9, 10, 11]),
    ):
        told = tell(shell, "retain", "--before", before, "--archive", str(tmp_path / place))
        assert f"Moved {len(moved)} segments to {tmp_path / place}.\n" == told
        assert {f"{first:016d}.log" for first in moved} <= set(names(tmp_path / place))

    assert (True, 12) == pick(ask(shell, "verify"), "good", "events")
    assert 11 == ask(shell, "stats")["archived_segments"]


def test_nothing_that_is_old_enough(shell, copied):
    """Nothing is moved, and no archive is made; nor ever the open segment."""
    before = tree(shell.root / "journal")
    assert [] == ask(shell, "retain", "--before", "2001-01-02T12:00:00Z")["moved"]
    assert before == tree(shell.root / "journal")
    assert not (shell.root / "archive").exists()

    assert [*range(1, 12)] == ask(shell, "retain", "--before", NOW)["moved"]
    assert [] == ask(shell, "retain", "--before", NOW)["moved"]
    assert ask(shell, "verify")["good"]


def test_an_interrupted_move(shell, copied):
    """A segment that is in both places is there once, and moving again finishes."""
    journal, archive = shell.root / "journal", shell.root / "archive"
    archive.mkdir()
    (journal / "archives").write_text(f"{archive}\n", encoding="utf-8")
    shutil.copy(journal / "0000000000000001.log", archive)
    (archive / ".0000000000000002.log.0123abcd.tmp").write_bytes(b"half")

    assert (True, 12) == pick(ask(shell, "verify"), "good", "events")
    assert OLDER == ask(shell, "retain", "--before", BETWEEN)["moved"]
    assert (True, 12) == pick(ask(shell, "verify"), "good", "events")
    assert 5 == ask(shell, "stats")["archived_segments"]


@pytest.mark.parametrize("through", ["its name", "a link"])
def test_the_journal_is_no_archive_of_itself(shell, copied, tmp_path, through):
    """It is refused as one, and nothing is lost."""
    place = shell.root / "journal"
    if through == "a link":
        place = tmp_path / "link"
        place.symlink_to(shell.root / "journal")

    shell.run("journal", "retain", "--before", NOW, "--archive", str(place))

    assert ask(shell, "verify")["good"]


def test_an_archive_that_another_store_uses(shell, copied, tmp_path):
    """It is refused, or shared; what stands there stays."""
    make(LIVED, tmp_path / "other")
    for root in (tmp_path / "other", shell.root):
        shell.run("journal", "retain", "--before", NOW, "--archive", str(tmp_path / "both"), "--root", str(root))

    for root in (tmp_path / "other", shell.root):
        assert ask(shell, "verify", "--root", str(root))["good"]


@pytest.mark.parametrize(
    "name",
    [
        "with spaces and é",
        "a\N{LINE SEPARATOR}b",
        "a\rb",
        "a\udcffb",
    ],
    ids=ascii,
)
def test_the_name_of_an_archive(shell, copied, tmp_path, name):
    """Any that a folder may have, or it is refused and nothing is moved."""
    answer = shell.run("journal", "retain", "--before", BETWEEN, "--archive", str(tmp_path / name), "--json")

    assert "Traceback" not in answer.err
    assert {"moved", "error"} & json.loads(answer.out).keys()
    assert ask(shell, "verify")["good"]


def test_a_store_moves_with_its_archive(shell, copied, tmp_path):
    """An archive within the store's folder is found wherever that is: in a backup, on another machine."""
    ask(shell, "retain", "--before", BETWEEN)
    shell.root.rename(tmp_path / "elsewhere")

    proven = ask(shell, "verify", "--root", str(tmp_path / "elsewhere"))
    assert (True, 12) == pick(proven, "good", "events")


def test_an_archive_that_cannot_be_written(shell, copied, tmp_path):
    """Nothing is moved, and everything is still there."""
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "no" / "such" / "folder"):
        shell.refused("journal_unavailable", "journal", "retain", "--before", BETWEEN, "--archive", str(place))
    assert ask(shell, "verify")["good"]


def test_when_to_move(lasting_shell, lived):
    """A time has to be given, and has to be one."""
    lasting_shell.refused("usage", "journal", "retain", status=2)
    lasting_shell.refused("invalid_time", "journal", "retain", "--before", "yesterday")


# --- all that only read ------------------------------------------------------------------------------------


def test_reading_writes_nothing(lasting_shell, lived, answers):
    """Not a byte of the store is another one afterwards, and no file has come or gone."""
    before = tree(lasting_shell.root)

    assert answers == [lasting_shell.run("journal", *words) for words in reading(lived)]
    ask(lasting_shell, "stats")

    assert before == tree(lasting_shell.root)
    assert {(0, "")} == {(answer.status, answer.err) for answer in answers}


def test_beside_a_running_writer(shell, copied):
    """Every one of them answers while another process sends, and finds everything good."""
    words = [sys.executable, "-P", "-c", WRITER, str(shell.root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert b"begun\n" == writer.stdout.readline()
        first = ask(shell, "head")["seq"]
        for words in [["stats"], *reading(copied)]:
            tell(shell, *words)
        assert ask(shell, "head")["seq"] > first
        writer.communicate(timeout=60)
    assert (0, True) == (writer.returncode, ask(shell, "verify")["good"])


def test_a_read_only_copy(lasting_shell, lived, answers, cannot):
    """The same answers as where it may be written to."""
    alone = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        cannot("nothing can be mounted read-only here")
    words = (lasting_shell.program, lasting_shell.root, json.dumps([*reading(lived), ["stats"]]))

    done = subprocess.run(
        [*alone, sys.executable, "-c", READ_ONLY, *words],
        env=lasting_shell.environ,
        capture_output=True,
        timeout=120,
        check=True,
    )

    *said, (status, _) = json.loads(done.stdout)
    assert [[answer.status, answer.out] for answer in answers] == said
    assert 0 == status


@pytest.fixture
def damaged(shell, copied):
    """The file that is damaged, at the beginning of event 9, in a store without an index."""
    for index in shell.root.glob("index-*"):
        index.unlink()
    return str(flip(shell, b"to be put off")[0])


def test_a_damaged_journal_is_counted_as_far_as_it_is_intact(shell, damaged):
    """And asked for no more than is intact, the rest answers as ever."""
    found = ask(shell, "stats")
    assert (8, damaged) == (found["events"], found["damage"]["file"])
    assert [1, 2] == seqs(ask(shell, "log", "--after", "0", "--limit", "2")["events"])


def test_a_damaged_journal_is_never_short_in_silence(shell, copied, damaged):
    """Whatever needs more than is intact names the damage, and fails."""
    for words in (("head",), ("replay",), ("explain", copied["due"])):
        answer = shell.run("journal", *words)
        assert (1, True) == (answer.status, damaged in answer.err), words


@pytest.mark.parametrize("command", ["log", "tail", "replay", "explain"])
def test_a_damaged_journal_is_shown_as_far_as_it_is_intact(shell, copied, damaged, command):
    """What is intact before the damage is told, and the damage named behind it."""
    words = [command, copied["lost"]] if command == "explain" else [command]

    answer = shell.run("journal", *words)

    assert damaged in answer.err
    assert copied["lost"] in answer.out


@pytest.mark.parametrize(
    "until",
    [BETWEEN, "8"],
)
def test_replay_of_what_is_intact(shell, copied, damaged, until):
    """The state before the damage needs nothing that is damaged."""
    assert copied["done"] in tell(shell, "replay", "--until", until)


@pytest.mark.parametrize(
    "command",
    [
        *("verify", "head", "log", "tail", "replay", "stats", "rebuild-index"),
        ("explain", "00000000-0000-4000-8000-000000000000"),
        ("retain", "--before", NOW),
    ],
    ids=str,
)
def test_where_there_is_no_store(shell, command):
    """It is said, and none is made."""
    shell.refused("no_store", "journal", *([command] if isinstance(command, str) else command))
    assert not shell.root.exists()
