"""
`fencepost fleet`: rooms of a Matrix homeserver into the histories of coding agents.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Sequence
from typing import Any, Final

import click

from fencepost.journal.errors import MissingExtra
from fencepost.mailbox import codec
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, own_store, said, whole
from fencepost.mailbox.cli.place import login, project_scope, user_scope
from fencepost.mailbox.errors import AgentNotBegun
from fencepost.mailbox.fleet import deliveries
from fencepost.mailbox.fleet.config import AgentRule, read
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.message import Delivery

_CONFIG: Final = "fleet.toml"
_config = click.option("--config", default=_CONFIG, metavar="FILE", help=f"What describes the agents [{_CONFIG}].")
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


@click.group()
def fleet() -> None:
    """
    Rooms of a Matrix homeserver into the histories of coding agents, with proof of receipt.

    fleet.toml says which agents there are, whom they hear in which room, and what wakes them; see docs/fleet.md.
    """


@fleet.command("run")
@_config
@own_store(printed=False)
def run_command(where: Where, config: str) -> None:
    """
    Listen to the rooms and feed the agents, until SIGTERM or SIGINT.

    What was saved for an agent and not yet found in its history is kept, and resolved when this runs again.
    """
    try:
        from fencepost.mailbox.fleet.running import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise MissingExtra(extra="matrix") from error
    described = read(config)
    stop = threading.Event()
    before = {each: signal.signal(each, lambda *_: stop.set()) for each in _STOPS}
    store, _ = where.served()
    with contextlib.closing(store):
        try:
            fed = run(described, store, _mounts, say=show.note, stop=stop)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
    if not fed:
        raise SystemExit(1)


@fleet.command()
@_config
@own_store(printed=True)
def status(where: Where, config: str) -> None:
    """
    Tell for each agent whether it is run, what is in hand for it, and how far it has read its rooms.
    """
    from fencepost.mailbox.fleet.running import is_run

    described = read(config)
    store, _ = where.served()
    with contextlib.closing(store):
        found = [
            _standing(Ledger(store, rule.name), rule, running=is_run(described, rule)) for rule in described.agents
        ]
    if where.json:
        show.print_json({"agents": found})
        return
    for each in found:
        click.echo(_line(each))
        for room in each["rooms"]:
            click.echo(f"  {show.visible(room['rule'])}: {room['state']}")


def _standing(ledger: Ledger, rule: AgentRule, *, running: bool) -> dict[str, Any]:
    agent = ledger.agent
    return {
        "agent": rule.name,
        "user": rule.user,
        "runtime": rule.runtime.value,
        "enabled": rule.enabled,
        "running": running,
        "session": agent.session,
        "history": agent.history,
        "stage": agent.stage.value,
        "delivery": None if agent.delivery is None else agent.delivery.id,
        "attempts": agent.attempts,
        "delivered": agent.delivered,
        "rooms": [_room(ledger, each.room, each.wake.value) for each in rule.rooms],
    }


def _room(ledger: Ledger, rule: str, wake: str) -> dict[str, Any]:
    room = ledger.agent.rooms.get(rule)
    place = None if room is None else ledger.place(room)
    state = "not opened yet" if place is None else f"closed: {place.closed}" if place.closed else "heard"
    return {
        "rule": rule,
        "room": room,
        "wake": wake,
        "state": state,
        "last": place and place.last,
        "passed": 0 if place is None else place.passed,
    }


def _line(each: dict[str, Any]) -> str:
    running = "running" if each["running"] else "not running" if each["enabled"] else "disabled"
    hand = "" if each["delivery"] is None else f", {each['stage']} {each['delivery']} (attempt {each['attempts']})"
    session = f" in session {each['session']}" if each["session"] else ""
    return f"{each['agent']} ({each['runtime']}{session}): {running}, {each['delivered']} delivered{hand}"


@fleet.command()
@click.argument("agent")
@click.option("--body", metavar="TEXT", help="What to say.")
@click.option("--file", "file", metavar="FILE", help="Or the file that says it; - for standard input.")
@_config
@own_store(printed=True)
def send(where: Where, agent: str, body: str | None, file: str | None, config: str) -> None:
    """
    Send an agent mail that wakes it, as `fencepost messages send --delivery wake` to its session does.
    """
    rule = read(config).agent(agent)
    text = said(body, file, "body")
    store, _ = where.served()
    with contextlib.closing(store):
        session = Ledger(store, rule.name).agent.session
        if session is None:
            raise AgentNotBegun(agent=rule.name)
        box = Mailbox(store, _mounts(rule), actor=f"cli:{login()}")
        receipt = box.send(text or "", conversation=session, delivery=Delivery.WAKE)
    if where.json:
        show.print_json(codec.body(receipt.message))
    else:
        click.echo(f"Sent {receipt.message.id} to {rule.name}, session {session}.")


@fleet.command()
@click.argument("agent")
@click.option("--limit", default="50", metavar="N", help="How many at most, newest first [50].")
@_config
@own_store(printed=True)
def history(where: Where, agent: str, limit: str, config: str) -> None:
    """
    Tell what was delivered to an agent: when it was saved, submitted, proven, checkpointed and acknowledged.
    """
    rule = read(config).agent(agent)
    number = whole(limit, "limit", 1, 500) or 50
    store, _ = where.served()
    with contextlib.closing(store):
        found = deliveries.of(store, rule.name)[-number:][::-1]
    if where.json:
        show.print_json({"agent": rule.name, "deliveries": [each.as_json() for each in found]})
        return
    for each in found:
        click.echo(show.visible(str(each)))


def _mounts(rule: AgentRule) -> Sequence[Mount]:
    """The scopes whose mail may wake the agent: those that are named, or those of its folder."""
    if rule.mail:
        return [Mount(scope, f"/mail-{number}") for number, scope in enumerate(rule.mail, 1)]
    return [Mount(project_scope(rule.folder), "/project"), Mount(user_scope(), "/user")]
