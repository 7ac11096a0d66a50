"""An S3 server in a process of its own (moto's), whose objects are in its memory."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from obstore.store import S3Store

from tests.eventually import eventually
from tests.ports import free_ports

_HOST = "127.0.0.1"
_START_S = 60


class S3Server:
    """A server with one bucket; `environment` has the variables that clients need."""

    def __init__(self, bucket: str, log: Path):
        [self._port] = free_ports(1)
        self._bucket = bucket
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: dict[str, bytes] = {}
        self.url = f"http://{_HOST}:{self._port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "access-key",
            "AWS_SECRET_ACCESS_KEY": "planted-secret-of-s3",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }

    @classmethod
    @contextmanager
    def running(cls, bucket: str, log: Path) -> Iterator[S3Server]:
        """Start a server, and kill it in the end."""
        server = cls(bucket, log)
        try:
            server.start()
            yield server
        finally:
            server.kill()

    def start(self) -> None:
        """Start, with the objects that there were when it was stopped."""
        command = [sys.executable, "-m", "moto.server", "-H", _HOST, "-p", str(self._port)]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        eventually(self._is_up, timeout_s=_START_S)
        self._send("PUT", f"/{self._bucket}")
        for key, data in self._kept.items():
            self.store.put(key, data)

    def stop(self) -> None:
        """Stop; the objects are kept for the next start."""
        keys = [each["path"] for found in self.store.list() for each in found]
        self._kept = {key: bytes(self.store.get(key).bytes()) for key in keys}
        self.kill()

    def kill(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def store(self) -> S3Store:
        """The bucket, by a client other than the broker's configuration of it."""
        return S3Store(
            self._bucket,
            endpoint=self.url,
            access_key_id="any",
            secret_access_key="any",
            client_options={"allow_http": True},
        )

    def refuse_unknown_users(self) -> None:
        """Refuse all requests from now on, since the server knows no user."""
        self._send("POST", "/moto-api/reset-auth", b"0")

    def accept_all(self) -> None:
        """Accept the requests of everybody, as from the start."""
        self._send("POST", "/moto-api/reset-auth", b"inf")

    def _is_up(self) -> bool:
        try:
            self._send("GET", "/moto-api/")
        except urllib.error.URLError:
            return False
        return True

    def _send(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "text/plain"}
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            response.read()
