"""State processes for tests: a thread of this one that serves a store, or something that is none, over HTTP."""

import contextlib
import socket
import threading
import time

import orjson
import uvicorn
from property.databases import PostgresPlace
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fencepost.journal.errors import FencepostError
from fencepost.mailbox.http.opening import remote_store
from fencepost.mailbox.server.app import application
from fencepost.mailbox.server.tokens import TOKEN_VARIABLE, tokens
from fencepost.mailbox.store.opening import file_store, memory_store
from fencepost.mailbox.testing import FolderPlace, Place, tear_last_segment
from fencepost.mailbox.wire.access import Client
from fencepost.mailbox.wire.port import answer

TOKEN = "token-5f2c"


def json_response(value, status=200):
    return Response(orjson.dumps(value), status, media_type="application/json")


class Served:
    """
    An application at a port of its own, for the length of a block.

    Attributes:
        url: Where it is.
    """

    def __init__(self, app, port=0, lifespan="off"):
        # With the protocol named, or asyncio leaves Nagle on and every answer takes 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="critical", lifespan=lifespan, ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.001)

    def close(self):
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class StateProcess:
    """
    The extension protocol over a store, as a stand-in that tells what it was asked.

    Attributes:
        store: What is served; another one may be put there.
        clients: Token -> who holds it.
        asked: How often each method was asked.
    """

    def __init__(self, store, clients=None, capabilities=None):
        self.store = store
        self.clients = clients or {TOKEN: Client("default")}
        self.capabilities = {
            "wire_version": 6,
            "neosian_version": "0.1.0",
            "backend": "fencepost",
            "supports_optimistic_concurrency": True,
            "pageable": True,
            "erasable": True,
            "fencepost": {"extensions": 1},
        } | (capabilities or {})
        self.asked = []
        self.app = Starlette(
            routes=[
                Route("/v1/capabilities", self._capabilities),
                Route("/v1/fencepost/{method}", self._call, methods=["POST"]),
            ]
        )

    def _who(self, request):
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return self.clients.get(token) if kind == "Bearer" else None

    async def _capabilities(self, request):
        who = self._who(request)
        if who is None:
            return _unknown()
        return json_response({"client": f"client:{who.name}"} | self.capabilities)

    async def _call(self, request):
        who = self._who(request)
        if who is None:
            return _unknown()
        raw = await request.body()
        method = request.path_params["method"]
        self.asked.append(method)
        try:
            return json_response({"result": answer(self.store, method, orjson.loads(raw), who)})
        except FencepostError as error:
            said = {
                "code": error.wire_code,
                "message": str(error),
                "details": error.details,
                "fencepost": {"code": error.code},
            }
            return json_response({"error": said}, error.wire_status)


def _unknown():
    return PlainTextResponse("Unauthorized", 401, {"WWW-Authenticate": "Bearer"})


class WirePlace(Place):
    """A store in memory at the other end of a wire, kept by the state process itself."""

    reopens = True
    shares = True

    def __init__(self):
        super().__init__()
        self.url = None
        self._serve()

    def _serve(self):
        self.store = self.make()
        known = tokens({TOKEN_VARIABLE: TOKEN})
        self.served = Served(application(self.store, known, backend="test"), lifespan="on")

    def make(self):
        return memory_store()

    def open(self):
        return remote_store(self.served.url, TOKEN)

    def discard(self):
        super().discard()
        self.served.close()
        self.store.close()


class WireFolderPlace(WirePlace):
    """A store in files at the other end, which loses what a power cut may lose."""

    def __init__(self):
        self.folders = FolderPlace(file_store, tear_last_segment)
        super().__init__()

    def make(self):
        return self.folders.open()

    def power_cut(self, *, torn):
        self.served.close()
        self.folders.abandon(self.store)
        self.folders.power_cut(torn=torn)
        self._serve()

    def discard(self):
        super().discard()
        self.folders.discard()


class WirePostgresPlace(WirePlace):
    """A store in a database at the other end."""

    def __init__(self):
        self.database = PostgresPlace()
        super().__init__()

    def make(self):
        return self.database.open()

    def discard(self):
        super().discard()
        self.database.discard()


@contextlib.contextmanager
def serving(store, **options):
    """A state process for a store, and where it is."""
    process = StateProcess(store, **options)
    with Served(process.app) as served:
        yield process, served.url
