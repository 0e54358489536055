"""
`fencepost demo`: the main job on real files, narrated.  It asserts what it shows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import timedelta

import click

from fencepost.mailbox import errors
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.message import Message, Receipt, Status
from fencepost.mailbox.store.opening import file_store

_SCOPE = "user:demo/proj:fencepost"
_LEASE_S = 1.5
#: What the session that gets killed runs, in a process of its own.
_WORKER = """
import sys, time
from fencepost.mailbox.cli.demo import open_mailbox
box = open_mailbox(sys.argv[1])
receipt = box.claim(sys.argv[2], session="bob", occurrence=1)
print(receipt.message.lease.token, flush=True)
time.sleep(60)
"""


def open_mailbox(root: str) -> Mailbox:
    """The demonstration's mailbox, with a lease short enough to watch."""
    mounts = [Mount(_SCOPE, "/project")]
    return Mailbox(file_store(root), mounts, actor="demo:fencepost", lease=timedelta(seconds=_LEASE_S))


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise click.ClickException(f"the demonstration found that this does not hold: {what}")


def _say(text: str) -> None:
    click.echo(f"  {text}")


def _token(message: Message) -> str:
    return message.lease.token if message.lease is not None else ""


@click.command()
@click.option("--keep", is_flag=True, help="Keep the files and say where they are.")
def demo(keep: bool) -> None:
    """Watch two sessions hand work over and survive a crash, on real files in a temporary folder."""
    root = tempfile.mkdtemp(prefix="fencepost-demo-")
    try:
        with contextlib.closing(open_mailbox(root).store) as store:
            box = Mailbox(store, [Mount(_SCOPE, "/project")], actor="demo:fencepost", lease=timedelta(seconds=_LEASE_S))
            sent = _hand_over(box)
            token = _kill_the_holder(box, root, sent)
            _take_over(box, sent, token)
        _look_back(root, sent)
    finally:
        if keep:
            click.echo(f"The files are in {root}.")
        else:
            shutil.rmtree(root, ignore_errors=True)
    click.secho("All of it held.", bold=True)


def _hand_over(box: Mailbox) -> Receipt:
    click.secho("1. Alice leaves a message and a reminder. Bob is not running yet.", bold=True)
    box.send("The build is green again.", session="alice")
    sent = box.send("Find out why the nightly build failed.", session="alice", delay_seconds=1)
    _check(len(box.list(session="bob").items) == 1, "the reminder is not due, so only the message is listed")
    _say("stored durably; the message is there at once, the reminder in a second")
    found = box.wait(5, session="bob")
    _check(len(found.items) == 1, "listing has not consumed the message")
    note = found.items[0].message
    box.ack(note.id, session="bob", occurrence=note.occurrence)
    found = box.wait(5, session="bob")
    _check([item.message.id for item in found.items] == [sent.message.id], "the reminder came due")
    _say("Bob listed both, acknowledged the message, and waited until the reminder came due")
    return sent


def _kill_the_holder(box: Mailbox, root: str, sent: Receipt) -> str:
    click.secho("2. Bob claims the work in a process of its own, and is killed.", bold=True)
    worker = subprocess.Popen([sys.executable, "-P", "-c", _WORKER, root, sent.message.id], stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        token = worker.stdout.readline().decode().strip()
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()
    _check(token != "", "the worker claimed it")
    _say(f"kill -9 of process {worker.pid}, which held the lease")
    try:
        box.claim(sent.message.id, session="carol", occurrence=1)
    except errors.ClaimedByAnother as refusal:
        _say(f"Carol tries at once: {refusal.code}")
    else:
        _check(False, "the lease outlives its holder until it runs out")
    found = box.wait(10, session="carol")
    _check(len(found.items) == 1, "the lease ran out, and the work is unread again")
    _say("the lease ran out: the work is back, and nothing had to notice that Bob died")
    return token


def _take_over(box: Mailbox, sent: Receipt, stale: str) -> None:
    click.secho("3. Carol takes over. Bob's old token is worth nothing.", bold=True)
    claimed = box.claim(sent.message.id, session="carol", occurrence=1)
    try:
        box.complete(sent.message.id, session="bob", occurrence=1, token=stale, outcome="done, I think")
    except errors.LeaseLost as refusal:
        _say(f"Bob comes back and wants to finish: {refusal.code}")
    else:
        _check(False, "a stale token finishes nothing")
    snoozed = box.snooze(
        sent.message.id,
        session="carol",
        occurrence=1,
        token=_token(claimed.message),
        outcome="The cache server was down; look again after its repair.",
        delay_seconds=1,
    )
    _check(snoozed.message.occurrence == 2, "a snooze keeps the id and counts on")
    _say("Carol writes down what she found and snoozes it: same id, occurrence 2")
    _check(len(box.wait(5, session="carol").items) == 1, "it came back")
    claimed = box.claim(sent.message.id, session="carol", occurrence=2)
    done = box.complete(
        sent.message.id, session="carol", occurrence=2, token=_token(claimed.message), outcome="Fixed by a retry."
    )
    again = box.complete(sent.message.id, session="carol", occurrence=2, token=_token(claimed.message))
    _check(again.version == done.version, "completing again changes nothing")
    _say("it came back, she finished it, and finishing it twice changed nothing")


def _look_back(root: str, sent: Receipt) -> None:
    click.secho("4. Everything is closed and opened again. The history is there.", bold=True)
    box = open_mailbox(root)
    with contextlib.closing(box.store):
        found = box.view(sent.message.id)
        _check(found.receipt.message.status is Status.DONE, "it is done")
        findings = [version.message.outcome for version in found.versions]
        _check("The cache server was down; look again after its repair." in findings, "the earlier finding is kept")
        for version in reversed(found.versions):
            message = version.message
            lease = message.lease if message.status is Status.OPEN else None
            holder = "" if lease is None else f", held by {lease.owner}"
            outcome = f": {message.outcome}" if message.outcome is not None else ""
            _say(f"version {version.version}: occurrence {message.occurrence}, {message.status.value}{holder}{outcome}")
