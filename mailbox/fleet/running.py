"""
All agents of a fleet, each with a controller of its own, until it is to stop.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import portalocker

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.errors import AgentTaken, FilesFailed
from fencepost.mailbox.fleet import codex, credentials, pi
from fencepost.mailbox.fleet.config import AgentRule, Fleet, Runtime
from fencepost.mailbox.fleet.controller import Controller
from fencepost.mailbox.fleet.engine import Engine, Matcher
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.ledger import ACTOR, Ledger
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.permits import Permits
from fencepost.mailbox.fleet.program import Launch, check, inherited
from fencepost.mailbox.fleet.troubles import Troubles
from fencepost.mailbox.store.port import Store

#: How long the controllers may take to end their programs.
_END_S: Final = 30
_LOOK_S: Final = 0.2
_LOCK: Final = "controller.lock"
#: Whoever asks for the status has the lock for a moment, which is no controller.
_ASKED_S: Final = 1.0
_MISTAKE: Final = "mistake.log"
#: What the trouble of an agent that is left alone is about.
_FED: Final = "fed"


@contextlib.contextmanager
def held(fleet: Fleet, agent: AgentRule) -> Iterator[str]:
    """
    The folder of an agent, which one controller on this machine has at a time.

    Raises:
        AgentTaken: Another one has it.
        FilesFailed: It cannot be made.
    """
    folder = Path(fleet.state) / agent.name
    try:
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FilesFailed(path=str(folder), why=error.strerror or str(error)) from error
    with os.fdopen(lock) as file:
        if not _is_locked(file, portalocker.LockFlags.EXCLUSIVE, _ASKED_S):
            raise AgentTaken(agent=agent.name)
        yield str(folder)


def _is_locked(file: IO[str], kind: portalocker.LockFlags, patience_s: float) -> bool:
    """Lock a file, and tell whether that went well."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            portalocker.lock(file, kind | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.LockException:
            if time.monotonic() > deadline:
                return False
            time.sleep(_ASKED_S / 20)
        else:
            return True


def is_run(fleet: Fleet, agent: AgentRule) -> bool:
    """Is there a controller on this machine that has the agent?"""
    try:
        file = (Path(fleet.state) / agent.name / _LOCK).open()
    except OSError:
        return False
    with file:
        return not _is_locked(file, portalocker.LockFlags.SHARED, 0)


def run(
    fleet: Fleet,
    store: Store,
    mounts: Callable[[AgentRule], Sequence[Mount]],
    *,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    stop: threading.Event,
) -> bool:
    """
    Feed all agents that are enabled until it is to stop, or until none is left that could be fed.

    Args:
        fleet: What is said of them.
        store: Where it is recorded, and where their mail is.
        mounts: The scopes whose mail may wake an agent.
        environ: Has access tokens, and what else the programs of agents are to have.
        say: Tells the operator something, in a sentence; threads call it.
        stop: Set by whoever wants an end.

    Returns:
        Whether all of them could be fed.

    Raises:
        FencepostError: One of them cannot be begun with; none is.
    """
    permits = Permits(fleet.permits)
    starved: list[AgentRule] = []
    with contextlib.ExitStack() as stack:
        fed: list[tuple[AgentRule, Troubles, Controller]] = []
        for agent in fleet.agents:
            if agent.enabled:
                folder = stack.enter_context(held(fleet, agent))
                tell = functools.partial(_say_of, agent, say)
                troubles = Troubles(Path(folder), tell)
                controller = _controller(
                    fleet, agent, folder, store, mounts(agent), permits, environ, troubles, tell, stack
                )
                fed.append((agent, troubles, controller))
        _introduce([agent for agent, _, _ in fed], say)

        def feed(agent: AgentRule, troubles: Troubles, controller: Controller) -> None:
            try:
                controller.run(stop)
            except FencepostError as error:
                starved.append(agent)
                troubles.end()
                troubles.begin(_FED, f"it is fed no more: {error} [{error.code}]")
            except Exception:  # noqa: BLE001 - a mistake of ours is no reason to starve the others
                starved.append(agent)
                path = _kept(Path(fleet.state) / agent.name / _MISTAKE)
                troubles.end()
                troubles.begin(_FED, f"it is fed no more, by a mistake in fencepost: please report what is in {path}")
            else:
                troubles.end()

        threads = [threading.Thread(target=feed, args=each, name=each[0].name, daemon=True) for each in fed]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not stop.is_set():
                thread.join(_LOOK_S)
        for thread in threads:
            thread.join(_END_S)
    return not starved


def _say_of(agent: AgentRule, say: Callable[[str], None], text: str) -> None:
    say(f"{agent.name}: {text}")


def _introduce(agents: Sequence[AgentRule], say: Callable[[str], None]) -> None:
    """Who is fed, and who will never hear anything, which nothing else would tell."""
    if not agents:
        say("no agent is enabled, so nobody is fed")
        return
    say(f"feeding {len(agents)} agent{'' if len(agents) == 1 else 's'}: {', '.join(agent.name for agent in agents)}")
    for agent in agents:
        if not agent.rooms:
            _say_of(agent, say, "it has no rooms, and hears mail only")
        for room in agent.rooms:
            if all(grant.muted for grant in room.grants):
                why = "in which all grants are muted" if room.grants else "which has no grants"
                _say_of(agent, say, f"nobody may be heard in {room.room}, {why}")


def _kept(path: Path) -> Path:
    """Where the traceback of what is being handled was put."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "a") as file:
        traceback.print_exc(file=file)
    return path


def _controller(
    fleet: Fleet,
    agent: AgentRule,
    folder: str,
    store: Store,
    mounts: Sequence[Mount],
    permits: Permits,
    environ: Mapping[str, str],
    troubles: Troubles,
    say: Callable[[str], None],
    stack: contextlib.ExitStack,
) -> Controller:
    client = stack.enter_context(contextlib.closing(Matrix(fleet.homeserver, credentials.of(agent, environ))))
    start, matcher = _engine(agent, folder, environ)
    ledger = Ledger(store, agent.name)
    return Controller(
        agent,
        fleet.limits,
        ledger=ledger,
        box=Mailbox(store, mounts, actor=ACTOR),
        listener=Listener(client, agent.user, agent.rooms, ledger.agent.rooms),
        start=start,
        matcher=matcher,
        files=Files(str(Path(folder) / "files")),
        permits=permits,
        troubles=troubles,
        say=say,
    )


def _engine(agent: AgentRule, folder: str, environ: Mapping[str, str]) -> tuple[Callable[[], Engine], Matcher]:
    """What makes an engine of the agent's runtime, and what finds a delivery in its history."""
    argv = (*(agent.program or (agent.runtime.value,)), *agent.arguments)
    launch = Launch(argv, Path(agent.folder), inherited(environ), Path(folder))
    check(launch, agent.name)
    match agent.runtime:
        case Runtime.CODEX:
            return lambda: codex.Codex(launch), codex.entry
        case Runtime.PI:
            return lambda: pi.Pi(launch), pi.entry
