"""
A model that says what it is told: the server that the real clients talk to instead of one that thinks.

It speaks what Claude Code (Anthropic's messages), Codex (OpenAI's responses) and Pi (OpenAI's chat completions) speak,
streaming, and keeps every request.  A script is a list of steps, each asked for what to answer when its turn comes: a
text, a text that is long in coming, a call of a tool, or a refusal.
"""

import gzip
import json
import select
import socket
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from agents.formats import FORMATS, PAUSE, user_texts

# A turn that nobody ends is ended: the test that forgot it fails, and does not hang.
PATIENCE_S = 120


class Say(NamedTuple):
    """Answer with a text, which ends the turn."""

    text: str


class Call(NamedTuple):
    """Call a tool; the client comes back with what it answered."""

    tool: str
    arguments: dict


class Fail(NamedTuple):
    """Refuse to answer."""

    status: int = 400


class Hold:
    """
    Answer with a text, but pause after its first words: the turn is open until somebody ends it.

    Args:
        text: What is said after the pause.
        for_s: How long the pause is where nobody ends it; so a slow answer is a short hold.

    Attributes:
        begun: An event: the first words have been sent.
        over: An event: the pause has ended.
        ended: What ended it: `released`, `elapsed`, or `disconnected`, which is how an interrupt looks from here.
    """

    FIRST = "Well... "

    def __init__(self, text="OK", for_s=PATIENCE_S):
        self.text, self.for_s = text, for_s
        self.begun, self.over = threading.Event(), threading.Event()
        self.ended = None
        self._released = threading.Event()

    def release(self):
        self._released.set()

    def wait(self, gone):
        """Pause; `gone` tells whether the client has hung up."""
        self.begun.set()
        deadline = time.monotonic() + self.for_s
        while self.ended is None:
            if self._released.wait(0.02):
                self.ended = "released"
            elif gone():
                self.ended = "disconnected"
            elif time.monotonic() > deadline:
                self.ended = "elapsed"
        self.over.set()


class Request(NamedTuple):
    """
    What a client asked.

    Attributes:
        session: The client's own name for the conversation, where it sends one (a thread of Codex, a session of Pi).
        texts: What users said in it, in order, the whole history included.
    """

    session: str | None
    body: dict
    texts: tuple[str, ...]

    def count(self, text):
        """How often that text is in what users said."""
        return sum(said.count(text) for said in self.texts)


class Model:
    """
    A server on a free port of the loopback, for the length of a block.

    Attributes:
        asked: All requests that offered tools, in order.
        script: The steps that are still to come, for whoever asks next.
    """

    def __init__(self):
        self.asked = []
        self.script = []
        self._scripts = defaultdict(list)
        self._holds = []
        self._lock = threading.Lock()
        model = self

        class Handler(_Handler):
            server_model = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with self._lock:
            for hold in self._holds:
                hold.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def will(self, *steps):
        """Put steps on the script; a step is an answer, or a function from a request's body to one."""
        self.script += steps

    def when(self, text, *steps):
        """Keep steps for the turns that begin with words which have that text in them, whoever asks in between."""
        self._scripts[text] += steps

    def answer(self, body, session=None):
        with self._lock:
            step = self._next(body, session) if body.get("tools") else Say("OK")
        if callable(step):
            step = step(body)
        if isinstance(step, Hold):
            with self._lock:
                self._holds.append(step)
        return step

    def _next(self, body, session):
        request = Request(session, body, user_texts(body))
        self.asked.append(request)
        newest = request.texts[-1] if request.texts else ""
        mine = [steps for text, steps in self._scripts.items() if steps and text in newest]
        script = mine[0] if mine else self.script
        return script.pop(0) if script else Say("OK")

    @property
    def requests(self):
        """The bodies of all requests that offered tools, in order."""
        return [request.body for request in self.asked]

    @property
    def last(self):
        """All that the last request said, as text."""
        return everything(self.requests[-1])

    def last_of(self, session):
        """The last request of a session: it has all in it that this session's model has been told."""
        return next((request for request in reversed(self.asked) if session == request.session), None)

    def heard(self, text, session):
        """How often the model of a session has been told a text by a user; a history that is sent again counts once."""
        request = self.last_of(session)
        return request.count(text) if request else 0


def everything(body):
    """Every text in a request that is not about tools."""
    found = []

    def walk(value):
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk({name: value for name, value in body.items() if name in ("messages", "input", "system", "instructions")})
    return "\n".join(found)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_model = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._json({})

    def do_GET(self):
        self._json({"object": "list", "data": []})

    def do_POST(self):
        raw = self._body()
        body = json.loads(raw or b"{}")
        path = self.path.split("?")[0]
        said = next((said for end, said in FORMATS.items() if path.endswith(end)), None)
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
        elif said:
            session = self.headers.get("thread-id") or self.headers.get("x-session-affinity")
            step = self.server_model.answer(body, session)
            if isinstance(step, Fail):
                self._json({"error": {"type": "scripted", "message": "as scripted"}}, step.status)
            else:
                self._stream(said(body, step), step)
        else:
            self._json({"error": {"message": "no such path"}}, 404)

    def _body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw

    def _json(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events, step):
        self.close_connection = True
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for event in events:
                if event is PAUSE:
                    self.wfile.flush()
                    step.wait(self._gone)
                    if step.ended == "disconnected":
                        return
                else:
                    self.wfile.write(event)
            self.wfile.flush()
        except ConnectionError:
            # The client had enough; what it was told is in its own history, or not.
            pass

    def _gone(self):
        """Has the client hung up?"""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True
