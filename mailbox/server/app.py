"""
The application: every route, who may use it, and how refusals are told.

A request is answered in a worker thread, never on the loop.  What the store
refuses is told in the envelope of the wire; what nobody foresaw is a 500
without one, and one line in the log that says where and nothing of what was
asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from importlib import metadata
from types import ModuleType
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.journal.errors import FencepostError, JournalConflict
from fencepost.mailbox.addresses import Mount
from fencepost.mailbox.caller import utc_now
from fencepost.mailbox.errors import MemoryConflict
from fencepost.mailbox.server import memory, restoring, talking
from fencepost.mailbox.server.bodies import Bodies, TooSlow, parsed
from fencepost.mailbox.server.desk import Answer, Asked, Desk
from fencepost.mailbox.server.shares import Shares
from fencepost.mailbox.server.tokens import Tokens
from fencepost.mailbox.store.port import Served
from fencepost.mailbox.turns import conversation_of
from fencepost.mailbox.wire import parameters
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.contract import EXTENSIONS, ROUTES, WIRE_VERSION

#: Requests that are answered at once; more wait.
WORKERS: Final = 8
#: A body up to this is parsed at once, which takes less time than handing it to another thread.
_PARSED_HERE_BYTES: Final = 1 << 16
#: Large bodies that are kept at once.
_LARGE: Final = 4
_HEALTH: Final = "/health"
_MCP: Final = "/mcp"
_CLIENT: Final = "fencepost.client"
#: So much of a path is in the log.
_SHOWN_MAX: Final = 100
_ANSWERS: Final[Mapping[str, Answer]] = {**memory.ANSWERS, **talking.ANSWERS, **restoring.ANSWERS}
#: What a conflict on the wire always says, null where it does not apply.
_CONFLICT: Final = {"scope": None, "path": None, "reason": None, "expected_version": None, "actual_version": None}
log = logging.getLogger("fencepost.server")


def application(
    store: Served,
    tokens: Tokens,
    *,
    backend: str,
    clock: Callable[[], datetime] = utc_now,
    workers: int = WORKERS,
    extensions: Callable[[Served, str, Asked, Client], object] | None = None,
    mounts: Sequence[Mount] = (),
) -> Starlette:
    """
    What serves a store.

    Args:
        store: The store.  It is not closed here.
        tokens: Who may ask.
        backend: What kind of store it is, for the capabilities.
        clock: Gives the time, aware, in UTC.
        workers: How many requests are answered at once.
        extensions: Answers the routes beside the wire; those of `fencepost.mailbox.wire.port` where None.
        mounts: What the tools at `/mcp` may use; without any there are none.
    """
    models = _Models(store, mounts) if mounts else None
    house = _House(Desk(store, clock), backend, workers, extensions or _extensions(), models)
    routes = [
        Route(_HEALTH, house.health),
        Route("/v1/capabilities", house.capabilities),
        *(Route(f"/v1/{name}", house.endpoint(_routed(name)), methods=["POST"]) for name in ROUTES),
        Route("/v1/fencepost/{method}", house.endpoint(house.extension), methods=["POST"]),
        *([Route(_MCP, models)] if models else []),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Door, tokens=tokens)], lifespan=house.lifespan)


def _extensions() -> Callable[[Served, str, Asked, Client], object] | None:
    """What answers the routes beside the wire; None where this fencepost has none."""
    try:
        from importlib import import_module

        found: ModuleType = import_module("fencepost.mailbox.wire.port")
    except ModuleNotFoundError:
        return None
    answer: Callable[[Served, str, Asked, Client], object] = found.answer
    return answer


class _Door:
    """Lets nobody in who holds no token, but whoever asks how the store is; and lets no error out."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["path"] != _HEALTH:
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            who = self._tokens.holder(given[0] if len(given) == 1 else None)
            if who is None:
                headers = {"WWW-Authenticate": "Bearer"}
                return await PlainTextResponse("unauthorized", 401, headers)(scope, receive, send)
            scope[_CLIENT] = who
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            _log(f"{scope['method']} {scope['path'][:_SHOWN_MAX]!r}", error)
            await PlainTextResponse("Internal Server Error", 500)(scope, receive, send)
        return None


class _Models:
    """The tools of models, for whoever holds a token without an allowance; needs `fencepost[mcp]`."""

    def __init__(self, store: Served, mounts: Sequence[Mount]) -> None:
        from fencepost.mailbox.mcp.server import over_http
        from fencepost.mailbox.mcp.tools import Tools

        def tools_of(request: Request) -> Tools:
            who: Client = request.scope[_CLIENT]
            return Tools(store, list(mounts), actor=who.actor(None))

        self._app = over_http(tools_of)

    def running(self) -> contextlib.AbstractAsyncContextManager[object]:
        """For as long as anybody may ask."""
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            scope[_CLIENT].allow_everything(f"the tools at {_MCP}")
        except FencepostError as error:
            return await _refusal(error)(scope, receive, send)
        return await self._app(scope, receive, send)


class _House:
    """What the routes share: the desk, and the threads that work at it."""

    def __init__(
        self,
        desk: Desk,
        backend: str,
        workers: int,
        extensions: Callable[[Served, str, Asked, Client], object] | None,
        models: _Models | None,
    ) -> None:
        self._desk = desk
        self._backend = backend
        self._extensions = extensions
        self._models = models
        self._bodies = Bodies(_LARGE)
        self._shares = Shares(workers // 2)  # where one place is locked, the others are still to be reached
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="fencepost-serve")
        self._nurse = ThreadPoolExecutor(1, thread_name_prefix="fencepost-health")
        self._check: Future[str | None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """The threads end with the application, and what they do is done first."""
        async with contextlib.AsyncExitStack() as after:
            after.callback(self._nurse.shutdown)
            after.callback(self._pool.shutdown)
            if self._models is not None:
                await after.enter_async_context(self._models.running())
            yield

    # --- without a body -------------------------------------------------------------------------------

    async def health(self, _: Request) -> Response:
        """Can the store be written?  Everybody who asks meanwhile gets the same answer."""
        if self._check is None or self._check.done():
            self._check = self._nurse.submit(self._illness)
        code = await asyncio.wrap_future(self._check)
        return _json({"status": "ok"}) if code is None else _json({"status": "unavailable", "code": code}, 503)

    def _illness(self) -> str | None:
        try:
            self._desk.store.check()
        except FencepostError as error:
            return error.code
        except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be written
            _log("GET /health", error)
            return "internal"
        return None

    async def capabilities(self, request: Request) -> Response:
        """What this is, and who the client is."""
        who: Client = request.scope[_CLIENT]
        found = {
            "wire_version": WIRE_VERSION,
            "neosian_version": f"fencepost-{_version()}",
            "backend": self._backend,
            "supports_optimistic_concurrency": True,
            "pageable": True,
            "erasable": True,
            "client": who.actor(None),
        }
        return _json(found if self._extensions is None else {**found, "fencepost": {"extensions": EXTENSIONS}})

    # --- with one ---------------------------------------------------------------------------------------

    def endpoint(self, answer: Callable[[Desk, Client, Asked, Mapping[str, str]], object]) -> Any:
        """What answers a route, once the body of a request is there."""

        async def respond(request: Request) -> Response:
            try:
                async with contextlib.AsyncExitStack() as kept:
                    raw = await self._bodies.read(request, request.scope[_CLIENT].name, kept)
                    loop = asyncio.get_running_loop()
                    small = len(raw) <= _PARSED_HERE_BYTES
                    asked = parsed(raw) if small else await loop.run_in_executor(self._pool, parsed, raw)
                    await kept.enter_async_context(self._shares.held(_place(asked)))
                    return await loop.run_in_executor(self._pool, self._answered, answer, request, asked)
            except TooSlow:
                return PlainTextResponse("the body did not come in time", 408, {"Connection": "close"})
            except FencepostError as error:
                return _refusal(error)

        return respond

    def _answered(
        self, answer: Callable[[Desk, Client, Asked, Mapping[str, str]], object], request: Request, asked: Asked
    ) -> Response:
        try:
            return _json(answer(self._desk, request.scope[_CLIENT], asked, request.path_params))
        except FencepostError as error:
            return _refusal(error)
        except Exception as error:  # noqa: BLE001 - told without a word of what was asked
            _log(f"{request.method} {request.url.path[:_SHOWN_MAX]!r}", error)
            return PlainTextResponse("Internal Server Error", 500)

    def extension(self, desk: Desk, who: Client, asked: Asked, path: Mapping[str, str]) -> object:
        """The answer of a route beside the wire."""
        if self._extensions is None:
            raise LookupError("this fencepost has no extensions")
        return {"result": self._extensions(desk.store, path["method"], asked, who)}


def _place(asked: Asked) -> str | None:
    """The scope or conversation that a request is about: it may have to wait for whoever writes there."""
    batch = asked.get("batch")
    if isinstance(batch, dict) and isinstance(batch.get("events"), list):
        asked = next((event for event in batch["events"] if isinstance(event, dict)), {})
    found = asked.get("scope") or asked.get("conversation_id")
    return found if isinstance(found, str) else None


def _routed(name: str) -> Callable[[Desk, Client, Asked, Mapping[str, str]], object]:
    """What answers a route of the wire: it is checked what is asked, and by whom, and then it is answered."""
    expected, answer = ROUTES[name], _ANSWERS[name]

    def answered(desk: Desk, who: Client, asked: Asked, _: Mapping[str, str]) -> object:
        checked = parameters.read(expected, asked)
        _allow(name, who, checked)
        try:
            return answer(desk, who, checked)
        except JournalConflict as error:  # others were quicker again and again
            raise MemoryConflict(
                scope=error.scope,
                path=error.stream,
                reason="version_mismatch",
                expected_version=error.expected_version,
                actual_version=error.actual_version,
            ) from error

    return answered


def _allow(name: str, who: Client, asked: Asked) -> None:
    """May the client ask for what it names, or for everything where it names nothing?"""
    if name.startswith("store/"):
        who.allow_everything(f"the whole store ({name})")
    if "conversations" in asked and asked["conversations"] is None:
        who.allow_everything("all conversations")
    if "scope" in asked:
        who.allow_scope(asked["scope"])
        talk = conversation_of(asked["scope"])
        if talk is not None:  # a conversation stands in a scope too
            who.allow_conversation(talk)
    for talk in (*(asked.get("conversations") or ()), *filter(None, [asked.get("conversation_id")])):
        who.allow_conversation(talk)


def _version() -> str:
    try:
        return metadata.version("fencepost")
    except metadata.PackageNotFoundError:  # it runs from where it is written
        return "0"


# --- answers ------------------------------------------------------------------------------------------


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_UTC_Z), status, media_type="application/json")


def _refusal(error: FencepostError) -> Response:
    """The envelope of a refusal, with our own code in it, so that our own client knows exactly which."""
    details = error.details
    if error.wire_code == MemoryConflict.wire_code and not isinstance(error, JournalConflict):
        details = {**_CONFLICT, **details} if "scope" in details else details
    said = {"code": error.wire_code, "message": str(error), "details": details, "fencepost": {"code": error.code}}
    return _json({"error": said}, error.wire_status)


def _log(what: str, error: BaseException) -> None:
    """One line: which route, what kind of error, and where; never what it says, which may repeat what was asked."""
    places = traceback.extract_tb(error.__traceback__ or sys.exc_info()[2])
    where = f"{places[-1].filename.rpartition('/')[2]}:{places[-1].lineno}" if places else "an unknown place"
    log.error("%s failed: %s at %s", what, type(error).__name__, where)
