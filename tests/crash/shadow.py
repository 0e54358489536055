"""
What of a folder would survive a power cut.

The real files are what running processes see, which is what the kernel holds in memory.  A `Shadow` stands beside them
and knows which writes and which names a sync has made durable.  It outlives the processes, so that one may die, the
next acknowledge something, and only then the power fail.

Nothing is assumed that POSIX does not promise.  Of the writes that no sync covers, any sectors may be on the disk and
any not; the size of a file may be there before its content; a name may be there before what it names; and where a file
has grown without a sync there may be anything at all.
"""

import itertools
import os
from enum import Enum

SECTOR_BYTES = 512


class Fate(Enum):
    """What is known of a write."""

    PENDING = "no sync was asked for"
    DOUBTFUL = "a sync failed, and no other sync will write it"
    DURABLE = "a sync has confirmed it"


class Op:
    """A write of bytes at an offset, or a new size."""

    def __init__(self, offset, data=None):
        self.offset = offset
        self.data = data
        self.fate = Fate.PENDING

    def pieces(self):
        """What a disk writes whole: the parts of it between sector boundaries; a new size is one piece."""
        if self.data is None:
            return [None]
        end = self.offset + len(self.data)
        cuts = [self.offset, *range((self.offset // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
        return list(itertools.pairwise(cuts))

    def apply(self, content, piece):
        """Do one piece of it to a bytearray."""
        if piece is None:
            if self.offset < len(content):
                del content[self.offset :]
            else:
                content.extend(bytes(self.offset - len(content)))
            return
        begin, end = piece
        content.extend(bytes(max(0, end - len(content))))
        content[begin:end] = self.data[begin - self.offset : end - self.offset]


class File:
    """A file, whatever its name is."""

    def __init__(self, base=b""):
        self.base = bytes(base)
        self.ops = []

    def sync(self):
        """Everything that was written has reached the disk; a size too that an earlier sync failed to write."""
        for op in self.ops:
            if op.fate is Fate.PENDING or op.data is None:
                op.fate = Fate.DURABLE
        while self.ops and self.ops[0].fate is Fate.DURABLE:
            self.base = self._after([self.ops.pop(0)])

    def forget(self):
        """A sync has failed, and whatever was written is marked clean: nothing will try to write it again."""
        for op in self.ops:
            if op.fate is Fate.PENDING:
                op.fate = Fate.DOUBTFUL

    def revert(self):
        """A sync has failed, and what is on the disk is shown again: nothing of what was written is there."""
        self.ops = [op for op in self.ops if op.fate is Fate.DURABLE]

    def durable(self):
        """What surely is on the disk."""
        return self._after([op for op in self.ops if op.fate is Fate.DURABLE])

    def _after(self, ops):
        content = bytearray(self.base)
        for op in ops:
            for piece in op.pieces():
                op.apply(content, piece)
        return bytes(content)

    def open_pieces(self):
        """Every piece that may be on the disk or not, in the order of writing."""
        return [(op, piece) for op in self.ops if op.fate is not Fate.DURABLE for piece in op.pieces()]

    def _with_what_they_hold(self, chosen):
        """The same pieces and all that was written before to the sectors they stand in, which are written whole."""
        found = set(chosen)
        held = {}
        for number, (op, piece) in enumerate(self.open_pieces()):
            if piece is not None and op.fate is Fate.PENDING:
                earlier = held.setdefault(piece[0] // SECTOR_BYTES, [])
                if number in found:
                    found.update(earlier)
                earlier.append(number)
        return found

    def with_pieces(self, chosen, *, full_size=False, garbage=None):
        """
        The file if those pieces reached the disk and the other open ones did not.

        Args:
            chosen: Places in `open_pieces`.
            full_size: The size reached the disk even where the content did not.
            garbage: Gives that many bytes for what was never synced; zeros where None.
        """
        chosen = self._with_what_they_hold(chosen)
        content = bytearray(self.base)
        known = bytearray(b"\1" * len(content))
        full = len(content)
        number = 0
        for op in self.ops:
            for piece in op.pieces():
                if op.fate is Fate.DURABLE or number in chosen:
                    op.apply(content, piece)
                    if piece is None:
                        del known[op.offset :]
                        full = op.offset
                    else:
                        known.extend(bytes(max(0, piece[1] - len(known))))
                        known[piece[0] : piece[1]] = b"\1" * (piece[1] - piece[0])
                number += op.fate is not Fate.DURABLE
            full = max(full, op.offset + len(op.data)) if op.data is not None else full
        if full_size:
            content.extend(bytes(max(0, full - len(content))))
        if garbage is not None:
            known.extend(bytes(len(content) - len(known)))
            filler = garbage(len(content))
            content = bytearray(old if there else new for old, new, there in zip(content, filler, known, strict=True))
        return bytes(content)


class Folder:
    """A folder: its durable names, and what was done to them since."""

    def __init__(self, entries=None):
        self.base = dict(entries or {})
        self.ops = []  # (names to take away, names to add)

    def change(self, gone, added):
        """Take names away and put others there, in one step as a rename does."""
        self.ops.append((tuple(gone), dict(added)))

    def sync(self):
        """The names have reached the disk."""
        self.base = self.after(range(len(self.ops)))
        self.ops.clear()

    def after(self, chosen):
        """The names if those changes reached the disk."""
        entries = dict(self.base)
        for number in chosen:
            gone, added = self.ops[number]
            for name in gone:
                entries.pop(name, None)
            entries.update(added)
        return entries

    @property
    def now(self):
        """The names as running processes see them."""
        return self.after(range(len(self.ops)))


class Shadow:
    """
    The folder `top` and all below it.

    Args:
        top: An existing folder; everything in it is durable already.
        untracked: Tells by its name whether a file is not to be looked at, because nothing in it must survive.
    """

    def __init__(self, top, untracked=lambda name: False):
        self.top = os.path.realpath(top)
        self._untracked = untracked
        self.root = self._scan(self.top)

    def _scan(self, path):
        entries = {}
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                entries[entry.name] = self._scan(entry.path)
            elif not self._untracked(entry.name):
                with open(entry.path, "rb") as handle:
                    entries[entry.name] = File(handle.read())
        return Folder(entries)

    def find(self, path):
        """The file or folder of that path as it is seen now; None outside, or where it is not looked at."""
        path = os.path.realpath(path)
        if path == self.top:
            return self.root
        if not path.startswith(self.top + os.sep):
            return None
        node = self.root
        for name in path[len(self.top) + 1 :].split(os.sep):
            node = node.now.get(name) if isinstance(node, Folder) else None
            if node is None:
                return None
        return node

    def nodes(self):
        """Every file and folder that is seen now or may be there after a power cut."""
        found = []
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.append(node)
            if isinstance(node, Folder):
                waiting += node.base.values()
                for _, added in node.ops:
                    waiting += added.values()
        return found

    @property
    def settled(self):
        """Is there nothing that a power cut could take?"""
        return not any(node.ops for node in self.nodes())
