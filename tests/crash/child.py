"""
What a child process of these tests does: `python -P child.py ROOT DOING …`.

It says what it was told with one line for each answer, so that whoever killed it knows what was acknowledged.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

from fencepost.journal.disk import Disk
from fencepost.journal.errors import FencepostError
from fencepost.mailbox import Mailbox, Mount
from fencepost.mailbox.store.opening import file_store

MOUNTS = [Mount("user:me", "/user")]
#: Small, so that writers are killed in the midst of rotations too.
SEGMENT_BYTES = 8_192
NOW = datetime(2026, 11, 30, 14, tzinfo=UTC)


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def mailbox(root, hours=0, disk=None, lock_wait_ms=10_000, **options):
    store = file_store(root, segment_bytes=SEGMENT_BYTES, disk=disk, lock_wait_ms=lock_wait_ms)
    clock = {"clock": lambda: datetime.now(UTC) + timedelta(hours=hours)} | options
    return Mailbox(store, MOUNTS, actor="host:child", **clock)


def send(root, name, count, hours="0"):
    """Send that many messages, or without end for 0."""
    box = mailbox(root, int(hours))
    number = 0
    while not int(count) or number < int(count):
        number += 1
        say("sent", box.send(f"{name} {number}").message.id)
    box.store.close()


def work(root, message_id):
    """Claim a message, wait for a line, and complete it."""
    box = mailbox(root)
    receipt = box.claim(message_id, session="worker", occurrence=1)
    say("claimed", receipt.message.lease.token)
    sys.stdin.readline()
    token = receipt.message.lease.token
    for step, more in ((box.renew, {}), (box.complete, {"outcome": "Done."})):
        try:
            step(message_id, session="worker", occurrence=1, token=token, **more)
            say("done")
        except FencepostError as error:
            say("refused", error.code)


def hold(root, how):
    """Take the store's lock, start another process in the way that is said, and wait to be killed."""
    box = mailbox(root)
    with box.store._journal.locked():
        if how == "spawn":
            other = subprocess.Popen(["sleep", "600"], close_fds=False).pid
        else:
            other = os.fork()
            if not other:
                time.sleep(600)
        say("held", other)
        time.sleep(600)


class _Stopping(Disk):
    """Stops the process in its first sync, with the lock for syncing in its hands."""

    def sync_data(self, fd):
        if self.ready:
            self.ready = False
            say("syncing")
            os.kill(os.getpid(), signal.SIGSTOP)
        super().sync_data(fd)

    ready = False


def stop(root, name):
    """Send a message and stop in the midst of its sync; go on when told so."""
    disk = _Stopping()
    box = mailbox(root, disk=disk)
    disk.ready = True
    say("sent", box.send(name).message.id)


def history(root, seed, threads, rounds, messages, log):
    """Do random things to few messages, and write down when each began and what came of it."""
    store = file_store(root, segment_bytes=SEGMENT_BYTES)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    runners = [
        threading.Thread(target=_random_steps, args=(store, f"{seed}-{n}", int(rounds), int(messages), fd))
        for n in range(int(threads))
    ]
    say("ready")
    sys.stdin.readline()
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    store.close()
    say("finished")


def ids(messages):
    return [str(uuid.uuid5(uuid.NAMESPACE_URL, f"message {n}")) for n in range(messages)]


def _random_steps(store, who, rounds, messages, fd):
    rng = random.Random(who)
    known = ids(messages)
    tokens = {}
    for number in range(rounds):
        message = rng.choice(known)
        box = Mailbox(store, MOUNTS, actor="host:child", clock=lambda: NOW, new_id=lambda each=message: each)
        doing = rng.choices(("send", "list", "claim", "renew", "complete", "ack", "release"), (2, 4, 5, 3, 2, 1, 3))[0]
        token = tokens.get(message, "made up") if rng.random() < 0.9 else "made up"
        record = {"id": f"{who} {number}", "who": who, "doing": doing, "message": message, "token": token}
        os.write(fd, json.dumps(record | {"begin": time.monotonic_ns()}).encode() + b"\n")
        answer = _answer(box, doing, message, who, token)
        os.write(fd, json.dumps({"id": record["id"], "answer": answer, "end": time.monotonic_ns()}).encode() + b"\n")
        if doing == "claim" and "token" in answer:
            tokens[message] = answer["token"]


def _answer(box, doing, message, who, token):
    step = {"session": who, "occurrence": 1}
    try:
        if doing == "send":
            return {"version": box.send("Work.", actionable=True).version}
        if doing == "list":
            return {"versions": {item.message.id: item.version for item in box.list(status="all", limit=500).items}}
        if doing in ("claim", "ack"):
            receipt = getattr(box, doing)(message, **step)
        elif doing == "complete":
            receipt = box.complete(message, token=token, outcome="Done.", **step)
        else:
            receipt = getattr(box, doing)(message, token=token, **step)
    except FencepostError as error:
        return {"refused": error.code}
    lease = receipt.message.lease
    found = {"version": receipt.version, "repeated": receipt.repeated}
    return found | ({"token": lease.token} if doing == "claim" else {})


if __name__ == "__main__":
    {each.__name__: each for each in (send, work, hold, stop, history)}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
