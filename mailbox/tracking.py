"""
Finding a message, and where it has got to: the part of the mailbox that answers its sender.

That a message was shown is recorded beside it, in a stream of its own, once for
each occurrence and session.  It marks nothing as read and adds no version to
the message.  Nobody waits for the disk for it, so a power cut may lose it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, errors, shapes
from fencepost.mailbox.addresses import MESSAGES, SHOWN, Mode
from fencepost.mailbox.caller import Caller
from fencepost.mailbox.events import Shown
from fencepost.mailbox.message import Message
from fencepost.mailbox.store.documents import Document, Erased
from fencepost.mailbox.store.receipts import ReceiptFacts, facts
from fencepost.mailbox.store.showing import ShownTo

#: A message by its id, as it stands; or with the occurrence of it that was shown.
Seen = str | tuple[str, int]


class Tracking(Caller):
    """A caller that finds messages, records where they were shown, and says where they are."""

    def shown(self, messages: Iterable[Seen], *, session: str, door: str, target: str | None = None) -> int:
        """
        Record that messages were shown to a session.  It marks nothing as read, and adds no version to them.

        Each is recorded at most once for a message, an occurrence and a session, whichever the door.  It is not waited
        for: it becomes durable with whatever is written next, and a power cut before that loses it.  What was erased is
        passed over, and so is what is mounted read-only, where nothing is written.

        Args:
            messages: Their ids, which mean the occurrence that stands; or pairs of id and occurrence.
            session: The session that they were shown to.
            door: Where, in a word: `hook`, `mcp`, …
            target: The mounted path or scope to look in.

        Returns:
            How many were recorded, which is less where some had been before.

        Raises:
            UnknownMessage: One of them is not in the mounts; none is recorded.
            NotRecipient: One of them is not for this session; none is recorded.
            StaleOccurrence: One of them has never come to that occurrence; none is recorded.
            UnsupportedFormat: One of them is stored in a form that this version does not know; none is recorded.
            BadInput: Something is not well formed, or the target is not mounted.
            JournalError: It could not be written.
        """
        shapes.name(session, "session")
        shapes.name(door, "door")
        scopes = self.mounts.readable(target)
        wanted = dict.fromkeys(_pair(each) for each in messages)
        now = self._clock()
        return self._until_it_stands(lambda: self._try_shown(wanted, session, door, scopes, now))

    def _try_shown(
        self,
        wanted: Iterable[tuple[str, int | None]],
        session: str,
        door: str,
        scopes: Sequence[str],
        now: datetime,
    ) -> int | None:
        with self._told_when_durable() as told:
            events: dict[tuple[Stream, int], NewEvent] = {}
            expect: dict[Stream, int] = {}
            for message_id, asked in wanted:
                document = self._find(message_id, scopes)
                if isinstance(document.content, Erased) or self.mounts.find(document.scope).mode is Mode.READ_ONLY:
                    continue
                occurrence = self._seen(document, session, asked)
                stream = (document.scope, SHOWN + message_id)
                beside = self.store.find(stream)
                before = ShownTo() if beside is None else beside.content
                if not isinstance(before, ShownTo):
                    continue  # a later version of this program has written there, and knows what it means
                if (stream, occurrence) in events or before.has(occurrence, session):
                    continue
                shown = Shown(occurrence, session, door)
                events[stream, occurrence] = NewEvent(*stream, *codec.encode(shown), meaning=shown)
                expect[stream] = 0 if beside is None else beside.version
                expect[document.scope, document.path] = document.version  # so that it is not erased meanwhile
            told.stands = True  # nobody waits for what says that something was shown
            if events:
                self.store.append(Batch(now, self._actor, tuple(events.values())), expect, settle=False)
            return len(events)

    def _seen(self, document: Document, session: str, asked: int | None) -> int:
        """The occurrence that the session was shown, if it can have been."""
        message = self._message(document)
        addressed = message.letter.conversation
        if addressed is not None and addressed not in self._audience(session, document):
            raise errors.NotRecipient(message_id=message.letter.id, conversation=addressed, session=session)
        if asked is not None and asked > message.occurrence:
            raise errors.StaleOccurrence(message_id=message.letter.id, given=asked, current=message.occurrence)
        return message.occurrence if asked is None else asked

    def receipts(self, message_id: str, *, target: str | None = None) -> ReceiptFacts:
        """
        Where a message is: stored, shown to whom through which door, acknowledged, claimed, finished; who, and when.

        Raises:
            UnknownMessage: There is none of that id in the mounts.
            BadInput: Something is not well formed, or the target is not mounted.
        """
        scopes = self.mounts.readable(target)

        def attempt() -> ReceiptFacts | None:
            with self._told_when_durable() as told:
                document = self._find(message_id, scopes)
                found = document.path.removeprefix(MESSAGES)
                recorded = self.store.events((document.scope, document.path))
                answer = facts(found, document.scope, recorded, self.store.events((document.scope, SHOWN + found)))
            return answer if told.stands else None

        return self._until_it_stands(attempt)

    # --- finding ------------------------------------------------------------------------------------------

    def _find(self, message_id: str, scopes: Sequence[str]) -> Document:
        canonical = shapes.message_id(message_id)
        for scope in scopes:
            document = self.store.find((scope, MESSAGES + canonical))
            if document is not None:
                return document
        raise errors.UnknownMessage(message_id=canonical, searched=", ".join(scopes))

    def _message(self, document: Document) -> Message:
        if isinstance(document.content, Erased):
            raise errors.Erased(message_id=document.path.removeprefix(MESSAGES))
        if not isinstance(document.content, Message):
            why = document.why or "it is no message"
            raise errors.UnsupportedFormat(message_id=document.path.removeprefix(MESSAGES), why=why)
        return document.content

    def _audience(self, session: str, document: Document) -> frozenset[str]:
        """What the session receives; links are only looked up where they matter."""
        addressed = self._message(document).letter.conversation
        if addressed is None or addressed == session:
            return frozenset((session,))
        return self.store.audience(session, self.mounts.readable(None))


def _pair(seen: Seen) -> tuple[str, int | None]:
    """The id in its canonical form, and the occurrence if one was given."""
    if isinstance(seen, str):
        return shapes.message_id(seen), None
    message_id, occurrence = seen
    return shapes.message_id(message_id), shapes.whole_number(occurrence, "occurrence", 1)
