"""
Where messages and documents go: scopes, mounts and conversations.

A scope is where they are kept.  A mount gives it a name in this process
and says what may be done there.  Authority is what is mounted; a session id is
routing, not proof of who somebody is.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from fencepost.journal.errors import BadInput
from fencepost.mailbox import shapes
from fencepost.mailbox.errors import InvalidName, ReadOnlyMount, ReservedPath, UnknownMount

MESSAGES = "messages/"
LINKS = "message-links/"
#: Where the mailbox keeps its own; nobody reads or writes there by path.
RESERVED = (MESSAGES, LINKS)
#: In every scope the stream that says what was erased there; it is never erased itself.  A stream that is about
#: documents begins with a slash, which no path of one does.
REDACTIONS = "/redactions"
#: Beside a message the stream that says who was shown it; what follows is the message's id.
SHOWN = "/shown/"
#: The places that readers of the feed have come to, in a scope of their own; what follows is the checkpoint's name.
CHECKPOINTS_SCOPE = "feed:checkpoints"
CHECKPOINTS = "/checkpoints/"
#: The agents whose programs are fed here, in a scope of their own; what follows is the agent's name, and for a room
#: that it hears `/rooms/` and the room's id behind that.
FLEET_SCOPE = "fleet:agents"
FLEET = "/fleet/"

#: How other programs say in the document of a session what it continues.
_CONTINUES: Final = re.compile(r"^[-*\s]*continues:\s*(.+?)\s*$", re.MULTILINE)


class Mode(enum.Enum):
    """What a mount allows: everything, nothing but reading, or changing only what stands there."""

    READ_WRITE = "rw"
    READ_ONLY = "ro"
    EDIT_ONLY = "eo"


def _mode(value: str | Mode) -> Mode:
    return shapes.choice(value, "mode", Mode)


@attrs.frozen
class Mount:
    """
    A scope under a name such as `/project`.

    Raises:
        InvalidName: The scope or the path is not well formed.
        InvalidChoice: The mode is none of `rw`, `ro`, `eo`.
    """

    scope: str = attrs.field()
    path: str = attrs.field()
    mode: Mode = attrs.field(default=Mode.READ_WRITE, converter=_mode)

    @scope.validator
    def _scope_is_well_formed(self, _: object, value: str) -> None:
        shapes.scope(value)

    @path.validator
    def _path_is_well_formed(self, _: object, value: str) -> None:
        if not shapes.text(value, "mount", shapes.PATH_BYTES_MAX).startswith("/"):
            raise InvalidName(field="mount", value=value, rule="a slash and a name, such as /project")
        shapes.path(value[1:], "mount")


class Mounts:
    """
    The scopes that a caller may use, in order; the first one is where an untargeted send goes.

    Raises:
        InvalidName: A path or a scope is mounted twice.
    """

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._mounts = tuple(mounts)
        self._by_name: dict[str, Mount] = {}
        for mount in self._mounts:
            for name in (mount.path, mount.scope):
                if name in self._by_name:
                    raise InvalidName(field="mount", value=name, rule="each scope and each path is mounted once")
                self._by_name[name] = mount

    def __iter__(self) -> Iterator[Mount]:
        return iter(self._mounts)

    @property
    def names(self) -> str:
        """The mounted paths, for a sentence."""
        return ", ".join(mount.path for mount in self._mounts) or "nothing"

    def find(self, target: str | None) -> Mount:
        """
        The mount of that path or scope; the first one where None is asked for.

        Raises:
            UnknownMount: Nothing of that name is mounted.
        """
        if target is None and self._mounts:
            return self._mounts[0]
        mount = self._by_name.get(target) if isinstance(target, str) else None
        if mount is None:
            raise UnknownMount(target=str(target)[:200], mounted=self.names)
        return mount

    def resolve(self, path: str) -> tuple[Mount, str]:
        """
        The mount that a path such as `/project/notes/plan.md` leads through, the longest there is, and what follows.

        Raises:
            UnknownMount: It leads through none.
        """
        for mount in sorted(self._mounts, key=lambda each: -len(each.path)):
            if path == mount.path or path.startswith(f"{mount.path}/"):
                return mount, path[len(mount.path) + 1 :]
        raise UnknownMount(target=path[:200], mounted=self.names)

    def readable(self, target: str | None) -> tuple[str, ...]:
        """
        The scopes that a listing reads: the target's, or all that are mounted.

        Raises:
            UnknownMount: The target is not mounted, or nothing is.
        """
        if target is None and self._mounts:
            return tuple(mount.scope for mount in self._mounts)
        return (self.find(target).scope,)

    def writable(self, target: str | None, *, new: bool) -> Mount:
        """
        The mount of that name, which must allow adding (`new`) or changing messages.

        Raises:
            UnknownMount: Nothing of that name is mounted.
            ReadOnlyMount: The mount does not allow it.
        """
        mount = self.find(target)
        if mount.mode is Mode.READ_ONLY or (new and mount.mode is Mode.EDIT_ONLY):
            raise ReadOnlyMount(target=mount.path, mode=mount.mode.value)
        return mount


def is_reserved(path: str) -> bool:
    """Does the mailbox keep something of its own under that path?"""
    return path.startswith(RESERVED)


def document_path(path: str) -> str:
    """
    The path of a memory document within its scope.

    Raises:
        InvalidName: It is not well formed.
        ReservedPath: The mailbox keeps its own there.
    """
    return unreserved(shapes.path(path))


def unreserved(path: str) -> str:
    """
    A path, or the beginning of some, where documents may stand.

    Raises:
        ReservedPath: The mailbox keeps its own there.
    """
    if is_reserved(path):
        raise ReservedPath(path=path)
    return path


def link_path(session: str, parent: str) -> str:
    """The path of the document that says that a session continues a conversation."""
    return f"{LINKS}{session}/{parent}"


def continued(session: str, text: str) -> Iterator[str]:
    """The conversations that a session continues, as the text of a document says; text is free, and names are not."""
    for found in _CONTINUES.finditer(text):
        for parent in re.split(r"[\s,\[\]\"']+", found[1]):
            if parent != session and _is_name(session) and _is_name(parent):
                yield parent


def _is_name(text: str) -> bool:
    try:
        shapes.name(text, "continues")
    except BadInput:
        return False
    return True
