"""A user of a Matrix homeserver, who does what people do in rooms, and sees what there is to see."""

import time
import uuid
from urllib.parse import quote

import httpx

PATIENCE_S = 60


class Person:
    """
    A user who is logged in.

    A person is mentioned, invited and banned as a `Person` or as an id; `mention="room"` is everybody.  What mentions
    nobody says so, as current clients do, with an empty `m.mentions`.

    Attributes:
        id: The user id.
        token: The access token.
        http: A client of the homeserver that sends the token, for what has no method here.
    """

    def __init__(self, url, id, token):  # noqa: A002 - it is called so everywhere in Matrix
        self.id, self.token = id, token
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)

    def close(self):
        self.http.close()

    def ask(self, method, *path, json=None, **params):
        """What the client API answers to a path of these parts, which must be that it was done."""
        where = "/_matrix/client/v3/" + "/".join(quote(part, safe="") for part in path)
        return _done(self.http.request(method, where, json=json, params=params))

    # Rooms

    def create_room(self, name="", *, invite=(), **options):
        """A private room; its id."""
        options = {"preset": "private_chat", "invite": _ids(invite)} | options
        return self.ask("POST", "createRoom", json={"name": name} | options)["room_id"]

    def direct(self, person):
        """A room for two, as clients make it; its id."""
        return self.create_room(invite=[person], is_direct=True, preset="trusted_private_chat")

    def invite(self, room, person):
        self.ask("POST", "rooms", room, "invite", json={"user_id": _id(person)})

    def join(self, room):
        self.ask("POST", "rooms", room, "join", json={})

    def leave(self, room):
        self.ask("POST", "rooms", room, "leave", json={})

    def kick(self, room, person, reason="kicked"):
        self.ask("POST", "rooms", room, "kick", json={"user_id": _id(person), "reason": reason})

    def ban(self, room, person, reason="banned"):
        self.ask("POST", "rooms", room, "ban", json={"user_id": _id(person), "reason": reason})

    def unban(self, room, person):
        self.ask("POST", "rooms", room, "unban", json={"user_id": _id(person)})

    def rooms(self):
        """The ids of the rooms that this person is in."""
        return self.ask("GET", "joined_rooms")["joined_rooms"]

    def members(self, room):
        """The ids of those who are in a room."""
        return set(self.ask("GET", "rooms", room, "joined_members")["joined"])

    def upgrade(self, room, version="10"):
        """Replace a room by one of another version; the id of the new one."""
        return self.ask("POST", "rooms", room, "upgrade", json={"new_version": version})["replacement_room"]

    def state(self, room, kind, key="", **changed):
        """The content of a state event, changed where something is to be changed."""
        where = ("rooms", room, "state", kind, key)
        content = self.ask("GET", *where)
        if changed:
            content |= changed
            self.ask("PUT", *where, json=content)
        return content

    def empower(self, room, person, level):
        """Give somebody a power level."""
        users = self.state(room, "m.room.power_levels").get("users", {})
        self.state(room, "m.room.power_levels", users=users | {_id(person): level})

    # Messages

    def send(self, room, said, *, mention=(), kind="m.room.message", **more):
        """Send a text, with more in its content, or a whole content as it is; the id of the event."""
        content = said if isinstance(said, dict) else _text(said, mention) | more
        where = ("rooms", room, "send", kind, uuid.uuid4().hex)
        return self.ask("PUT", *where, json=content)["event_id"]

    def reply(self, room, event, said, *, mention=()):
        return self.send(room, said, mention=mention, **{"m.relates_to": {"m.in_reply_to": {"event_id": event}}})

    def thread(self, room, event, said, *, mention=()):
        """Send into the thread below an event."""
        fallback = {"is_falling_back": True, "m.in_reply_to": {"event_id": event}}
        relation = {"rel_type": "m.thread", "event_id": event} | fallback
        return self.send(room, said, mention=mention, **{"m.relates_to": relation})

    def edit(self, room, event, said, *, mention=()):
        """Say it anew; the mentions are those of the new text, and none of them is new."""
        relation = {"rel_type": "m.replace", "event_id": event}
        return self.send(room, f" * {said}", **{"m.new_content": _text(said, mention), "m.relates_to": relation})

    def react(self, room, event, key):
        relation = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return self.send(room, {"m.relates_to": relation}, kind="m.reaction")

    def redact(self, room, event, reason="redacted"):
        where = ("rooms", room, "redact", event, uuid.uuid4().hex)
        return self.ask("PUT", *where, json={"reason": reason})["event_id"]

    def upload(self, data, name="file.bin", kind="application/octet-stream"):
        """Put a file on the server; its mxc:// address."""
        params, headers = {"filename": name}, {"Content-Type": kind}
        answer = self.http.post("/_matrix/media/v3/upload", content=data, params=params, headers=headers)
        return _done(answer)["content_uri"]

    def messages(self, room):
        """All events of a room that this person may see, in order."""
        found, params = [], {}
        for _ in range(1_000):
            page = self.ask("GET", "rooms", room, "messages", dir="f", limit=500, **params)
            found += page["chunk"]
            if "end" not in page:
                return found
            params = {"from": page["end"]}
        raise AssertionError("the room has no end")

    def texts(self, room):
        """The bodies of the messages of a room, in order."""
        return [event["content"].get("body") for event in self.messages(room) if "m.room.message" == event["type"]]

    def event(self, room, event):
        return self.ask("GET", "rooms", room, "event", event)

    def sync(self, **params):
        return self.ask("GET", "sync", **params)

    # What only an administrator may do

    def purge(self, room, before):
        """Remove the history of a room up to an event, which stays."""
        admin = "/_synapse/admin/v1"
        asked = f"{admin}/purge_history/{quote(room, safe='')}/{quote(before, safe='')}"
        purge = _done(self.http.post(asked, json={"delete_local_events": True}))["purge_id"]
        deadline = time.monotonic() + PATIENCE_S
        while "active" == (status := _done(self.http.get(f"{admin}/purge_history_status/{purge}"))["status"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "complete" == status


def _done(response):
    assert response.is_success, f"{response.request.url}: {response.status_code} {response.text}"
    return response.json()


def _id(person):
    return person if isinstance(person, str) else person.id


def _ids(people):
    return [_id(person) for person in ([people] if isinstance(people, str | Person) else people)]


def _text(said, mention):
    mentions = {"room": True} if mention == "room" else {"user_ids": ids} if (ids := _ids(mention)) else {}
    return {"msgtype": "m.text", "body": said, "m.mentions": mentions}
