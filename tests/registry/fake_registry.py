"""A small registry for tests of its clients: it keeps schemas, checks nothing, and can fail."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID


@dataclass
class Seen:
    """A request that the registry has received."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    authorization: str | None
    connection: int
    """The port of the client, which differs by connection."""


@dataclass
class Fault:
    """A response in place of the registry's own."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1


class Refusal(Exception):
    def __init__(self, status: int, code: int, message: str):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class FakeRegistry:
    """Schemas by id and by subject; `seen` has the requests, `faults` the next responses."""

    def __init__(self, *, user: str = "", password: str = "", tls: ssl.SSLContext | None = None):
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.delay_s = 0.0
        self.messages: list[str] = []
        """The answer to checks of compatibility: none is that all is compatible."""
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._deleted: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._authorization = f"Basic {pair}" if user else None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    @property
    def paths(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.seen]

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def guid(self, id: int) -> UUID:
        return UUID(bytes=hashlib.md5(str(id).encode()).digest())

    def response(self, seen: Seen) -> tuple[int, bytes, dict[str, str]]:
        with self._lock:
            self.seen.append(seen)
            fault = self.faults[0] if self.faults else None
            if fault is not None:
                fault.times -= 1
                self.faults = [each for each in self.faults if each.times > 0]
        time.sleep(self.delay_s)
        if fault is not None:
            return fault.status, fault.body, fault.headers
        try:
            if self._authorization not in (None, seen.authorization):
                raise Refusal(401, 401, "Unauthorized")
            with self._lock:
                return 200, json.dumps(self._answer(seen)).encode(), {}
        except Refusal as error:
            body = {"error_code": error.code, "message": error.message}
            return error.status, json.dumps(body).encode(), {}

    def _answer(self, seen: Seen) -> Any:
        for method, pattern, answer in _ROUTES:
            match = re.fullmatch(pattern, seen.path)
            if method == seen.method and match:
                return answer(self, seen, *map(unquote, match.groups()))
        raise Refusal(404, 404, "HTTP 404 Not Found")

    def _list(self, seen: Seen) -> list[str]:
        prefix = seen.query.get("subjectPrefix", "")
        return sorted(name for name in self._subjects if name.startswith(prefix) and self._of(name))

    def _of(self, subject: str, *, deleted: bool = False) -> dict[int, int]:
        """The ids of a subject's versions."""
        return {
            version: id
            for version, id in enumerate(self._subjects.get(subject, ()), 1)
            if deleted or (subject, version) not in self._deleted
        }

    def _register(self, seen: Seen, subject: str) -> Any:
        schema = {
            "schema": seen.body["schema"],
            "schemaType": seen.body.get("schemaType", "AVRO"),
            "references": seen.body.get("references", []),
        }
        if schema not in self._schemas:
            self._schemas.append(schema)
        id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if id not in self._of(subject).values():
            versions.append(id)
        return {"id": id, "version": len(versions), **schema}

    def _look_up(self, seen: Seen, subject: str) -> Any:
        for version, id in self._of(subject).items():
            if self._schemas[id - 1]["schema"] == seen.body["schema"]:
                return self._version(seen, subject, str(version))
        raise Refusal(404, 40403, "Schema not found")

    def _by_id(self, seen: Seen, id: str) -> Any:
        if not 0 < int(id) <= len(self._schemas):
            raise Refusal(404, 40403, f"Schema {id} not found")
        return {**_fields(self._schemas[int(id) - 1]), "guid": str(self.guid(int(id)))}

    def _places(self, seen: Seen, id: str) -> Any:
        self._by_id(seen, id)
        return [
            {"subject": subject, "version": version}
            for subject in self._subjects
            for version, each in self._of(subject).items()
            if each == int(id)
        ]

    def _by_guid(self, seen: Seen, guid: str) -> Any:
        for id, schema in enumerate(self._schemas, 1):
            if str(self.guid(id)) == guid:
                return {**_fields(schema), "guid": guid}
        raise Refusal(404, 40403, f"Schema {guid} not found")

    def _versions(self, seen: Seen, subject: str) -> Any:
        if not self._of(subject):
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return list(self._of(subject))

    def _version(self, seen: Seen, subject: str, word: str) -> Any:
        known = self._of(subject, deleted=seen.query.get("deleted") == "true")
        if not known:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        version = max(known) if word == "latest" else int(word)
        if version not in known:
            raise Refusal(404, 40402, f"Version {version} not found.")
        id = known[version]
        guid = str(self.guid(id))
        place = {"subject": subject, "version": version, "id": id, "guid": guid}
        return {**place, **_fields(self._schemas[id - 1])}

    def _check(self, seen: Seen, subject: str, version: str = "") -> Any:
        return {"is_compatible": not self.messages, "messages": self.messages}

    def _delete(self, seen: Seen, subject: str) -> Any:
        found = self._versions(seen, subject)
        self._deleted.update((subject, version) for version in found)
        return found

    def _delete_version(self, seen: Seen, subject: str, word: str) -> Any:
        version = self._version(seen, subject, word)["version"]
        self._deleted.add((subject, version))
        return version


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as registries return it: without the name of Avro, and without empty lists."""
    return {
        name: value
        for name, value in schema.items()
        if value and (name, value) != ("schemaType", "AVRO")
    }


_NAME = "([^/]+)"
_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/subjects", FakeRegistry._list),
    ("POST", f"/subjects/{_NAME}", FakeRegistry._look_up),
    ("DELETE", f"/subjects/{_NAME}", FakeRegistry._delete),
    ("POST", f"/subjects/{_NAME}/versions", FakeRegistry._register),
    ("GET", f"/subjects/{_NAME}/versions", FakeRegistry._versions),
    ("GET", f"/subjects/{_NAME}/versions/{_NAME}", FakeRegistry._version),
    ("DELETE", f"/subjects/{_NAME}/versions/{_NAME}", FakeRegistry._delete_version),
    ("GET", f"/schemas/ids/{_NAME}", FakeRegistry._by_id),
    ("GET", f"/schemas/ids/{_NAME}/versions", FakeRegistry._places),
    ("GET", f"/schemas/guids/{_NAME}", FakeRegistry._by_guid),
    ("POST", f"/compatibility/subjects/{_NAME}/versions", FakeRegistry._check),
    ("POST", f"/compatibility/subjects/{_NAME}/versions/{_NAME}", FakeRegistry._check),
]


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            status, body, headers = registry.response(
                Seen(
                    self.command,
                    parts.path,
                    query,
                    json.loads(data) if data else None,
                    self.headers.get("Authorization"),
                    self.client_address[1],
                )
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def fake_registry(**options: Any) -> Iterator[FakeRegistry]:
    """A running registry."""
    registry = FakeRegistry(**options)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
