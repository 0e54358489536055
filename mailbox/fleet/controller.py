"""
One agent, fed: what its rooms and its mail say, into the history of its program.

`fencepost.mailbox.confirmation.next_move` says what is to be done; here it is
done.  Whatever happens is recorded before what follows from it is done, so a
controller that ends anywhere goes on where it was.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from fencepost.journal.errors import FencepostError, JournalError
from fencepost.mailbox import codec
from fencepost.mailbox.box import Mailbox, new_message_id
from fencepost.mailbox.confirmation import Move, Sight, Stage, next_move
from fencepost.mailbox.errors import (
    EngineFailed,
    EngineNotStarted,
    EngineRefused,
    FilesFailed,
    HomeserverTrouble,
    NativeHistoryLost,
    NativeHistoryUnreadable,
    Refused,
)
from fencepost.mailbox.events import (
    AgentBound,
    DeliveryAcknowledged,
    DeliveryCheckpointed,
    DeliveryConfirmed,
    DeliverySaved,
    DeliverySubmitted,
    Passed,
    Read,
    RoomEvent,
    RoomFound,
    RoomRead,
)
from fencepost.mailbox.fleet import batch, history, writing
from fencepost.mailbox.fleet.batch import Batch, Judged
from fencepost.mailbox.fleet.config import AgentRule, Limits
from fencepost.mailbox.fleet.engine import Bound, Engine, Matcher
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.found import Found
from fencepost.mailbox.fleet.ledger import Ledger
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.mail import waiting
from fencepost.mailbox.fleet.permits import Permits
from fencepost.mailbox.fleet.policy import Verdict, Wake, judge
from fencepost.mailbox.fleet.said import Said
from fencepost.mailbox.fleet.troubles import Troubles
from fencepost.mailbox.fleet.writing import Input, Stored

#: How long one long poll of the homeserver lasts.
_POLL_S: Final = 30
#: How long to wait for a program or for mail before looking again; what a room says is noticed at once.
_LOOK_S: Final = 0.2
_MAIL_LOOK_S: Final = 0.5
#: A program that is at rest, was given input and has not written it down by then is ended and asked again: its history
#: decides.  Programs were seen to take milliseconds.
_SETTLE_S: Final = 20
#: After a failure the next try comes so much later, and twice as late each time.
_PAUSE_S: Final = 1
_PAUSE_MAX_S: Final = 60
_DAY_S: Final = 86_400
#: Messages that one delivery of mail carries.
_MAIL_MAX: Final = 20
#: What trouble may be about: reading rooms, waiting for news of them, the program, and what is kept on disk.
_LOOKING: Final = "looking"
_RINGING: Final = "ringing"
_PROGRAM: Final = "program"
_RECORDS: Final = "records"
_ANSWERS: Final = "the homeserver answers again"


class Controller:
    """
    The controller of one agent.

    Args:
        rule: What is said of the agent.
        limits: How much at once.
        ledger: Its records.
        box: The mailbox, with the mounts whose mail may wake it.
        listener: Its rooms.
        start: Makes an engine, which is not begun yet.
        matcher: Finds a delivery in the native history.
        files: Where what is too large goes.
        permits: Shared with the others.
        troubles: Its troubles.
        say: Tells the operator something else of it, in a sentence.
    """

    def __init__(
        self,
        rule: AgentRule,
        limits: Limits,
        *,
        ledger: Ledger,
        box: Mailbox,
        listener: Listener,
        start: Callable[[], Engine],
        matcher: Matcher,
        files: Files,
        permits: Permits,
        troubles: Troubles,
        say: Callable[[str], None],
    ) -> None:
        self._rule = rule
        self._limits = limits
        self._ledger = ledger
        self._box = box
        self._listener = listener
        self._start = start
        self._matcher = matcher
        self._files = files
        self._permits = permits
        self._troubles = troubles
        self._say = say
        self._runs = True
        self._engine: Engine | None = None
        self._given: str | None = None
        self._given_at = 0.0
        self._news = threading.Event()
        self._news.set()
        self._mail_first = False
        self._wants = False
        self._sweep_at = 0.0

    # --- running ---------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """
        Feed the agent until it is to stop.  What may be mended is told and tried again, ever less often.

        Raises:
            AgentTaken: Another controller has it.
            AccessTokenOfAnother: Its access token is for another user than its rooms are for.
            NativeHistoryLost, EntryAltered: What was saved for it can be neither found nor ruled out.
        """
        ear = threading.Thread(target=self._hear, args=(stop,), name=f"{self._rule.name} hears", daemon=True)
        ear.start()
        pause = _PAUSE_S
        try:
            while not stop.is_set():
                wait_s = self._try()
                pause = min(2 * pause, _PAUSE_MAX_S) if wait_s is None else _PAUSE_S
                stop.wait(pause if wait_s is None else wait_s)
        finally:
            self._runs = False
            self._permits.give_back(self._rule.name)
            self._end_engine()

    def _try(self) -> float | None:
        """Take a step; None where something has to be waited for that is not in order."""
        try:
            self._sweep()
            wait_s = self.step()
        except HomeserverTrouble as error:
            self._trouble(_LOOKING, error)
        except EngineNotStarted as error:
            self._trouble(_PROGRAM, error)
        except EngineFailed as error:
            self._trouble(_PROGRAM, error)
            self._end_engine()
        except (FilesFailed, NativeHistoryUnreadable) as error:
            self._trouble(_RECORDS, error)
        except JournalError as error:
            self._trouble(_RECORDS, error)
            self._end_engine()
            with contextlib.suppress(JournalError):
                self._ledger.reload()
        else:
            self._troubles.over(_RECORDS, "its files and records can be read and written again")
            return wait_s
        self._news.set()
        return None

    def _trouble(self, about: str, error: FencepostError) -> None:
        self._troubles.begin(about, f"{error} [{error.code}]")

    def _sweep(self) -> None:
        """Once a day."""
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + _DAY_S
            self._files.sweep(self._limits.files_days)

    def _hear(self, stop: threading.Event) -> None:
        """Ring when a room has something new."""
        pause = _PAUSE_S
        while self._runs and not stop.is_set():
            try:
                if self._listener.ring(_POLL_S):
                    self._news.set()
                self._troubles.over(_RINGING, _ANSWERS)
                pause = _PAUSE_S
            except HomeserverTrouble as error:
                if self._runs:
                    self._trouble(_RINGING, error)
                stop.wait(pause)
                pause = min(2 * pause, _PAUSE_MAX_S)

    def step(self) -> float:
        """
        Do the one thing that is to be done now.

        Returns:
            How long to wait before the next, in seconds.
        """
        agent = self._ledger.agent
        if agent.stage in (Stage.CONFIRMED, Stage.CHECKPOINTED):  # nothing of that needs the program
            sight = Sight(idle=False, given=True, entry=agent.entry)
        else:
            engine = self._running()
            entry = self._entry() if agent.stage is Stage.SUBMITTED else None
            given = agent.delivery is not None and agent.delivery.id == self._given
            sight = Sight(idle=engine.idle(), given=given, entry=entry)
            if agent.delivery is None or entry is not None:
                self._troubles.over(_PROGRAM, "its program runs and takes input again")
        match next_move(agent, sight):
            case Move.TAKE:
                return self._take(idle=sight.idle)
            case Move.SUBMIT:
                return self._submit()
            case Move.WAIT:
                return self._await(idle=sight.idle)
            case Move.CONFIRM:
                assert sight.entry is not None
                self._ledger.record(DeliveryConfirmed(sight.entry))
            case Move.CHECKPOINT:
                self._checkpoint()
            case Move.ACKNOWLEDGE:
                self._ledger.record(DeliveryAcknowledged())
        return 0

    # --- the program -------------------------------------------------------------------------------------

    def _running(self) -> Engine:
        if self._engine is None:
            agent = self._ledger.agent
            bound = None if agent.session is None or agent.history is None else Bound(agent.session, agent.history)
            engine = self._start()
            try:
                found = engine.begin(bound)
            except BaseException:
                engine.end()
                raise
            self._engine, self._given = engine, None
            if found != bound:
                self._bind(found)
        return self._engine

    def _bind(self, found: Bound) -> None:
        """Go on in another history than before: the first one, or one in place of one that never had an entry."""
        agent = self._ledger.agent
        if agent.delivery is not None and agent.delivery.offset:
            ends = history.size(agent.delivery.history)
            raise NativeHistoryLost(path=agent.delivery.history, offset=agent.delivery.offset, size_bytes=ends)
        if agent.delivered:
            self._say(f"{agent.history} is not there any more, and a new session is begun")
        self._ledger.record(AgentBound(found.session, found.history))

    def _end_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.end()

    def _entry(self) -> str | None:
        """The entry of the native history that proves the delivery in hand."""
        delivery = self._ledger.agent.delivery
        assert delivery is not None
        return history.find(delivery.history, delivery.offset, self._matcher, delivery.id, delivery.text)

    def _submit(self) -> float:
        agent = self._ledger.agent
        assert agent.delivery is not None
        if not self._permits.take(self._rule.name):
            return _LOOK_S
        self._ledger.record(DeliverySubmitted(agent.attempts + 1))
        # From here on this run of the program may have it, whatever it answers.
        self._given, self._given_at = agent.delivery.id, time.monotonic()
        try:
            self._running().submit(agent.delivery.id, agent.delivery.text)
        except EngineRefused as error:
            self._given = None
            self._trouble(_PROGRAM, error)
            return _LOOK_S
        return 0

    def _await(self, *, idle: bool) -> float:
        if not idle:
            self._given_at = time.monotonic()  # a turn may take as long as it takes
        elif self._given is not None and time.monotonic() - self._given_at > _SETTLE_S:
            self._troubles.begin(_PROGRAM, "its program has not written down what it was given, and is started anew")
            self._end_engine()
            return 0
        self._running().wait(_LOOK_S)
        return 0

    # --- new input -------------------------------------------------------------------------------------------

    def _take(self, *, idle: bool) -> float:
        """Take new input where the program is at rest; rooms and mail by turns."""
        if not idle:
            self._running().wait(_LOOK_S)
            return 0
        if self._wants and not self._permits.take(self._rule.name):
            return _LOOK_S
        self._wants = False
        sources = [self._take_of_rooms, self._take_of_mail]
        for source in reversed(sources) if self._mail_first else sources:
            if source():
                self._mail_first = source == self._take_of_rooms
                return 0
        if self._wants:
            return _LOOK_S
        self._permits.give_back(self._rule.name)
        self._news.wait(_MAIL_LOOK_S)
        return 0

    def _may_work(self) -> bool:
        """Ask for a permit, and go on asking."""
        self._wants = not self._permits.take(self._rule.name)
        return not self._wants

    def _save(self, delivery: str, made: Input, **more: Any) -> None:
        """Save what the agent is to get, and first what it will find in files."""
        bound = self._ledger.agent.history
        assert bound is not None, "the program runs"
        for content in made.files.values():
            self._files.put(content)
        self._ledger.record(DeliverySaved(delivery, made.text, bound, history.size(bound), **more))

    def _take_of_rooms(self) -> bool:
        if not self._news.is_set():
            return False
        self._news.clear()
        found = self._listener.look(self._ledger.place)
        self._troubles.over(_LOOKING, _ANSWERS)
        self._note(found)
        unread = {room: self._judged(found, room) for room in found.unread}
        if not (batch.wakes(unread) or any(self._is_full(found, room) for room in unread)):
            self._pass_over(found, unread)
            return False
        if not self._may_work():
            self._news.set()
            return False
        taken = batch.take(unread, self._limits.fetch_records, self._limits.room_records)
        delivery = new_message_id()
        made = writing.of_rooms(
            delivery,
            self._rule.user,
            taken,
            found.facts,
            self._media(taken),
            self._limits.inline_bytes,
            self._files.place,
        )
        reads = tuple(_read(found, room, judged) for room, judged in taken.taken.items())
        self._save(delivery, made, reads=reads)
        self._news.set()  # there may be more, and it is looked for when this is done with
        return True

    def _note(self, found: Found) -> None:
        """Record and tell what happened to rooms."""
        happened: dict[str, list[RoomEvent]] = {}
        for each in found.happenings:
            if each.loud:
                self._say(str(each))
            if each.events:
                happened.setdefault(each.room, []).extend(each.events)
        known = self._ledger.agent.rooms
        self._ledger.record(
            *(RoomFound(rule, room) for rule, room in found.rooms.items() if known.get(rule) != room),
            rooms_too=happened,
        )
        self._troubles.rooms(found.unheard)

    def _judged(self, found: Found, room: str) -> list[Judged]:
        rule, unread = self._listener.rule_of(room), found.unread[room]

        def verdict(said: Said) -> Verdict:
            author = None if said.target is None else unread.authors.get(said.target)
            return judge(said, rule, self._rule.user, banned=unread.banned, author=author)

        return batch.settled([Judged(said, verdict(said)) for said in unread.said])

    def _is_full(self, found: Found, room: str) -> bool:
        """So much is unread in the room that not all of it is known: what wakes the agent may be in the rest."""
        return found.unread[room].more and self._listener.rule_of(room).wake is not Wake.NONE

    def _pass_over(self, found: Found, unread: Mapping[str, Sequence[Judged]]) -> None:
        """Read on behind what is for nobody here, where nothing that is waits before it."""
        over: dict[str, list[RoomEvent]] = {}
        for room, judged in unread.items():
            count = next((place for place, each in enumerate(judged) if each.verdict.heard), len(judged))
            if count:
                read = _read(found, room, judged[:count])
                over[room] = [RoomRead(read.token, read.taken, read.passed)]
        self._ledger.record(rooms_too=over)

    def _media(self, taken: Batch) -> dict[str, Stored | str]:
        """The files that were sent with what is taken."""
        return {
            said.event: self._listener.fetch(said.media, self._limits.media_bytes, self._files)
            for said in taken.heard()
            if said.media is not None
        }

    def _take_of_mail(self) -> bool:
        session = self._ledger.agent.session
        if session is None or not tuple(self._box.mounts):
            return False
        waking = waiting(self._box, session)[:_MAIL_MAX]
        if not waking or not self._may_work():
            return False
        held = []
        for receipt in waking:
            with contextlib.suppress(Refused):  # somebody else was quicker
                held.append(
                    self._box.reserve(
                        receipt.message.id,
                        session=session,
                        occurrence=receipt.message.occurrence,
                        target=receipt.message.letter.scope,
                    )
                )
        if not held:
            return False
        delivery = new_message_id()
        bodies = [orjson.loads(codec.compact(receipt.message)) for receipt in held]
        made = writing.of_mail(delivery, session, bodies, self._limits.inline_bytes, self._files.place)
        self._save(delivery, made, mail=tuple(f"{receipt.message.id}/{receipt.message.occurrence}" for receipt in held))
        return True

    # --- afterwards --------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Move on the place that the delivery came from."""
        agent = self._ledger.agent
        assert agent.delivery is not None
        assert agent.session is not None
        for each in agent.delivery.mail:
            message_id, _, occurrence = each.rpartition("/")
            # Where it was acknowledged, closed or snoozed meanwhile, nobody has to be told that it came.
            with contextlib.suppress(Refused):
                session, number = agent.session, int(occurrence)
                held = self._box.reserve(message_id, session=session, occurrence=number).message.reservation
                assert held is not None
                self._box.accept(message_id, session=session, occurrence=number, token=held.token)
        read: dict[str, list[RoomEvent]] = {
            each.room: [RoomRead(each.token, each.taken, each.passed)] for each in agent.delivery.reads
        }
        self._ledger.record(DeliveryCheckpointed(), rooms_too=read)


def _read(found: Found, room: str, judged: Sequence[Judged]) -> Read:
    """What is taken of a room."""
    return Read(
        room,
        found.unread[room].token_after(len(judged)),
        tuple(each.said.event for each in judged if each.verdict.heard),
        tuple(Passed(each.said.event, each.verdict.value) for each in judged if not each.verdict.heard),
    )
