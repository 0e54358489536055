"""
A Matrix homeserver to test against: Synapse, private, on a free port of the loopback, over SQLite, without federation.

It is installed from PyPI into a venv in $FENCEPOST_SYNAPSE_DIR (a cache outside the checkout), in the version that is
named here, or in $FENCEPOST_SYNAPSE_VERSION where somebody has put another one there.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
from fleet.person import Person

# The last version under the Apache licence.  It is older than what the others are today, and does not start with them.
REQUIREMENTS = (
    "matrix-synapse==1.98.0",
    "prometheus-client==0.19.0",
    "twisted[tls]==23.10.0",
    "treq==23.11.0",
)
FOLDER = Path(os.environ.get("FENCEPOST_SYNAPSE_DIR") or Path.home() / ".cache" / "fencepost-synapse")
VERSION = os.environ.get("FENCEPOST_SYNAPSE_VERSION") or REQUIREMENTS[0].partition("==")[2]
_WANTED = f"matrix-synapse=={VERSION}"
_WORDS = " ".join(f"'{each}'" for each in (REQUIREMENTS if _WANTED in REQUIREMENTS else (_WANTED,)))
LACKING = f"Synapse {VERSION} is not there: python3 -m venv {FOLDER}/venv && {FOLDER}/venv/bin/pip install {_WORDS}"
NAME = "test.local"
PATIENCE_S = 60

_PYTHON = FOLDER / "venv" / "bin" / "python"
_NEVER = {"per_second": 1e6, "burst_count": 1_000_000}
_SOON = {"per_second": 1, "burst_count": 3}


def can_run():
    """Is Synapse there, in the version that this is about?"""
    return _PYTHON.exists() and any(FOLDER.glob(f"venv/lib/*/site-packages/matrix_synapse-{VERSION}.dist-info"))


class Homeserver:
    """
    A server of our own, whose data, port and secrets outlive a stop.

    Args:
        folder: An empty folder.

    Attributes:
        url: Where it answers.
        limited: It refuses who asks often (429); from its next start on.
        sync_cache: For how long it answers a repeated /sync from memory; from its next start on.
    """

    def __init__(self, folder, *, limited=False, sync_cache="2m"):
        self.limited, self.sync_cache = limited, sync_cache
        self.data, self.log = folder / "data", folder / "log"
        self._backups = folder / "backups"
        self.data.mkdir()
        self._port = _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._secret = secrets.token_hex()
        seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (self.data / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        self._process = None
        self._people = []

    def start(self):
        """Start, and wait until it answers."""
        assert self._process is None
        _wait_until_free(self._port)
        config = self.data / "homeserver.yaml"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [_PYTHON, "-I", "-m", "synapse.app.homeserver", "-c", config],
                cwd=self.data,
                env={"PATH": os.environ["PATH"], "HOME": str(self.data), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                reason = self.log.read_text(encoding="utf-8", errors="replace")[-2_000:]
                raise AssertionError(f"Synapse did not start: {reason}")
            time.sleep(0.05)
        return self

    def stop(self):
        """Stop as an administrator would."""
        self._end(self._process.terminate)

    def kill(self):
        """Stop as a power cut would."""
        self._end(self._process.kill)

    def restart(self):
        """Stop and start again, over the same data and on the same port."""
        self.stop()
        return self.start()

    def backup(self):
        """A copy of all that the server keeps; it is down while the copy is made."""
        self.stop()
        copy = self._backups / str(time.time_ns())
        shutil.copytree(self.data, copy)
        self.start()
        return copy

    def restore(self, copy):
        """Go back to a backup: what has happened since then has not happened."""
        self.stop()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)
        self.start()

    def close(self):
        """End it for good; its people hang up."""
        for person in self._people:
            person.close()
        if self._process is not None:
            self.stop()

    def register(self, name, *, admin=False):
        """A new user with that name, logged in."""
        path = f"{self.url}/_synapse/admin/v1/register"
        with httpx.Client(timeout=PATIENCE_S) as http:
            nonce = http.get(path).raise_for_status().json()["nonce"]
            password = secrets.token_hex(8)
            signed = "\0".join((nonce, name, password, "admin" if admin else "notadmin"))
            mac = hmac.new(self._secret.encode(), signed.encode(), hashlib.sha1).hexdigest()
            asked = {"nonce": nonce, "username": name, "password": password, "admin": admin, "mac": mac}
            answer = http.post(path, json=asked).raise_for_status().json()
        person = Person(self.url, answer["user_id"], answer["access_token"])
        self._people.append(person)
        return person

    def _end(self, signal):
        process, self._process = self._process, None
        signal()
        try:
            process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _answers(self):
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health", timeout=5).text == "OK"
        return False

    def _config(self):
        rate = _SOON if self.limited else _NEVER
        return {
            "server_name": NAME,
            "public_baseurl": f"{self.url}/",
            "listeners": [
                {
                    "port": self._port,
                    "bind_addresses": ["127.0.0.1"],
                    "type": "http",
                    "resources": [{"names": ["client", "media"]}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self.data / "homeserver.db")}},
            "media_store_path": str(self.data / "media"),
            "signing_key_path": str(self.data / "signing.key"),
            "macaroon_secret_key": self._secret,
            "form_secret": self._secret,
            "registration_shared_secret": self._secret,
            # Nothing here is worth guarding, and people log in often.
            "bcrypt_rounds": 4,
            "federation_domain_whitelist": [],
            "trusted_key_servers": [],
            "suppress_key_server_warning": True,
            "url_preview_enabled": False,
            "presence": {"enabled": False},
            "report_stats": False,
            "caches": {"sync_response_cache_duration": self.sync_cache},
            "rc_message": rate,
            "rc_joins": {"local": rate, "remote": rate},
            "rc_joins_per_room": rate,
            "rc_invites": {"per_room": rate, "per_user": rate, "per_issuer": rate},
            "rc_admin_redaction": rate,
            # Tests register and log in as they like.
            "rc_registration": _NEVER,
            "rc_login": {"address": _NEVER, "account": _NEVER, "failed_attempts": _NEVER},
        }


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _wait_until_free(port):
    """Nobody else may answer in our server's place."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline, f"port {port} has been taken"
            time.sleep(0.05)
        else:
            return
