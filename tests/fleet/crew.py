"""A fleet as an operator has it: a description of agents, the program that feeds them, and what it tells of them."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

PROGRAM = (str(Path(sysconfig.get_path("scripts")) / "fencepost"),)
#: The same, but killed at a record; see there.
KILLED = (sys.executable, str(Path(__file__).with_name("killed.py")))
PATIENCE_S = 120
_WORDS = {"codex": ("app-server",), "pi": ("--mode", "rpc")}


class Crew:
    """
    A fleet, which is not running yet.

    Args:
        folder: Where everything of it is.
        homeserver: What its agents listen to.

    Attributes:
        said: The file with what the program has said so far.
    """

    def __init__(self, folder, homeserver, **settings):
        self.folder = folder
        self.folder.mkdir(mode=0o700)
        self.root = folder / "store"
        self.said = folder / "said.log"
        self.url = homeserver.url
        self.process = None
        self._settings = settings
        self._agents = []
        self._environ = {}

    def add(self, name, runtime, launch, person, rooms, **more):
        """An agent; `rooms` are dictionaries as in the file, or ids of rooms in which everybody is heard."""
        token = self.folder / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(person.token)
        rooms = [{"room": each, "grants": [{"sender": "*"}]} if isinstance(each, str) else each for each in rooms]
        words = tuple(word for word in launch.argv if word not in _WORDS[runtime])
        self._environ |= launch.environ
        self._agents.append(
            {
                "name": name,
                "user": person.id,
                "owner": person.id,
                "credentials": token.name,
                "runtime": runtime,
                "folder": str(launch.here),
                "program": list(words[:1]),
                "arguments": list(words[1:]),
                "rooms": rooms,
            }
            | more
        )
        self.write()

    def write(self):
        """Describe the agents; JSON values are TOML."""
        lines = [f"homeserver = {json.dumps(self.url)}"]
        lines += [f"{key} = {_toml(value)}" for key, value in self._settings.items()]
        lines.append(f"agents = {_toml(self._agents)}")
        (self.folder / "fleet.toml").write_text("\n".join(lines) + "\n")

    def command(self, *words):
        return [*words, "--config", str(self.folder / "fleet.toml"), "--root", str(self.root)]

    def start(self, *, program=PROGRAM):
        """Run it."""
        with self.said.open("a") as said:
            self.process = subprocess.Popen(
                [*program, *self.command("fleet", "run")],
                env=self._environ | {"COVERAGE_PROCESS_START": os.environ.get("COVERAGE_PROCESS_START", "")},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        return self

    def stop(self):
        """End it as an operator does; its exit status."""
        if self.process is None:
            return None
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
            raise

    def kill(self):
        process, self.process = self.process, None
        process.kill()
        process.wait(60)

    def ended(self):
        """Wait until it has ended by itself; its exit status."""
        process, self.process = self.process, None
        return process.wait(PATIENCE_S)

    def ask(self, *words):
        """What a command of the operator answers."""
        done = subprocess.run(
            [*PROGRAM, *self.command("fleet", *words, "--json")],
            env=self._environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert 0 == done.returncode, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def status(self, name):
        return next(each for each in self.ask("status")["agents"] if each["agent"] == name)

    def deliveries(self, name):
        """What was delivered, oldest first."""
        return self.ask("history", name, "--limit", "500")["deliveries"][::-1]

    def until(self, true, why="it happens"):
        """Wait until something is so; what it gave."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = true()
            if found:
                return found
            said = self.said.read_text() if self.said.exists() else ""
            assert self.process is None or self.process.poll() is None, said
            assert time.monotonic() < deadline, f"waited in vain until {why}: {said[-3_000:]}"
            time.sleep(0.1)

    def hears(self, name, count=1):
        """Wait until the agent hears so many rooms."""
        heard = lambda: sum(room["state"] == "heard" for room in self.status(name)["rooms"]) >= count  # noqa: E731
        return self.until(heard, f"{name} hears {count} rooms")

    def acknowledged(self, name, events):
        """Wait until all these events of rooms were delivered and acknowledged; the deliveries."""

        def done():
            found = self.deliveries(name)
            taken = {event for each in found if each["acknowledged_at"] for event in each["events"]}
            return found if set(events) <= taken else None

        return self.until(done, f"{name} has {len(events)} events")


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
