"""The state process: the installed program, asked over HTTP as any client would."""

import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import time
from urllib.parse import urlsplit

import pytest

#: Longer than anything here may take.
PATIENCE_S = 60
TOKEN = "kept-from-every-log-5f2c"
LIMIT = 64 << 20
SCOPE = "user:me"


class Serving:
    """
    A running `fencepost serve`.

    Attributes:
        address: Where it is: host and port.
    """

    def __init__(self, shell, *words):
        self.process = shell.start("serve", "--port", "0", *words)
        line = self.process.stdout.readline().decode()
        assert line.startswith("Serving at http://"), (line, self.process.stderr.read())
        found = urlsplit(line.split()[-1])
        self.address = (found.hostname, found.port)

    def connection(self):
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)

    def request(self, verb, path, body=None, headers=None, **options):
        connection = self.connection()
        with contextlib.closing(connection):
            connection.request(verb, path, body, headers or {}, **options)
            response = connection.getresponse()
            return response.status, response.read(), response.headers

    def ask(self, route, **asked):
        status, body, _ = self.request("POST", f"/v1/{route}", json.dumps(asked), {"Authorization": f"Bearer {TOKEN}"})
        assert 200 == status, body
        return json.loads(body)

    def write(self, path, content="text"):
        return self.ask("memory/write", scope=SCOPE, path=path, content=content)["document"]

    def health(self):
        status, body, _ = self.request("GET", "/health")
        return status, json.loads(body)

    def end(self, how=signal.SIGTERM):
        """End it, and what it has said on stderr."""
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=PATIENCE_S)
        assert 0 == self.process.returncode, err
        return err.decode()


@pytest.fixture
def serving(shell):
    """Start a state process; whatever is left is ended."""
    started = []

    def start(*words):
        started.append(Serving(shell, *words))
        return started[-1]

    shell.environ["FENCEPOST_SERVE_TOKEN"] = TOKEN
    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


def test_it_serves_a_store_until_it_is_told_to_end(shell, serving):
    """What was written is there afterwards, for a session beside it and for the next one."""
    one = serving()
    assert (200, {"status": "ok"}) == one.health()
    assert 1 == one.write("a.md", "one")["version"]
    sent = shell.send("hello", "--scope", SCOPE)
    assert "hello" in one.ask("memory/read", scope=SCOPE, path=f"messages/{sent['id']}")["document"]["content"]
    assert "" == one.end()
    other = serving()
    assert "one" == other.ask("memory/read", scope=SCOPE, path="a.md")["document"]["content"]
    assert "" == other.end(signal.SIGINT)


def test_nobody_gets_in_without_the_token(serving):
    """A plain 401, and the token is nowhere to be seen."""
    one = serving()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        for verb, path in (("GET", "/v1/capabilities"), ("POST", "/v1/memory/read"), ("GET", "/nope")):
            status, body, answered = one.request(verb, path, "{}", headers)
            assert (401, "Bearer") == (status, answered["WWW-Authenticate"])
            assert not body.startswith(b"{")
    status, body, _ = one.request("GET", "/v1/capabilities", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (200, 6) == (status, json.loads(body)["wire_version"])
    assert TOKEN not in one.end()


def test_without_a_token_it_does_not_start(shell):
    """And says which variable it is."""
    answer = shell.run("serve", "--port", "0")

    assert (1, "") == (answer.status, answer.out)
    assert "FENCEPOST_SERVE_TOKEN" in answer.err
    assert "[unusable_tokens]" in answer.err
    assert not shell.root.exists()


def test_a_token_that_is_none_is_not_repeated(shell):
    """It may be most of a secret."""
    answer = shell.run("serve", env={"FENCEPOST_SERVE_TOKEN": "client:a=half a secret"})

    assert 1 == answer.status
    assert "half a secret" not in answer.err


@pytest.mark.parametrize(
    "words,code",
    [
        (("--port", "70000"), "invalid_number"),
        (("--port", "x"), "invalid_number"),
        (("--host", "256.256.256.256", "--port", "0"), "cannot_listen"),
        (("--root", ""), "usage"),
    ],
)
def test_it_says_why_it_cannot_start(shell, words, code):
    """One sentence."""
    answer = shell.run("serve", *words, env={"FENCEPOST_SERVE_TOKEN": TOKEN})

    assert answer.err.strip().endswith(f"[{code}]")
    assert "Traceback" not in answer.err


def test_an_address_that_is_taken_is_refused(shell, serving):
    """It says which."""
    one = serving()
    answer = shell.run("serve", "--port", str(one.address[1]))

    assert 1 == answer.status
    assert f"127.0.0.1:{one.address[1]}" in answer.err


def test_beyond_this_machine_it_says_where_tls_ends(serving):
    """Plain HTTP is for a proxy."""
    one = serving("--host", "0.0.0.0")
    assert "TLS" in one.end()


def test_what_was_accepted_is_finished(serving):
    """A request that is half there when it is told to end is answered, and what it wrote is kept."""
    one = serving()
    one.write("a.md")
    body = json.dumps({"scope": SCOPE, "path": "b.md", "content": "x" * 100_000}).encode()
    with socket.create_connection(one.address, timeout=PATIENCE_S) as half:
        head = f"POST /v1/memory/write HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        half.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:50_000])
        assert (200, {"status": "ok"}) == one.health()
        one.process.terminate()
        with contextlib.suppress(OSError):  # until nobody new is let in
            while True:
                socket.create_connection(one.address, timeout=PATIENCE_S).close()
                time.sleep(0.01)
        half.sendall(body[50_000:])
        answered = half.makefile("rb").read()
    assert answered.startswith(b"HTTP/1.1 200")
    assert 0 == one.process.wait(PATIENCE_S)
    assert "b.md" == serving().ask("memory/read", scope=SCOPE, path="b.md")["document"]["path"]


def test_who_interrupts_it_twice_waits_for_nothing(serving):
    """Not for a request that never comes to its end, and it says nothing of that either."""
    one = serving()
    with socket.create_connection(one.address, timeout=PATIENCE_S) as half:
        half.sendall(f"POST /v1/memory/write HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode())
        assert (200, {"status": "ok"}) == one.health()
        one.process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # until nobody new is let in
            while True:
                socket.create_connection(one.address, timeout=PATIENCE_S).close()
                time.sleep(0.01)
        one.process.send_signal(signal.SIGINT)
        _, err = one.process.communicate(timeout=PATIENCE_S)
    assert (-signal.SIGINT, b"") == (one.process.returncode, err)


def test_an_acknowledged_write_survives_a_kill(serving):
    """Whatever was answered is there."""
    one = serving()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        written = [pool.submit(one.write, f"{number}.md") for number in range(400)]
        while sum(each.done() for each in written) < 40:
            time.sleep(0.001)
        one.process.kill()
    answered = [each.result()["path"] for each in written if each.exception() is None]
    two = serving()
    kept = {each["path"] for each in two.ask("memory/list_documents", scope=SCOPE)["entries"]}

    assert len(answered) >= 40
    assert set(answered) <= kept


def padded(size):
    """A request of so many bytes."""
    begin = json.dumps({"scope": SCOPE, "path": "a.md"})[:-1] + ', "padding": "'
    return (begin + "x" * (size - len(begin) - 2) + '"}').encode()


def pieces(body):
    for begin in range(0, len(body), 1 << 20):
        yield body[begin : begin + (1 << 20)]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_a_limit(serving, chunked):
    """At 64 MiB it is read, above it is refused, with a declared length and without."""
    one = serving()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for size, expected in ((LIMIT, 200), (LIMIT + 1, 413), (LIMIT + (8 << 20), 413)):
        body = padded(size)
        sent = pieces(body) if chunked else body
        status, answered, _ = one.request("POST", "/v1/memory/read", sent, headers, encode_chunked=chunked)
        assert expected == status, answered[:200]
        assert (expected == 413) == ("error" in json.loads(answered))
    assert (200, {"status": "ok"}) == one.health()
    assert "" == one.end()


def test_whoever_holds_a_connection_holds_up_nobody(serving):
    """Hundreds of idle ones, half a head, half a body, and one that does not read."""
    one = serving()
    one.write("large.md", "x" * (8 << 20))
    with contextlib.ExitStack() as held:

        def hold(sent):
            connection = held.enter_context(socket.create_connection(one.address, timeout=PATIENCE_S))
            connection.sendall(sent)

        head = f"POST /v1/memory/read HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
        body = json.dumps({"scope": SCOPE, "path": "large.md"}).encode()
        for _ in range(300):
            hold(b"")
        for _ in range(50):
            hold(head)
            hold(head + b"Content-Length: 1000\r\n\r\n{")
            hold(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            hold(b"POST /v1/memory/read HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        began = time.monotonic()
        for number in range(20):
            assert number + 1 == one.write("a.md")["version"]
            assert (200, {"status": "ok"}) == one.health()
        assert time.monotonic() - began < 20


def test_what_is_no_http_is_turned_away(serving):
    """It ends that connection and nothing else."""
    one = serving()
    for noise in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"x" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
    ):
        with socket.create_connection(one.address, timeout=PATIENCE_S) as connection, contextlib.suppress(OSError):
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            connection.makefile("rb").read()
    assert (200, {"status": "ok"}) == one.health()
    assert "Traceback" not in one.end()


def test_a_damaged_store_is_read_and_is_not_well(shell, serving):
    """The code of the reason, under 503."""
    for number in range(3):
        shell.send(f"hello {number}", "--scope", SCOPE)
    (segment,) = (shell.root / "journal").glob("*.log")
    data = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(data[: len(data) // 2])
    one = serving()
    status, body = one.health()

    assert (503, "journal_corrupt") == (status, body["code"])
    refused = one.request(
        "POST",
        "/v1/memory/write",
        json.dumps({"scope": SCOPE, "path": "a.md", "content": "x"}),
        {"Authorization": f"Bearer {TOKEN}"},
    )
    assert (503, "journal_corrupt") == (refused[0], json.loads(refused[1])["error"]["fencepost"]["code"])


def test_tokens_are_in_no_argument_and_no_file(shell, serving):
    """Only in the environment of whoever started it."""
    one = serving()
    one.write("a.md")
    said = subprocess.run(["ps", "-o", "args=", "-p", str(one.process.pid)], capture_output=True, check=False).stdout

    assert TOKEN.encode() not in said
    assert all(TOKEN.encode() not in file.read_bytes() for file in shell.root.rglob("*") if file.is_file())
