"""
Where the machine keeps its store: the one thing that a host has to say.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from fencepost.mailbox.store.port import Store


class Place:
    """
    A place for one store, made anew for each example.  Override `open`, and more if your store can do more.

    Attributes:
        reopens: `open` may be called again after a close, and finds what was there.
        shares: `open` may be called again before that, and both handles are of the same store.
    """

    reopens: ClassVar[bool] = False
    shares: ClassVar[bool] = False

    def __init__(self) -> None:
        self._left: list[Store] = []

    def open(self) -> Store:
        """A handle of the store, which is empty at first."""
        raise NotImplementedError

    def abandon(self, store: Store) -> None:
        """The holder of this handle dies without closing it."""
        self._left.append(store)

    def power_cut(self, *, torn: bool) -> None:
        """
        All handles have been abandoned; lose what a power cut may lose.

        Args:
            torn: Also leave a piece of a write that was never acknowledged, if your store can.
        """

    def discard(self) -> None:
        """The example is over: close what was abandoned, and remove everything."""
        for store in self._left:
            store.close()


class FolderPlace(Place):
    """
    A store in a folder.  A power cut leaves a copy of the files as they stood.

    Args:
        open_folder: Opens the store of a folder.
        tear: Leaves a torn write in a folder.
    """

    reopens = True
    shares = True

    def __init__(self, open_folder: Callable[[Path], Store], tear: Callable[[Path], None] | None = None) -> None:
        super().__init__()
        self._open_folder = open_folder
        self._tear = tear
        self._above = Path(tempfile.mkdtemp(prefix="fencepost-machine-"))
        self._cuts = 0

    @property
    def folder(self) -> Path:
        """Where the store is now; another folder after each power cut."""
        return self._above / f"store-{self._cuts}"

    def open(self) -> Store:
        """See `Place`."""
        return self._open_folder(self.folder)

    def power_cut(self, *, torn: bool) -> None:
        """See `Place`."""
        before = self.folder
        self._cuts += 1
        shutil.copytree(before, self.folder, ignore=shutil.ignore_patterns("*-shm"))  # memory, which a cut loses
        if torn and self._tear is not None:
            self._tear(self.folder)

    def discard(self) -> None:
        """See `Place`."""
        super().discard()
        shutil.rmtree(self._above)


def tear_last_segment(root: Path) -> None:
    """Leave the beginning of a frame behind the last one, as an interrupted append would."""
    segment = max((root / "journal").glob("*.log"), default=None)
    if segment is not None:
        written = segment.read_bytes().rstrip(b"\0")
        segment.write_bytes(written + b"5" * 64 + b" 00000321 000000")
