"""Connections are given only so much time: those that say nothing, half of something, or do not read."""

import contextlib
import socket
import threading
import time

import pytest
import uvicorn
from serving import SCOPE, TOKEN, Service

from fencepost.mailbox.server.bodies import Bodies
from fencepost.mailbox.server.patience import Patience
from fencepost.mailbox.server.running import listen, url

#: Longer than any of the limits here.
PATIENCE_S = 20
HEAD = f"POST /v1/memory/read HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
BODY = b'{"scope": "user:me", "path": "large.md"}'
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


@pytest.fixture
def server(monkeypatch):
    """A state process with little patience."""
    for name in ("head_s", "idle_s", "reading_s"):
        monkeypatch.setattr(Patience, name, 0.2)
    monkeypatch.setattr(Bodies, "pause_s", 0.2)
    service = Service()
    service.write("large.md", "x" * (8 << 20), scope=SCOPE)
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        service.app, http=Patience, ws="none", log_level="critical", timeout_keep_alive=60, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    server.address = listening.getsockname()
    yield server
    server.should_exit = True
    thread.join(PATIENCE_S)
    service.store.close()


@pytest.fixture
def address(server):
    return server.address


def connect(address):
    return contextlib.closing(socket.create_connection(address, timeout=PATIENCE_S))


def to_the_end(connection):
    """All that comes before it is closed at the other end."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            found += piece
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD])
def test_a_request_that_does_not_begin_is_not_waited_for(address, sent):
    """Nothing, or half a head."""
    with connect(address) as connection:
        connection.sendall(sent)
        assert b"" == to_the_end(connection)


def test_a_head_that_comes_byte_by_byte_has_an_end_too(address):
    """Sending something is not enough."""
    with connect(address) as connection, contextlib.suppress(OSError):
        began = time.monotonic()
        for byte in HEAD * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.01)
        pytest.fail("it was read for ever")
    assert time.monotonic() - began < PATIENCE_S


def test_a_body_that_does_not_come_is_told(address):
    """It timed out."""
    with connect(address) as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert to_the_end(connection).startswith(b"HTTP/1.1 408")


def test_an_idle_connection_is_let_go(address):
    """After an answer, too."""
    with connect(address) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert to_the_end(connection).startswith(b"HTTP/1.1 200")


def test_a_connection_can_be_used_again(address):
    """While it is used."""
    with connect(address) as connection:
        for _ in range(3):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            found = b""
            while not found.endswith(b'"ok"}'):
                found += connection.recv(1 << 16)
            assert found.startswith(b"HTTP/1.1 200")


def test_whoever_does_not_read_is_let_go(server):
    """What was to be sent is thrown away."""
    with connect(server.address) as connection:
        connection.sendall(WHOLE)
        for held in (True, False):
            give_up = time.monotonic() + PATIENCE_S
            while bool(server.server_state.connections) is not held:
                assert time.monotonic() < give_up
                time.sleep(0.001)
        assert len(to_the_end(connection)) < 8 << 20


def test_whoever_reads_gets_all_of_it(address):
    """However large it is."""
    with connect(address) as connection:
        connection.sendall(WHOLE)
        assert len(to_the_end(connection)) > 8 << 20


def test_an_answer_that_nobody_wanted_costs_no_body(address):
    """Without a token, the rest of a body goes by for a while and no longer."""
    with connect(address) as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /v1/memory/read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2_000):
            connection.sendall(b"1\r\nx\r\n")
            time.sleep(0.005)
        pytest.fail("it was read for ever")


def test_an_address_says_where_it_is():
    """In the form of a URL."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listening:
        assert f"http://127.0.0.1:{listening.getsockname()[1]}" == url(listening)
    with contextlib.suppress(OSError), contextlib.closing(listen("::1", 0)) as listening:
        assert url(listening).startswith("http://[::1]:")
