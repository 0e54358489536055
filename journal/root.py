"""
The root folder of a store, and the little file that says what it is.

    <root>/                     0700
      .store.lock .sync.lock    0600, never removed
      store.json                what the root is: format, id, generation, key
      watermark                 a hint that is shared by running processes; see `fencepost.journal.watermark`
      journal/<first seq>.log   0600, segments
      journal/torn/             what was cut from a torn tail
      journal/erasing           while an erasure is under way; see `fencepost.journal.erasing`
      spool/                    what programs have left to be recorded; the journal takes no notice of it
      index-<generation>.sqlite what whoever folds the events keeps; it comes back when it is deleted
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import uuid
from typing import Final

import attrs
import orjson

from fencepost.journal.disk import Disk, write_whole
from fencepost.journal.errors import ExportIsReadOnly, NewerStore, NoStore, NotAStore

#: The layout of a root that is written and understood here.
ROOT_FORMAT: Final = 1
STORE_LOCK: Final = ".store.lock"
SYNC_LOCK: Final = ".sync.lock"
STORE_FILE: Final = "store.json"
WATERMARK: Final = "watermark"
#: What is in a root that is a copy, and says what the copy must be; see `fencepost.journal.copying`.
MANIFEST: Final = "manifest.json"
JOURNAL: Final = "journal"
TORN: Final = "torn"
#: How the names of the files begin that hold what was folded from the events.
INDEX: Final = "index-"

#: What is to be recorded and was left by somebody who could not wait; the journal takes no notice of it.
SPOOL: Final = "spool"

#: What may stand in a folder that is about to become a store.
_OURS: Final = frozenset((STORE_LOCK, SYNC_LOCK, JOURNAL, WATERMARK, SPOOL))


#: Each erasure and each new index takes the next one, so nobody comes near it.
_GENERATION_MAX: Final = 2**53


@attrs.frozen
class Identity:
    """
    What `store.json` says, and which file said so.

    Attributes:
        id: A uuid, new for each store.
        generation: Grows when the journal is replaced or the index is made anew.
        key: The secret under which idempotency keys are digested.
        file: The inode and modification time in nanoseconds of the file that was read.
    """

    id: str
    generation: int
    key: bytes = attrs.field(repr=False)
    file: tuple[int, int]

    def digest(self, scope: str, key: str) -> str:
        """The keyed digest of an idempotency key, in hex: it tells a repeat and tells nothing else."""
        return hmac.new(self.key, f"{scope}\0{key}".encode(), hashlib.sha256).hexdigest()


def file_mark(path: str) -> tuple[int, int]:
    """Which `store.json` stands there: inode, modification time in nanoseconds."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns


def read_identity(root: str) -> Identity:
    """
    What the root says it is.

    Raises:
        NoStore: It does not exist.
        NotAStore: It holds no readable `store.json`.
        NewerStore: A newer fencepost wrote it.
    """
    path = os.path.join(root, STORE_FILE)
    try:
        file = file_mark(path)
        with open(path, "rb") as handle:
            fields = orjson.loads(handle.read())
        found = fields["format"]
        if type(found) is int and found > ROOT_FORMAT:
            raise NewerStore(path=root, found=found, known=ROOT_FORMAT)
        if found != ROOT_FORMAT:
            raise NotAStore(path=root, why=f"store.json has format {found!r}")
        generation = fields["generation"]
        if type(generation) is not int or not 0 <= generation <= _GENERATION_MAX:
            raise NotAStore(path=root, why=f"store.json has generation {str(generation)[:40]}")
        return Identity(str(uuid.UUID(fields["id"])), generation, bytes.fromhex(fields["key"]), file)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not os.path.lexists(root):
            raise NoStore(path=root, why="it does not exist") from error
        why = "it has no store.json" if os.path.isdir(root) else "it is not a folder"
        raise NotAStore(path=root, why=why) from error
    except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise NotAStore(path=root, why="its store.json is damaged") from error


def write_identity(root: str, disk: Disk, *, store_id: str, generation: int, key: bytes) -> None:
    """Say what the root is; the commit point of creating a store and of every new generation."""
    fields = {"format": ROOT_FORMAT, "id": store_id, "generation": generation, "key": key.hex()}
    write_whole(disk, os.path.join(root, STORE_FILE), orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n")


def make_root(root: str, disk: Disk) -> None:
    """
    Make the folder, so that there is something to lock.

    Raises:
        NotAStore: The path is taken by something that is neither a store nor empty.
        OSError: The folder cannot be made.
        ExportIsReadOnly: It is a copy, and not to be written to.
    """
    if os.path.lexists(os.path.join(root, MANIFEST)) and os.path.lexists(os.path.join(root, STORE_FILE)):
        raise ExportIsReadOnly(path=root)
    missing = []
    folder = root
    while not os.path.isdir(folder):
        if os.path.lexists(folder):
            if os.path.isdir(folder):
                break  # somebody has made it since the last look
            raise NotAStore(path=root, why=f"{folder} is not a folder")
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        disk.make_folder(folder)
        disk.sync_folder(os.path.dirname(folder))
    names = set(disk.names(root))
    foreign = {name for name in names - _OURS if not name.startswith(f".{STORE_FILE}.")}
    if foreign and STORE_FILE not in names:
        raise NotAStore(path=root, why="it has other files in it and no store.json")


def make_store(root: str, disk: Disk) -> None:
    """
    Make an empty store of the root unless it is one; under the lock.

    A crash in the middle leaves no `store.json`, and the next caller begins again.
    """
    if os.path.exists(os.path.join(root, STORE_FILE)):
        return
    journal = os.path.join(root, JOURNAL)
    disk.make_folder(journal)
    disk.make_folder(os.path.join(journal, TORN))
    disk.sync_folder(journal)
    disk.sync_folder(root)
    if any(name.endswith(".log") for name in disk.names(journal)):
        raise NotAStore(path=root, why="it has a journal and no store.json: restore that file from a copy")
    write_identity(root, disk, store_id=str(uuid.uuid4()), generation=0, key=secrets.token_bytes(32))
