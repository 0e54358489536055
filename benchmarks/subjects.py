"""
What is measured: fencepost, and the floors under it.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import orjson
from subject import Subject
from texts import BODY, LISTED, OUTCOME, SCOPE, SESSION, WORD, YEAR_S, kind

from fencepost.journal.disk import Disk
from fencepost.journal.reader import FileReader
from fencepost.mailbox import Draft, Mailbox, Mount, Past, audit
from fencepost.mailbox.store.opening import file_store, renew_index

#: Where there is no fdatasync the floor does what is nearest to it.
sync_data = getattr(os, "fdatasync", os.fsync)
#: Zeros are laid out so far ahead, outside the timed part.
AHEAD_BYTES = 1 << 20


class OtherDisk(Disk):
    """The real disk, but each sync takes longer by a fixed time; or none at all, to build stores fast."""

    def __init__(self, slow_sync_s, syncs):
        self.slow_sync_s = slow_sync_s
        self.syncs = syncs

    def sync_data(self, fd):
        if self.slow_sync_s:
            time.sleep(self.slow_sync_s)
        if self.syncs:
            super().sync_data(fd)


class Fencepost(Subject):
    """
    A mailbox in a folder, as a host would use it.

    Args:
        pays: What a round owes the index is paid at its end, inside the timed part, so that none of it falls into the
            turn of another side.
    """

    def __init__(self, folder, *, slow_sync_s=0.0, syncs=True, listed=LISTED, pays=True):
        disk = OtherDisk(slow_sync_s, syncs) if slow_sync_s or not syncs else None
        self.store = file_store(folder, disk=disk)
        self.box = Mailbox(self.store, [Mount(SCOPE, "/project")], actor="host:bench")
        self.listed = listed
        self.pays = pays
        self.work = []

    def ready(self, work, count):
        if work == "turn":
            drafts = [Draft(BODY, actionable=True)] * count
            self.work += [receipt.message.id for receipt in self.box.send_many(drafts)]
        self.store.feed()

    def _pay(self):
        if self.pays:
            self.store.feed()

    def send(self, count):
        for _ in range(count):
            self.box.send(BODY)
        self._pay()

    def latencies(self, count):
        """Without paying after each send, which nobody does."""
        self.pays = False
        took = super().latencies(count)
        self.pays = True
        return took

    def turn(self, count):
        """Claim and complete."""
        for _ in range(count):
            message_id = self.work.pop()
            claimed = self.box.claim(message_id, session=SESSION, occurrence=1)
            token = claimed.message.lease.token
            self.box.complete(message_id, session=SESSION, occurrence=1, token=token, outcome=OUTCOME)
        self._pay()

    def live(self, count):
        """Send so many messages, and claim and complete each."""
        for _ in range(count):
            self.work.append(self.box.send(BODY, actionable=True).message.id)
            self.turn(1)

    def fill(self, begin, end):
        """Store messages under one sync; see `texts.kind`."""
        draft = {
            "unread": lambda _: Draft(BODY),
            "elsewhere": lambda number: Draft(BODY, conversation=f"other-{number % 1000}"),
            "later": lambda _: Draft(BODY, delay_seconds=YEAR_S),
        }
        self.box.send_many([draft[kind(number)](number) for number in range(begin, end)])

    def fill_words(self, begin, end, every):
        """Store messages under one sync, of which every so-manieth has the word in it."""
        with_word = f"{BODY} The {WORD} is stuck."
        self.box.send_many([Draft(with_word if number % every == 0 else BODY) for number in range(begin, end)])

    def search(self, count):
        """The newest with the word in them, taken in beforehand."""
        past = Past(self.store, self.box.mounts)
        for _ in range(count):
            found = past.search(WORD, limit=LISTED).hits
            assert len(found) == LISTED, f"{len(found)} found"

    def batch(self, count):
        """Send a hundred under one sync, so many times."""
        drafts = [Draft(BODY)] * 100
        for _ in range(count):
            self.box.send_many(drafts)
        self._pay()

    def list(self, count):
        for _ in range(count):
            found = self.box.list(session=SESSION).items
            assert len(found) == self.listed, f"{len(found)} listed"

    def close(self):
        self.store.close()


class Auditor(Subject):
    def __init__(self, folder):
        self.folder = folder

    def replay(self, count):
        """Verify and replay: reading proves every frame, the chain and each commitment on the way."""
        for _ in range(count):
            reader = FileReader(self.folder)
            documents = audit.replay(reader.read())
            reader.close()
            assert documents
        return len(documents)

    def rebuild(self, count):
        for _ in range(count):
            _, seq = renew_index(self.folder)
        return seq


class Raw(Subject):
    """
    The floor: write the bytes that fencepost writes for the same work, and sync them, and nothing else.

    Args:
        how: `append` to a file that grows, or `overwrite` zeros that were synced before.
        frames: A file with the frames that fencepost wrote, by kind of work.
    """

    def __init__(self, folder, how, frames):
        self.how = how
        self.frames = {
            kind: [frame.encode() for frame in found]
            for kind, found in json.loads(Path(frames).read_text(encoding="utf-8")).items()
        }
        Path(folder).mkdir(exist_ok=True)
        self.fd = os.open(Path(folder) / how, os.O_RDWR | os.O_CREAT, 0o600)
        self.offset = 0
        self.size = 0
        self.next = dict.fromkeys(self.frames, 0)

    def ready(self, work, count):
        kinds = ("claim", "complete") if work == "turn" else (work,)
        longest = sum(max(map(len, self.frames[kind])) for kind in kinds)
        while self.how == "overwrite" and self.size < self.offset + count * longest:
            os.pwrite(self.fd, bytes(AHEAD_BYTES), self.size)
            self.size += AHEAD_BYTES
            os.fsync(self.fd)

    def write(self, kind):
        frames = self.frames[kind]
        frame = frames[self.next[kind] % len(frames)]
        self.next[kind] += 1
        os.pwrite(self.fd, frame, self.offset)
        self.offset += len(frame)

    def send(self, count):
        for _ in range(count):
            self.write("send")
            sync_data(self.fd)

    def turn(self, count):
        for _ in range(count):
            self.write("claim")
            sync_data(self.fd)
            self.write("complete")
            sync_data(self.fd)

    def batch(self, count):
        record = self.frames["batch"][0]
        for _ in range(count):
            for _ in range(100):
                os.pwrite(self.fd, record, self.offset)
                self.offset += len(record)
            sync_data(self.fd)

    def close(self):
        os.close(self.fd)


class Lines(Subject):
    """The least that reading such a journal can cost: its lines as plain JSON, a digest of each, and parsing it."""

    def __init__(self, folder):
        self.path = Path(folder)

    def replay(self, count):
        for _ in range(count):
            with self.path.open("rb") as lines:
                for line in lines:
                    hashlib.sha256(line).digest()
                    orjson.loads(line)
