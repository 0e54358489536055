"""
All agents of a fleet, each with a controller of its own, until it is to stop.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import portalocker

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.errors import AgentTaken
from fencepost.mailbox.fleet import codex, credentials, pi
from fencepost.mailbox.fleet.config import AgentRule, Fleet, Runtime
from fencepost.mailbox.fleet.controller import Controller
from fencepost.mailbox.fleet.engine import Engine, Matcher
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.ledger import ACTOR, Ledger
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.permits import Permits
from fencepost.mailbox.fleet.program import Launch, inherited
from fencepost.mailbox.store.port import Store

#: How long the controllers may take to end their programs.
_END_S: Final = 30
_LOOK_S: Final = 0.2
_LOCK: Final = "controller.lock"


@contextlib.contextmanager
def held(fleet: Fleet, agent: AgentRule) -> Iterator[str]:
    """
    The folder of an agent, which one controller on this machine has at a time.

    Raises:
        AgentTaken: Another one has it.
        OSError: It cannot be made.
    """
    folder = Path(fleet.state) / agent.name
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / _LOCK
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.LockException as error:
            raise AgentTaken(agent=agent.name) from error
        yield str(folder)


def is_run(fleet: Fleet, agent: AgentRule) -> bool:
    """Is there a controller on this machine that has the agent?"""
    try:
        with held(fleet, agent):
            return False
    except AgentTaken:
        return True


def run(
    fleet: Fleet,
    store: Store,
    mounts: Callable[[AgentRule], Sequence[Mount]],
    *,
    say: Callable[[str], None],
    stop: threading.Event,
) -> bool:
    """
    Feed all agents that are enabled until it is to stop, or until none is left that could be fed.

    Args:
        fleet: What is said of them.
        store: Where it is recorded, and where their mail is.
        mounts: The scopes whose mail may wake an agent.
        say: Tells the operator something, in a sentence; threads call it.
        stop: Set by whoever wants an end.

    Returns:
        Whether all of them could be fed.

    Raises:
        FencepostError: One of them cannot be begun with; none is.
    """
    permits = Permits(fleet.permits)
    troubles: list[FencepostError] = []
    with contextlib.ExitStack() as stack:
        controllers = [
            (
                agent,
                _controller(fleet, agent, stack.enter_context(held(fleet, agent)), store, mounts, permits, say, stack),
            )
            for agent in fleet.agents
            if agent.enabled
        ]

        def feed(agent: AgentRule, controller: Controller) -> None:
            try:
                controller.run(stop)
            except FencepostError as error:
                troubles.append(error)
                say(f"{agent.name} is fed no more: {error}")

        threads = [threading.Thread(target=feed, args=each, name=each[0].name, daemon=True) for each in controllers]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not stop.is_set():
                thread.join(_LOOK_S)
        for thread in threads:
            thread.join(_END_S)
    return not troubles


def _controller(
    fleet: Fleet,
    agent: AgentRule,
    folder: str,
    store: Store,
    mounts: Callable[[AgentRule], Sequence[Mount]],
    permits: Permits,
    say: Callable[[str], None],
    stack: contextlib.ExitStack,
) -> Controller:
    client = stack.enter_context(contextlib.closing(Matrix(fleet.homeserver, credentials.of(agent, os.environ))))
    start, matcher = _engine(agent, folder)
    ledger = Ledger(store, agent.name)
    return Controller(
        agent,
        fleet.limits,
        ledger=ledger,
        box=Mailbox(store, mounts(agent), actor=ACTOR),
        listener=Listener(client, agent.user, agent.rooms, ledger.agent.rooms),
        start=start,
        matcher=matcher,
        files=Files(str(Path(folder) / "files")),
        permits=permits,
        say=say,
    )


def _engine(agent: AgentRule, folder: str) -> tuple[Callable[[], Engine], Matcher]:
    """What makes an engine of the agent's runtime, and what finds a delivery in its history."""
    argv = (*(agent.program or (agent.runtime.value,)), *agent.arguments)
    launch = Launch(argv, Path(agent.folder), inherited(os.environ), Path(folder))
    match agent.runtime:
        case Runtime.CODEX:
            return lambda: codex.Codex(launch), codex.entry
        case Runtime.PI:
            return lambda: pi.Pi(launch), pi.entry
