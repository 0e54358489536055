"""
A state process that is another program: documents and turns in memory, over wire 6 and nothing beside it.

It is written from the contract alone and knows nothing of the product.
"""

import threading
from datetime import UTC, datetime, timedelta

import orjson
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from wire_places import TOKEN, json_response


class No(Exception):
    def __init__(self, code, status=400, **details):
        super().__init__(code)
        self.code, self.status, self.details = code, status, details


class PlainProcess:
    """
    The program.

    Attributes:
        rows: (scope, path) -> its versions, oldest first.
        turns: conversation -> its turns.
        page: So many rows are answered at once, whatever is asked for.
        compares: It can write on condition of a version.
        tells_more: A page of turns says that there are more.
        before: Called with a route before it is done, so that somebody else may be quicker.
    """

    def __init__(self, *, page=500, compares=True, tells_more=True):
        self.rows = {}
        self.ledger = []
        self.erased = []
        self.turns = {}
        self.turn_erasures = []
        self.projections = {}
        self.page = page
        self.compares = compares
        self.tells_more = tells_more
        self.before = lambda _: None
        self.asked = []
        self._mutex = threading.RLock()
        self._ticks = 0
        self.app = Starlette(
            routes=[
                Route("/v1/capabilities", self._capabilities),
                Route("/v1/{group}/{name}", self._call, methods=["POST"]),
            ]
        )

    async def _capabilities(self, _):
        return json_response(
            {
                "wire_version": 6,
                "neosian_version": "1.0",
                "backend": "Dicts",
                "supports_optimistic_concurrency": self.compares,
                "pageable": True,
                "erasable": True,
                "client": "client:default",
            }
        )

    async def _call(self, request):
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return PlainTextResponse("no", 401)
        asked = orjson.loads(await request.body())
        name = f"{request.path_params['group']}_{request.path_params['name']}"
        self.asked.append(name)
        self.before(name)
        handler = getattr(self, name, None)
        if handler is None:
            return PlainTextResponse("Not Found", 404)
        try:
            with self._mutex:
                return json_response(handler(asked))
        except No as no:
            return json_response({"error": {"code": no.code, "message": no.code, "details": no.details}}, no.status)

    def _now(self):
        self._ticks += 1
        return (datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self._ticks)).isoformat().replace("+00:00", "Z")

    def _actor(self, asked):
        said = asked.get("actor")
        return "client:default" if said is None else f"client:default/{said}"

    def _rows_page(self, asked, rows, key):
        begin = int(asked.get("cursor") or 0)
        size = min(asked.get("limit") or self.page, self.page)
        more = str(begin + size) if begin + size < len(rows) else None
        return {key: rows[begin : begin + size], "next_cursor": more}

    # --- documents --------------------------------------------------------------------------------------

    def live(self, scope, path):
        """The document that can be read there."""
        rows = self.rows.get((scope, path))
        if not rows or rows[-1]["action"] == "deleted":
            return None
        made = [row for row in rows if row["action"] == "created"][-1]
        last = rows[-1]
        shown = {name: last[name] for name in ("path", "content", "version", "actor", "redacted")}
        return {
            "scope": scope,
            "created_at": made["created_at"],
            "updated_at": last["created_at"],
            "extra": {},
            **shown,
        }

    def add(self, scope, path, action, content, actor="client:default"):
        """One more version."""
        rows = self.rows.setdefault((scope, path), [])
        row = {
            "path": path,
            "version": len(rows) + 1,
            "action": action,
            "content": content,
            "actor": actor,
            "created_at": self._now(),
            "redacted": False,
        }
        rows.append(row)
        self.ledger.append((scope, row))
        return row

    def memory_read(self, asked):
        return {"document": self.live(asked["scope"], asked["path"])}

    def memory_write(self, asked):
        scope, path, expected = asked["scope"], asked["path"], asked.get("expected_version")
        there = self.live(scope, path)
        if expected is not None and expected != (there or {}).get("version"):
            actual = None if there is None else there["version"]
            raise No("memory_conflict", scope=scope, path=path, expected_version=expected, actual_version=actual)
        self.add(scope, path, "created" if there is None else "modified", asked["content"], self._actor(asked))
        return {"document": self.live(scope, path)}

    def memory_delete(self, asked):
        scope, path = asked["scope"], asked["path"]
        there = self.live(scope, path)
        if there is not None:
            self.add(scope, path, "deleted", there["content"], self._actor(asked))
        return {"deleted": there is not None}

    def memory_rename(self, asked):
        scope, source, destination = asked["scope"], asked["src"], asked["dst"]
        there = self.live(scope, source)
        if there is None:
            raise No("memory_document_not_found")
        if self.live(scope, destination):
            raise No("memory_conflict", reason="target_occupied", expected_version=0, actual_version=1)
        self.add(scope, source, "deleted", there["content"], self._actor(asked))
        self.add(scope, destination, "created", there["content"], self._actor(asked))
        return {"document": self.live(scope, destination)}

    def memory_list_documents(self, asked):
        prefix = asked.get("prefix") or ""
        paths = sorted(path for scope, path in self.rows if scope == asked["scope"] and path.startswith(prefix))
        found = [each for each in (self.live(asked["scope"], path) for path in paths) if each is not None]
        keys = ("path", "version", "created_at", "updated_at", "redacted")
        return self._rows_page(asked, [{key: each[key] for key in keys} for each in found], "entries")

    def memory_versions(self, asked):
        return self._rows_page(asked, self.rows.get((asked["scope"], asked["path"]), [])[::-1], "versions")

    def memory_history(self, asked):
        return self._rows_page(asked, [row for scope, row in self.ledger if scope == asked["scope"]][::-1], "versions")

    def memory_redact(self, asked):
        scope, path = asked["scope"], asked.get("path")
        streams = [each for each in self.rows if each[0] == scope and path in (None, each[1])]
        for stream in streams:
            for row in self.rows[stream]:
                row |= {"content": "", "redacted": True}
        act = {"path": path, "actor": self._actor(asked), "created_at": self._now(), "count": len(streams)}
        if streams:
            self.erased.append((scope, act))
        return {"count": len(streams)}

    def memory_redactions(self, asked):
        return self._rows_page(
            asked, [act for scope, act in self.erased if scope == asked["scope"]][::-1], "redactions"
        )

    # --- conversations ------------------------------------------------------------------------------------

    def conversation_append_turn(self, asked):
        turns = self.turns.setdefault(asked["conversation_id"], [])
        turn = {
            "conversation_id": asked["conversation_id"],
            "turn": len(turns) + 1,
            "messages": asked["messages"],
            "created_at": self._now(),
            "actor": self._actor(asked),
            "redacted": False,
        }
        turns.append(turn)
        return {"turn": turn}

    def conversation_last_turn_number(self, asked):
        return {"turn": len(self.turns.get(asked["conversation_id"], []))}

    def conversation_read_turns(self, asked):
        after, size = asked.get("after") or 0, min(asked.get("limit") or self.page, self.page)
        rest = self.turns.get(asked["conversation_id"], [])[after:]
        tells = self.tells_more and len(rest) > size
        return {"turns": rest[:size], "next_after": rest[size - 1]["turn"] if tells else None}

    def conversation_search_turns(self, asked):
        talks = asked["conversations"]
        found = [
            turn
            for talk, turns in self.turns.items()
            if talks is None or talk in talks
            for turn in turns
            if all(term.lower() in str(turn["messages"]).lower() for term in asked["query"].split())
        ]
        return {"turns": sorted(found, key=lambda turn: turn["created_at"], reverse=True)[: asked["limit"]]}

    def conversation_redact_turns(self, asked):
        found = [turn for turn in self.turns[asked["conversation_id"]] if turn["turn"] in asked["turns"]]
        for turn in found:
            turn |= {"messages": [], "redacted": True}
        act = {"conversation_id": asked["conversation_id"], "turns": asked["turns"]}
        self.turn_erasures.append(act | {"actor": self._actor(asked), "created_at": self._now()})
        return {"count": len(found)}

    def conversation_turn_redactions(self, asked):
        talks = asked["conversations"]
        return {"redactions": [act for act in self.turn_erasures if act["conversation_id"] in talks][::-1]}

    def conversation_append_projections(self, asked):
        self.projections.setdefault(asked["conversation_id"], []).extend(asked["entries"])
        return {}

    def conversation_read_projections(self, asked):
        return {"entries": self.projections.get(asked["conversation_id"], []), "next_after": None}
