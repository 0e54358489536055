"""
The real clients against a model that says what it is told: `tox -e agents`.

The clients are installed from npm into $FENCEPOST_AGENTS_DIR (a cache outside the checkout), in the versions that are
named here.  Each test has a home of its own, and everything is told to the clients as a person would: by `fencepost
setup`.
"""

import json
import os
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
from agents.model import Call, Model, everything

VERSIONS = {
    "@anthropic-ai/claude-code": "2.1.332",
    "@openai/codex": "0.171.0",
    "@modelcontextprotocol/inspector": "0.15.0",
    "@earendil-works/pi-coding-agent": "1.6.0",
    # What Pi runs on, whatever the machine has.
    "node": "22.23.3",
}
FOLDER = Path(os.environ.get("FENCEPOST_AGENTS_DIR") or Path.home() / ".cache" / "fencepost-agents")
PROGRAM = Path(sysconfig.get_path("scripts")) / "fencepost"
LACKING = (
    "the clients are not there: npm install --prefix "
    f"{FOLDER} {' '.join(f'{name}@{version}' for name, version in VERSIONS.items())}"
)
PATIENCE_S = 180
CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
daemon_auto_start = false
plugins = false
apps = false
"""


def pytest_configure(config):
    config.addinivalue_line("markers", "fast: a test of tests/agents that is in the default run")


def environment(home, tmp):
    """What a client starts with: a home of its own, and our program."""
    bins = FOLDER / "node_modules" / ".bin"
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "COVERAGE_PROCESS_START")}
    return kept | {
        "PATH": os.pathsep.join((str(PROGRAM.parent), str(bins), os.environ["PATH"])),
        "HOME": str(home),
        "USER": "pat",
        "LOGNAME": "pat",
        "TMPDIR": str(tmp),
        "LC_ALL": "C.UTF-8",
    }


class Agent:
    """
    A client with a home and a project of its own, and a model that says what it is told.

    Attributes:
        tool: The name under which its model calls the tool for mail.
    """

    client = tool = package = None

    def __init__(self, folder, model):
        self.home = folder / "home"
        self.here = folder / "app"
        self.model = model
        for path in (self.home, self.here, folder / "tmp", self.home / self.folder):
            path.mkdir()
        self.environ = environment(self.home, folder / "tmp")
        self.prepare()
        self.fencepost("setup", "--client", self.client, "--write", "--yes")

    def prepare(self):
        """What the client needs to reach its model."""

    def _run(self, *words, **options):
        return subprocess.run(
            words,
            env=self.environ,
            cwd=self.here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            **options,
        )

    def fencepost(self, *words):
        """What our program prints."""
        done = self._run(str(PROGRAM), *words)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    def ask(self, *words):
        """The one document that our program prints."""
        return json.loads(self.fencepost(*words, "--json"))

    def send(self, body, *words):
        """The receipt of a new message."""
        return self.ask("messages", "send", "--body", body, *words)

    def view(self, receipt):
        """A message as it stands."""
        return self.ask("messages", "view", "--message-id", receipt["id"])

    def prompt(self, text, **options):
        """A whole turn of the client, which must go well."""
        done = self.turn(text, **options)
        assert 0 == done.returncode, (done.stdout[-2_000:], done.stderr[-2_000:])
        return done

    def turn(self, text, *, goes_on=False):
        """Run the client for one turn; with `goes_on` in the session of the turn before."""
        raise NotImplementedError

    def call(self, **arguments):
        """A step of the model: it calls the tool for mail, as its session."""
        return lambda body: Call(self.tool, {"session": session(body), **arguments})


class ClaudeCode(Agent):
    client, package, folder = "claude-code", "@anthropic-ai/claude-code", ".claude"
    tool = "mcp__fencepost__messages"

    def prepare(self):
        self.environ |= {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        servers = {"fencepost": {"type": "stdio", "command": str(PROGRAM), "args": ["mcp"]}}
        self.tools = json.dumps({"mcpServers": servers})

    def turn(self, text, *, goes_on=False):
        more = ("--continue",) if goes_on else ()
        allowed = f"{self.tool},Bash"
        words = ("--model", "claude-sonnet-4-5", "--mcp-config", self.tools, "--allowedTools", allowed)
        return self._run("claude", "-p", text, *words, *more)


class Codex(Agent):
    client, package, folder = "codex", "@openai/codex", ".codex"
    tool = "mcp__fencepost/messages"

    def prepare(self):
        self.environ |= {"SCRIPTED_KEY": "dummy", "CODEX_HOME": str(self.home / ".codex")}
        (self.home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=self.model.url))

    def turn(self, text, *, goes_on=False):
        # Trusting a hook is the user's own step, which has no words on a command line.
        words = ("--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust")
        return self._run("codex", "exec", *words, *(("resume", "--last") if goes_on else ()), text)

    def call(self, **arguments):
        """Codex does not wait for its tools, so they may not be there at the first request."""
        later = super().call(**arguments)
        deadline = time.monotonic() + PATIENCE_S

        def step(body):
            there = any(tool.get("name") == "mcp__fencepost" for tool in body["tools"])
            if there or time.monotonic() > deadline:
                return later(body)
            self.model.script.insert(0, step)
            return Call("exec_command", {"cmd": "sleep 0.5"})

        return step


def session(body):
    """The session id that the model was shown."""
    words = everything(body).partition("unread for session ")[2].split(None, 1)
    return words[0].rstrip(".") if words else everything(body).partition("This is session ")[2].partition(":")[0]


def installed(package):
    """Is that client there, in the version that this is about?"""
    try:
        found = json.loads((FOLDER / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
    except OSError:
        return False
    return found["version"] == VERSIONS[package]


@pytest.fixture
def model():
    """The model."""
    with Model() as model:
        yield model


@pytest.fixture(params=[ClaudeCode, Codex], ids=lambda kind: kind.client)
def agent(request, tmp_path, model, cannot):
    """A client that was told of its mail."""
    if not installed(request.param.package):
        cannot(LACKING)
    return request.param(tmp_path, model)
