"""`fencepost fleet` as an operator meets it before anything runs: a fleet that is described wrongly, or not at all."""

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest

TOKEN = "syt_very_secret_token"
AGENT = {
    "name": "chef",
    "user": "@chef:test.local",
    "owner": "@pat:test.local",
    "credentials": "chef.token",
    "runtime": "codex",
    "folder": ".",
    "program": ["false"],
}
NESTED = "x = " + "[" * 5_000 + "]" * 5_000


def toml(value):
    """A value as TOML has it, which is nearly JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def described(shell, *agents, **keys):
    """Write a fleet.toml with these agents, and a token for each."""
    fields = {"homeserver": "http://127.0.0.1:9", "agents": list(agents or (AGENT,)), **keys}
    (shell.here / "fleet.toml").write_text("".join(f"{name} = {toml(value)}\n" for name, value in fields.items()))
    token = shell.here / "chef.token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)


def run_refused(shell, code, *words):
    """`fleet run` must end at once with that code, having written nothing."""
    before = shell.digest()
    answer = shell.run("fleet", "run", *words)
    assert (1, "") == (answer.status, answer.out)
    assert f"[{code}]" in answer.err
    assert 1 == answer.err.count("\n"), answer.err
    assert TOKEN not in answer.err
    assert before == shell.digest()
    return answer.err


WRONG = {
    "no TOML": "homeserver =",
    "no text": "\udcff",
    "nested too deep": NESTED,
    "nothing": "",
    "no agents": 'homeserver = "http://127.0.0.1:9"',
    "an unknown key": {"colour": "red"},
    "an unknown key of an agent": {"agents": [AGENT | {"grant": "*"}]},
    "an unknown key of a room": {"agents": [AGENT | {"rooms": [{"room": "#a:b", "wakes": "all"}]}]},
    "a homeserver that is none": {"homeserver": "matrix.example.org"},
    "a homeserver with a password": {"homeserver": f"http://pat:{TOKEN}@127.0.0.1:9"},
    "no permits": {"permits": 0},
    "half a permit": {"permits": 1.5},
    "a permit in words": {"permits": "two"},
    "a permit that is true": {"permits": True},
    "an agent without a user": {"agents": [{"name": "chef"}]},
    "a name that is a path": {"agents": [AGENT | {"name": "../chef"}]},
    "a user that is none": {"agents": [AGENT | {"user": "chef"}]},
    "a runtime that is none": {"agents": [AGENT | {"runtime": "bash"}]},
    "a wake that is none": {"agents": [AGENT | {"rooms": [{"room": "#a:b", "wake": "sometimes"}]}]},
    "a room that is none": {"agents": [AGENT | {"rooms": [{"room": "lab"}]}]},
    "a grant to nobody": {"agents": [AGENT | {"rooms": [{"room": "#a:b", "grants": [{"sender": "bob"}]}]}]},
    "two agents of one name": {"agents": [AGENT, AGENT | {"user": "@other:test.local"}]},
    "two agents of one user": {"agents": [AGENT, AGENT | {"name": "other"}]},
    "a room twice": {"agents": [AGENT | {"rooms": [{"room": "#a:b"}, {"room": "#a:b"}]}]},
    "a scope that is none": {"agents": [AGENT | {"mail": ["nowhere"]}]},
    "a scope twice": {"agents": [AGENT | {"mail": ["user:pat", "user:pat"]}]},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_a_wrong_description_is_refused(shell, wrong):
    """By every command, with one sentence that says what is wrong; nothing is written, and no secret repeated."""
    shell.send("hello")
    if isinstance(wrong, str):
        (shell.here / "fleet.toml").write_bytes(wrong.encode("utf-8", "surrogateescape"))
    else:
        described(shell, **wrong)

    said = run_refused(shell, "invalid_fleet")
    for words in (("status",), ("send", "chef", "--body", "x"), ("history", "chef")):
        error = shell.refused("invalid_fleet", "fleet", *words)
        assert error["message"] in said
        assert TOKEN not in json.dumps(error)


LIST, ROOM = "a list belongs here @ .agents", {"room": "#a:b"}
NUMBER, NAMED = "is a whole number from", "is @name:server @ .agents[0]"
SAYS = {
    "a program that is no list": ({"program": "codex"}, f"{LIST}[0].program"),
    "mail that is no list": ({"mail": "user:me"}, f"{LIST}[0].mail"),
    "arguments that are no list": ({"arguments": "--foo bar"}, f"{LIST}[0].arguments"),
    "one room": ({"rooms": ROOM}, f"{LIST}[0].rooms"),
    "one grant": ({"rooms": [ROOM | {"grants": {"sender": "*"}}]}, f"{LIST}[0].rooms[0].grants"),
    "a grant that is no table": ({"rooms": [ROOM | {"grants": ["*"]}]}, "a table with sender belongs here"),
    "a sender": ({"rooms": [ROOM | {"grants": [{"sender": "ann"}]}]}, "sender is a Matrix user, @name:server, or *"),
    "a room": ({"rooms": [{"room": "Kitchen"}]}, "room is the room's id, !…, or an alias, #…"),
    "a user": ({"user": "codex"}, f"user {NAMED}"),
    "an owner": ({"owner": "pat"}, f"owner {NAMED}"),
    "a name": ({"name": "The Analyst"}, "name is 1 to 63 small letters, digits, - and _"),
    "a scope": ({"mail": ["nowhere"]}, "mail: scope 'nowhere'"),
    "a slip of the pen": ({"rooms": [ROOM | {"wakes": "all"}]}, "unknown key wakes (did you mean wake?)"),
}
SAYS_ABOVE = {
    "one agent": ({"agents": AGENT}, LIST),
    "an agent that is no table": ({"agents": ["chef"]}, "a table with name, user, owner, runtime, folder belongs here"),
    "no permits": ({"permits": 0}, f"permits {NUMBER} 1 to 10000"),
    "bytes": ({"limits": {"inline_bytes": 10}}, f"inline_bytes {NUMBER} 1024 to 1048576 @ .limits"),
    "limits": ({"limits": 10}, "a table belongs here @ .limits"),
    "a homeserver": ({"homeserver": "matrix.example.org"}, "homeserver is its address, http://… or https://…"),
    "a slip of the pen above": ({"premits": 2}, "unknown key premits (did you mean permits?)"),
}


@pytest.mark.parametrize(
    "keys,says",
    [*SAYS_ABOVE.values(), *(({"agents": [AGENT | keys]}, says) for keys, says in SAYS.values())],
    ids=[name.replace(" ", "-") for name in (*SAYS_ABOVE, *SAYS)],
)
def test_what_is_wrong_is_said_with_its_key(shell, keys, says):
    """And with what would fit there."""
    described(shell, **keys)

    assert says in shell.refused("invalid_fleet", "fleet", "status")["message"]


def test_a_store_that_others_serve_is_not_a_fleets(shell, tmp_path):
    """Nothing is written elsewhere in silence; whoever says where its store is means that."""
    described(shell)
    shell.environ["FENCEPOST_URL"] = "http://127.0.0.1:9"

    for words in (("run",), ("status",), ("history", "chef"), ("send", "chef", "--body", "x")):
        answer = shell.run("fleet", *words)
        assert 2 == answer.status
        assert "unset $FENCEPOST_URL or give --root" in answer.err
        assert 1 == answer.err.count("\n")
    assert not (shell.home / ".fencepost").exists()
    assert 0 == shell.run("fleet", "status", "--root", str(tmp_path / "own")).status


MISSING = {
    "a folder": ({"folder": "nowhere"}, "nowhere does not exist"),
    "a folder that is a file": ({"folder": "chef.token"}, "chef.token is no folder"),
    "a program": ({"program": ["no-such-program"]}, "no-such-program is not found"),
    "a program by its path": ({"program": ["./no-such-program"]}, "./no-such-program is not found"),
    "a program that is a folder": ({"program": ["./"]}, "./ is not found"),
    "a program of the runtime": ({"program": []}, "codex is not found"),
}


@pytest.mark.parametrize("keys,says", MISSING.values(), ids=[name.replace(" ", "-") for name in MISSING])
def test_an_agent_that_cannot_be_run(shell, keys, says):
    """It is a mistake of the description, and said at once in a sentence; who is not enabled may be unready."""
    shell.environ["PATH"] = "/nowhere"
    described(shell, AGENT | {"program": ["/bin/false"]} | keys)
    shell.send("hello")

    said = run_refused(shell, "unready_agent")
    assert says in said
    assert not {"PosixPath", "Errno"} & {*re.findall(r"\w+", said)}
    described(shell, AGENT | keys | {"enabled": False})
    assert 0 == shell.run("fleet", "run").status


def test_what_history_and_send_are_asked(shell):
    """What cannot be is refused, and that there is nothing is said."""
    described(shell)
    shell.send("hello")

    for limit in ("0", "-1", "501", "x"):
        shell.refused("invalid_number", "fleet", "history", "chef", "--limit", limit)
    assert "Nothing was delivered to chef yet.\n" == shell.run("fleet", "history", "chef").out
    assert "--body or --body-file" in shell.refused("missing_field", "fleet", "send", "chef")["message"]
    shell.refused("agent_not_begun", "fleet", "send", "chef", "--body-file", "fleet.toml")


def test_a_description_that_is_not_there(shell):
    """It is named as it was looked for, and cannot be hostile to a terminal."""
    shell.send("hello")

    assert "fleet.toml" in run_refused(shell, "invalid_fleet")
    assert "\x1b" not in run_refused(shell, "invalid_fleet", "--config", "no\x1b[2J")
    run_refused(shell, "invalid_fleet", "--config", ".")


def test_an_agent_that_nobody_described(shell):
    """The agents that there are are told."""
    described(shell)
    shell.send("hello")

    for words in (("send", "cook", "--body", "x"), ("history", "cook")):
        assert "chef" in shell.refused("unknown_agent", "fleet", *words)["message"]


def test_an_agent_that_never_ran(shell):
    """It stands in the status, has no history, and nothing can be sent to it."""
    described(shell, AGENT | {"rooms": [{"room": "#lab:test.local"}]})
    shell.send("hello")

    assert 0 == shell.run("fleet", "status").status
    (agent,) = json.loads(shell.run("fleet", "status", "--json").out)["agents"]
    assert ("chef", False, None, "idle") == tuple(agent[name] for name in ("agent", "running", "session", "stage"))
    assert ["not opened yet"] == [room["state"] for room in agent["rooms"]]
    assert [] == json.loads(shell.run("fleet", "history", "chef", "--json").out)["deliveries"]
    shell.refused("agent_not_begun", "fleet", "send", "chef", "--body", "x")
    assert not (shell.here / "fleet-state").exists()


SECRETS = {
    "none": lambda token: token.unlink(),
    "one that others can read": lambda token: token.chmod(0o644),
    "an empty one": lambda token: token.write_text("\n"),
    "two": lambda token: token.write_text(f"{TOKEN}\n{TOKEN}\n"),
    "one that is no text": lambda token: token.write_bytes(b"\xff\x00"),
    "a folder": lambda token: (token.unlink(), token.mkdir(mode=0o700)),
    "a pipe": lambda token: (token.unlink(), os.mkfifo(token, 0o600)),
}


@pytest.mark.parametrize("spoil", SECRETS.values(), ids=[name.replace(" ", "-") for name in SECRETS])
def test_credentials_that_cannot_be_used(shell, spoil):
    """They are named and never repeated."""
    described(shell)
    shell.send("hello")
    spoil(shell.here / "chef.token")

    assert "chef.token" in run_refused(shell, "unusable_credentials")


def test_no_credentials_in_the_environment(shell):
    """The variable is named."""
    described(shell, {name: value for name, value in AGENT.items() if name != "credentials"})
    shell.send("hello")

    assert "$FENCEPOST_MATRIX_TOKEN_CHEF" in run_refused(shell, "unusable_credentials")


def test_no_place_for_files(shell):
    """What is in the way is named."""
    described(shell)
    shell.send("hello")
    (shell.here / "fleet-state").write_text("mine")

    assert "fleet-state" in run_refused(shell, "agent_files_failed")
    assert 0 == shell.run("fleet", "status").status


def test_a_fleet_is_not_run_over_a_state_process(shell):
    """Its records need a store of their own."""
    described(shell)

    for words in (("run",), ("status",), ("history", "chef"), ("send", "chef", "--body", "x")):
        answer = shell.run("fleet", *words, "--url", "http://127.0.0.1:9")
        assert 2 == answer.status
        assert "Traceback" not in answer.err


@contextlib.contextmanager
def answering(status, body):
    """Something on loopback that gives every request that answer; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said_until(shell, code):
    """Run a fleet until it says something with that code; it is then asked to end, which it does."""
    process = shell.start("fleet", "run")
    try:
        # Its agent is no agent, and it says so in between.
        lines = (process.stderr.readline().decode() for _ in range(10))
        said = next((line for line in lines if f"[{code}]" in line), None)
        assert said is not None
        process.send_signal(signal.SIGTERM)
        out, rest = process.communicate(timeout=30)
    finally:
        process.kill()
    assert b"" == out
    assert "Traceback" not in said + rest.decode()
    assert TOKEN not in said + rest.decode()
    return process.returncode, said


def test_a_homeserver_that_is_not_there_is_waited_for(shell):
    """It may come back; whoever asks the fleet to end in between is obeyed."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        described(shell, homeserver=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert 0 == said_until(shell, "homeserver_unavailable")[0]


STRANGE = {
    "a page": (200, b"<html>hello</html>", "strange_homeserver"),
    "other JSON": (200, b"[]", "strange_homeserver"),
    "deep JSON": (200, b"[" * 100_000, "strange_homeserver"),
    "a token that is not known": (401, b'{"errcode": "M_UNKNOWN_TOKEN", "error": "\x1b[2J"}', "access_token_refused"),
    "another path": (404, b"404 page not found", "strange_homeserver"),
    "a gateway": (502, b"<html>\x1b[2J</html>", "homeserver_unavailable"),
}


@pytest.mark.parametrize("status,body,code", STRANGE.values(), ids=[name.replace(" ", "-") for name in STRANGE])
def test_what_answers_is_no_homeserver(shell, status, body, code):
    """It is told as what it is, and what it says reaches no terminal as it is."""
    with answering(status, body) as url:
        described(shell, homeserver=url)
        _, said = said_until(shell, code)

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said)


def test_files_are_private(shell):
    """Whatever a fleet has put down."""
    described(shell)
    said_until(shell, "homeserver_unavailable")

    folder = shell.here / "fleet-state"
    assert {0o700} == {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()}
    assert {0o600} == {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


NOTE = r"note: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "


def test_what_a_run_says_at_its_start(shell):
    """Whom it feeds, and who will never hear anything; each with the time."""
    bare, deaf = AGENT | {"name": "bare", "user": "@bare:b"}, AGENT | {"rooms": [{"room": "#a:b"}]}
    described(shell, deaf, bare, AGENT | {"name": "off", "user": "@off:b", "enabled": False})
    process = shell.start("fleet", "run")
    try:
        said = [process.stderr.readline().decode() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert re.fullmatch(f"{NOTE}feeding 2 agents: chef, bare\n", said[0])
    assert re.fullmatch(f"{NOTE}chef: nobody may be heard in #a:b, which has no grants\n", said[1])
    assert re.fullmatch(f"{NOTE}bare: it has no rooms, and hears mail only\n", said[2])


def test_the_tools_of_an_agent_find_its_mail(shell):
    """Its program is told where the store is, and of no other one."""
    described(shell, AGENT | {"program": ["/bin/sh", "-c", "env >told; mv told environment"]})
    shell.environ |= {"FENCEPOST_URL": "http://127.0.0.1:9", "FENCEPOST_HOME": "/elsewhere"}
    process = shell.start("fleet", "run", "--root", "own")
    try:
        told = shell.here / "environment"
        until = time.monotonic() + 30
        while not told.exists() and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    about_us = {line for line in told.read_text().splitlines() if line.startswith("FENCEPOST_")}
    assert {f"FENCEPOST_HOME={shell.here / 'own'}"} == about_us


def test_a_fleet_in_which_nothing_is_enabled(shell):
    """It says so, and ends."""
    described(shell, AGENT | {"enabled": False})
    answer = shell.run("fleet", "run")

    assert 0 == answer.status
    assert re.fullmatch(f"{NOTE}no agent is enabled, so nobody is fed\n", answer.err)


def test_trouble_is_told_once_and_stands_in_the_status(shell):
    """Once while it is the same, with its beginning in the status as long as it lasts; and then that it is over."""
    with answering(200, b'{"user_id": "@eve:test.local"}') as url:
        described(shell, homeserver=url)
        process = shell.start("fleet", "run", "--root", "own")
        try:
            said = "".join(process.stderr.readline().decode() for _ in range(4))
            time.sleep(4)  # each is tried again by then
            (agent,) = json.loads(shell.run("fleet", "status", "--root", "own", "--json").out)["agents"]
            shown = shell.run("fleet", "status", "--root", "own").out
            process.send_signal(signal.SIGTERM)
            said += process.communicate(timeout=30)[1].decode()
        finally:
            process.kill()
    codes = {"[engine_failed]", "[strange_homeserver]"}
    assert [1, 1] == [said.count(code) for code in codes]
    assert codes == {each["what"].rpartition(" ")[2] for each in agent["troubles"]}
    for each in agent["troubles"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each["since"])
        assert f"  since {each['since']}: {each['what']}\n" in shown
    assert 0 == agent["waiting"]
    assert TOKEN not in shown
    # Whoever ends it in order knows of no trouble any more.
    assert "since" not in shell.run("fleet", "status", "--root", "own").out


#: As much of a Pi as has a session.
PI = """
import json, sys
for line in sys.stdin:
    state = {"sessionId": "s-1", "sessionFile": "/nowhere/s-1.jsonl"}
    answer = {"type": "response", "id": json.loads(line)["id"], "success": True, "data": state}
    print(json.dumps(answer), flush=True)
"""


def test_mail_for_an_agent_can_be_found_again(shell):
    """It waits while the homeserver is down, is counted, and whoever has sent it is told how to look for it."""
    described(shell, AGENT | {"runtime": "pi", "program": [sys.executable, "-c", PI]})
    said_until(shell, "homeserver_unavailable")
    sent = shell.run("fleet", "send", "chef", "--body", "taste the soup").out

    assert re.match(r"Sent [0-9a-f-]{36} to chef: in user:pat/proj:app, for its session s-1\.\n", sent)
    receipts = sent.partition("becomes of it: fencepost ")[2].split()
    assert "open\n" in shell.run(*receipts, cwd=shell.home).out
    shown = shell.run("fleet", "status").out
    assert "chef (pi in session s-1): not running, 0 deliveries, 1 of mail waiting\n" in shown
    (agent,) = json.loads(shell.run("fleet", "status", "--json").out)["agents"]
    assert 1 == agent["waiting"]
