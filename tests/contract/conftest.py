"""
The installed program, driven as a shell would drive it.

Nothing here or beside it imports the product.  What the program prints is checked against the published schema, so
a test that asks for a receipt has checked its shape as well.
"""

import importlib.metadata
import json
import os
import pty
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
from substrates import Database, Folder, Wire

SCHEMA = json.loads(
    Path(
        importlib.metadata.distribution("fencepost").locate_file("fencepost/contracts/state-v1.schema.json")
    ).read_text(encoding="utf-8")
)
PROGRAM = Path(sysconfig.get_path("scripts")) / "fencepost"
#: Longer than any command may take, so that one that hangs fails its test and nothing more.
PATIENCE_S = 60


#: What is asked of every kind of store; `tox -e everywhere` asks more of it.
EVERYWHERE = os.environ.get("FENCEPOST_EVERYWHERE", "test_operations").split()
SUBSTRATES = os.environ.get("FENCEPOST_OVER", "file postgres wire-file wire-postgres wire-plain").split()

#: Begins a loop of a shell that starts very many programs: measuring each would make the test several times as long.
UNMEASURED = "unset COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG; "


class Answer(NamedTuple):
    """What a command said, and with which status it ended."""

    status: int
    out: str
    err: str


class Shell:
    """A person's shell with a home and a working directory of its own."""

    def __init__(self, folder, check, substrate=Folder):
        self.home = folder / "home"
        self.here = folder / "work" / "app"
        self.home.mkdir(mode=0o700)
        self.here.mkdir(parents=True)
        self.check = check
        self.program = str(PROGRAM)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "XDG_"))}
        self.environ = kept | {
            "HOME": str(self.home),
            "USER": "pat",
            "LOGNAME": "pat",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "120",
            "TERM": "xterm",
        }

        self.substrate = substrate(self)
        self.environ |= self.substrate.environ

    @property
    def root(self):
        """The folder that the store is in."""
        return self.substrate.root

    def start(self, *words, before=(), **options):
        """A running command; `before` is what it is started through."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen([*before, self.program, *words], env=self.environ, cwd=self.here, **options)

    def loop(self, script, *words):
        """A running script of the shell, in which `$0` is the program and `$1` the first of the words."""
        return self.start(*words, before=("sh", "-c", UNMEASURED + script), start_new_session=True)

    def run(self, *words, stdin=b"", before=(), env=None, cwd=None, umask=-1):
        """Run a command to its end."""
        done = subprocess.run(
            [*before, self.program, *words],
            env=self.environ | (env or {}),
            cwd=cwd or self.here,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            umask=umask,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def on_terminal(self, *words):
        """What a command shows on a terminal."""
        master, slave = pty.openpty()
        process = self.start(*words, stdout=slave, stderr=slave)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 1 << 16):
                shown += piece
        except OSError:  # Linux: the other end was closed
            pass
        finally:
            os.close(master)
        assert 0 == process.wait(PATIENCE_S), shown
        return shown.decode().replace("\r\n", "\n")

    def ask(self, shape, *words, **options):
        """The one document that a command prints with --json, which must succeed."""
        answer = self.run(*words, "--json", **options)
        assert 0 == answer.status, answer
        document = json.loads(answer.out)
        self.check(shape, document)
        return document

    def send(self, body, *words, **options):
        """The receipt of a new message."""
        return self.ask("Receipt", "messages", "send", "--body", body, *words, **options)

    def step(self, command, receipt, *words, session="one", token=None):
        """The receipt of a lifecycle command on the message as that receipt shows it."""
        return self.ask("Receipt", *self.words(command, receipt, *words, session=session, token=token))

    @staticmethod
    def words(command, receipt, *words, session="one", token=None):
        """The words of a lifecycle command."""
        fence = () if token is None else ("--token", token)
        return (
            *("messages", command, "--session", session, "--message-id", receipt["id"]),
            *("--occurrence", str(receipt["occurrence"]), *fence, *words),
        )

    def list(self, *words, **options):
        """The items of a listing in which everything is supported."""
        listing = self.ask("Listing", "messages", "list", *words, **options)
        assert [] == listing["unsupported"]
        return listing["items"]

    def view(self, receipt):
        """The message as it stands, with its history."""
        return self.ask("View", "messages", "view", "--message-id", receipt["id"])

    def refused(self, code, *words, status=1, **options):
        """The error of a command that must be refused with that code, having written nothing."""
        before = self.digest()
        answer = self.run(*words, "--json", **options)
        error = json.loads(answer.out)
        self.check("Refusal", error)
        assert (code, status) == (error["error"]["code"], answer.status), answer
        assert before == self.digest()
        return error["error"]

    def digest(self):
        """A digest of everything that was ever recorded."""
        return self.substrate.digest()


@pytest.fixture(scope="session")
def schema():
    """The published schema, as it is installed."""
    return SCHEMA


@pytest.fixture(scope="session")
def check():
    """Fail unless a document has the shape of that name in the published schema."""
    validators = {}

    def check(shape, document):
        if shape not in validators:
            described = {**SCHEMA, "$ref": f"#/$defs/{shape}"}
            validators[shape] = jsonschema.Draft202012Validator(described)
        validators[shape].validate(document)

    return check


@pytest.fixture(scope="session", autouse=True)
def _installed():
    assert PROGRAM.exists(), "install fencepost into this environment first"


def pytest_generate_tests(metafunc):
    """Ask what holds everywhere of every kind of store.  Plain wire 6 has no words for idempotency keys."""
    if "over" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in EVERYWHERE:
        has_keys = "_key" in metafunc.function.__name__
        names = [name for name in SUBSTRATES if not (has_keys and name == "wire-plain")]
        metafunc.parametrize("over", names, scope="module")


@pytest.fixture(scope="module")
def over():
    """The kind of store that a shell's program uses."""
    return "file"


@pytest.fixture(scope="module")
def substrate(over, request):
    """Makes the place where a shell's store is."""
    if over == "file":
        return Folder
    if over == "wire-file":
        return lambda shell: Wire(shell, Folder(shell))
    if over == "wire-plain":
        return lambda shell: Wire(shell, Folder(shell), plain=True)
    server = request.getfixturevalue("cluster")
    if over == "postgres":
        return lambda shell: Database(shell, server)
    return lambda shell: Wire(shell, Database(shell, server))


@pytest.fixture
def shell(tmp_path, check, substrate):
    """A shell with an empty home."""
    shell = Shell(tmp_path, check, substrate)
    yield shell
    shell.substrate.close()


@pytest.fixture(scope="module")
def lasting_shell(tmp_path_factory, check, substrate):
    """A shell whose home is shared by the tests of a module; for those that write nothing."""
    shell = Shell(tmp_path_factory.mktemp("lasting"), check, substrate)
    yield shell
    shell.substrate.close()
