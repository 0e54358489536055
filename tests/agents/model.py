"""
A model that says what it is told: the server that the real clients talk to instead of one that thinks.

It speaks what Claude Code (Anthropic's messages) and Codex (OpenAI's responses) speak, streaming, and keeps every
request.  A script is a list of steps, each asked for what to answer when its turn comes: a text, or a call of a tool.
"""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Say(NamedTuple):
    """Answer with a text, which ends the turn."""

    text: str


class Call(NamedTuple):
    """Call a tool; the client comes back with what it answered."""

    tool: str
    arguments: dict


class Model:
    """
    A server on a free port of the loopback, for the length of a block.

    Attributes:
        requests: The bodies of all requests that offered tools, in order.
    """

    def __init__(self):
        self.requests = []
        self.script = []
        self._lock = threading.Lock()
        model = self

        class Handler(_Handler):
            server_model = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def will(self, *steps):
        """Put steps on the script; a step is an answer, or a function from a request to one."""
        self.script += steps

    def answer(self, body):
        with self._lock:
            if body.get("tools"):
                self.requests.append(body)
                step = self.script.pop(0) if self.script else Say("OK")
            else:
                step = Say("OK")
        return step(body) if callable(step) and not isinstance(step, tuple) else step

    @property
    def last(self):
        """All that the last request said, as text."""
        return everything(self.requests[-1])


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
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
        elif path.endswith("/messages"):
            self._stream(_messages(body, self.server_model.answer(body)), named=True)
        elif path.endswith("/responses"):
            self._stream(_responses(self.server_model.answer(body)), named=True)
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

    def _stream(self, events, *, named):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True


def _messages(body, step):
    shell = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": shell}
    if isinstance(step, Say):
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}, "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_{id(step)}", "name": step.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        reason = "tool_use"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}


def _responses(step):
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    if isinstance(step, Say):
        content = [{"type": "output_text", "text": step.text}]
        item = {"type": "message", "role": "assistant", "id": "item_1", "content": content}
    else:
        namespace, _, name = step.tool.rpartition("/")
        item = {
            "type": "function_call",
            "id": "item_1",
            "call_id": f"call_{id(step)}",
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "arguments": json.dumps(step.arguments),
        }
    yield {"type": "response.output_item.done", "item": item}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}
