"""
A model of a Matrix homeserver, in memory: what the listener asks, answered as a real one was seen to answer.

An event has a depth, which orders it, and a number, by which it was taken in; a slow one is taken in behind what it
stands before.  A token of a room is a pair of both; it stays valid in whatever history the server has by then.
"""

import itertools
import json
from urllib.parse import unquote

import httpx

USER = "@agent:model"
#: What the model gives at most at once, so that there are pages.
PAGE = 40


class Model:
    """
    The server, its rooms and what goes wrong with it.

    Attributes:
        rooms: Room id -> its events, as (depth, number, event), in order.
        out: The rooms that the agent was in, and is not; where it was banned.
        down: It does not answer.
        busy: So many requests are refused for now.
        empty_pages: Pages begin with one that has nothing in it.
    """

    def __init__(self):
        self.rooms = {}
        self.inside, self.banned, self.invited, self.been = set(), set(), set(), set()
        self.down, self.busy, self.empty_pages = False, 0, False
        self.waited = 0.0
        self.numbers = itertools.count(1)
        self.names = itertools.count(1)
        self.now = 1_796_000_000_000

    # --- what people do

    def add(self, room, sender, kind, content, *, key=None, late=False, unsigned=None):
        """Take in an event; its id.  A late one stands before the last, and still behind whoever came in."""
        self.now += 1
        events = self.rooms[room]
        depth = events[-1][0] + 1 if events else 1
        if late and len(events) > 1 and "state_key" not in events[-1][2]:
            depth = events[-1][0] - 1
        event = {
            "event_id": f"$e{next(self.names)}",
            "sender": sender,
            "type": kind,
            "content": content,
            "origin_server_ts": self.now,
            "unsigned": unsigned or {},
        }
        if key is not None:
            event["state_key"] = key
        events.append((depth, next(self.numbers), event))
        events.sort(key=lambda each: each[:2])
        return event["event_id"]

    def create(self, room):
        self.rooms[room] = []
        self.add(room, "@ann:model", "m.room.create", {"creator": "@ann:model"}, key="")

    def become(self, room, membership, by="@ann:model"):
        """The agent's membership."""
        before = "join" if room in self.inside else "ban" if room in self.banned else "leave"
        for rooms, name in ((self.inside, "join"), (self.banned, "ban"), (self.invited, "invite")):
            rooms.discard(room)
            if membership == name:
                rooms.add(room)
        self.been |= self.inside
        content, unsigned = {"membership": membership}, {"prev_content": {"membership": before}}
        return self.add(room, by, "m.room.member", content, key=USER, unsigned=unsigned)

    def say(self, room, body, *, late=False):
        return self.add(room, "@bob:model", "m.room.message", {"msgtype": "m.text", "body": body}, late=late)

    # --- what administrators do

    def purge(self, room, count):
        """Remove the oldest events, all but the last."""
        gone = self.rooms[room][: min(count, len(self.rooms[room]) - 1)]
        self.rooms[room] = self.rooms[room][len(gone) :]
        return [event["event_id"] for _, _, event in gone]

    def backup(self):
        rooms = {room: list(events) for room, events in self.rooms.items()}
        return rooms, set(self.inside), set(self.banned), set(self.invited), set(self.been), next(self.numbers)

    def restore(self, copy):
        rooms, inside, banned, invited, been, number = copy
        self.rooms = {room: list(events) for room, events in rooms.items()}
        self.inside, self.banned, self.invited, self.been = set(inside), set(banned), set(invited), set(been)
        self.numbers = itertools.count(number)

    # --- what the client asks

    def transport(self):
        return httpx.MockTransport(self.answer)

    def sleep(self, seconds):
        self.waited += seconds

    def answer(self, request):
        if self.down:
            raise httpx.ConnectError("down", request=request)
        if self.busy:
            self.busy -= 1
            return httpx.Response(429, json={"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 10})
        assert "Bearer secret" == request.headers["Authorization"]
        parts = [unquote(part) for part in request.url.raw_path.decode().partition("?")[0].split("/")[4:]]
        params = dict(request.url.params)
        match [request.method, *parts]:
            case ["GET", "account", "whoami"]:
                return done({"user_id": USER})
            case ["GET", "joined_rooms"]:
                return done({"joined_rooms": sorted(self.inside)})
            case ["GET", "sync"]:
                return done(self.sync(json.loads(params["filter"])))
            case ["GET", "rooms", room, *asked]:
                return self.read(room, asked, params)
            case ["GET", "user", _, "account_data", _]:
                return refused(404)
            case ["POST", "rooms", room, "join"]:
                if room not in self.invited:
                    return refused(403)
                self.become(room, "join", USER)
                return done({})
        raise AssertionError(f"{request.method} {request.url}")

    def read(self, room, asked, params):
        inside = room in self.inside
        match asked:
            case ["messages"]:
                return self.messages(room, params) if self.may_read(room) else refused(403)
            case ["context", event]:
                return self.context(room, event)
            case ["event", event]:
                found = [each for _, _, each in self.visible(room) if each["event_id"] == event]
                return done(found[0]) if found else refused(404)
            case ["state", kind, key]:
                found = [e for _, _, e in self.rooms[room] if e["type"] == kind and e.get("state_key") == key]
                return done(found[-1]["content"]) if found and inside else refused(404)
            case ["joined_members"]:
                return done({"joined": {USER: {"display_name": "agent"}}}) if inside else refused(403)
            case ["members"]:
                return done({"chunk": []}) if inside else refused(403)
        raise AssertionError(f"{room} {asked}")

    def may_read(self, room):
        """Who was put out may read on; who is banned, invited or never was in may not."""
        return room in self.been - self.banned - self.invited

    def is_mine(self, event, *memberships):
        return event.get("state_key") == USER and event["content"].get("membership") in memberships

    def visible(self, room):
        return self.rooms.get(room, []) if self.may_read(room) else []

    def messages(self, room, params):
        events = self.rooms[room]
        limit = min(int(params["limit"]), PAGE)
        backwards = params["dir"] == "b"
        begin = params.get("from")
        end_of_room = token(events[-1]) if events else "t0-0"
        place = pair(begin or end_of_room)
        if begin is not None and not begin.startswith("t"):
            return refused(400)
        found = [each for each in events if (each[:2] <= place if backwards else each[:2] > place)]
        if backwards:
            found.reverse()
        if self.empty_pages and found and begin is not None and not begin.endswith("x"):
            return done({"chunk": [], "start": begin, "end": f"{begin}x"})
        chunk = found[:limit]
        page = {"chunk": [event for _, _, event in chunk], "start": begin or end_of_room}
        if chunk:
            # Backwards a token stands before the event, forwards behind it.
            depth, number = chunk[-1][:2]
            page["end"] = f"t{depth}-{number - 1}" if backwards else token(chunk[-1])
        return done(page)

    def context(self, room, event):
        for depth, number, each in self.visible(room):
            if each["event_id"] == event:
                return done({"start": f"t{depth}-{number - 1}", "end": f"t{depth}-{number}", "event": each})
        return refused(404)

    def sync(self, sieve):
        left = {room for room in self.rooms if room in self.been - self.inside - self.invited}
        wanted = sieve["room"].get("rooms", list(self.rooms))
        limit = sieve["room"]["timeline"]["limit"]
        leave = {}
        for room in left & set(wanted):
            events = [event for _, _, event in self.rooms[room]]
            places = (place for place, event in enumerate(events) if self.is_mine(event, "leave", "ban"))
            last = max(places, default=-1)  # it may be purged
            # The first membership that took the agent out, of those that it is out by now.
            while any(self.is_mine(events[place], "leave", "ban") for place in range(last)):
                before = max(p for p in range(last) if self.is_mine(events[p], "leave", "ban", "join", "invite"))
                if self.is_mine(events[before], "join", "invite"):
                    break
                last = before
            events = events[: last + 1]
            leave[room] = {"timeline": {"events": events[-limit:], "limited": len(events) > limit}}
        invite = {room: {"invite_state": {"events": [member(room)]}} for room in self.invited & set(wanted)}
        return {"next_batch": "s1", "rooms": {"join": {}, "invite": invite, "leave": leave}}


def member(room):
    content = {"membership": "invite", "is_direct": False}
    return {"type": "m.room.member", "state_key": USER, "sender": "@ann:model", "content": content}


def token(event):
    return f"t{event[0]}-{event[1]}"


def pair(text):
    depth, _, number = text.rstrip("x")[1:].partition("-")
    return int(depth), int(number)


def done(value):
    return httpx.Response(200, json=value)


def refused(status):
    code = {403: "M_FORBIDDEN", 404: "M_NOT_FOUND", 400: "M_UNKNOWN"}[status]
    return httpx.Response(status, json={"errcode": code, "error": "no"})
