"""
A machine that uses a mailbox at random and knows what must come of it.

Several sessions send, claim, snooze and finish; a clock is turned by hand, also
backwards; handles are closed, abandoned and opened again.  After each step the
store must hold what a model of plain dicts says.  `run_on` makes a test of it:

    from fencepost.mailbox.testing import Place, run_on

    class MyPlace(Place):
        def open(self):
            return my_store()

    class TestMyStore(run_on(MyPlace)):
        pass
"""

from __future__ import annotations

import unittest
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from fencepost.journal.errors import FencepostError
from fencepost.mailbox import codec, commands
from fencepost.mailbox.addresses import MESSAGES, Mount
from fencepost.mailbox.box import Mailbox
from fencepost.mailbox.decide import decide
from fencepost.mailbox.drafts import Draft
from fencepost.mailbox.errors import Refused
from fencepost.mailbox.events import MessageEvent
from fencepost.mailbox.evolve import evolve
from fencepost.mailbox.message import Message, Receipt
from fencepost.mailbox.store.documents import Erased
from fencepost.mailbox.testing import model
from fencepost.mailbox.testing.model import NEW_TOKEN, Body, No
from fencepost.mailbox.testing.place import Place
from fencepost.mailbox.views import LIMIT_MAX, Listing, order, shows

SESSIONS = ("ada", "ben", "cyd", "dan")
SCOPES = ("user:me/proj:app", "user:me")
_START = datetime(2026, 11, 30, 14, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
#: Exactly a lease, a hold and a delay, a little less, and twelve hours either way.
_TURNS_S = (1, 59, 60, 1_799, 1_800, 43_200, -1, -1_800, -43_200)

_session = st.sampled_from(SESSIONS)
_maybe_session = st.sampled_from((None, *SESSIONS))
#: None stands for whoever holds the lease or the reservation.
_holder = st.sampled_from((None, None, None, *SESSIONS))
_which_occurrence = st.sampled_from((0, 0, 0, 0, 0, -1, 1))
_which_token = st.sampled_from(("right", "right", "right", "right", "spent", "foreign", "made up"))
_outcome = st.sampled_from(("Fixed.", "Still broken.\n\u202e"))
_drafts = st.builds(
    Draft,
    body=st.sampled_from(("Look at the build.", "\u200b\x1b[2J")),
    target=st.sampled_from((None, *SCOPES)),
    session=_maybe_session,
    conversation=st.sampled_from((None, None, None, *SESSIONS)),
    delivery=st.sampled_from(("next_activity", "wake")),
    actionable=st.sampled_from((True, True, False)),
    delay_seconds=st.sampled_from((None, None, None, 60, 1_800)),
)
_keyed_drafts = st.builds(
    Draft,
    body=st.sampled_from(("Once.", "Twice.")),
    target=st.sampled_from(SCOPES),
    idempotency_key=st.sampled_from(("key 1", "key 2")),
)


class MailboxMachine(RuleBasedStateMachine):
    """
    Drives a `Mailbox` over the store of a `Place`.

    Subclass it to add rules of your own; `run_on` is all that most hosts need.
    """

    place_factory: ClassVar[Callable[[], Place]]

    messages: Bundle[str] = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self.now = _START
        self.docs: dict[str, Body] = {}
        self.versions: dict[str, list[Body]] = {}
        self.parents: dict[str, set[str]] = {}
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.erased: dict[str, tuple[str, int]] = {}
        self.shown: set[tuple[str, int, str]] = set()
        self.leases: dict[str, list[tuple[str, str]]] = {}
        self.holds: dict[str, list[tuple[str, str]]] = {}
        self.tokens = ["no token was ever this"]
        self._ids = 0
        self._tokens = 0
        self.place = type(self).place_factory()
        self.boxes = [self._open()]
        self.box = self.boxes[0]

    def _open(self) -> Mailbox:
        mounts = [Mount(SCOPES[0], "/project"), Mount(SCOPES[1], "/user")]
        return Mailbox(
            self.place.open(),
            mounts,
            actor="host:machine",
            lease=model.LEASE,
            clock=lambda: self.now,
            new_id=self._new_id,
            new_token=self._new_token,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return str(uuid.UUID(int=self._ids))

    def _new_token(self) -> str:
        self._tokens += 1
        return f"token {self._tokens}"

    # --- the world ----------------------------------------------------------------------------------------

    @initialize()
    def a_second_handle(self) -> None:
        """Where the store can be shared, two handles are used in turn."""
        if self.place.shares:
            self.boxes.append(self._open())

    @rule(seconds=st.sampled_from(_TURNS_S), ticks=st.sampled_from((0, 0, -1, 1)))
    def turn_the_clock(self, seconds: int, ticks: int) -> None:
        """Time passes, or somebody sets the clock."""
        self.now += timedelta(seconds=seconds) + ticks * _TICK

    @rule(message_id=messages, end=st.sampled_from(("claim_until", "due_at", "wake_until")), ticks=st.integers(-1, 1))
    def turn_to_the_end(self, message_id: str, end: str, ticks: int) -> None:
        """It is just the time at which something comes or is over, or a tick before or after that."""
        doc = self.docs[message_id]
        self.now = (doc[end] or doc["due_at"]) + ticks * _TICK

    @precondition(lambda self: len(self.boxes) > 1)
    @rule(number=st.integers(0, 1))
    def use_handle(self, number: int) -> None:
        """Another process has its turn."""
        self.box = self.boxes[number]

    @precondition(lambda self: self.place.reopens)
    @rule()
    def reopen(self) -> None:
        """A handle is closed, and opened again."""
        number = self.boxes.index(self.box)
        self.box.store.close()
        self.box.store.close()
        self.boxes[number] = self.box = self._open()
        self._read_everything()

    @precondition(lambda self: self.place.reopens and self.place.shares)
    @rule()
    def crash(self) -> None:
        """The holder of a handle dies without closing it."""
        number = self.boxes.index(self.box)
        self.place.abandon(self.box.store)
        self.boxes[number] = self.box = self._open()
        self._read_everything()

    @precondition(lambda self: self.place.reopens)
    @rule(torn=st.booleans())
    def power_cut(self, torn: bool) -> None:  # noqa: FBT001 - a rule is called by name
        """All holders die at once, and the machine starts again."""
        for box in self.boxes:
            self.place.abandon(box.store)
        self.place.power_cut(torn=torn)
        self.boxes = [self._open() for _ in self.boxes]
        self.box = self.boxes[0]
        self._read_everything()

    @rule(session=_session, parent=_session)
    def link(self, session: str, parent: str) -> None:
        """A session continues another, perhaps in a circle."""
        if session == parent:
            self._refused("invalid_name", lambda: self.box.link(session, parent))
            return
        self.parents.setdefault(session, set()).add(parent)

        assert model.reached(session, self.parents) == self.box.link(session, parent)

    # --- sending ---------------------------------------------------------------------------------------------

    @rule(target=messages, draft=_drafts)
    def send(self, draft: Draft) -> str:
        """A message is sent."""
        return self._sent(draft, self.box.send_many([draft])[0])

    @rule(target=messages, drafts=st.lists(_drafts, max_size=4))
    def send_many(self, drafts: list[Draft]) -> MultipleResults[str]:
        """Several are sent at once."""
        receipts = self.box.send_many(drafts)
        return multiple(*(self._sent(draft, receipt) for draft, receipt in zip(drafts, receipts, strict=True)))

    @rule(target=messages, drafts=st.lists(_keyed_drafts, min_size=1, max_size=2))
    def send_once(self, drafts: list[Draft]) -> MultipleResults[str]:
        """Under idempotency keys: the first one counts, for ever, and a conflict sends nothing at all."""
        asked = [((str(draft.target), str(draft.idempotency_key)), draft.body) for draft in drafts]
        known = [self.keys.get(key) for key, _ in asked]
        fresh = [key for (key, _), before in zip(asked, known, strict=True) if before is None]
        codes = [
            "erased" if before[1] in self.erased else "idempotency_conflict"
            for (_, body), before in zip(asked, known, strict=True)
            if before and (before[1] in self.erased or before[0] != body)
        ]
        codes += ["idempotency_conflict"] * (len(set(fresh)) < len(fresh))
        if codes:
            self._refused(codes[0], lambda: self.box.send_many(drafts))
            return multiple()
        sent = []
        for draft, (key, body), before, receipt in zip(drafts, asked, known, self.box.send_many(drafts), strict=True):
            assert receipt.repeated == (before is not None)
            if before is None:
                sent.append(self._sent(draft, receipt))
                self.keys[key] = (body, sent[-1])
            else:
                assert (1, self.versions[before[1]][0]) == (receipt.version, codec.body(receipt.message))
        return multiple(*sent)

    @rule(bad=st.sampled_from(({"body": " \n"}, {"body": "\0"}, {"body": "x", "delay_seconds": 0})))
    def send_nonsense(self, bad: dict[str, Any]) -> None:
        """A batch with one bad draft sends nothing."""
        mark = self.box.store.change_mark()
        try:
            self.box.send_many([Draft("This one is good."), Draft(**bad)])
        except FencepostError:
            assert mark == self.box.store.change_mark()
        else:
            raise AssertionError(bad)

    def _sent(self, draft: Draft, receipt: Receipt) -> str:
        due_at = self.now + timedelta(seconds=draft.delay_seconds or 0)
        doc = codec.body(receipt.message)
        asked = {
            "scope": draft.target or SCOPES[0],
            "conversation": draft.conversation,
            "about": draft.conversation,
            "source": draft.session,
            "actor": self.box.store.actor("host:machine"),
            "body": draft.body,
            "created_at": self.now,
            "due_at": due_at,
            "delivery": draft.delivery if isinstance(draft.delivery, str) else draft.delivery.value,
            "actionable": draft.actionable or draft.delay_seconds is not None,
            "occurrence": 1,
            "status": "open",
            "wake_accepted": False,
        }
        assert doc["id"] not in self.docs
        assert dict.fromkeys(doc) | {"format": 1, "id": doc["id"]} | asked == doc
        assert receipt.version == 1
        message_id = str(doc["id"])
        self.docs[message_id] = doc
        self.versions[message_id] = [doc]
        self.leases[message_id] = []
        self.holds[message_id] = []
        return message_id

    @rule(message_id=messages, session=_session, which=_which_occurrence)
    def show(self, message_id: str, session: str, which: int) -> None:
        """Somebody is shown it, which is recorded once for each occurrence and session, and moves nothing."""
        doc, occurrence, receives = self._aim(message_id, session, which)

        def showing() -> int:
            return self.box.shown([(message_id, occurrence)], session=session, door="machine")

        if doc["conversation"] is not None and doc["conversation"] not in receives:
            self._refused("not_recipient", showing)
        elif occurrence > doc["occurrence"]:
            self._refused("stale_occurrence", showing)
        else:
            epoch = self.box.store.epoch()
            assert ((message_id, occurrence, session) not in self.shown) == showing()
            self.shown.add((message_id, occurrence, session))
            assert self.box.store.settle(epoch)  # nobody waits for it; the next answer would, and seem to have written

    @rule(message_id=messages)
    def look_where_it_is(self, message_id: str) -> None:
        """Its sender sees each step, and each showing that was recorded."""
        found = self.box.receipts(message_id)
        shown = [(message_id, fact.occurrence, fact.session) for fact in found.facts if fact.fact == "shown"]

        assert len(self.versions[message_id]) == found.version == len(found.facts) - len(shown)
        assert sorted(known for known in self.shown if known[0] == message_id) == sorted(shown)

    # --- the lifecycle ---------------------------------------------------------------------------------------

    @rule(message_id=messages, session=_session, which=_which_occurrence)
    def ack(self, message_id: str, session: str, which: int) -> None:
        """Somebody says that it was read."""
        doc, occurrence, receives = self._aim(message_id, session, which)
        self._step(
            message_id,
            lambda: model.ack(doc, session, receives, occurrence, self.now),
            lambda: self.box.ack(message_id, session=session, occurrence=occurrence),
        )

    @rule(message_id=messages, session=_session, which=_which_occurrence)
    def claim(self, message_id: str, session: str, which: int) -> None:
        """Somebody wants the work."""
        doc, occurrence, receives = self._aim(message_id, session, which)
        self._step(
            message_id,
            lambda: model.claim(doc, session, receives, occurrence, self.now),
            lambda: self.box.claim(message_id, session=session, occurrence=occurrence),
        )

    @rule(message_id=messages, session=_session)
    def claim_and_complete(self, message_id: str, session: str) -> None:
        """The good life: taken, kept and done.  Then the same once more."""
        self.claim(message_id, session, 0)
        self.renew(message_id, session, 0, "right")
        self.complete(message_id, session, 0, "right", "Fixed.")
        self.complete(message_id, session, 0, "right", None)

    @rule(
        message_id=messages,
        verb=st.sampled_from(("renew", "release", "complete", "snooze")),
        token=st.sampled_from(("right", "spent", "foreign", "made up")),
        late=st.booleans(),
        ticks=st.integers(-1, 1),
    )
    def claim_and_blunder(
        self,
        message_id: str,
        verb: str,
        token: str,
        late: bool,  # noqa: FBT001 - a rule is called by name
        ticks: int,
    ) -> None:
        """The work is taken, and then finished with another token, or just when the lease is over."""
        self.claim(message_id, self.docs[message_id]["conversation"] or SESSIONS[0], 0)
        if late:
            self.turn_to_the_end(message_id, "claim_until", ticks)
        more = {"complete": ("Fixed.",), "snooze": ("Still broken.", 60)}.get(verb, ())
        getattr(self, verb)(message_id, None, 0, token, *more)

    @rule(message_id=messages, session=_holder, which=_which_occurrence, token=_which_token)
    def renew(self, message_id: str, session: str | None, which: int, token: str) -> None:
        """Somebody says to be still at it."""
        doc, occurrence, who, secret = self._aim_at_claim(message_id, session, which, token)
        self._step(
            message_id,
            lambda: model.renew(doc, who, secret, occurrence, self.now),
            lambda: self.box.renew(message_id, session=who, occurrence=occurrence, token=secret),
        )

    @rule(message_id=messages, session=_holder, which=_which_occurrence, token=_which_token)
    def release(self, message_id: str, session: str | None, which: int, token: str) -> None:
        """Somebody gives the work back."""
        doc, occurrence, who, secret = self._aim_at_claim(message_id, session, which, token)
        self._step(
            message_id,
            lambda: model.release(doc, who, secret, occurrence, self.now),
            lambda: self.box.release(message_id, session=who, occurrence=occurrence, token=secret),
        )

    @rule(
        message_id=messages,
        session=_holder,
        which=_which_occurrence,
        token=_which_token,
        outcome=st.none() | _outcome,
    )
    def complete(self, message_id: str, session: str | None, which: int, token: str, outcome: str | None) -> None:
        """Somebody says that it is done."""
        doc, occurrence, who, secret = self._aim_at_claim(message_id, session, which, token)
        self._step(
            message_id,
            lambda: model.complete(doc, who, secret, occurrence, self.now, outcome),
            lambda: self.box.complete(message_id, session=who, occurrence=occurrence, token=secret, outcome=outcome),
        )

    @rule(
        message_id=messages,
        session=_holder,
        which=_which_occurrence,
        token=_which_token,
        outcome=_outcome,
        seconds=st.sampled_from((60, 1_800, 0, -60)),
    )
    def snooze(self, message_id: str, session: str | None, which: int, token: str, outcome: str, seconds: int) -> None:
        """Somebody puts it off."""
        doc, occurrence, who, secret = self._aim_at_claim(message_id, session, which, token)
        due_at = self.now + timedelta(seconds=seconds)
        self._step(
            message_id,
            lambda: model.snooze(doc, who, secret, occurrence, self.now, outcome, due_at),
            lambda: self.box.snooze(
                message_id, session=who, occurrence=occurrence, token=secret, outcome=outcome, due_at=due_at
            ),
        )

    @rule(message_id=messages, session=_session, which=_which_occurrence, outcome=st.none() | _outcome)
    def cancel(self, message_id: str, session: str, which: int, outcome: str | None) -> None:
        """Somebody calls it off."""
        doc, occurrence, receives = self._aim(message_id, session, which)
        self._step(
            message_id,
            lambda: model.cancel(doc, session, receives, occurrence, outcome),
            lambda: self.box.cancel(message_id, session=session, occurrence=occurrence, outcome=outcome),
        )

    # --- the receiver -----------------------------------------------------------------------------------------

    @rule(message_id=messages, session=_session, which=_which_occurrence)
    def reserve(self, message_id: str, session: str, which: int) -> None:
        """A receiver is about to hand it over."""
        doc, occurrence, receives = self._aim(message_id, session, which)
        self._step(
            message_id,
            lambda: model.reserve(doc, session, receives, occurrence, self.now),
            lambda: self.box.reserve(message_id, session=session, occurrence=occurrence),
        )

    @rule(message_id=messages, session=_holder, which=_which_occurrence, token=_which_token, took=st.booleans())
    def answer(
        self,
        message_id: str,
        session: str | None,
        which: int,
        token: str,
        took: bool,  # noqa: FBT001 - a rule is called by name
    ) -> None:
        """The client took it, or did not."""
        doc = self.docs[message_id]
        occurrence = max(doc["occurrence"] + which, 1)
        who = session or doc["wake_owner"] or SESSIONS[0]
        secret = self._pick(token, doc["wake_token"], self.holds[message_id])
        method = self.box.accept if took else self.box.decline
        self._step(
            message_id,
            lambda: model.answer(doc, who, secret, occurrence, self.now, accepted=took),
            lambda: method(message_id, session=who, occurrence=occurrence, token=secret),
        )

    # --- how a step is checked -----------------------------------------------------------------------------------

    def _aim(self, message_id: str, session: str, which: int) -> tuple[Body, int, set[str]]:
        doc = self.docs[message_id]
        return doc, max(doc["occurrence"] + which, 1), model.reached(session, self.parents)

    def _aim_at_claim(self, message_id: str, session: str | None, which: int, token: str) -> tuple[Body, int, str, str]:
        doc = self.docs[message_id]
        who = session or doc["owner"] or SESSIONS[0]
        secret = self._pick(token, doc["claim_token"], self.leases[message_id])
        return doc, max(doc["occurrence"] + which, 1), who, secret

    def _pick(self, which: str, right: str | None, issued: list[tuple[str, str]]) -> str:
        """A token: the right one, an earlier one of the same message, anybody's last one, or none at all."""
        if which == "right" and right is not None:
            return right
        if which == "spent":
            return next((token for _, token in reversed(issued) if token != right), self.tokens[0])
        return self.tokens[-1] if which == "foreign" else self.tokens[0]

    def _step(self, message_id: str, predicted: Callable[[], Body | None], command: Callable[[], Receipt]) -> None:
        try:
            after = predicted()
        except No as no:
            self._refused(no.code, command)
            return
        mark = self.box.store.change_mark()
        receipt = command()
        if after is None:
            assert receipt.repeated
            assert mark == self.box.store.change_mark(), "a repeat writes nothing"
        else:
            assert not receipt.repeated
            self._took_place(message_id, after, receipt)
        assert len(self.versions[message_id]) == receipt.version
        assert self.docs[message_id] == codec.body(receipt.message)

    def _took_place(self, message_id: str, after: Body, receipt: Receipt) -> None:
        real = codec.body(receipt.message)
        for field, owner, issued in (
            ("claim_token", "owner", self.leases[message_id]),
            ("wake_token", "wake_owner", self.holds[message_id]),
        ):
            if after[field] == NEW_TOKEN:
                assert real[field] not in self.tokens, "a token is used once"
                self.tokens.append(real[field])
                issued.append((after[owner], real[field]))
                after[field] = real[field]
        self.docs[message_id] = after
        self.versions[message_id].append(after)

    def _refused(self, code: str, command: Callable[[], object]) -> None:
        mark = self.box.store.change_mark()
        try:
            answer = command()
        except FencepostError as error:
            assert code == error.code, error
        else:
            raise AssertionError(f"{code} was expected, and the answer was {answer}")
        assert mark == self.box.store.change_mark(), "a refusal writes nothing"

    # --- what must always be so -----------------------------------------------------------------------------------

    @invariant()
    def documents_are_what_the_model_says(self) -> None:
        """Each document, and its version, as every handle sees it."""
        for box in self.boxes:
            for message_id, doc in self.docs.items():
                found = box.store.find((doc["scope"], MESSAGES + message_id))
                assert found is not None
                assert isinstance(found.content, Message)
                assert (len(self.versions[message_id]), doc) == (found.version, codec.body(found.content))

    @invariant()
    def at_most_one_holds_it(self) -> None:
        """Of all that were ever given a token, one at most could renew now, and one at most could accept."""
        for message_id, doc in self.docs.items():
            message = codec.message(codec.compact(self._folded(doc, message_id)[-1]))
            for issued, command in ((self.leases, self._renew), (self.holds, self._accept)):
                able = []
                for session, token in issued[message_id]:
                    try:
                        decide(command(session, token, doc["occurrence"]), message)
                    except Refused:
                        continue
                    able.append((session, token))
                assert len(able) <= 1, able

    def _renew(self, session: str, token: str, occurrence: int) -> commands.Step:
        return commands.Renew(session, self.now, occurrence, token, model.LEASE)

    def _accept(self, session: str, token: str, occurrence: int) -> commands.Step:
        return commands.Accept(session, self.now, occurrence, token)

    # --- reading ----------------------------------------------------------------------------------------------------

    @rule(message_id=messages)
    def view(self, message_id: str) -> None:
        """Every version is the fold of as many events, and none is forgotten."""
        told = self.box.view(message_id)
        newest_first = [(receipt.version, codec.body(receipt.message)) for receipt in told.versions]
        expected = list(enumerate(self.versions[message_id], 1))

        assert expected[::-1] == newest_first
        assert told.versions[0] == told.receipt
        folded = self._folded(self.docs[message_id], message_id)
        assert self.versions[message_id] == [codec.body(message) for message in folded]

    @rule(message_id=consumes(messages))
    def redact(self, message_id: str) -> None:
        """What was erased is shown by nothing, and nothing can be done with it; that it was there stays known."""
        doc = self.docs.pop(message_id)
        self.erased[message_id] = (doc["scope"], len(self.versions[message_id]))

        assert 1 == self.box.redact(message_id).count
        self._refused("erased", lambda: self.box.ack(message_id, session=SESSIONS[0], occurrence=1))
        assert 1 == self.box.redact(message_id).count

    @invariant()
    def what_was_erased_is_gone(self) -> None:
        """Whichever handle is asked: the envelope of each event is all that is left."""
        for box in self.boxes:
            for message_id, (scope, count) in self.erased.items():
                events = box.store.events((scope, MESSAGES + message_id))
                assert [(version, None) for version in range(1, count + 1)] == [(e.version, e.data) for e in events]
                found = box.store.find((scope, MESSAGES + message_id))
                assert found is not None
                assert (count, Erased()) == (found.version, found.content)

    @rule(
        session=_maybe_session,
        listing=st.sampled_from(Listing),
        scope=st.sampled_from((None, *SCOPES)),
        limit=st.sampled_from((1, 2, 3, LIMIT_MAX)),
    )
    def list_some(self, session: str | None, listing: Listing, scope: str | None, limit: int) -> None:
        """A listing is a naive scan of all events, in order."""
        found = self.box.list(session=session, status=listing, target=scope, limit=limit)
        expected = self._scan(session, scope, listing, self.now)[:limit]

        assert expected == [(receipt.version, receipt.message) for receipt in found.items]
        assert not found.unsupported

    @rule(session=_maybe_session)
    def wait(self, session: str | None) -> None:
        """Waiting shows what is unread, and knows until when time alone cannot change that."""
        look = self.box.look(session=session)
        unread = self._scan(session, None, Listing.UNREAD, self.now)

        assert unread == [(receipt.version, receipt.message) for receipt in look.found.items]
        assert look.found == self.box.wait(0, session=session)
        if not unread and look.due is not None:
            assert look.due > self.now
            assert not self._scan(session, None, Listing.UNREAD, look.due - _TICK)
        if not unread and look.due is None:
            assert not self._scan(session, None, Listing.UNREAD, self.now + timedelta(days=365))

    def _scan(
        self, session: str | None, scope: str | None, listing: Listing, now: datetime
    ) -> list[tuple[int, Message]]:
        receives = set() if session is None else model.reached(session, self.parents)
        found = []
        for message_id, doc in self.docs.items():
            folded = self._folded(doc, message_id)
            addressed = doc["conversation"] is None or doc["conversation"] in receives
            if addressed and scope in (None, doc["scope"]) and shows(listing, folded[-1], now):
                found.append((len(folded), folded[-1]))
        return sorted(found, key=lambda item: order(item[1]))

    def _folded(self, doc: Body, message_id: str) -> list[Message]:
        """The message after each of its events."""
        message: Message | None = None
        folded = []
        for version, event in enumerate(self.box.store.events((doc["scope"], MESSAGES + message_id)), 1):
            assert version == event.version
            assert event.data is not None
            happened = codec.decode(event.type, event.data)
            assert isinstance(happened, MessageEvent)
            message = evolve(message, happened)
            folded.append(message)
        return folded

    def _read_everything(self) -> None:
        for message_id in self.docs:
            self.view(message_id)
        for session in SESSIONS:
            assert model.reached(session, self.parents) == self.box.audience(session)

    def teardown(self) -> None:
        """Let go of the place."""
        for box in self.boxes:
            box.store.close()
        self.place.discard()


def run_on(place: Callable[[], Place]) -> type[unittest.TestCase]:
    """
    A test case that runs the machine on stores of a place.

    Args:
        place: Makes a place for each example; a subclass of `Place`, usually.
    """
    members = {"place_factory": staticmethod(place)}
    machine: type[RuleBasedStateMachine] = type("MailboxMachineOn", (MailboxMachine,), members)
    case: type[unittest.TestCase] = machine.TestCase
    return case
