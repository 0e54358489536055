"""
A program that is spoken to in lines of JSON, on its standard input and output.

What it writes is believed to be anything.  A line that is too long, no JSON or
nothing that anybody understands ends the conversation with a sentence, and
every call from then on says it.

It runs in a session of its own, so that a Ctrl-C is for us alone and we end it
in order.  It is asked to end by the end of its input, then by SIGTERM, then by
SIGKILL; the first two reach it alone, as it knows best how to end what it has
started, and the last its group (`fencepost.mailbox.fleet.orphans`).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any, Final

import attrs
import orjson

from fencepost.journal.disk import PRIVATE_FILE, PRIVATE_FOLDER
from fencepost.mailbox.errors import EngineFailed, EngineNotStarted, UnreadyAgent
from fencepost.mailbox.fleet import orphans

#: No line of either program comes near; without a limit, one line could take all memory.
LINE_LIMIT_BYTES: Final = 64 << 20
#: What is kept of what it says on the side, and as much again of what it said before.
LOG_LIMIT_BYTES: Final = 1 << 20
#: How often it is looked whether it lives: its output ends later where a child of it has that open.
_TICK_S: Final = 0.5
_OURS: Final = re.compile(r"FENCEPOST_(\w*_)?(TOKENS?|DATABASE_URL|PASSWORD|SECRET|KEY)(_\w*)?")


@attrs.frozen
class Launch:
    """
    How a program is started.

    Attributes:
        argv: The program and the words that a user gives it; what makes it speak JSON is added.
        here: The folder that it works in.
        environ: Its whole environment.
        folder: A private folder for what it says on the side, and for the note who runs.  It has one run at a time.
    """

    argv: tuple[str, ...]
    here: Path
    environ: Mapping[str, str]
    folder: Path

    @property
    def log(self) -> Path:
        """What it says on the side."""
        return self.folder / "program.log"


def inherited(environ: Mapping[str, str], but: Collection[str] = ()) -> dict[str, str]:
    """What a program gets of our environment: all but our own secrets, and what is named."""
    return {name: value for name, value in environ.items() if name not in but and not _OURS.fullmatch(name)}


def check(launch: Launch, agent: str) -> None:
    """
    Nothing, where the folder is there and the program is found.

    Raises:
        UnreadyAgent: One of them is not.
    """
    if not launch.here.is_dir():
        why = "is no folder" if launch.here.exists() else "does not exist"
        raise UnreadyAgent(agent=agent, why=f"its folder {launch.here} {why}")
    program = launch.argv[0]
    # A path is taken from the folder that the program works in, as the system does.
    path = str(launch.here / program) if os.sep in program else program
    if shutil.which(path, path=launch.environ.get("PATH")) is None:
        raise UnreadyAgent(agent=agent, why=f"its program {program} is not found")


def _started(launch: Launch, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - it is what the user wants to run
        [*launch.argv, *words],
        cwd=launch.here,
        env=dict(launch.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def text_at(document: object, *path: str) -> str:
    """
    The text at a path of a document.

    Raises:
        ValueError: There is none.
    """
    for name in path:
        if not isinstance(document, Mapping) or name not in document:
            raise ValueError(f"what it says has no {'.'.join(path)}")
        document = document[name]
    if not isinstance(document, str):
        raise ValueError(f"what it says has no text at {'.'.join(path)}")  # noqa: TRY004 - it is what was said
    return document


class Program:
    """
    A run of a program, from its start on.  One thread asks; `hear` is called by another.

    Args:
        words: What is added to the launch's own.
        answers: The id of the request that a line answers; None where it is something else.
        hear: Takes every other line.  It says whether that is news for who waits, raises `ValueError` where it does
            not understand, and never asks.

    Raises:
        EngineNotStarted: It cannot be started.
        EngineFailed: A run before it cannot be ended; from every method but `say`, it has ended or is not understood.
    """

    def __init__(
        self,
        name: str,
        launch: Launch,
        words: tuple[str, ...],
        answers: Callable[[Mapping[str, Any]], object],
        hear: Callable[[Program, Mapping[str, Any]], bool],
    ) -> None:
        self._name, self._launch, self._answer_to, self._hear = name, launch, answers, hear
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._awaited: dict[str, Mapping[str, Any] | None] = {}
        self._news = False
        self._why: str | None = None
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        try:
            launch.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            orphans.end_orphan(launch.folder, name)
            self._process = _started(launch, words)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            raise EngineNotStarted(program=name, why=f"{what}{error.strerror or error}") from error
        except ValueError as error:
            raise EngineNotStarted(program=name, why=str(error)) from error
        self._known = orphans.Process.of(self._process.pid)
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        for run, stream in zip((self._write, self._read, self._keep), streams, strict=True):
            threading.Thread(target=run, args=(stream,), name=f"{name}{run.__name__}", daemon=True).start()
        try:
            if self._known:
                orphans.record(launch.folder, self._known)
        except OSError as error:
            self.end()
            raise self._failed(f"it cannot be noted who runs: {error}") from error

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def say(self, document: Mapping[str, Any]) -> None:
        """Say something that is not answered; it does not wait for the program to take it."""
        self._said.put(orjson.dumps(document) + b"\n")

    def ask(self, request: Mapping[str, Any], patience_s: float) -> Mapping[str, Any]:
        """
        What the program answers; the id of the request is added.

        Raises:
            EngineFailed: Also where it has not answered in time, so that nobody knows what it has done.
        """
        number = str(next(self._ids))
        with self._changed:
            self._awaited[number] = None
        try:
            self.say({"id": number, **request})
            if not self._until(lambda: self._awaited[number] is not None, patience_s):
                raise self._failed(f"it has not answered in {patience_s:g} seconds")
        finally:
            with self._changed:
                answer = self._awaited.pop(number)
        assert answer is not None
        return answer

    def wait(self, timeout_s: float) -> None:
        """Wait for news, at most so long."""
        with self._changed:
            self._until(lambda: self._news, timeout_s)
            self._news = False

    def check(self) -> None:
        """Nothing, where it runs and is understood."""
        with self._changed:
            if self._why is None and self._process.poll() is not None:
                # What it has said last may still be on its way.
                self._changed.wait_for(lambda: self._why is not None, _TICK_S)
                self._break(self._ended())
            if self._why is not None:
                raise self._failed(self._why)

    def end(self, patience_s: float = orphans.PATIENCE_S) -> None:
        """
        End it, in three steps of so long each; a second call does nothing.

        Raises:
            EngineFailed: It does not end, and is still on record.
        """
        self._said.put(None)
        if not orphans.stop(self._known, self._gone, patience_s):
            raise self._failed(f"process {self.pid} does not end")
        orphans.forget(self._launch.folder)

    def _until(self, happened: Callable[[], bool], patience_s: float) -> bool:
        """Whether it happens in time."""
        deadline = time.monotonic() + patience_s
        with self._changed:
            while not happened():
                self.check()
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _TICK_S))
            return True

    def _failed(self, why: str) -> EngineFailed:
        return EngineFailed(program=self._name, why=why, log=str(self._launch.log))

    def _gone(self, patience_s: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.returncode is not None

    def _ended(self) -> str:
        """How it has ended, where it has; for its output or its input has."""
        if not self._gone(_TICK_S):
            return "it has closed its input or its output"
        status = self._process.returncode
        return f"it has ended by signal {-status}" if status < 0 else f"it has ended with status {status}"

    # --- the threads ---------------------------------------------------------------------------------

    def _write(self, into: IO[bytes]) -> None:
        """What is to be said, so that nobody waits for a program that does not listen."""
        try:
            while (line := self._said.get()) is not None:
                into.write(line)
                into.flush()
        except OSError:
            self._break(self._ended())
        with contextlib.suppress(OSError):
            into.close()

    def _read(self, out: IO[bytes]) -> None:
        why = "what it says cannot be read"
        try:
            with out:
                while (line := out.readline(LINE_LIMIT_BYTES + 1)).endswith(b"\n"):
                    self._take(line)
                too_long = len(line) > LINE_LIMIT_BYTES
                why = f"it has said a line of more than {LINE_LIMIT_BYTES} bytes" if too_long else self._ended()
        except (OSError, ValueError, RecursionError) as error:
            why = f"it has said what nobody understands: {error}"
        finally:
            self._break(why)

    def _take(self, line: bytes) -> None:
        # Not orjson: a model's text may be cut within a pair of surrogates, which it refuses.
        document = json.loads(line.decode("utf-8"))
        if not isinstance(document, dict):
            raise ValueError("a line that is no object")  # noqa: TRY004 - it is what was said
        number = self._answer_to(document)
        if number is None:
            news = self._hear(self, document)
            with self._changed:
                self._news = self._news or news
                if news:
                    self._changed.notify_all()
            return
        with self._changed:
            # Who has lost patience does not want it any more.
            if isinstance(number, str) and number in self._awaited:
                self._awaited[number] = document
                self._changed.notify_all()

    def _break(self, why: str) -> None:
        with self._changed:
            self._why = self._why or why
            self._changed.notify_all()

    def _keep(self, aside: IO[bytes]) -> None:
        """What it says on the side, in a file that does not grow without end; where that fails, nowhere."""
        log = self._launch.log
        with aside:
            while chunk := os.read(aside.fileno(), 1 << 16):
                with contextlib.suppress(OSError):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                    with os.fdopen(os.open(log, flags, PRIVATE_FILE), "ab") as file:
                        file.write(chunk)
                        full = file.tell() >= LOG_LIMIT_BYTES
                    if full:
                        log.replace(log.with_suffix(".log.1"))
