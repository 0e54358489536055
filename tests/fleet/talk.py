"""A client that is spoken to in lines of JSON, as it is, so that a test sees what an adapter would see."""

import itertools
import json
import queue
import subprocess
import threading
import time

PATIENCE_S = 60


class Talk:
    """
    A running client, for the length of a block.

    Attributes:
        heard: All that it has said, in order, answers included.
    """

    def __init__(self, launch, *more):
        self.heard = []
        self._launch, self._more = launch, more
        self._ids = itertools.count(1)
        self._lines = queue.SimpleQueue()

    def __enter__(self):
        self._log = (self._launch.here.parent / "stderr").open("ab")
        self.process = subprocess.Popen(
            [*self._launch.argv, *self._more],
            env=self._launch.environ,
            cwd=self._launch.here,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_):
        # Both end by themselves when nobody speaks to them any more.
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        self.process.stdout.close()
        self._log.close()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def say(self, document):
        self.process.stdin.write(json.dumps(document).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted, begin=0):
        """The first document, of those heard from a position on, that is wanted."""
        deadline = time.monotonic() + PATIENCE_S
        for position in itertools.count(begin):
            while position >= len(self.heard):
                document = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
                assert document is not None, "the client has ended"
                self.heard.append(document)
            if wanted(self.heard[position]):
                return self.heard[position]
        raise AssertionError

    def codex(self, method, **params):
        """What the app-server of Codex answers."""
        number = next(self._ids)
        self.say({"id": number, "method": method, "params": params})
        answer = self.until(lambda heard: number == heard.get("id") and "method" not in heard)
        assert "error" not in answer, answer
        return answer["result"]

    def pi(self, kind, **more):
        """What Pi answers."""
        number = f"r{next(self._ids)}"
        self.say({"id": number, "type": kind} | more)
        answer = self.until(lambda heard: number == heard.get("id") and "response" == heard["type"])
        assert answer["success"], answer
        return answer.get("data")
