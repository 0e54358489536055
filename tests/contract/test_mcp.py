"""`fencepost mcp`, driven by the protocol's own client."""

import contextlib
import json
import signal
import subprocess
import urllib.error
import urllib.request

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PATIENCE_S = 60
TOOLS = {"messages", "search_history", "recall_turn", "memory"}


def asked(shell, work, *words):
    """What some work on a session of the client comes to."""
    server = StdioServerParameters(command=shell.program, args=["mcp", *words], env=shell.environ, cwd=shell.here)

    async def run():
        with anyio.fail_after(PATIENCE_S):
            async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
                await session.initialize()
                return await work(session)

    return anyio.run(run)


def calls(shell, *several, words=()):
    """The answers to several calls in one session; each is a tool and its arguments, or a function of those before."""

    async def work(session):
        found = []
        for each in several:
            tool, arguments = each(found) if callable(each) else each
            answer = await session.call_tool(tool, arguments)
            (content,) = answer.content
            # A client may read either.
            assert json.loads(content.text) == answer.structured_content
            found.append((answer.structured_content, bool(answer.is_error)))
        return found

    return asked(shell, work, *words)


def call(shell, tool="messages", words=(), **arguments):
    ((answer, refused),) = calls(shell, (tool, arguments), words=words)
    assert not refused, answer
    return answer


def refused(shell, code, tool="messages", words=(), **arguments):
    """The error of a call that must be refused, having written nothing."""
    if not shell.root.exists():
        shell.send("something that is there")
    before = shell.digest()
    ((answer, is_refused),) = calls(shell, (tool, arguments), words=words)
    assert is_refused
    assert code == answer["error"]["code"], answer
    assert before == shell.digest()
    return answer["error"]


def inner(schema):
    yield schema
    for each in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from inner(each)


def test_the_tools_and_their_schemas(shell):
    """What strict clients take: an object at the root, no alternatives, a type everywhere, arrays with items."""

    async def work(session):
        return (await session.list_tools()).tools

    found = asked(shell, work)

    assert {tool.name for tool in found} == TOOLS
    for tool in found:
        assert "object" == tool.input_schema["type"]
        for schema in inner(tool.input_schema):
            assert not {"oneOf", "anyOf", "allOf", "not", "$ref"} & schema.keys(), tool.name
            assert isinstance(schema["type"], str)
            assert "array" != schema["type"] or "items" in schema
        assert all("description" in each for each in tool.input_schema["properties"].values())


def test_the_ten_commands(shell):
    """Each of them, as on the command line; what one answers the next needs."""

    def step(command, number=0, **more):
        def asks(found):
            receipt = found[number][0]["receipt"]
            fence = {"session": "s", "message_id": receipt["id"], "occurrence": receipt["occurrence"]}
            return "messages", {"command": command, **fence, **more}

        return asks

    def held(command, number, **more):
        return lambda found: step(command, number, token=found[number][0]["receipt"]["claim_token"], **more)(found)

    found = calls(
        shell,
        ("messages", {"command": "send", "body": "work", "actionable": True}),  # 0
        ("messages", {"command": "list", "session": "s"}),
        step("claim"),  # 2
        held("renew", 2),
        held("release", 3),
        step("claim"),  # 5
        held("snooze", 5, outcome="Later.", delay_seconds=1_000),  # 6
        ("messages", {"command": "list", "status": "scheduled"}),
        step("cancel", 6, outcome="No."),
        ("messages", {"command": "send", "body": "read", "scope": "/user"}),  # 9
        step("ack", 9),
        ("messages", {"command": "send", "body": "more work", "actionable": True}),  # 11
        step("claim", 11),
        held("complete", 12, outcome="Done."),
        lambda found: ("messages", {"command": "view", "message_id": found[0][0]["receipt"]["id"]}),
    )

    assert not any(refused for _, refused in found), found
    assert ["work"] == [item["body"] for item in found[1][0]["items"]]
    assert 2 == found[6][0]["receipt"]["occurrence"]
    assert 1 == len(found[7][0]["items"])
    assert ["cancelled", "done"] == [found[n][0]["receipt"]["status"] for n in (8, 13)]
    assert "s" == found[10][0]["receipt"]["read_by"]
    assert 7 == len(found[14][0]["versions"])  # sent, claimed, renewed, released, claimed, put off, cancelled


@pytest.mark.parametrize(
    "code,arguments",
    [
        ("missing_field", {}),
        ("invalid_choice", {"command": "burn"}),
        ("invalid_choice", {"command": "list", "body": "x"}),
        ("invalid_choice", {"command": "list", "colour": "red"}),
        ("missing_field", {"command": "send"}),
        ("blank_text", {"command": "send", "body": " "}),
        ("invalid_choice", {"command": "send", "body": 7}),
        ("invalid_choice", {"command": "send", "body": "x", "turn": True}),
        ("invalid_choice", {"command": "send", "body": "x", "delay_seconds": 1.5}),
        ("unknown_mount", {"command": "send", "body": "x", "scope": "/nowhere"}),
        ("invalid_time", {"command": "send", "body": "x", "due_at": "tomorrow"}),
        ("missing_field", {"command": "ack", "message_id": "x", "occurrence": 1}),
        ("missing_field", {"command": "ack", "session": "s", "occurrence": 1}),
        ("missing_field", {"command": "claim", "session": "s", "message_id": "x"}),
        ("missing_field", {"command": "renew", "session": "s", "message_id": "x", "occurrence": 1}),
        ("invalid_choice", {"command": "list", "status": "lost"}),
        ("invalid_number", {"command": "list", "limit": 0}),
    ],
)
def test_what_does_not_fit(shell, code, arguments):
    """It is refused by the code that the command line has for it, before anything is written."""
    refused(shell, code, **arguments)


def test_a_session_is_never_guessed(shell):
    """Whoever is bound to one need not name it, and may name no other."""
    sent = shell.send("hello")
    fence = {"command": "ack", "message_id": sent["id"], "occurrence": 1}

    assert "session" == refused(shell, "missing_field", **fence)["details"]["field"]
    refused(shell, "not_this_session", words=("--session", "one"), session="two", **fence)
    assert "one" == call(shell, words=("--session", "one"), **fence)["receipt"]["read_by"]


def test_answers_are_bounded_and_can_be_read_on(shell, tmp_path):
    """What is cut says how long it is and where it goes on; nothing is cut in the store."""
    body = "".join(f"{number:07} " for number in range(20_000))
    (tmp_path / "body").write_text(body)
    sent = shell.ask("Receipt", "messages", "send", "--body-file", str(tmp_path / "body"))
    for _ in range(60):
        shell.send("y" * 2_000)

    listed = call(shell, command="list", limit=100)
    assert len(json.dumps(listed)) < 80_000
    assert listed["more"]
    assert len(body) == listed["items"][0]["body_characters"]
    read, begin = "", 0
    while begin is not None:
        piece = call(shell, command="view", message_id=sent["id"], body_from=begin)["receipt"]
        read += piece["body"]
        begin = piece.get("body_next_from")
        assert len(json.dumps(piece)) < 60_000
    assert body == read


def test_history_documents_and_turns(shell):
    """The other tools: what was said is found and recalled, and documents are kept by version."""
    turn = json.dumps([{"role": "user", "content": "The port is 8080."}]).encode()
    assert 0 == shell.run("turns", "append", "s-42", "--file", "-", stdin=turn).status
    call(shell, command="send", body="It is 8081 since Monday.", about="s-42", about_turn=1)

    (hit,) = call(shell, "search_history", query="8080")["hits"]
    assert ("s-42", 1) == (hit["conversation_id"], hit["turn"])
    recalled = call(shell, "recall_turn", conversation="s-42", turn=1)
    assert "The port is 8080." in recalled["text"]
    assert ["It is 8081 since Monday."] == [each["body"] for each in recalled["annotations"]]

    path = "/project/notes/a.md"
    assert 1 == call(shell, "memory", command="write", path=path, content="one", expected_version=0)["version"]
    refused(shell, "memory_conflict", "memory", command="write", path=path, content="x", expected_version=0)
    assert "one" == call(shell, "memory", command="read", path=path)["document"]["content"]
    assert ["notes/a.md"] == [
        each["path"] for each in call(shell, "memory", command="list", path="/project/")["entries"]
    ]
    assert ["notes/a.md"] == [each["path"] for each in call(shell, "memory", command="search", query="one")["hits"]]
    call(shell, "memory", command="rename", path=path, to="/project/notes/b.md")
    call(shell, "memory", command="delete", path="/project/notes/b.md")
    refused(shell, "unknown_document", "memory", command="read", path=path)
    refused(shell, "reserved_path", "memory", command="read", path="/project/messages/x")


def test_a_client_that_goes_away(shell):
    """The program ends, and says nothing about it."""
    process = shell.start("mcp")
    with contextlib.suppress(BrokenPipeError):
        process.stdin and process.stdin.close()
    out, err = process.communicate(timeout=PATIENCE_S)

    assert (0, b"", b"") == (process.returncode, out, err)


class TestAtTheStateProcess:
    """The same tools at `/mcp` of a state process that was started with mounts."""

    TABLE = "client:ops=the-token-of-ops,client:alice@user:alice=the-token-of-alice"

    @pytest.fixture
    def serving(self, shell):
        shell.environ["FENCEPOST_SERVE_TOKEN"] = self.TABLE
        with contextlib.ExitStack() as after:

            def serving(*words):
                process = shell.start("serve", "--port", "0", *words)
                after.callback(process.communicate, timeout=PATIENCE_S)
                after.callback(process.terminate)
                return process.stdout.readline().decode().split()[-1]

            yield serving

    @staticmethod
    def post(url, token, method="tools/call", **params):
        said = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": "2025-06-18",
            **({} if token is None else {"Authorization": f"Bearer {token}"}),
        }
        request = urllib.request.Request(f"{url}/mcp", json.dumps(said).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def test_whoever_holds_a_token_is_on_record(self, shell, serving):
        """A call is answered as over standard input and output, and written in the client's name."""
        url = serving("--scope", "user:me")
        arguments = {"command": "send", "body": "hello"}

        status, answer = self.post(url, "the-token-of-ops", name="messages", arguments=arguments)

        assert 200 == status
        receipt = answer["result"]["structuredContent"]["receipt"]
        assert ("client:ops", "user:me") == (receipt["actor"], receipt["scope"])
        assert TOOLS == {
            tool["name"] for tool in self.post(url, "the-token-of-ops", "tools/list")[1]["result"]["tools"]
        }

    def test_who_may_not_use_them(self, shell, serving):
        """Nobody without a token, nobody whose token has an allowance, and nobody where there are no mounts."""
        url = serving("--scope", "user:me")
        assert 401 == self.post(url, None, "tools/list")[0]
        assert 403 == self.post(url, "the-token-of-alice", "tools/list")[0]
        assert 404 == self.post(serving(), "the-token-of-ops", "tools/list")[0]


ASKS = b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"messages","arguments":%s}}'
HELLO = [
    {
        "jsonrpc": "2.0",
        "id": "hello",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


class Raw:
    """A client that sends lines as they are."""

    def __init__(self, shell):
        self.process = shell.start("mcp", stdin=subprocess.PIPE)
        for each in HELLO:
            self.send(json.dumps(each).encode())
        assert "hello" == self.answer()["id"]

    def send(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        """What it has still said, on both streams, once nothing more comes."""
        return self.process.communicate(timeout=PATIENCE_S)


NO_MESSAGES = {
    "words": (b"hello", None),
    "half": (b'{"jsonrpc":"2.0","id":1', None),
    "no utf-8": (b"\xff\xfe", None),
    "nul": (b"\0", None),
    "list": (b"[]", None),
    "number": (b"3", None),
    "two": (b"{} {}", None),
    "deep": (ASKS % (b"1", b"[" * 100_000 + b"]" * 100_000), None),
    "huge": (b"x" * (32 << 20), None),
    "large number": (ASKS % (b"1", b'{"limit":%s}' % (b"9" * 5_000)), None),
    "surrogate": (ASKS % (b"1", b'{"command":"send","body":"\\ud83d"}'), 1),
    "no method": (b'{"jsonrpc":"2.0","id":"a"}', "a"),
    "params that are a list": (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}', 7),
    **{f"id {each.decode()}": (ASKS % (each, b"{}"), None) for each in (b"null", b"1.5", b"true", b"[]", b"{}")},
}


@pytest.mark.parametrize("line,of", NO_MESSAGES.values(), ids=[name.replace(" ", "-") for name in NO_MESSAGES])
def test_a_line_that_is_no_message(shell, line, of):
    """Whoever sent it is told, and need not wait; what comes next is answered as ever."""
    client = Raw(shell)
    client.send(line)
    refusal = client.answer()
    client.send(ASKS % (b'"next"', b'{"command":"list"}'))
    answer = client.answer()

    assert of == refusal["id"]
    assert refusal["error"]["code"] in (-32_700, -32_600)
    assert "next" == answer["id"]
    assert not answer["result"].get("isError")
    assert (b"", b"") == client.end()


@pytest.mark.parametrize("line", [b"", b'{"jsonrpc":"2.0","id":null,"result":[]}', b'{"id":3,"error":{}}'])
def test_what_nobody_waits_for_is_not_answered(shell, line):
    """Above all no answer, or two programs could refuse each other for ever."""
    client = Raw(shell)
    client.send(line)
    client.send(ASKS % (b'"next"', b'{"command":"list"}'))

    assert "next" == client.answer()["id"]
    assert (b"", b"") == client.end()


def test_a_client_that_reads_no_more(shell):
    """It needs no explanation, and above all no traceback."""
    client = Raw(shell)
    client.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        for number in range(1_000):
            client.send(ASKS % (b"%d" % number, b'{"command":"list"}'))
    with contextlib.suppress(BrokenPipeError):
        client.process.stdin.close()

    assert 1 == client.process.wait(PATIENCE_S)
    with client.process.stderr as err:
        assert b"" == err.read()


def test_answers_that_cannot_be_written(shell):
    """One sentence says so."""
    process = shell.start("mcp", stdin=subprocess.PIPE, before=("sh", "-c", 'exec "$0" "$@" >/dev/full'))
    _, err = process.communicate(b"hello\n", timeout=PATIENCE_S)

    assert 1 == process.returncode
    assert 1 == len(err.splitlines())
    assert b"could not be written" in err


def test_an_interrupt_ends_it(shell):
    """Though nothing comes on standard input, and without a word."""
    process = shell.start("mcp", stdin=subprocess.PIPE)
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n")
    process.stdin.flush()
    assert b'"id":1' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    status = process.wait(PATIENCE_S)
    _, err = process.communicate()

    assert (-signal.SIGINT, b"") == (status, err)
