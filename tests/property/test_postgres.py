"""A store in a database answers every question as one in memory does."""

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from property import strategies as some
from property.databases import PostgresPlace

from fencepost.journal.errors import FencepostError
from fencepost.mailbox import Changes, Conversations, Documents, Erasures, Listing, Mailbox, Mount, Past
from fencepost.mailbox.addresses import MESSAGES, REDACTIONS, SHOWN
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.store.port import Query

SCOPES = ("user:me/proj:app", "user:me")
MOUNTS = (Mount(SCOPES[0], "/project"), Mount(SCOPES[1], "/user"))
SESSIONS = ("ada", "ben", "cyd")
TALKS = ("ada", "s-42")
PATHS = ("a.md", "notes/b.md", "notes/é.md")
WORDS = ("Straße POL-358", "don't", "50%", "x", "\U0001f600 ok", "AND *", "src/main.py\tMAIN")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


class Side:
    """One store and all of its doors."""

    def __init__(self, machine, store):
        self.ids = self.tokens = 0

        def clock():
            return machine.now

        self.store = store
        self.box = Mailbox(store, MOUNTS, clock=clock, new_id=self.new_id, new_token=self.new_token)
        self.documents = Documents(store, MOUNTS, clock=clock)
        self.talks = Conversations(store, clock=clock)
        self.past = Past(store, MOUNTS, clock=clock)
        self.erasures = Erasures(store, MOUNTS, clock=clock)
        self.feed = Changes(store, None, clock=clock)

    def new_id(self):
        self.ids += 1
        return f"00000000-0000-7000-8000-{self.ids:012x}"

    def new_token(self):
        self.tokens += 1
        return f"token {self.tokens}"


class TwoStores(RuleBasedStateMachine):
    """The same commands to both, and the same questions."""

    def __init__(self):
        super().__init__()
        self.now = some.NOON
        self.sent = []
        self.place = PostgresPlace()
        self.sides = [Side(self, memory_store()), Side(self, self.place.open())]

    def both(self, deed):
        """What both answer, which is the same; or the same refusal."""
        said = []
        for side in self.sides:
            try:
                said.append((None, deed(side)))
            except FencepostError as error:
                said.append(((error.code, error.details), None))
        assert said[0] == said[1]
        return said[0][1]

    @rule(
        body=texts,
        where=st.sampled_from(SCOPES),
        conversation=st.none() | st.sampled_from(SESSIONS),
        session=st.none() | st.sampled_from(SESSIONS),
        about=st.none() | st.tuples(st.sampled_from(TALKS), st.none() | st.integers(1, 2)),
        context=st.none() | st.sampled_from(PATHS),
        key=st.none() | st.sampled_from(("key 1", "key 2")),
        delay=st.none() | st.sampled_from((60, 600)),
        shift=st.sampled_from((0, 0, 1, -90)),
    )
    def send(self, body, where, conversation, session, about, context, key, delay, shift):
        self.now += timedelta(minutes=shift)
        about, turn = about or (None, None)
        sent = self.both(
            lambda side: side.box.send(
                body,
                target=where,
                conversation=conversation,
                session=session,
                about=about,
                about_turn=turn,
                context=context and f"/project/{context}",
                idempotency_key=key,
                delay_seconds=delay,
                actionable=True,
            )
        )
        if sent is not None:
            self.sent.append(sent.message.id)

    @rule(
        data=st.data(),
        session=st.sampled_from(SESSIONS),
        verb=st.sampled_from(("ack", "claim", "complete", "snooze", "cancel", "reserve", "shown", "redact")),
        outcome=texts,
    )
    def step(self, data, session, verb, outcome):
        if not self.sent:
            return
        number = data.draw(st.sampled_from(self.sent))
        who = {"session": session, "occurrence": 1}

        def deed(side):
            if verb == "redact":
                return side.box.redact(number)
            if verb == "shown":
                return side.box.shown([number], session=session, door="test")
            if verb in ("complete", "snooze"):
                token = side.box.claim(number, **who).message.lease.token
                more = {"delay_seconds": 60} if verb == "snooze" else {}
                return getattr(side.box, verb)(number, **who, token=token, outcome=outcome, **more)
            return getattr(side.box, verb)(number, **who, **({"outcome": outcome} if verb == "cancel" else {}))

        self.both(deed)

    @rule(session=st.sampled_from(SESSIONS), parent=st.sampled_from(SESSIONS))
    def link(self, session, parent):
        self.both(lambda side: side.box.link(session, parent))

    @rule(path=st.sampled_from(PATHS), mount=st.sampled_from(("/project", "/user")), content=texts | st.none())
    def write(self, path, mount, content):
        self.now += timedelta(seconds=1)
        if content is None:
            self.both(lambda side: side.documents.delete(f"{mount}/{path}"))
        else:
            self.both(lambda side: side.documents.write(f"{mount}/{path}", content))

    @rule(talk=st.sampled_from(TALKS), content=texts)
    def say(self, talk, content):
        self.both(lambda side: side.talks.append_turn(talk, [{"role": "user", "content": content}]))

    @rule(talk=st.sampled_from(TALKS), turn=st.integers(1, 3))
    def unsay(self, talk, turn):
        self.both(lambda side: side.talks.redact_turns(talk, turns=[turn]))

    @rule(
        where=st.sampled_from(("/project", "/user")),
        path=st.sampled_from((*PATHS, *(f"message-links/{a}/{b}" for a in SESSIONS for b in SESSIONS if a != b))),
    )
    def erase(self, where, path):
        self.both(lambda side: side.erasures.document(path, target=where))

    @rule(where=st.sampled_from(("/project", "/user")))
    def erase_all(self, where):
        self.both(lambda side: side.erasures.scope(where))

    @rule(name=st.sampled_from(("one", "two")))
    def advance(self, name):
        for side in self.sides:
            side.feed.advance(name, side.store.feed_bounds()[1])

    # --- questions -------------------------------------------------------------------------------------

    @rule(
        listing=st.sampled_from(Listing),
        session=st.none() | st.sampled_from(SESSIONS),
        limit=st.sampled_from((1, 2, 500)),
    )
    def list_some(self, listing, session, limit):
        query = Query(listing, SCOPES, session, self.now, limit, SCOPES)

        def asked(side):
            items, odd = side.store.inbox(query)
            return list(items), list(odd), side.store.next_change(query)

        self.both(asked)

    @rule(session=st.sampled_from(SESSIONS), scopes=st.sampled_from((SCOPES, SCOPES[:1])))
    def ask_of_sessions(self, session, scopes):
        self.both(lambda side: (side.store.audience(session, scopes), side.store.has_seen(session)))
        self.both(lambda side: [side.store.sent_under(scope, "key 1") for scope in SCOPES])

    @rule(
        query=texts.flatmap(lambda text: st.sampled_from([text, text[:2], text[1:5], text.upper(), "x"])),
        limit=st.sampled_from((1, 500)),
    )
    def search(self, query, limit):
        if not query.strip():
            return

        def hits(side):
            found = side.past.search(query, limit=limit)
            return found, side.past.search_memory(query, limit=limit), side.past.search_turns(query, limit=limit)

        self.both(hits)

    @rule(prefix=st.sampled_from(("", "notes/", "notes/b", "z")), after=st.none() | st.sampled_from(PATHS))
    def entries(self, prefix, after):
        for scope in SCOPES:
            self.both(lambda side, scope=scope: [list(p) for p in side.store.entries(scope, prefix, after, 2)])

    @rule(back=st.none() | st.integers(0, 5), limit=st.sampled_from((1, 2, 500)))
    def history(self, back, limit):
        since = None if back is None else self.now - timedelta(seconds=back)

        def asked(side):
            return [[v for _, v in side.store.history(scope, since, 2**62, limit)] for scope in SCOPES]

        self.both(asked)

    @rule(talk=st.sampled_from(TALKS), turn=st.none() | st.integers(1, 2))
    def annotations(self, talk, turn):
        def asked(side):
            return sorted(side.store.annotations(talk, turn), key=lambda each: (each.scope, each.path))

        self.both(asked)
        self.both(lambda side: side.past.recall(talk))

    @rule(limit=st.sampled_from((1, 3, 500)), scope=st.none() | st.sampled_from(SCOPES))
    def follow(self, limit, scope):
        """All of the feed, page by page; the numbers are each store's own."""

        def asked(side):
            found, position, more = [], 0, True
            while more:
                news = side.store.changes(position, limit, scope and (scope,), 5)
                found += [(e.type, e.scope, e.path, e.version, e.action, e.actor, e.at) for e in news.changes]
                position, more = news.position, news.more
            assert position <= side.store.feed_bounds()[1]
            return found

        self.both(asked)

    @invariant()
    def documents_are_the_same(self):
        streams = [(scope, path) for scope in SCOPES for path in (*PATHS, REDACTIONS)]
        streams += [(scope, begin + each) for scope in SCOPES for each in set(self.sent) for begin in (MESSAGES, SHOWN)]
        streams += [(f"conversation:{talk}", path) for talk in TALKS for path in ("/turns", REDACTIONS)]
        for stream in streams:
            self.both(lambda side, stream=stream: side.store.find(stream))
            self.both(lambda side, stream=stream: self.plain(side.store.events(stream)))
            self.both(lambda side, stream=stream: self.plain(side.store.events_from(stream, 1, 1)))
            self.both(lambda side, stream=stream: list(side.store.versions(stream, 2**50, 3)))
            self.both(lambda side, stream=stream: side.store.record_at(stream, 2))

    def plain(self, events):
        """Without what is each store's own: its numbers, and its digests."""
        return [event._replace(seq=0, key=event.key and "key") for event in events]

    def teardown(self):
        for side in self.sides:
            side.store.close()
        self.place.discard()


@pytest.fixture(scope="class")
def server(cluster):
    PostgresPlace.url = cluster


@pytest.mark.usefixtures("server")
class TestTwoStores(TwoStores.TestCase):
    """Whatever is done to both, in whatever order, erasures included."""
