"""HTTP requests to a schema registry: JSON in both directions, over connections that are kept."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urljoin, urlsplit

from wirekafka.client.client import CliError, ConnectionFailure
from wirekafka.config.version import VERSION

_JSON = "application/vnd.schemaregistry.v1+json"
_LARGEST_RESPONSE_BYTES = 64 << 20
_KEPT_CONNECTIONS = 4
_REDIRECTS = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS = 3
_SHOWN_CHARACTERS = 200


class RegistryRefused(CliError):
    """A response of a schema registry that reports an error."""

    def __init__(self, status: int, code: int, message: str):
        super().__init__(f"the schema registry refuses: {message} (error code {code})")
        self.status = status
        """HTTP's status."""
        self.code = code
        """The registry's error code, such as 40401; the status if the response has none."""
        self.message = message
        """The registry's own text."""


class _Reply(NamedTuple):
    status: int
    reason: str
    location: str | None
    body: bytes


class RegistryEndpoint:
    """One instance of a registry. Requests may be sent from several threads."""

    def __init__(
        self,
        url: str,
        *,
        user: str,
        password: str,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        headers: Mapping[str, str],
    ) -> None:
        """Check the URL, whose user and password count where `user` is empty. Raises CliError."""
        parts = _split(url)
        self.url = _shown(parts)
        """Without user and password."""
        self._host, self._port = parts.hostname or "", parts.port
        self._is_encrypted = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._tls = tls
        self._timeout_s = timeout_s
        self._headers = {"Accept": f"{_JSON}, application/json", **_agent(), **headers}
        user, password = (user, password) if user else _user_of(parts)
        if user:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def request(self, method: str, path: str, body: Any, query: dict[str, str]) -> Any:
        """Send a request; returns the decoded response. Path segments must be quoted.

        Raises RegistryRefused and ConnectionFailure.
        """
        target = f"{self._path}/{path.lstrip('/')}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        for _ in range(_MOST_REDIRECTS + 1):
            reply = self._sent(method, target, data)
            if reply.status not in _REDIRECTS:
                return self._content(reply)
            target = self._redirected(target, reply)
        raise ConnectionFailure(f"{self.url} redirects more than {_MOST_REDIRECTS} times")

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _sent(self, method: str, target: str, data: bytes | None) -> _Reply:
        """The response on a kept connection, or on a new one if the kept one was closed."""
        headers = self._headers if data is None else {**self._headers, "Content-Type": _JSON}
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        try:
            if kept is not None:
                # The registry may have closed it: neither a time-out nor nonsense is tried again.
                with suppress(ConnectionError):
                    return self._exchanged(kept, method, target, data, headers)
            return self._exchanged(self._connected(), method, target, data, headers)
        except (HTTPException, OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ConnectionFailure(f"no response from {self.url}: {reason}") from None

    def _exchanged(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> _Reply:
        try:
            connection.request(method, target, data, headers)
            with connection.getresponse() as response:
                reply = _read(response)
                is_kept = not response.will_close
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if is_kept and len(self._idle) < _KEPT_CONNECTIONS:
                self._idle.append(connection)
                return reply
        connection.close()
        return reply

    def _connected(self) -> HTTPConnection:
        if self._is_encrypted:
            return HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._tls
            )
        return HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _redirected(self, target: str, reply: _Reply) -> str:
        """The target of a redirection: another server would receive the password."""
        there = urlsplit(urljoin(self.url.removesuffix(self._path) + target, reply.location or ""))
        if there._replace(path="", query="", fragment="").geturl() != self._origin():
            raise ConnectionFailure(f"{self.url} redirects to another server: {_shown(there)}")
        return there._replace(scheme="", netloc="", fragment="").geturl()

    def _origin(self) -> str:
        return urlsplit(self.url)._replace(path="", query="", fragment="").geturl()

    def _content(self, reply: _Reply) -> Any:
        try:
            value = json.loads(reply.body) if reply.body else None
        except (ValueError, RecursionError):
            value = reply.body.decode(errors="replace")[:_SHOWN_CHARACTERS]
            if reply.status < 400:
                raise ConnectionFailure(f"{self.url} answers without JSON: {value}") from None
        if 200 <= reply.status < 300:
            return value
        fields = value if isinstance(value, dict) else {}
        code = fields.get("error_code")
        raise RegistryRefused(
            reply.status,
            code if isinstance(code, int) else reply.status,
            str(fields.get("message") or f"{reply.status} {reply.reason}"),
        )


def _read(response: HTTPResponse) -> _Reply:
    body = response.read(_LARGEST_RESPONSE_BYTES + 1)
    if len(body) > _LARGEST_RESPONSE_BYTES:
        raise HTTPException(f"a response of more than {_LARGEST_RESPONSE_BYTES} bytes")
    return _Reply(response.status, response.reason, response.headers.get("Location"), body)


def _agent() -> dict[str, str]:
    return {"User-Agent": f"wirekafka/{VERSION}"}


def _split(url: str) -> SplitResult:
    """The parts of a registry's URL. Raises CliError, whose text has no password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise CliError("the URL of the schema registry cannot be parsed") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = _shown(parts)
        raise CliError(f"{shown!r} is no URL of a schema registry, such as http://localhost:8081")
    return parts


def _shown(parts: SplitResult) -> str:
    """A URL without user and password, and without what follows the path."""
    address = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=address, query="", fragment="").geturl().rstrip("/")


def _user_of(parts: SplitResult) -> tuple[str, str]:
    return unquote(parts.username or ""), unquote(parts.password or "")
