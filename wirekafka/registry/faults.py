"""Faults of a registry under test: an application around the registry's, which spares the test."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import Event, Lock
from typing import Self
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SPARED_HEADER = "X-Wirekafka-Test"
"""The header with the key of the test itself, whose requests are neither disturbed nor counted."""
METHODS = ("GET", "POST", "PUT", "DELETE")
_REST = "**"
_STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Which requests a fault acts on, such as `POST /subjects/*/versions`.

    Without a method it is every method. In a path, `*` is any text within one segment, and `**` at
    the end is any number of segments.
    """

    method: str | None
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> RequestPattern:
        """The pattern of a text. Raises ValueError."""
        words = text.split()
        method = words.pop(0) if words and not words[0].startswith("/") else None
        if method not in (None, *METHODS) or len(words) != 1 or not words[0].startswith("/"):
            raise ValueError(
                f"{text!r} is no pattern of requests: write such as 'POST /subjects/*/versions',"
                " '/schemas/ids/*' or 'GET /**'"
            )
        return cls(method, tuple(words[0].strip("/").split("/")))

    def matches(self, method: str, path: Sequence[str]) -> bool:
        """Whether it is about a request, given the segments of the path."""
        if self.method not in (None, method):
            return False
        segments = self.segments
        if segments[-1] == _REST:
            segments, path = segments[:-1], path[: len(segments) - 1]
        return len(segments) == len(path) and all(map(fnmatchcase, path, segments))

    def __str__(self) -> str:
        return f"{self.method or 'any'} /{'/'.join(self.segments)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A response in place of the registry's own."""

    status: int
    code: int
    message: str
    applied: bool
    """Whether the request takes effect before."""

    def body(self) -> bytes:
        """The JSON of the response."""
        return json.dumps({"error_code": self.code, "message": self.message}).encode()


class RegistryFault:
    """A fault of the registry, in force until its `with` ends or `remove` is called."""

    def __init__(
        self,
        pattern: RequestPattern,
        *,
        times: int | None,
        seconds: float = 0.0,
        refusal: Refusal | None = None,
    ) -> None:
        self.hits = 0
        """How many requests the fault acted on."""
        self.seconds = seconds
        """How long a request waits."""
        self.refusal = refusal
        self._pattern = pattern
        self._times = times
        self._ended = Event()
        self._lock = Lock()

    @property
    def has_ended(self) -> bool:
        """Whether it was removed."""
        return self._ended.is_set()

    def remove(self) -> None:
        """End the fault, and let requests that it delays continue. A second call does nothing."""
        self._ended.set()

    def takes(self, method: str, path: Sequence[str]) -> bool:
        """Whether the fault acts on a request, which is counted then."""
        if self.has_ended or not self._pattern.matches(method, path):
            return False
        with self._lock:
            if self._times == self.hits:
                return False
            self.hits += 1
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        if self.refusal is None:
            return f"delay({self._pattern}, {self.seconds} s)"
        return f"fail({self._pattern}, {self.refusal.status}, {self.refusal.code})"


class RegistryFaults:
    """An ASGI application that lets requests to another one wait or fail.

    `key` is the secret of the test. Faults are added from any thread.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._faults: tuple[RegistryFault, ...] = ()
        self._lock = Lock()

    def add(self, fault: RegistryFault) -> RegistryFault:
        """Begin a fault. Faults act in the order in which they were added."""
        with self._lock:
            alive = (each for each in self._faults if not each.has_ended)
            self._faults = (*alive, fault)
        return fault

    def clear(self) -> None:
        """End all faults."""
        with self._lock:
            ended, self._faults = self._faults, ()
        for fault in ended:
            fault.remove()

    def around(self, app: ASGIApp, own: ASGIApp | None = None) -> ASGIApp:
        """The application in which requests are disturbed; `own` serves the test itself."""

        async def disturbed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and self._is_spared(scope):
                await (own or app)(scope, receive, send)
            elif scope["type"] == "http" and self._faults:
                await self._serve(app, scope, receive, send)
            else:
                await app(scope, receive, send)

        return disturbed

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        path = _segments(scope)
        acting = [each for each in self._faults if each.takes(scope["method"], path)]
        for fault in acting:
            await _wait(fault)
        refusal = next((each.refusal for each in acting if each.refusal is not None), None)
        if refusal is None:
            await app(scope, receive, send)
            return
        if refusal.applied:
            await app(scope, receive, _discard)
        await _answer(refusal, send)

    def _is_spared(self, scope: Scope) -> bool:
        name = SPARED_HEADER.lower().encode()
        return any(
            each == name and hmac.compare_digest(value, self._key)
            for each, value in scope["headers"]
        )


def _segments(scope: Scope) -> list[str]:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1").partition("?")[0]
    return [unquote(segment) for segment in path.strip("/").split("/")]


async def _wait(fault: RegistryFault) -> None:
    """Wait as long as a fault says: the test that ends it may be in any thread."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + fault.seconds
    while not fault.has_ended and (left := deadline - loop.time()) > 0:
        await asyncio.sleep(min(left, _STEP_S))


async def _discard(message: Message) -> None:
    pass


async def _answer(refusal: Refusal, send: Send) -> None:
    body = refusal.body()
    headers = [
        (b"content-type", b"application/vnd.schemaregistry.v1+json"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
