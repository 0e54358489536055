"""
The documents beside the mail: mounted texts of which every version is kept.

    notes = Documents(store, [Mount("user:me/proj:app", "/project")], actor="host:scheduler")
    plan = notes.write("/project/notes/plan.md", "First the tests.")
    notes.write("/project/notes/plan.md", "First the types.", expected_version=plan.version)

A path names its mount and what follows; with `target` the mount is named apart.
Where the mailbox keeps its own, `messages/` and `message-links/`, nothing can
be reached here.

A change reads what stands there, appends one batch, and looks again if somebody
else was quicker.  `expected_version` is the version that the caller has seen; a
document that is not there, or not any more, has version 0.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import attrs

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec, cursors, errors, records, shapes, times
from fencepost.mailbox.addresses import Mount, document_path, unreserved
from fencepost.mailbox.caller import Caller
from fencepost.mailbox.events import Deleted, DocumentEvent, Written
from fencepost.mailbox.records import Entry, MemoryDocument, Record, Standing, Version
from fencepost.mailbox.store.port import Unsupported
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX

#: Largest content of a document: that of a message.
CONTENT_BYTES_MAX: Final = shapes.BODY_BYTES_MAX


@attrs.frozen
class EntryPage:
    """
    A part of a listing, in the order of the paths.

    Attributes:
        next_cursor: Continues it; None where it ends.
        unsupported: Documents of the same prefix that cannot be read; told with the first page.
    """

    scope: str
    entries: tuple[Entry, ...]
    next_cursor: str | None
    unsupported: tuple[Unsupported, ...]


@attrs.frozen
class VersionPage:
    """
    Versions, newest first.

    Attributes:
        next_cursor: Continues them; None where they end.
    """

    scope: str
    versions: tuple[Version, ...]
    next_cursor: str | None


@attrs.frozen
class _Place:
    """A document's address, and what may be done there."""

    mount: Mount
    path: str

    @property
    def stream(self) -> tuple[str, str]:
        return self.mount.scope, self.path


class Documents(Caller):
    """
    The documents of one caller: a store, the scopes it may use, and who it is.  Threads may share it.

    Args:
        store: Where they are kept; see `open_store`.
        mounts: The scopes that may be used.
        actor: Who writes, as the transport knows it: `kind:id`.
        clock: Gives the time, aware, in UTC.

    Raises:
        BadInput: The actor or a mount is not well formed.
    """

    # --- reading ------------------------------------------------------------------------------------------

    def read(self, path: str, *, version: int | None = None, target: str | None = None) -> MemoryDocument:
        """
        A document as it stands, or as it stood at a version.

        Args:
            path: A mounted path; within the target's scope where there is a target.
            version: Which version; the latest where None.
            target: A mounted path or scope.

        Raises:
            UnknownDocument: It is not there, or not any more.
            UnknownVersion: It was not there at that version.
            UnsupportedDocument: It is stored in a form that this version does not know.
            BadInput: Something is not well formed, not mounted, or reserved.
        """
        place = self._place(path, target)
        if version is not None:
            shapes.whole_number(version, "version", 1)
            return self._until_it_stands(lambda: self._try_read_version(place, version))
        return self._until_it_stands(lambda: self._try_read(place))

    def _try_read(self, place: _Place) -> MemoryDocument | None:
        with self._told_when_durable() as told:
            standing = self._standing(place)
            document = records.document(*place.stream, standing.version, standing.there())
        return document if told.stands else None

    def _try_read_version(self, place: _Place, version: int) -> MemoryDocument | None:
        with self._told_when_durable() as told:
            latest = self._known(place)
        if not told.stands:
            return None
        record = self.store.record_at(place.stream, version) if version <= latest else None
        if record is None or not record.live:
            raise errors.UnknownVersion(scope=place.mount.scope, path=place.path, version=version, latest=latest)
        return records.document(*place.stream, version, record)

    def list(
        self,
        prefix: str | None = None,
        *,
        target: str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> EntryPage:
        """
        Documents whose path begins with a prefix, in the order of their paths, without their content.

        Args:
            prefix: A mounted path such as `/project` or the beginning of one such as `/project/no`; within the
                target's scope where there is a target.  Everything of the target, or of the first mount, where None.
            target: A mounted path or scope.
            cursor: Goes on behind an earlier page.  It is good for the same prefix and target only.
            limit: How many at most, 0 to 500.

        Raises:
            BadInput: Something is not well formed, not mounted, or reserved.
        """
        mount, beginning = self._beginning(prefix, target)
        question = ("list", mount.scope, beginning)
        after = cursors.path(cursor, question)
        wanted = _limit(limit)
        found, unsupported = self.store.entries(mount.scope, beginning, after, wanted + 1)
        entries = tuple(found[:wanted])
        more = cursors.give(question, entries[-1].path) if len(found) > wanted > 0 else None
        unread = unsupported[:wanted] if cursor is None else ()
        return EntryPage(mount.scope, entries, more, tuple(unread))

    def versions(
        self, path: str, *, target: str | None = None, cursor: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> VersionPage:
        """
        The versions of a document, newest first, of one that was deleted too.

        Args:
            path: A mounted path; within the target's scope where there is a target.
            target: A mounted path or scope.
            cursor: Goes on behind an earlier page.  It is good for the same document only.
            limit: How many at most, 0 to 500.

        Raises:
            UnknownDocument: There has never been one.
            UnsupportedDocument: It is stored in a form that this version does not know.
            BadInput: Something is not well formed, not mounted, or reserved.
        """
        place = self._place(path, target)
        question = ("versions", *place.stream)
        before = cursors.number(cursor, question)
        wanted = _limit(limit)
        found = self._until_it_stands(lambda: self._try_versions(place, before, wanted + 1))
        more = cursors.give(question, found[wanted - 1].version) if len(found) > wanted > 0 else None
        return VersionPage(place.mount.scope, found[:wanted], more)

    def _try_versions(self, place: _Place, before: int, limit: int) -> tuple[Version, ...] | None:
        with self._told_when_durable() as told:
            self._known(place)
        return tuple(self.store.versions(place.stream, before, limit)) if told.stands else None

    def history(
        self,
        target: str | None = None,
        *,
        since: datetime | str | None = None,
        cursor: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> VersionPage:
        """
        The versions of all documents of a scope, newest first: by sequence, whatever the clocks said.

        Args:
            target: A mounted path or scope; the first mount where None.
            since: Leave out what has an earlier time.
            cursor: Goes on behind an earlier page.  It is good for the same scope and time only.
            limit: How many at most, 0 to 500.

        Raises:
            BadInput: Something is not well formed, or not mounted.
        """
        scope = self.mounts.find(target).scope
        begin = times.earliest(since)
        question = ("history", scope, begin)
        before = cursors.number(cursor, question)
        wanted = _limit(limit)
        found = self.store.history(scope, begin, before, wanted + 1)
        more = cursors.give(question, found[wanted - 1][0]) if len(found) > wanted > 0 else None
        return VersionPage(scope, tuple(version for _, version in found[:wanted]), more)

    # --- changing -----------------------------------------------------------------------------------------

    def write(
        self, path: str, content: str, *, expected_version: int | None = None, target: str | None = None
    ) -> MemoryDocument:
        """
        Write a document.  The same text again is a version as well.

        Args:
            path: A mounted path; within the target's scope where there is a target.
            content: The text, which may be empty.
            expected_version: Only if the document is at this version; 0: only if there is none.
            target: A mounted path or scope.

        Raises:
            MemoryConflict: It is at another version.
            UnsupportedDocument: It is stored in a form that this version does not know, and left as it is.
            BadInput: Something is not well formed, not mounted for writing, or reserved.
            JournalError: It could not be stored, or (`SyncFailed`) that is not known.
        """
        place = self._place(path, target)
        self.mounts.writable(place.mount.path, new=False)
        event = Written(shapes.text(content, "content", CONTENT_BYTES_MAX))
        expected = _expected(expected_version)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_write(place, event, expected, now))

    def _try_write(self, place: _Place, event: Written, expected: int | None, now: datetime) -> MemoryDocument | None:
        with self._told_when_durable() as told:
            standing = self._standing(place)
            standing.expect(expected)
            self.mounts.writable(place.mount.path, new=not standing.live)  # what is mounted eo takes nothing new
            told.stands = True
            self._append(now, (standing, event))
            document = self._written(standing, event, now)
        return document if told.stands else None

    def delete(self, path: str, *, expected_version: int | None = None, target: str | None = None) -> Version:
        """
        Delete a document; its versions stay.  Where it is mounted `eo` this is a change to what stands there.

        Returns:
            The version that the deletion took.

        Raises:
            UnknownDocument: It is not there, or not any more.
            MemoryConflict: It is at another version.
            UnsupportedDocument, BadInput, JournalError: As for `write`.
        """
        place = self._place(path, target)
        self.mounts.writable(place.mount.path, new=False)
        expected = _expected(expected_version)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_delete(place, expected, now))

    def _try_delete(self, place: _Place, expected: int | None, now: datetime) -> Version | None:
        with self._told_when_durable() as told:
            standing = self._standing(place)
            record = standing.there()
            standing.expect(expected)
            told.stands = True
            event = Deleted()
            self._append(now, (standing, event))
            later = records.after(record, event, now, self._actor)
            version = records.version(place.path, standing.version + 1, later)
        return version if told.stands else None

    def rename(
        self,
        source: str,
        destination: str,
        *,
        expected_version: int | None = None,
        target: str | None = None,
    ) -> MemoryDocument:
        """
        Move a document: in one step it is deleted here and written there, where it continues what stood there before.

        Args:
            source: A mounted path; within the target's scope where there is a target.
            destination: Likewise; it may be in another mount.
            expected_version: Only if the source is at this version.
            target: A mounted path or scope.

        Raises:
            UnknownDocument: The source is not there, or not any more.
            RedactedDocument: The source was erased, so that there is nothing to move.
            MemoryConflict: A document stands at the destination, or the source is at another version.
            UnsupportedDocument, BadInput, JournalError: As for `write`.
        """
        places = self._place(source, target), self._place(destination, target)
        for place, new in zip(places, (False, True), strict=True):
            self.mounts.writable(place.mount.path, new=new)
        expected = _expected(expected_version)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_rename(*places, expected, now))

    def _try_rename(
        self, source: _Place, destination: _Place, expected: int | None, now: datetime
    ) -> MemoryDocument | None:
        with self._told_when_durable() as told:
            here, there = self._standing(source), self._standing(destination)
            record = here.there()
            if record.redacted:
                raise errors.RedactedDocument(scope=here.scope, path=here.path)
            event = Written(record.content)
            here.expect(expected)
            if there.live:
                raise there.conflict("target_occupied", 0)
            told.stands = True
            self._append(now, (here, Deleted()), (there, event))
            document = self._written(there, event, now)
        return document if told.stands else None

    # --- how it is done -----------------------------------------------------------------------------------

    def _place(self, path: str, target: str | None) -> _Place:
        mount, rest = self._resolved(path, target)
        return _Place(mount, document_path(rest))

    def _beginning(self, prefix: str | None, target: str | None) -> tuple[Mount, str]:
        """The scope and the beginning of the paths that a listing is asked for."""
        if prefix is None:
            return self.mounts.find(target), ""
        mount, rest = self._resolved(prefix, target)
        return mount, unreserved(shapes.text(rest, "prefix", shapes.PATH_BYTES_MAX))

    def _known(self, place: _Place) -> int:
        """The version of a document's stream, whether it can be read now or was deleted."""
        version = self._standing(place).version
        if version == 0:
            raise errors.UnknownDocument(scope=place.mount.scope, path=place.path)
        return version

    def _standing(self, place: _Place) -> Standing:
        document = self.store.find(place.stream)
        if document is None:
            return Standing(*place.stream, 0, None)
        if not isinstance(document.content, Record):
            why = document.why or "it is no memory document"
            raise errors.UnsupportedDocument(scope=document.scope, path=document.path, why=why)
        return Standing(*place.stream, document.version, document.content)

    def _append(self, now: datetime, *changes: tuple[Standing, DocumentEvent]) -> None:
        events = tuple(NewEvent(*standing.stream, *codec.encode(event), meaning=event) for standing, event in changes)
        expect = {standing.stream: standing.version for standing, _ in changes}
        self.store.append(Batch(now, self._actor, events), expect)

    def _written(self, standing: Standing, event: Written, now: datetime) -> MemoryDocument:
        record = records.after(standing.record, event, now, self._actor)
        return records.document(*standing.stream, standing.version + 1, record)


def _limit(limit: int) -> int:
    return shapes.whole_number(limit, "limit", 0, LIMIT_MAX)


def _expected(version: int | None) -> int | None:
    return None if version is None else shapes.whole_number(version, "expected_version", 0)
