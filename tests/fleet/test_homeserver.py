"""The homeserver and its people do what the tests of a fleet take for granted."""

import httpx
import pytest


@pytest.fixture
def room(person):
    """A room, who made it and who is in it."""
    ann, bob = person("ann", admin=True), person("bob")
    room = ann.create_room("lab", invite=[bob])
    bob.join(room)
    return room, ann, bob


def relation(event):
    return event["content"]["m.relates_to"]


@pytest.mark.fast
def test_what_is_said_in_a_room_is_read_there(room):
    """In order, with who is mentioned in it."""
    room, ann, bob = room

    first = ann.send(room, "hello", mention=bob)
    second = bob.reply(room, first, "hello yourself")

    assert ["hello", "hello yourself"] == ann.texts(room)
    assert [bob.id] == bob.event(room, first)["content"]["m.mentions"]["user_ids"]
    assert first == relation(ann.event(room, second))["m.in_reply_to"]["event_id"]


@pytest.mark.fast
def test_a_restart_keeps_people_rooms_and_tokens(own_homeserver):
    """Also one that nobody was warned of; what was answered for is there."""
    ann = own_homeserver.start().register("ann")
    room = ann.create_room("lab")
    since = ann.sync(timeout=0)["next_batch"]
    ann.send(room, "before")

    own_homeserver.restart()
    ann.send(room, "between")
    own_homeserver.kill()
    own_homeserver.start()

    assert ["before", "between"] == ann.texts(room)
    timeline = ann.sync(since=since, timeout=0)["rooms"]["join"][room]["timeline"]["events"]
    assert ["before", "between"] == [event["content"]["body"] for event in timeline]


def test_events_of_every_kind(room):
    """An edit, a reaction and a thread refer to what they are about; a redaction takes the words away."""
    room, ann, bob = room
    event = ann.send(room, "helo")

    edit, reaction = ann.edit(room, event, "hello", mention=bob), bob.react(room, event, "+1")
    thread = bob.thread(room, event, "below")
    gone = bob.send(room, "oops")
    ann.redact(room, gone)

    assert "hello" == ann.event(room, edit)["content"]["m.new_content"]["body"]
    assert ["m.replace", "m.annotation", "m.thread"] == [
        relation(ann.event(room, each))["rel_type"] for each in (edit, reaction, thread)
    ]
    assert {} == ann.event(room, gone)["content"]
    assert ann.upload(b"data", "a.txt", "text/plain").startswith("mxc://")


def test_who_may_be_where(room, person):
    """Kicked, banned and gone are out; who was let in again is in."""
    room, ann, bob = room
    eve = person("eve")
    ann.invite(room, eve)
    eve.join(room)

    ann.kick(room, eve)
    ann.ban(room, bob)
    assert {ann.id} == ann.members(room)
    assert 403 == bob.http.get(f"/_matrix/client/v3/rooms/{room}/joined_members").status_code

    ann.unban(room, bob)
    ann.invite(room, bob)
    bob.join(room)
    ann.empower(room, bob, 100)
    ann.leave(room)
    assert {bob.id} == bob.members(room)
    assert 100 == bob.state(room, "m.room.power_levels")["users"][bob.id]


def test_a_room_for_two_and_a_room_that_moves(room):
    """An invitation says that it is to a room for two; a room says where it has gone."""
    room, ann, bob = room

    two = ann.direct(bob)
    (member,) = [
        event
        for event in bob.sync(timeout=0)["rooms"]["invite"][two]["invite_state"]["events"]
        if bob.id == event.get("state_key")
    ]
    assert member["content"]["is_direct"]

    assert ann.upgrade(room) == bob.state(room, "m.room.tombstone")["replacement_room"]


def test_what_was_purged_is_not_there(room):
    """Nor what came before it; and nobody says so."""
    room, ann, bob = room
    for said in ("one", "two", "three"):
        last = ann.send(room, said)

    ann.purge(room, last)

    assert ["three"] == bob.texts(room)


def test_a_restored_backup_forgets(own_homeserver):
    """What was said since the backup was not said, and people are still logged in."""
    ann = own_homeserver.start().register("ann")
    room = ann.create_room("lab")
    ann.send(room, "kept")
    copy = own_homeserver.backup()
    lost = ann.send(room, "lost")

    own_homeserver.restore(copy)

    assert ["kept"] == ann.texts(room)
    assert 404 == ann.http.get(f"/_matrix/client/v3/rooms/{room}/event/{lost}").status_code


def test_a_homeserver_that_limits_refuses_who_asks_often(own_homeserver):
    """And says for how long; until it is told otherwise."""
    own_homeserver.limited = True
    ann = own_homeserver.start().register("ann")
    room = ann.create_room("lab")

    def send(number):
        path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{number}"
        return ann.http.put(path, json={"msgtype": "m.text", "body": "again"})

    refused = next(answer for number in range(50) if (answer := send(number)).status_code != 200)
    assert (429, "M_LIMIT_EXCEEDED") == (refused.status_code, refused.json()["errcode"])
    assert refused.json()["retry_after_ms"] > 0

    own_homeserver.limited = False
    own_homeserver.restart()
    assert {200} == {send(number).status_code for number in range(100, 120)}


def test_a_homeserver_that_is_down_does_not_answer(own_homeserver):
    """And answers again, to the same people, when it is back."""
    ann = own_homeserver.start().register("ann")
    own_homeserver.stop()

    with pytest.raises(httpx.TransportError):
        ann.rooms()
    own_homeserver.start()
    assert [] == ann.rooms()
