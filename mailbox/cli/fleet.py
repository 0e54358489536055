"""
`fencepost fleet`: rooms of a Matrix homeserver into the histories of coding agents.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from fencepost.journal.errors import MissingExtra
from fencepost.mailbox import codec, shapes, times
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.cli import show
from fencepost.mailbox.cli.options import Where, needed, own_store, said, whole
from fencepost.mailbox.cli.place import HOME_VARIABLE, URL_VARIABLE, login, project_scope, user_scope
from fencepost.mailbox.errors import AgentNotBegun
from fencepost.mailbox.fleet import deliveries
from fencepost.mailbox.fleet.config import AgentRule, read
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.fleet.mail import waiting
from fencepost.mailbox.fleet.troubles import standing
from fencepost.mailbox.message import Delivery
from fencepost.mailbox.store.port import Store

_CONFIG: Final = "fleet.toml"
_config = click.option("--config", default=_CONFIG, metavar="FILE", help=f"What describes the agents [{_CONFIG}].")
_HISTORY_MAX: Final = 500
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
    store, kind = where.own()
    environ = dict(os.environ)
    if kind == "file":  # so that the tools of the agents find their mail
        environ.pop(URL_VARIABLE, None)
        environ[HOME_VARIABLE] = where.folder()
    with contextlib.closing(store):
        try:
            fed = run(described, store, _mounts, environ=environ, say=_note, stop=stop)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
    if not fed:
        raise SystemExit(1)


def _note(text: str) -> None:
    show.note(f"{times.show(utc_now().replace(microsecond=0))} {text}")


@fleet.command()
@_config
@own_store(printed=True)
def status(where: Where, config: str) -> None:
    """
    Tell for each agent whether it is run, what is in hand for it, what is not in order, and how it hears its rooms.
    """
    from fencepost.mailbox.fleet.running import is_run

    described = read(config)
    store, _ = where.own()
    with contextlib.closing(store):
        found = [
            _standing(store, rule, Path(described.state) / rule.name, running=is_run(described, rule))
            for rule in described.agents
        ]
    if where.json:
        show.print_json({"agents": found})
        return
    for each in found:
        click.echo(show.visible(_line(each)))
        for trouble in each["troubles"]:
            click.echo(show.visible(f"  since {trouble['since']}: {trouble['what']}"))
        for room in each["rooms"]:
            over = f", {room['passed']:,} passed over" if room["passed"] else ""
            click.echo(show.visible(f"  {room['rule']}: {room['state']}{over}"))


def _standing(store: Store, rule: AgentRule, folder: Path, *, running: bool) -> dict[str, Any]:
    ledger = Ledger(store, rule.name)
    agent = ledger.agent
    waits = {
        f"{each.message.id}/{each.message.occurrence}" for each in waiting(Mailbox(store, _mounts(rule)), agent.session)
    }
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
        "waiting": len(waits.difference(agent.delivery.mail if agent.delivery else ())),
        "troubles": [attrs.asdict(each) for each in standing(folder)],
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


def _count(deliveries: int) -> str:
    return "1 delivery" if deliveries == 1 else f"{deliveries:,} deliveries"


def _line(each: dict[str, Any]) -> str:
    running = "running" if each["running"] else "not running" if each["enabled"] else "disabled"
    hand = "" if each["delivery"] is None else f", {each['stage']} {each['delivery']} (attempt {each['attempts']})"
    session = f" in session {each['session']}" if each["session"] else ""
    mail = f", {each['waiting']} of mail waiting" if each["waiting"] else ""
    return f"{each['agent']} ({each['runtime']}{session}): {running}, {_count(each['delivered'])}{mail}{hand}"


@fleet.command()
@click.argument("agent")
@click.option("--body", help="What to say. For long or odd text use --body-file.")
@click.option("--body-file", metavar="FILE", help="The body from a file, or - for standard input.")
@_config
@own_store(printed=True)
def send(where: Where, agent: str, body: str | None, body_file: str | None, config: str) -> None:
    """
    Send an agent mail that wakes it, as `fencepost messages send --delivery wake` to its session does.
    """
    rule = read(config).agent(agent)
    text = needed(said(body, body_file, "body"), "body", "say something with --body or --body-file")
    store, _ = where.own()
    with contextlib.closing(store):
        session = Ledger(store, rule.name).agent.session
        if session is None:
            raise AgentNotBegun(agent=rule.name)
        box = Mailbox(store, _mounts(rule), actor=f"cli:{login()}")
        receipt = box.send(text, conversation=session, delivery=Delivery.WAKE)
    if where.json:
        show.print_json(codec.body(receipt.message))
    else:
        id_, scope = receipt.message.id, receipt.message.letter.scope
        click.echo(f"Sent {id_} to {rule.name}: in {scope}, for its session {session}.")
        click.echo(f"  what becomes of it: fencepost messages receipts --scope {scope} --message-id {id_}")


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
    number = shapes.whole_number(whole(limit, "limit", 1, _HISTORY_MAX) or 0, "limit", 1, _HISTORY_MAX)
    store, _ = where.own()
    with contextlib.closing(store):
        found = deliveries.of(store, rule.name)[-number:][::-1]
    if where.json:
        show.print_json({"agent": rule.name, "deliveries": [each.as_json() for each in found]})
        return
    if not found:
        click.echo(f"Nothing was delivered to {rule.name} yet.")
    for each in found:
        for line in str(each).splitlines():
            click.echo(show.visible(line))


def _mounts(rule: AgentRule) -> Sequence[Mount]:
    """The scopes whose mail may wake the agent: those that are named, or those of its folder."""
    if rule.mail:
        return [Mount(scope, f"/mail-{number}") for number, scope in enumerate(rule.mail, 1)]
    return [Mount(project_scope(rule.folder), "/project"), Mount(user_scope(), "/user")]
