"""Listings: what the index answers is what the predicate says of each message."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from property import strategies as some

from fencepost.journal.event import Batch, NewEvent
from fencepost.mailbox import codec
from fencepost.mailbox.events import Linked, Sent
from fencepost.mailbox.evolve import replay
from fencepost.mailbox.lifecycle import is_unread
from fencepost.mailbox.message import Status
from fencepost.mailbox.store.opening import memory_store
from fencepost.mailbox.store.port import Query
from fencepost.mailbox.times import micros
from fencepost.mailbox.views import Listing, Standing, order, place, shows

SCOPES = ("user:me", "user:me/proj:app")
TICK = timedelta(microseconds=1)
stores = st.lists(some.histories(max_size=5), max_size=6, unique_by=lambda past: past[0].letter.id)
links = st.lists(st.tuples(some.sessions, some.sessions), max_size=3, unique=True)
queries = st.builds(
    Query,
    st.sampled_from(Listing),
    st.sampled_from((SCOPES, SCOPES[:1], SCOPES[1:])),
    some.sessions_or_none,
    some.near_moments,
    st.integers(1, 4),
    st.just(SCOPES),
)


def filled(pasts, linked):
    """A store in memory with these messages, and links in both scopes."""
    store = memory_store()
    for past in pasts:
        letter = past[0].letter
        stream = (letter.scope, f"messages/{letter.id}")
        batch = Batch(some.NOON, "host:test", tuple(NewEvent(*stream, *codec.encode(event)) for event in past))
        store.append(batch, {stream: 0})
    for scope in SCOPES:
        for session, parent in linked:
            stream = (scope, f"message-links/{session}/{parent}")
            event = NewEvent(*stream, *codec.encode(Linked(session, parent)))
            store.append(Batch(some.NOON, "host:test", (event,)), {stream: 0})
    return store


def receives(session, linked):
    """Whose mail the session gets, found by trying every link until nothing changes."""
    found = {session}
    for _ in linked:
        found |= {parent for child, parent in linked if child in found}
    return found


def scanned(pasts, linked, query, now):
    """The listing by looking at every message."""
    audience = {None} if query.session is None else {None, *receives(query.session, linked)}
    found = []
    for past in pasts:
        message = replay(past)
        there = message.letter.scope in query.scopes and message.letter.conversation in audience
        if there and shows(query.listing, message, now):
            found.append((len(past), message))
    return sorted(found, key=lambda item: order(item[1]))


@given(stores, links, queries)
def test_the_index_lists_what_the_predicate_shows(pasts, linked, query):
    """The same messages in the same order, at any time, for any session, up to the limit."""
    store = filled(pasts, linked)
    items, unsupported = store.inbox(query)
    expected = scanned(pasts, linked, query, query.now)[: query.limit]

    assert expected == [(version, codec.message(body)) for version, body in items]
    assert [] == list(unsupported)


@given(
    st.lists(
        some.event_of(Sent, letter=some.letters(st.just("user:me"), st.none())),
        min_size=2,
        max_size=12,
        unique_by=lambda sent: sent.letter.id,
    ),
    st.integers(1, 6),
)
def test_a_limit_cuts_off_the_latest(sent, limit):
    """Of many messages to everybody the first to be due are listed, whichever was sent first."""
    past = [[event] for event in sent]
    query = Query(Listing.ALL, SCOPES, None, some.NOON, limit, SCOPES)
    items, _ = filled(past, []).inbox(query)

    assert scanned(past, [], query, query.now)[:limit] == [(version, codec.message(body)) for version, body in items]


@given(stores, links, queries)
def test_nothing_becomes_unread_before_the_next_change(pasts, linked, query):
    """Whoever sleeps until then misses nothing; there is none only if nothing ever becomes unread by waiting."""
    store = filled(pasts, linked)
    unread = Query(Listing.UNREAD, query.scopes, query.session, query.now, 500, query.links)
    change = store.next_change(unread)
    last = query.now + timedelta(days=9) if change is None else change - TICK
    waiting = scanned(pasts, linked, unread, query.now)

    assert change is None or change > query.now
    assert [item for item in scanned(pasts, linked, unread, last) if item not in waiting] == []


@given(some.messages, some.near_moments)
def test_a_message_is_in_the_listings_that_its_state_says(message, now):
    """Unread is open and due; open, scheduled and closed share out everything between them."""
    shown = {listing for listing in Listing if shows(listing, message, now)}

    assert Listing.ALL in shown
    assert len(shown & {Listing.OPEN, Listing.SCHEDULED, Listing.CLOSED}) == 1
    assert Listing.UNREAD not in shown or Listing.OPEN in shown
    assert (Listing.CLOSED in shown) == (message.status is not Status.OPEN)


@given(some.messages, some.near_moments)
def test_the_columns_tell_what_is_unread(message, now):
    """Unread is pending and due, or claimed and ready again."""
    columns = place(message)
    pending = columns.standing is Standing.PENDING and columns.due <= micros(now)
    lapsed = columns.standing is Standing.CLAIMED and columns.ready <= micros(now)

    assert is_unread(message, now) == (pending or lapsed)


@given(st.lists(some.messages, max_size=5))
def test_columns_order_messages_as_the_order_does(messages):
    """Due time, then sending time, then id."""
    by_columns = sorted(messages, key=lambda each: (place(each).due, place(each).created, each.id))

    assert sorted(messages, key=order) == by_columns
