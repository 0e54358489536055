"""What the listener asks first, and of whom: with a homeserver that is a function."""

import httpx
import pytest

from fencepost.mailbox.errors import (
    AccessTokenOfAnother,
    HomeserverBusy,
    HomeserverRefused,
    HomeserverTrouble,
    HomeserverUnavailable,
    StrangeHomeserver,
)
from fencepost.mailbox.events import RoomClosed, RoomOpened
from fencepost.mailbox.fleet.credentials import Credentials
from fencepost.mailbox.fleet.files import Files
from fencepost.mailbox.fleet.found import What
from fencepost.mailbox.fleet.listener import Listener
from fencepost.mailbox.fleet.matrix import Matrix
from fencepost.mailbox.fleet.policy import RoomRule
from fencepost.mailbox.fleet.said import Media
from fencepost.mailbox.rooms import after
from fencepost.mailbox.times import EPOCH

ME, BOB, ROOM, TOKEN = "@codex:test.local", "@bob:test.local", "!kitchen", "very-secret"


class Homeserver:
    """Answers with what it was given, and notes what it was asked."""

    def __init__(self, **answers):
        self.answers, self.asked, self.params = answers, [], []
        transport = httpx.MockTransport(self._answer)
        client = Matrix("http://homeserver", Credentials(TOKEN, "codex.token"), transport=transport)
        self.listener = Listener(client, ME, [RoomRule(ROOM)])

    def _answer(self, request):
        self.asked.append(request.url.path.rpartition("/")[2])
        self.params.append(request.url.params)
        answer = self.answers.get(self.asked[-1], httpx.Response(502))
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


def test_a_token_of_another_is_refused():
    """By a sentence without it, and before anything is looked at that would be recorded."""
    homeserver = Homeserver(whoami={"user_id": BOB}, joined_rooms={"joined_rooms": []})
    with pytest.raises(AccessTokenOfAnother) as refused:
        homeserver.listener.look(lambda _: None)

    assert f"the token is {BOB}'s, but fleet.toml says {ME}" in str(refused.value)
    assert "codex.token" in str(refused.value)
    assert TOKEN not in f"{refused.value!r} {refused.value}"
    assert ["whoami"] == homeserver.asked


def test_a_homeserver_that_is_down_is_asked_again():
    """Until it has said whose the token is, and no more after that."""
    homeserver = Homeserver(joined_rooms={"joined_rooms": []})
    for _ in range(2):
        with pytest.raises(HomeserverUnavailable):
            homeserver.listener.look(lambda _: None)
    homeserver.answers["whoami"] = {"user_id": ME}
    for _ in range(2):
        homeserver.listener.look(lambda _: None)

    assert ["whoami"] * 3 + ["joined_rooms"] * 2 == homeserver.asked


@pytest.mark.parametrize("page", [b"404 page not found", b"{}", b"<html>"])
def test_nothing_is_not_there_on_the_word_of_another(page):
    """A page that is not found says nothing of a room, an event or a user."""
    homeserver = Homeserver(whoami=httpx.Response(404, content=page))

    with pytest.raises(StrangeHomeserver):
        homeserver.listener.look(lambda _: None)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(429, text="x", headers={"Retry-After": "9" * 400}),
        httpx.Response(429, content=b'{"retry_after_ms":' + b"9" * 400 + rb',"x":"\ud800"}'),
        httpx.Response(200, content=rb'{"next_batch":"\ud800"}'),
        httpx.Response(200, json={"next_batch": "\x1b[2J"}),
        httpx.Response(200, headers={"Content-Encoding": "gzip, gzip"}, stream=httpx.ByteStream(b"x")),
        httpx.Response(400, content=rb'{"errcode":"\ud800","error":"\u001b"}'),
    ],
)
def test_no_answer_breaks_the_ear(answer):
    """Whatever its numbers, its texts and its encoding, it is trouble, in a sentence that anybody can print."""
    homeserver = Homeserver(sync=answer)
    with pytest.raises(HomeserverTrouble) as trouble:
        homeserver.listener.ring(1)

    assert str(trouble.value).isprintable()


def test_an_access_token_that_is_echoed_is_not_repeated():
    """A homeserver may say in its error what it was asked with."""
    said = httpx.Response(400, json={"errcode": "M_BAD", "error": "x" * 190 + f"Bearer {TOKEN}"})
    with pytest.raises(HomeserverRefused) as refused:
        Homeserver(sync=said).listener.ring(1)

    assert TOKEN[:4] not in str(refused.value)


def test_who_was_put_out_is_told_why_after_a_start_too():
    """And what stands is found by every look, where it is told by one."""
    homeserver = Homeserver(whoami={"user_id": ME}, joined_rooms={"joined_rooms": []})
    place = after(after(None, RoomOpened("t", EPOCH)), RoomClosed("the agent was banned"))
    first, second = (homeserver.listener.look(lambda _: place) for _ in range(2))

    (told,) = first.happenings
    assert What.REFUSED is told.what
    assert "the agent was banned, and nobody has invited it" in str(told)
    assert [] == list(second.happenings)
    assert {ROOM: str(told)} == first.unheard == second.unheard


def test_no_two_processes_begin_in_the_same_words():
    """A homeserver would answer from memory, with an invitation that was taken back since."""
    homeservers = [Homeserver(sync={"next_batch": "s1"}) for _ in range(5)]
    for each in homeservers:
        each.listener.ring(1)

    assert len({each.params[0]["timeout"] for each in homeservers}) > 1


def test_an_invitation_that_is_taken_back_is_none():
    """Nobody enters by it."""
    member = {"type": "m.room.member", "state_key": ME, "sender": BOB, "content": {"membership": "invite"}}
    rooms = {"invite": {ROOM: {"invite_state": {"events": [member]}}}}
    homeserver = Homeserver(
        whoami={"user_id": ME}, joined_rooms={"joined_rooms": []}, sync={"next_batch": "s1", "rooms": rooms}
    )
    homeserver.listener.ring(1)
    homeserver.answers["sync"] = {"next_batch": "s2", "rooms": {"leave": {ROOM: {}}}}
    homeserver.listener.ring(1)
    found = homeserver.listener.look(lambda _: None)

    assert "join" not in homeserver.asked
    assert ["nobody has invited it"] == [str(each).rpartition("and ")[2] for each in found.happenings]


@pytest.mark.parametrize("gives", [httpx.Response(504, json={"errcode": "M_NOT_YET_UPLOADED"}), httpx.Response(502)])
def test_a_file_that_does_not_come_keeps_nobody_from_the_words(gives, tmp_path):
    """Where the homeserver answers otherwise; where it does not, the file is asked for again with the rest."""
    homeserver = Homeserver(whoami={"user_id": ME}, never=gives)
    media, files = Media("mxc://test.local/never", "x.bin", None, None), Files(str(tmp_path))

    assert homeserver.listener.fetch(media, 9, files) == "not fetched, because the homeserver does not give it in time"
    assert 2_000 >= int(homeserver.params[0]["timeout_ms"])
    del homeserver.answers["whoami"]
    with pytest.raises(HomeserverUnavailable):
        homeserver.listener.fetch(media, 9, files)


@pytest.mark.parametrize(
    "busy",
    [
        httpx.Response(429, headers={"Retry-After": "9" * 400}),
        httpx.Response(429, json={"retry_after_ms": 10**400}),
    ],
    ids=["header", "body"],
)
def test_a_wait_that_nobody_can_wait_for_is_one_that_is_too_long(busy):
    """However many digits it has."""
    homeserver = Homeserver(sync=busy)

    with pytest.raises(HomeserverBusy):
        homeserver.listener.ring(0)


def test_a_cursor_that_cannot_be_given_back_is_not_kept():
    """The one before it is asked with again."""
    homeserver = Homeserver(sync={"next_batch": "s1"})
    homeserver.listener.ring(0)
    homeserver.answers["sync"] = httpx.Response(200, content=b'{"next_batch": "s2\\ud800"}')
    with pytest.raises(StrangeHomeserver):
        homeserver.listener.ring(0)
    homeserver.answers["sync"] = {"next_batch": "s2"}
    homeserver.listener.ring(0)

    assert [None, "s1", "s1"] == [each.get("since") for each in homeserver.params]
