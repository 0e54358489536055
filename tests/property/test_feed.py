"""The feed is a scan of the events, its checkpoints only grow, and nothing is shown twice to one session."""

import contextlib
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fencepost.journal.event import Batch, NewEvent
from fencepost.journal.retention import retain
from fencepost.mailbox import Change, Changes, Documents, Gap, Mailbox, Mount, codec, errors, open_store
from fencepost.mailbox.store.opening import file_store

MOUNTS = (Mount("user:me/proj:app", "/project"), Mount("user:me", "/user"))
NAMES = ("one", "two")
SESSIONS = ("ada", "ben")
SMALL = 1_500
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
seats = st.integers(0, 1)
targets = st.sampled_from(("/project", "/user"))
#: What begins a stream that the feed tells nothing of.
SILENT = ("/shown/", "/checkpoints/", "/from/a/later/version")


def naive(events, scopes=None):
    """The feed as a scan of the events has it, without its way of finding anything."""
    found = []
    for event in events:
        silent = event.stream.startswith(SILENT)
        if silent or (scopes is not None and event.scope not in scopes):
            continue
        path, version, action = event.stream, event.version, event.type.split(".")[-1]
        if event.stream == "/redactions":
            kind, action, version = "redaction", "redacted", None
            if event.type == "annotations.redacted":
                continue
            path = codec.decode(event.type, event.data).path
        elif event.stream == "/turns":
            kind = "turn"
        else:
            kind = {"messages": "message", "message-links": "link"}.get(event.stream.split("/")[0], "document")
        found.append(Change(event.seq, f"state.{kind}", event.scope, path, version, action, event.actor, event.at))
    return found


def follow(feed, after, limit, **options):
    """All that a reader is told who polls page by page, and where it ends up."""
    found = []
    while True:
        news = feed.poll(after, limit=limit, **options)
        assert len([item for item in news.items if isinstance(item, Change)]) <= limit
        assert news.position >= after
        found += news.items
        after = news.position
        if not news.more:
            return found, after


class FeedAndScan(RuleBasedStateMachine):
    """Two handles of one store change, show, redact, retain and poll."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fencepost-feed-")
        root = Path(self.folder.name) / "store"
        self.now = START
        self.stores = [file_store(root, segment_bytes=SMALL) for _ in range(2)]
        self.boxes = [Mailbox(store, MOUNTS, actor="host:test", clock=lambda: self.now) for store in self.stores]
        self.notes = [Documents(store, MOUNTS, actor="host:test", clock=lambda: self.now) for store in self.stores]
        self.feeds = [Changes(store, None, actor="host:test", clock=lambda: self.now) for store in self.stores]
        self.mail = []
        self.points = dict.fromkeys(NAMES, 0)
        self.shown = set()
        self.reader = (0, [])  # somebody who polls from time to time, and all that he was told
        self.gone = 0

    def teardown(self):
        if hasattr(self, "stores"):
            for store in self.stores:
                store.close()
            self.folder.cleanup()

    def events(self):
        return [event for commit in self.stores[0]._journal.read() for event in commit.events]

    @rule(seat=seats, mount=targets, conversation=st.sampled_from((None, "ada")))
    def send(self, seat, mount, conversation):
        receipt = self.boxes[seat].send("x" * 90, target=mount, conversation=conversation, actionable=True)
        self.mail.append(receipt.message.id)

    @rule(seat=seats, which=st.integers(0, 30), step=st.sampled_from(("ack", "claim", "cancel")))
    def step(self, seat, which, step):
        if self.mail:
            message = self.mail[which % len(self.mail)]
            with contextlib.suppress(errors.Refused):
                getattr(self.boxes[seat], step)(message, session="ada", occurrence=1)

    @rule(seat=seats, mount=targets, path=st.sampled_from(("a", "a/b")), deletes=st.booleans())
    def document(self, seat, mount, path, deletes):
        with contextlib.suppress(errors.UnknownDocument):
            if deletes:
                self.notes[seat].delete(path, target=mount)
            else:
                self.notes[seat].write(path, "text", target=mount)

    @rule(seat=seats)
    def link(self, seat):
        self.boxes[seat].link("ben", "ada", target="/user")

    @rule(seat=seats, name=st.sampled_from(("/turns", "/from/a/later/version", "messages/x", "notes")))
    def unknown(self, seat, name):
        """What a later version may write."""
        event = NewEvent("conversation:c", name, "turn.appended", b'{"schema":9}')
        self.stores[seat].append(Batch(self.now, "host:later", (event, event)), {})

    @rule(seat=seats, which=st.integers(0, 30))
    def redact(self, seat, which):
        if self.mail:
            self.boxes[seat].redact(self.mail[which % len(self.mail)])

    @rule(seat=seats, which=st.lists(st.integers(0, 30), max_size=3), session=st.sampled_from(SESSIONS))
    def show(self, seat, which, session):
        wanted = {self.mail[each % len(self.mail)] for each in which} if self.mail else set()
        before = len(self.shown)
        try:
            count = self.boxes[seat].shown(wanted, session=session, door="hook")
        except errors.NotRecipient:
            return
        self.shown |= {(message, session) for message in wanted if not self.erased(message)}
        assert count == len(self.shown) - before

    def erased(self, message):
        return self.boxes[0].receipts(message).erased

    @rule(seat=seats)
    def retain(self, seat):
        self.now += timedelta(hours=1)
        moved = retain(self.stores[seat]._journal, self.now)
        if moved:
            self.gone = self.stores[seat]._journal.kept_from() - 1

    @rule(seat=seats, name=st.sampled_from(NAMES), to=st.integers(0, 80))
    def advance(self, seat, name, to):
        end = self.stores[seat].feed_bounds()[1]
        if to < self.points[name]:
            with pytest.raises(errors.MovesBack):
                self.feeds[seat].advance(name, to)
        elif to > end:
            with pytest.raises(errors.Ahead):
                self.feeds[seat].advance(name, to)
        else:
            assert to == self.feeds[seat].advance(name, to).position
            self.points[name] = to
        assert self.points[name] == self.feeds[1 - seat].checkpoint(name).position

    @rule(seat=seats, after=st.integers(0, 60), limit=st.integers(1, 4), scope=st.sampled_from((None, "user:me")))
    def poll(self, seat, after, limit, scope):
        events = self.events()
        end = self.stores[seat].feed_bounds()[1]
        if after > end:
            with pytest.raises(errors.Ahead):
                self.feeds[seat].poll(after)
            return
        found, _ = follow(self.feeds[seat], after, limit, target=scope)
        begin = max(after, self.gone)
        gap = [Gap(after, self.gone)] if after < self.gone else []
        told = naive((event for event in events if begin < event.seq <= end), scope and (scope,))
        assert gap + told == found

    @rule(seat=seats, limit=st.integers(1, 3))
    def read_on(self, seat, limit):
        position, told = self.reader
        news = self.feeds[seat].poll(position, limit=limit)
        self.reader = (news.position, [*told, *news.items])

    @invariant()
    def nothing_is_told_twice_or_out_of_order(self):
        ids = [item.id for item in self.reader[1] if isinstance(item, Change)]
        assert ids == sorted(set(ids))

    @invariant()
    def nothing_is_skipped_but_gaps(self):
        position, told = self.reader
        missing = {change.id for change in naive(self.events()) if change.id <= position}
        missing -= {item.id for item in told if isinstance(item, Change)}
        gaps = [item for item in told if isinstance(item, Gap)]
        assert all(any(gap.after < each <= gap.through for gap in gaps) for each in missing)

    @invariant()
    def mail_is_not_moved_by_being_shown(self):
        streams = [(event.scope, event.stream, event.type) for event in self.events()]
        assert all(kind != "message.shown" or stream.startswith("/shown/") for _, stream, kind in streams)
        shown = [kind for _, _, kind in streams if kind == "message.shown"]
        assert len(shown) <= len(self.shown)


TestFeedAndScan = FeedAndScan.TestCase


@given(st.lists(st.integers(1, 12), min_size=2, max_size=6))
@settings(max_examples=10)  # each makes a store and two threads
def test_racing_readers_of_one_name_only_move_it_forward(wanted):
    """Whoever is refused learns that another was quicker, and the furthest stands at the end."""
    with tempfile.TemporaryDirectory(prefix="fencepost-feed-") as folder:
        stores = [open_store(Path(folder) / "store") for _ in range(2)]
        box = Mailbox(stores[0], MOUNTS)
        for _ in range(12):
            box.send("x")
        feeds = [Changes(store, MOUNTS) for store in stores]
        go = threading.Barrier(2)
        seen = []

        def move(seat):
            go.wait()
            for position in wanted[seat::2]:
                try:
                    seen.append(feeds[seat].advance("one", position).position == position)
                except errors.MovesBack as refusal:
                    seen.append(refusal.current > position)

        threads = [threading.Thread(target=move, args=(seat,)) for seat in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        moves = [
            codec.decode(event.type, event.data).position
            for commit in stores[0]._journal.read()
            for event in commit.events
            if event.stream == "/checkpoints/one"
        ]
        for store in stores:
            store.close()

    assert [True] * len(wanted) == seen
    assert moves == sorted(set(moves))
    assert max(wanted) == moves[-1]


def test_nothing_is_skipped_or_repeated_while_others_write():
    """Two handles write, and a third that follows along is told of each change once, in order."""
    with tempfile.TemporaryDirectory(prefix="fencepost-feed-") as folder:
        root = Path(folder) / "store"
        stores = [file_store(root, segment_bytes=4_000) for _ in range(3)]

        def write(store):
            box = Mailbox(store, MOUNTS)
            for number in range(60):
                sent = box.send("x", target=("/project", "/user")[number % 2])
                box.shown([sent.message.id], session="s", door="hook")

        threads = [threading.Thread(target=write, args=(store,)) for store in stores[:2]]
        for thread in threads:
            thread.start()
        feed, position, told = Changes(stores[2], None), 0, []
        while len(told) < 120:
            news = feed.poll(position, limit=7, wait_s=30)
            assert news.items, "all of them come"
            position, told = news.position, [*told, *news.items]
        for thread in threads:
            thread.join()
        expected = naive(event for commit in stores[2]._journal.read() for event in commit.events)
        for store in stores:
            store.close()

    assert expected == told
