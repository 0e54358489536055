"""
How the clients of a fleet are started.

Codex is an app-server, Pi is in its RPC mode; both have a home and a project of their own, and the scripted model.
"""

import json
from pathlib import Path
from typing import NamedTuple

from agents.conftest import CODEX_CONFIG, FOLDER, environment

CODEX, PI, NODE = "@openai/codex", "@earendil-works/pi-coding-agent", "node"

_MODULES = FOLDER / "node_modules"


class Launch(NamedTuple):
    """
    What a client is started with.

    Attributes:
        argv: The program and its words; more may be added.
        environ: The whole environment.
        here: The folder of the project that it works in.
        home: The folder that its settings and its history are in: CODEX_HOME, or PI_CODING_AGENT_DIR.
    """

    argv: tuple[str, ...]
    environ: dict[str, str]
    here: Path
    home: Path


def codex(folder, url):
    """Codex's app-server: the program itself and not its starter, so that its process id is the one that is started."""
    program = next(_MODULES.glob("@openai/codex-*/vendor/*/bin/codex"))
    environ, here, home = _prepare(folder, ".codex")
    (home / "config.toml").write_text(CODEX_CONFIG.format(url=url))
    environ |= {"CODEX_HOME": str(home), "SCRIPTED_KEY": "dummy"}
    return Launch((str(program), "app-server"), environ, here, home)


def pi(folder, url):
    """Pi in its RPC mode, on the Node that it needs."""
    package = _MODULES / PI
    cli = package / json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]["pi"]
    environ, here, home = _prepare(folder, ".pi")
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": "dummy",
        # So that the model can tell the sessions apart.
        "compat": {"sendSessionAffinityHeaders": True},
        "models": [{"id": "scripted"}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    environ |= {"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}
    words = ("--mode", "rpc", "--provider", "scripted", "--model", "scripted")
    return Launch((str(_MODULES / NODE / "bin" / "node"), str(cli), *words), environ, here, home)


def _prepare(folder, settings):
    user, here, tmp = folder / "home", folder / "app", folder / "tmp"
    home = user / settings
    for path in (home, here, tmp):
        path.mkdir(parents=True)
    return environment(user, tmp), here, home
