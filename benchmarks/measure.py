"""
Sides that take turns, and what comes of it.

A shared disk can become five times slower within a minute, so a figure for one
side and a figure for the other, taken one after the other, say little.  Here
all sides work in rounds of a few milliseconds each, A B A B; each round gives
one ratio; the median of the ratios is the result, the least and the greatest
are told.
"""

import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
#: A command that takes longer has gone wrong, or its side is no match.
TIMEOUT_S = 180
#: Several processes begin together this long after they were told.
START_S = 0.03


class SideFailed(Exception):
    """A side could not do its work; the text says why."""


class Worker:
    """A process that does one side's work; see `worker.py`."""

    def __init__(self, subject, folder, python=sys.executable, timeout_s=TIMEOUT_S, **options):
        self.subject = subject
        self.timeout_s = timeout_s
        command = [python, str(HERE / "worker.py"), subject, str(folder), json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.rest = b""
        try:
            self.finish()
        except BaseException:
            self.close()
            raise

    def begin(self, work, /, at=None, **arguments):
        """Tell it to work, without waiting."""
        self._tell({"do": work, "arguments": arguments, **({} if at is None else {"at": at})})

    def begin_again_and_again(self, work):
        """Tell it to work until it is told something else."""
        self._tell({"again": work})

    def _tell(self, command):
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
        except OSError as error:
            raise SideFailed(f"{self.subject}: {error}") from error

    def finish(self, timeout_s=None):
        """Wait for its answer: when it began, when it ended, and what it returned."""
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.process.kill()
                raise SideFailed(f"it took longer than {timeout_s or self.timeout_s} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise SideFailed("its process has ended")
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise SideFailed(answer["error"])
        return answer

    def run(self, work, /, timeout_s=None, **arguments):
        """Have it work; how many seconds that took."""
        self.begin(work, **arguments)
        answer = self.finish(timeout_s)
        return answer["ended"] - answer["began"]

    def ask(self, work, /, timeout_s=None, **arguments):
        """Have it work; what it returned."""
        self.begin(work, **arguments)
        return self.finish(timeout_s)["value"]

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Team:
    """The sides of a comparison.  One that fails is left out from then on, unless the comparison needs it."""

    def __init__(self, needed):
        self.needed = set(needed)
        self.workers = {}
        self.lost = {}
        self._after = contextlib.ExitStack()

    def add(self, name, subject, folder, **options):
        with self.may_lose(name):
            self.workers[name] = self._after.enter_context(Worker(subject, folder, **options))

    @contextlib.contextmanager
    def may_lose(self, name):
        try:
            yield
        except SideFailed as error:
            if name in self.needed:
                raise
            self.workers.pop(name, None)
            self.lost[name] = str(error)

    def take_turns(self, work, rounds, count):
        """
        Seconds that one piece of work took, for each side in each round.

        Args:
            work: What to do.
            rounds: How many rounds; one more is done first and not counted.
            count: Pieces of work in a turn; a mapping where sides differ.
        """
        counts = count if isinstance(count, dict) else dict.fromkeys(self.workers, count)
        took = {name: [] for name in self.workers}
        for number in range(-1, rounds):
            # To and fro, so that no side always follows the same one.
            names = list(self.workers) if number % 2 else list(reversed(self.workers))
            for name in names:
                with self.may_lose(name):
                    self.workers[name].run("ready", work=work, count=counts[name])
            for name in [name for name in names if name in self.workers]:
                with self.may_lose(name):
                    seconds = self.workers[name].run(work, count=counts[name])
                    if number >= 0:
                        took[name].append(seconds / counts[name])
        return {name: seconds for name, seconds in took.items() if name in self.workers}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._after.close()


def together(workers, work, count):
    """Have several workers do the same at once; pieces of work per second, all together."""
    at = time.monotonic() + START_S
    for worker in workers:
        worker.begin(work, at=at, count=count)
    answers = [worker.finish() for worker in workers]
    took = max(each["ended"] for each in answers) - min(each["began"] for each in answers)
    return count * len(workers) / took


def ratios(above, below):
    return [each / other for each, other in zip(above, below, strict=True)]


@dataclass
class Peer:
    """
    How a peer does in a row.

    Attributes:
        values: How many times as fast as the peer fencepost is, for each round; below one it is slower.
        said: What to say where there is no such figure.
    """

    name: str
    values: list[float] = field(default_factory=list)
    said: str = ""

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None


@dataclass
class Row:
    """
    A line of the table.

    Attributes:
        reach: What it is to reach.
        more: Whether more is better.
        values: One for each round.
        overall: The same from the sums over all rounds, which leave out nothing that happens seldom.
        unit: Of the values; a plain ratio where empty.
        sides: Milliseconds that one piece of work took, by side; medians.
        detail: What was done exactly.
    """

    key: str
    work: str
    against: str
    reach: float
    more: bool
    values: list[float]
    overall: float | None = None
    unit: str = ""
    sides: dict[str, float] = field(default_factory=dict)
    peers: list[Peer] = field(default_factory=list)
    detail: str = ""

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def reached(self):
        return self.median >= self.reach if self.more else self.median <= self.reach

    def as_json(self):
        return {
            "key": self.key,
            "work": self.work,
            "against": self.against,
            "reach": self.reach,
            "more_is_better": self.more,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "overall": self.overall,
            "reached": self.reached,
            "values": self.values,
            "sides_ms": self.sides,
            "detail": self.detail,
            "peers": [
                {
                    "name": peer.name,
                    "times_as_fast": peer.median,
                    "min": min(peer.values, default=None),
                    "max": max(peer.values, default=None),
                    "said": peer.said,
                }
                for peer in self.peers
            ],
        }


def milliseconds(took):
    """The median of each side."""
    return {name: statistics.median(seconds) * 1000 for name, seconds in took.items() if seconds}


def times_as_fast(team, took, ours="fencepost", skip=()):
    """The peers of a team beside fencepost; those that failed say why."""
    found = [Peer(name, ratios(seconds, took[ours])) for name, seconds in took.items() if name not in {ours, *skip}]
    return found + [Peer(name, said=f"failed: {why}") for name, why in team.lost.items()]
