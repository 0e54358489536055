"""What the listener hears of a real homeserver, through all that happens to it and to its rooms."""

import pytest

from fencepost.mailbox.errors import AccessTokenRefused, HomeserverRefused, HomeserverUnavailable
from fencepost.mailbox.events import RoomRead
from fencepost.mailbox.fleet.credentials import Credentials
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.found import What
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.policy import RoomRule
from fencepost.mailbox.fleet.said import Kind
from fencepost.mailbox.rooms import after


class Ears:
    """A listener of somebody's, and the places that outlive it."""

    def __init__(self, homeserver, person, *rules):
        self.homeserver, self.person, self.rules = homeserver, person, rules
        self.places, self.found, self.told, self.rooms = {}, [], [], {}
        self.matrix = None
        self.begin()

    def begin(self):
        """As after a crash."""
        self.close()
        self.matrix = Matrix(self.homeserver.url, Credentials(self.person.token, "a test"))
        self.listener = Listener(self.matrix, self.person.id, [RoomRule(rule) for rule in self.rules], self.rooms)

    def close(self):
        if self.matrix is not None:
            self.matrix.close()

    def look(self):
        found = self.listener.look(self.places.get)
        self.rooms |= found.rooms
        for each in found.happenings:
            self.told.append(each.what)
            for event in each.events:
                self.places[each.room] = after(self.places.get(each.room), event)
        return found

    def drain(self, count=None):
        """Take all that is unread, so much of each room at once; what was said by it, in words."""
        new = []
        for _ in range(500):
            found = self.look()
            if not found.unread:
                self.found += new
                return [said.body for said in new if said.kind in (Kind.MESSAGE, Kind.EDIT)]
            for room, unread in found.unread.items():
                taken = unread.said[:count]
                read = RoomRead(unread.token_after(len(taken)), tuple(said.event for said in taken))
                self.places[room] = after(self.places[room], read)
                new += taken
        raise AssertionError("there is no end")


@pytest.fixture
def ears():
    """Makes the ears of somebody."""
    made = []

    def make(*args):
        made.append(Ears(*args))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def lab(homeserver, person, ears):
    """A room with an agent in it that hears it from here on, and who made it."""
    ann, agent = person("ann", admin=True), person("agent")
    room = ann.create_room("lab", invite=[agent])
    ann.send(room, "before")
    heard = ears(homeserver, agent, room)
    heard.look()  # it is not in the room
    assert heard.listener.ring(1)
    heard.look()  # it is invited, and comes in
    assert [] == heard.drain()
    return room, ann, agent, heard


@pytest.mark.fast
def test_an_invitation_is_taken_and_what_is_said_then_is_heard(lab):
    """And what was said before is not."""
    room, ann, _agent, heard = lab
    assert What.REFUSED in heard.told
    assert What.OPENED in heard.told

    ann.send(room, "hello")

    assert heard.listener.ring(10)
    assert ["hello"] == heard.drain()
    assert "lab" == heard.listener._facts[room].name


@pytest.mark.fast
def test_every_form_arrives_as_what_it_is(lab, tmp_path):
    """An edit, a reply, a thread, a reaction, a redaction, a file."""
    room, ann, agent, heard = lab
    first = ann.send(room, "helo", mention=agent)
    ann.edit(room, first, "hello")
    ann.reply(room, first, "yes")
    ann.thread(room, first, "below")
    ann.react(room, first, "+1")
    gone = ann.send(room, "oops")
    ann.redact(room, gone)
    url = ann.upload(b"data", "a.txt", "text/plain")
    ann.send(room, {"msgtype": "m.file", "body": "a.txt", "url": url, "info": {"size": 4}})

    found = heard.look()

    said = found.unread[room].said
    assert [
        *(Kind.MESSAGE, Kind.EDIT, Kind.MESSAGE, Kind.MESSAGE, Kind.REACTION, Kind.REDACTED, Kind.REDACTION),
        Kind.MEDIA,
    ] == [each.kind for each in said]
    assert {agent.id} == said[0].mentions
    assert {first: ann.id} == found.unread[room].authors
    assert (first, first, gone) == (said[2].reply_to, said[3].thread, said[6].target)
    stored = heard.listener.fetch(said[-1].media, 4, Files(str(tmp_path / "files")))
    assert 4 == stored.size
    assert "more than 3 bytes" in heard.listener.fetch(said[-1].media, 3, Files(str(tmp_path / "files")))


def test_who_is_put_out_hears_what_was_said_before_and_not_what_was_said_behind_its_back(lab):
    """Neither a ban nor a controller that is started anew changes that."""
    room, ann, agent, heard = lab
    for number in range(5):
        ann.send(room, f"before {number}")
    ann.ban(room, agent)
    heard.begin()

    assert [f"before {number}" for number in range(5)] == heard.drain()
    assert heard.places[room].closed == "the agent was banned"

    ann.unban(room, agent)
    ann.invite(room, agent)
    ann.send(room, "behind its back")
    agent.join(room)
    assert [] == heard.drain()
    ann.send(room, "again")
    ann.kick(room, agent)
    ann.send(room, "behind its back")
    ann.invite(room, agent)
    agent.join(room)
    ann.send(room, "and again")
    assert ["again", "and again"] == heard.drain(count=1)


def test_who_is_banned_by_now_is_told(lab, person):
    """With what they had said before."""
    room, ann, _agent, heard = lab
    eve = person("eve")
    ann.invite(room, eve)
    eve.join(room)
    eve.send(room, "boo")
    ann.ban(room, eve)

    assert {eve.id} == heard.look().unread[room].banned


def test_a_purge_is_told(lab):
    """What was not read by then is lost, and what was read is not repeated."""
    room, ann, _agent, heard = lab
    ann.send(room, "read")
    assert ["read"] == heard.drain()
    ann.send(room, "unread")
    last = ann.send(room, "left")

    ann.purge(room, last)

    heard.begin()
    assert ["left"] == heard.drain()
    assert What.RESYNCED in heard.told
    ann.send(room, "next")
    assert ["next"] == heard.drain()


def test_a_room_that_moves_is_told(lab):
    """With where it has gone."""
    room, ann, _agent, heard = lab

    new = ann.upgrade(room)

    found = heard.look()
    assert What.UPGRADED in [each.what for each in found.happenings]
    assert new == found.facts[room].successor


@pytest.mark.fast
def test_an_encrypted_room_is_told_and_not_read(lab):
    """What was said before it was encrypted is heard."""
    room, ann, _agent, heard = lab
    ann.send(room, "plain")
    ann.ask("PUT", "rooms", room, "state", "m.room.encryption", "", json={"algorithm": "m.megolm.v1.aes-sha2"})
    ann.send(room, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}, kind="m.room.encrypted")
    ann.send(room, "half")

    assert ["plain"] == heard.drain()
    assert [] == heard.drain()
    assert What.ENCRYPTED in heard.told


def test_a_room_for_two_is_one(homeserver, person, ears):
    """Also for a listener that was not there when the agent was invited."""
    ann, agent = person("ann"), person("agent")
    room = ann.direct(agent)
    heard = ears(homeserver, agent, room)
    heard.listener.ring(1)
    heard.drain()
    heard.drain()
    heard.begin()

    ann.send(room, "hello")

    assert heard.look().facts[room].direct


def test_an_alias_that_moves_is_followed(homeserver, person, ears):
    """And the old room is heard until nothing is left in it."""
    ann, agent = person("ann"), person("agent")
    room = ann.create_room("lab", invite=[agent], room_alias_name=f"lab-{ann.id[1:].partition(':')[0]}")
    agent.join(room)
    alias = ann.state(room, "m.room.canonical_alias")["alias"]
    heard = ears(homeserver, agent, alias)
    assert [] == heard.drain()
    ann.send(room, "old")
    new = ann.upgrade(room)
    ann.invite(new, agent)
    heard.listener.ring(1)

    assert ["old"] == heard.drain()
    heard.drain()
    ann.send(new, "new")

    assert {alias: new} == heard.look().rooms
    assert ["new"] == heard.drain()


def test_a_backlog_is_read_through_restarts(own_homeserver, ears):
    """A thousand messages in a dozen rooms; each is found once, in order."""
    own_homeserver.start()
    ann, agent = (own_homeserver.register(name) for name in ("ann", "agent"))
    rooms = [ann.create_room(f"room {number}", invite=[agent]) for number in range(12)]
    for room in rooms:
        agent.join(room)
    heard = ears(own_homeserver, agent, *rooms)
    assert [] == heard.drain()
    for number in range(1_000):
        ann.send(rooms[number % 12 if number % 5 else 0], f"{number}")

    half = heard.look()
    for room in rooms[:6]:
        unread = half.unread[room]
        taken = unread.said[:7]
        heard.places[room] = after(
            heard.places[room], RoomRead(unread.token_after(7), tuple(said.event for said in taken))
        )
        heard.found += taken
    own_homeserver.kill()
    with pytest.raises(HomeserverUnavailable):
        heard.look()
    own_homeserver.start()
    heard.drain(count=40)
    heard.begin()
    heard.drain()

    assert sorted(map(str, range(1_000))) == sorted(said.body for said in heard.found)
    for room in rooms:
        own = [int(said.body) for said in heard.found if said.room == room]
        assert sorted(own) == own
    assert {What.OPENED} == {*heard.told}


def test_a_restored_backup_is_told(own_homeserver, ears):
    """What was said since then is heard, and what was heard before is not heard again."""
    own_homeserver.start()
    ann, agent = (own_homeserver.register(name) for name in ("ann", "agent"))
    room = ann.create_room("lab", invite=[agent])
    agent.join(room)
    heard = ears(own_homeserver, agent, room)
    assert [] == heard.drain()
    ann.send(room, "kept")
    copy = own_homeserver.backup()
    assert ["kept"] == heard.drain()
    for number in range(40):
        ann.send(room, f"lost {number}")
    heard.drain()

    own_homeserver.stop()
    with pytest.raises(HomeserverUnavailable):
        heard.look()
    own_homeserver.start()
    own_homeserver.restore(copy)
    for number in range(60):
        ann.send(room, f"since {number}")

    assert [f"since {number}" for number in range(60)] == heard.drain()
    assert What.RESYNCED in heard.told
    ann.send(room, "next")
    assert ["next"] == heard.drain()


def test_a_homeserver_that_limits_is_waited_for(own_homeserver, ears):
    """Sending too often only takes longer; under the same transaction it is said once."""
    own_homeserver.limited = True
    ann = own_homeserver.start().register("ann")
    room = ann.create_room("lab")
    matrix = ears(own_homeserver, ann, room).matrix

    sent = [matrix.send(room, {"msgtype": "m.notice", "body": f"{number}"}, f"t{number}") for number in range(6)]

    assert sent[0] == matrix.send(room, {"msgtype": "m.notice", "body": "0"}, "t0")
    assert ann.id == matrix.whoami()


@pytest.mark.fast
def test_a_token_that_is_none_is_told(homeserver):
    """And is in no sentence."""
    matrix = Matrix(homeserver.url, Credentials("wrong-secret", "a test"))

    with pytest.raises(AccessTokenRefused) as refused:
        matrix.whoami()

    matrix.close()
    assert "wrong-secret" not in f"{refused.value!r} {refused.value}"


@pytest.mark.fast
def test_a_room_of_others_is_refused(homeserver, person, ears):
    """With what the homeserver says."""
    ann, agent = person("ann"), person("agent")
    room = ann.create_room("secret")

    with pytest.raises(HomeserverRefused) as refused:
        ears(homeserver, agent, room).matrix.members(room)

    assert 403 == refused.value.status
