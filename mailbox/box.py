"""
The mailbox: read, decide, append.

This is where the pure half meets the world.  A method checks shapes, takes one
clock reading, finds the message as it stands, lets `decide` say what happens,
and appends that.  If somebody else was quicker it decides again on what stands
then.  Every answer, a refusal or a repeat included, waits until what it was
based on is durable, so nothing that anybody was told can be taken back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from fencepost.journal.event import Batch, Event, NewEvent
from fencepost.journal.port import Stream
from fencepost.mailbox import codec, commands, errors, shapes, times
from fencepost.mailbox.addresses import MESSAGES, Mount, link_path
from fencepost.mailbox.caller import LOOK_S, utc_now
from fencepost.mailbox.decide import decide
from fencepost.mailbox.drafts import Draft, prepare
from fencepost.mailbox.events import Linked, MessageEvent
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.message import Context, Delivery, Message, Receipt
from fencepost.mailbox.shelf import Documents
from fencepost.mailbox.store.documents import Document, fold
from fencepost.mailbox.store.port import Query, Redaction, Store, Unsupported
from fencepost.mailbox.tracking import Tracking
from fencepost.mailbox.views import LIMIT_DEFAULT, LIMIT_MAX, Listing

#: How long a claim lasts unless it is renewed.
LEASE: Final = timedelta(minutes=30)
#: How long a receiver may take to hand a message to its client.
HOLD: Final = timedelta(seconds=60)


def new_secret() -> str:
    """A random uuid (RFC 9562, version 4) in its text form."""
    return _uuid(4, os.urandom(16).hex())


def new_message_id() -> str:
    """
    A uuid that begins with the time (RFC 9562, version 7), in its text form.

    What is sent together then stands together in an index, whose pages are written once and not once a message.
    """
    return _uuid(7, f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}")


def _uuid(version: int, digits: str) -> str:
    """32 hex digits as a uuid of that version."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


@attrs.frozen
class Inbox:
    """The answer to a listing: messages, oldest due first, and what could not be read."""

    items: tuple[Receipt, ...]
    unsupported: tuple[Unsupported, ...]


@attrs.frozen
class Look:
    """What `Mailbox.wait` saw, and until when that stands if nobody adds anything."""

    found: Inbox
    mark: int
    due: datetime | None


@attrs.frozen
class History:
    """A message as it stands, and as of every version, newest first."""

    receipt: Receipt
    versions: tuple[Receipt, ...]


@attrs.frozen
class Skeleton:
    """What is on record of a message, whatever it says or said: its events, oldest first, without data and keys."""

    id: str
    scope: str
    events: tuple[Event, ...]


class Mailbox(Tracking):
    """
    The mailbox of one caller: a store, the scopes it may use, and who it is.  Threads may share it.

    Args:
        store: Where messages are kept; see `open_store`.
        mounts: The scopes that may be used; an untargeted send goes to the first.
        actor: Who writes, as the transport knows it: `kind:id`.
        lease: How long a claim lasts.
        clock: Gives the time, aware, in UTC.
        new_id: Gives a new uuid for each message.
        new_token: Gives a new secret for each claim and reservation.

    Raises:
        BadInput: The actor or a mount is not well formed.
    """

    def __init__(
        self,
        store: Store,
        mounts: Iterable[Mount],
        *,
        actor: str = "host:local",
        lease: timedelta = LEASE,
        clock: Callable[[], datetime] = utc_now,
        new_id: Callable[[], str] = new_message_id,
        new_token: Callable[[], str] = new_secret,
    ) -> None:
        super().__init__(store, mounts, actor=actor, clock=clock)
        self._documents = Documents(store, self.mounts, actor=actor, clock=clock)
        if lease <= timedelta(0):
            raise errors.InvalidNumber(field="lease", value=str(lease)[:40], least=1, most=shapes.NUMBER_MAX)
        self._lease = lease
        self._new_id = new_id
        self._new_token = new_token

    # --- sending ---------------------------------------------------------------------------------------

    def send(
        self,
        body: str,
        *,
        target: str | None = None,
        session: str | None = None,
        conversation: str | None = None,
        turn: int | None = None,
        about: str | None = None,
        about_turn: int | None = None,
        delivery: str | Delivery = Delivery.NEXT_ACTIVITY,
        actionable: bool = False,
        due_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        idempotency_key: str | None = None,
        context: str | None = None,
        context_version: int | None = None,
        change_id: str | None = None,
    ) -> Receipt:
        """
        Send a message, or with a time a reminder.  It is stored durably when this returns; nobody has read it.

        It is never repeated by itself: two sends are two messages, unless both give the same idempotency key.

        Args:
            body: What to say.
            target: A mounted path or scope; the first mount where None.
            session: The sending session, for the record.
            conversation: The conversation that receives it; everybody who mounts the scope where None.
            turn: A turn of that conversation.
            about: The conversation that it annotates, without changing who receives it; `conversation` where None.
            about_turn: A turn of that one.
            delivery: Wait for the next activity, or ask for a wake.
            actionable: It holds work to claim.  A dated reminder always does.
            due_at: When it is due, aware; now where neither time is given.
            delay_seconds: Or how many seconds from now.
            idempotency_key: Send this once: the same key with the same content returns the first receipt.
            context: The mounted path of a document that it is about.  The recipient reads it through mounts of its own.
            context_version: The version of it that the sender has seen; the latest where None.
            change_id: What the sender calls the change.  It is the sender's word, and nobody verifies it.

        Raises:
            BadInput: Something is not well formed, or the target is not mounted for writing.
            IdempotencyConflict: The key was used for other content.
            RefusedDocument: The context is not there, was redacted, or is at another version.
            JournalError: It could not be stored, or (`SyncFailed`) that is not known.
        """
        draft = Draft(
            body,
            target,
            session,
            conversation,
            turn,
            about,
            about_turn,
            delivery,
            actionable,
            due_at,
            delay_seconds,
            idempotency_key,
            context,
            context_version,
            change_id,
        )
        return self.send_many([draft])[0]

    def send_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """
        Send several messages under one sync: all of them are stored, or none.

        Raises:
            BadInput, JournalError: As for `send`; nothing was stored.
        """
        now = self._clock()
        sends = [self._prepare(draft, now) for draft in drafts]
        return self._until_it_stands(lambda: self._try_send(sends, now))

    def _try_send(self, sends: Sequence[commands.Send], now: datetime) -> list[Receipt] | None:
        epoch = self.store.epoch()
        answers = [self._sent_before(send) for send in sends]
        fresh = _without_repeats([send for send, answer in zip(sends, answers, strict=True) if answer is None])
        fresh = [self._pinned(send) for send in fresh]
        if fresh:
            self._append_sends(fresh, now)
        elif not self.store.settle(epoch):
            return None
        sent = iter(fresh)
        return [answer or self._answer(next(sent)) for answer in answers]

    def _pinned(self, send: commands.Send) -> commands.Send:
        """The message with the document it refers to, as that stands."""
        asked = send.reference
        if asked is None:
            return send
        document = self._documents.read(asked.path)
        if document.redacted:
            raise errors.RedactedDocument(scope=document.scope, path=document.path)
        if asked.version is not None and asked.version != document.version:
            raise errors.MemoryConflict(
                scope=document.scope,
                path=document.path,
                reason="version_mismatch",
                expected_version=asked.version,
                actual_version=document.version,
            )
        context = Context(document.scope, document.path, document.version, asked.change_id)
        return attrs.evolve(send, letter=attrs.evolve(send.letter, context=context))

    def _prepare(self, draft: Draft, now: datetime) -> commands.Send:
        scope = self.mounts.writable(draft.target, new=True).scope
        return prepare(draft, scope=scope, actor=self._actor, message_id=self._new_id(), now=now)

    def _sent_before(self, send: commands.Send) -> Receipt | None:
        """The first receipt of a repeated send."""
        if send.idempotency is None:
            return None
        stream = self.store.sent_under(send.letter.scope, send.idempotency.key)
        if stream is None:
            return None
        message_id = stream[1].removeprefix(MESSAGES)
        event = self.store.events(stream)[0]
        first = fold(None, event)
        if event.data is None:
            raise errors.Erased(message_id=message_id)
        if not isinstance(first.content, Message):
            raise errors.IdempotencyConflict(message_id=message_id)
        sent = codec.decode(event.type, event.data)
        before = getattr(sent, "idempotency", None)
        if before is None or before.fingerprint != send.idempotency.fingerprint:
            raise errors.IdempotencyConflict(message_id=message_id)
        return Receipt(first.version, first.content, repeated=True)

    def _append_sends(self, sends: Sequence[commands.Send], now: datetime) -> None:
        events = []
        expect: dict[Stream, int] = {}
        for send in sends:
            happened = decide(send, None)
            assert happened is not None
            stream = (send.letter.scope, MESSAGES + send.letter.id)
            key = None if send.idempotency is None else send.idempotency.key
            events.append(NewEvent(*stream, *codec.encode(happened), key, happened))
            expect[stream] = 0
        self.store.append(Batch(now, self._actor, tuple(events)), expect)

    def _answer(self, send: commands.Send) -> Receipt:
        return Receipt(1, Message(send.letter, send.due_at))

    # --- reading --------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        target: str | None = None,
        session: str | None = None,
        status: str | Listing = Listing.UNREAD,
        limit: int = LIMIT_DEFAULT,
    ) -> Inbox:
        """
        Messages for a session, oldest due first.  Listing marks nothing as read.

        Args:
            target: A mounted path or scope; all mounts where None.
            session: The session that reads: it gets what is for everybody, for itself, and for what it continues.
                Where None, what is for everybody.
            status: Which listing.
            limit: How many at most, 1 to 500.

        Raises:
            BadInput: Something is not well formed, or the target is not mounted.
        """
        items, unsupported = self.store.inbox(self._query(target, session, status, limit))
        receipts = tuple(Receipt(version, codec.kept(body)) for version, body in items)
        return Inbox(receipts, tuple(unsupported))

    def _query(self, target: str | None, session: str | None, status: str | Listing, limit: int) -> Query:
        return Query(
            shapes.choice(status, "status", Listing),
            self.mounts.readable(target),
            None if session is None else shapes.name(session, "session"),
            self._clock(),
            shapes.whole_number(limit, "limit", 1, LIMIT_MAX),
            self.mounts.readable(None),
        )

    def view(self, message_id: str, *, target: str | None = None) -> History:
        """
        A message and all of its versions.  Viewing marks nothing as read.

        Raises:
            UnknownMessage: There is none of that id in the mounts.
            UnsupportedFormat: It is stored in a form that this version does not know.
            Erased: A redaction has erased it; `skeleton` says what is left.
        """
        return self._until_it_stands(lambda: self._try_view(message_id, self.mounts.readable(target)))

    def _try_view(self, message_id: str, scopes: Sequence[str]) -> History | None:
        with self._told_when_durable() as told:
            document = self._find(message_id, scopes)
            self._message(document)
            versions: list[Receipt] = []
            folded: Document | None = None
            for event in self.store.events((document.scope, document.path)):
                folded = fold(folded, event)
                versions.append(Receipt(folded.version, self._message(folded)))
            versions.reverse()
        return History(versions[0], tuple(versions)) if told.stands else None

    def skeleton(self, message_id: str, *, target: str | None = None) -> Skeleton:
        """
        Who did what kind of thing to a message, and when; that is what stays of one that was erased.

        Raises:
            UnknownMessage: There is none of that id in the mounts.
        """
        scopes = self.mounts.readable(target)

        def attempt() -> Skeleton | None:
            with self._told_when_durable() as told:
                document = self._find(message_id, scopes)
                found = self.store.events((document.scope, document.path))
                events = tuple(event._replace(data=None, key=None) for event in found)
            left = Skeleton(document.path.removeprefix(MESSAGES), document.scope, events)
            return left if told.stands else None

        return self._until_it_stands(attempt)

    def wait(
        self, timeout_s: float, *, target: str | None = None, session: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> Inbox:
        """
        Block until something is unread for the session, or the time is up; an empty answer where it is.

        Nothing is consumed.  What another process sends is noticed within 100 ms, without reading the disk meanwhile.

        Raises:
            BadInput: As for `list`.
        """
        deadline = time.monotonic() + max(0, timeout_s)  # in this order no-number is no time
        while True:
            look = self.look(target=target, session=session, limit=limit)
            if look.found.items or time.monotonic() >= deadline:
                return look.found
            while time.monotonic() < deadline and not self.has_news(look):
                time.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))

    def look(self, *, target: str | None = None, session: str | None = None, limit: int = LIMIT_DEFAULT) -> Look:
        """What is unread for the session, and what to wait for until that may change."""
        mark = self.store.change_mark()
        found = self.list(target=target, session=session, limit=limit)
        query = self._query(target, session, Listing.UNREAD, limit)
        return Look(found, mark, None if found.items else self.store.next_change(query))

    def has_news(self, look: Look) -> bool:
        """May the look be out of date: was something added, or has a due time come?  Cheap to ask often."""
        return self.store.change_mark() != look.mark or (look.due is not None and self._clock() >= look.due)

    # --- the lifecycle -------------------------------------------------------------------------------------------

    def ack(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """
        Say that the session has read an occurrence.  A repeat, by anyone, returns the first receipt.

        Raises:
            Refused: It is stale, closed, not due, for others, or claimed by another session.
        """
        return self._step(
            message_id,
            target,
            lambda document: commands.Ack(*self._who(session, occurrence), audience=self._audience(session, document)),
        )

    def claim(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """
        Take the work of an occurrence, for a lease.  The owner repeating it gets the same lease and token back.

        Raises:
            Refused: It is stale, closed, not due, for others, informational, or claimed by another session.
        """
        token = self._new_token()
        return self._step(
            message_id,
            target,
            lambda document: commands.Claim(
                *self._who(session, occurrence), self._audience(session, document), token, self._lease
            ),
        )

    def renew(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """
        Let the lease run from now again.

        Raises:
            LeaseExpired: It ran out and nobody took over: claim again.
            LeaseLost: Somebody took over: stop.
            Refused: The occurrence is stale, or the message is closed.
        """
        who = (*self._who(session, occurrence), _token(token))
        return self._step(message_id, target, lambda _: commands.Renew(*who, self._lease))

    def release(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """
        Give the work back, unread again.

        Raises:
            Refused: As for `renew`.
        """
        who = (*self._who(session, occurrence), _token(token))
        return self._step(message_id, target, lambda _: commands.Release(*who))

    def complete(
        self,
        message_id: str,
        *,
        session: str,
        occurrence: int,
        token: str,
        outcome: str | None = None,
        target: str | None = None,
    ) -> Receipt:
        """
        Finish the work.  A repeat with the same token returns the same document; only then the outcome may be missing.

        Raises:
            MissingField: There is no outcome.
            Refused: As for `renew`.
        """
        who = (*self._who(session, occurrence), _token(token))
        said = _outcome(outcome)
        return self._step(message_id, target, lambda _: commands.Complete(*who, said))

    def snooze(
        self,
        message_id: str,
        *,
        session: str,
        occurrence: int,
        token: str,
        outcome: str,
        due_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        target: str | None = None,
    ) -> Receipt:
        """
        Put the work off: the same message comes back, as the next occurrence, at a later time.

        Raises:
            BadInput: There is no outcome or not one time.
            TimeNotInFuture: The time has come already.
            Refused: As for `renew`.
        """
        who = (*self._who(session, occurrence), _token(token))
        said = _outcome(outcome)
        if said is None:
            raise errors.MissingField(field="outcome", rule="say what you found")
        later = times.due(who[1], due_at, delay_seconds)
        if later is None:
            raise errors.MissingTime()
        return self._step(message_id, target, lambda _: commands.Snooze(*who, said, later))

    def cancel(
        self, message_id: str, *, session: str, occurrence: int, outcome: str | None = None, target: str | None = None
    ) -> Receipt:
        """
        Call the work off, before it is due and under another's claim too.  A repeat returns the same document.

        Raises:
            Refused: It is stale or done, or the session is neither a recipient nor the sender.
        """
        said = _outcome(outcome)
        return self._step(
            message_id,
            target,
            lambda document: commands.Cancel(*self._who(session, occurrence), self._audience(session, document), said),
        )

    def redact(self, message_id: str, *, reason: str | None = None, target: str | None = None) -> Redaction:
        """
        Erase a message with all its versions, whatever its standing: what it said is in no file of the store any more.

        With it goes the record of whom it was shown to.  Who did what to it when stays, as does its idempotency key's
        digest, so that the key is not used again.  The act is recorded beside the message.  Doing it again is harmless
        and answers the same.

        Args:
            message_id: Which message.
            reason: Why, for the record; it must not repeat what is to be erased.
            target: The mounted path or scope to look in.

        Raises:
            UnknownMessage: There is none of that id in the mounts.
            BadInput: Something is not well formed, or its scope is not mounted for writing.
            ErasureUnfinished: It has happened, and a later call has to do the rest of it.
        """
        said = None if reason is None else shapes.said(reason, "reason", shapes.OUTCOME_BYTES_MAX)
        scopes = self.mounts.readable(target)

        def attempt() -> Document | None:
            with self._told_when_durable() as told:
                found = self._find(message_id, scopes)
                self.mounts.writable(found.scope, new=False)
            return found if told.stands else None

        document = self._until_it_stands(attempt)
        return self.store.redact(document.scope, document.path, at=self._clock(), actor=self._actor, reason=said)

    # --- the receiver --------------------------------------------------------------------------------------------

    def reserve(self, message_id: str, *, session: str, occurrence: int, target: str | None = None) -> Receipt:
        """
        Say that the session is about to be woken with it, so that no other receiver does the same.

        Raises:
            Refused: It asks for no wake, is not unread, was accepted before, or is reserved by another.
        """
        token = self._new_token()
        return self._step(
            message_id,
            target,
            lambda document: commands.Reserve(
                *self._who(session, occurrence), self._audience(session, document), token, HOLD
            ),
        )

    def accept(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """
        Say that the client took it.  Whether a model read it is for the model to acknowledge.

        Raises:
            ReservationLost: The reservation ran out or is another's.
        """
        who = (*self._who(session, occurrence), _token(token))
        return self._step(message_id, target, lambda _: commands.Accept(*who))

    def decline(
        self, message_id: str, *, session: str, occurrence: int, token: str, target: str | None = None
    ) -> Receipt:
        """
        Say that the client did not take it, so that it can be reserved again.

        Raises:
            ReservationLost: The reservation ran out or is another's.
        """
        who = (*self._who(session, occurrence), _token(token))
        return self._step(message_id, target, lambda _: commands.Decline(*who))

    # --- sessions --------------------------------------------------------------------------------------------------

    def link(self, session: str, parent: str, *, target: str | None = None) -> frozenset[str]:
        """
        Say that a session continues a conversation, and so receives what is addressed to it.

        Returns:
            The session and every conversation it now continues, directly or through others.

        Raises:
            BadInput: A name is not well formed, or the target is not mounted for writing.
        """
        mount = self.mounts.writable(target, new=True)
        link = Linked(shapes.name(session, "session"), shapes.name(parent, "continues"))
        if session == parent:
            raise errors.InvalidName(field="continues", value=parent, rule="a session other than itself")
        self._until_it_stands(lambda: self._try_link((mount.scope, link_path(session, parent)), link))
        return self.audience(session)

    def _try_link(self, stream: Stream, link: Linked) -> Document | bool | None:
        epoch = self.store.epoch()
        found = self.store.find(stream)
        if found is not None:
            return found if self.store.settle(epoch) else None
        event = NewEvent(*stream, *codec.encode(link), meaning=link)
        self.store.append(Batch(self._clock(), self._actor, (event,)), {stream: 0})
        return True

    def audience(self, session: str) -> frozenset[str]:
        """
        The session and every conversation whose mail it receives.

        Raises:
            InvalidName: The session is not well formed.
        """
        return self.store.audience(shapes.name(session, "session"), self.mounts.readable(None))

    # --- how a step is done ------------------------------------------------------------------------------------------

    def _step(self, message_id: str, target: str | None, command: Callable[[Document], commands.Step]) -> Receipt:
        scopes = self.mounts.readable(target)
        return self._until_it_stands(lambda: self._try_step(message_id, scopes, command))

    def _try_step(
        self, message_id: str, scopes: Sequence[str], command: Callable[[Document], commands.Step]
    ) -> Receipt | None:
        with self._told_when_durable() as told:
            document = self._find(message_id, scopes)
            self.mounts.writable(document.scope, new=False)
            message = self._message(document)
            asked = command(document)
            happened = decide(asked, message)
            if happened is not None:
                told.stands = True
                return self._append_step(document, message, happened, asked.now)
        return Receipt(document.version, message, repeated=True) if told.stands else None

    def _append_step(self, document: Document, message: Message, event: MessageEvent, now: datetime) -> Receipt:
        stream = (document.scope, document.path)
        batch = Batch(now, self._actor, (NewEvent(*stream, *codec.encode(event), meaning=event),))
        self.store.append(batch, {stream: document.version})
        return Receipt(document.version + 1, evolve(message, event))

    def _who(self, session: str, occurrence: int) -> tuple[str, datetime, int]:
        if session is None:
            raise errors.MissingField(field="session", rule="name the session that acts; it is never guessed")
        shapes.whole_number(occurrence, "occurrence", 1)
        return shapes.name(session, "session"), self._clock(), occurrence


def _token(token: str) -> str:
    if token is None:
        raise errors.MissingField(field="token", rule="the claim or reservation returned it")
    return shapes.text(token, "token", shapes.PATH_BYTES_MAX)


def _outcome(outcome: str | None) -> str | None:
    return None if outcome is None else shapes.said(outcome, "outcome", shapes.OUTCOME_BYTES_MAX)


def _without_repeats(sends: Sequence[commands.Send]) -> list[commands.Send]:
    """Refuse a batch that uses one idempotency key twice."""
    keys: set[tuple[str, str]] = set()
    for send in sends:
        if send.idempotency is not None:
            key = (send.letter.scope, send.idempotency.key)
            if key in keys:
                raise errors.IdempotencyConflict(message_id=send.letter.id)
            keys.add(key)
    return list(sends)
