"""A scripted node: it receives requests, and sends the responses that a test chooses."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.ports import free_ports
from wirekafka.apis.shared import registry
from wirekafka.codec.frame import RequestHeader, request_header_version
from wirekafka.codec.message import Request, Response
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.envelope import EnvelopeRequest
from wirekafka.protocol.fetch_snapshot import FetchSnapshotRequest

_KINDS: dict[int, type[Request]] = {
    **{key: declared.request for key, declared in registry.load().items()},
    EnvelopeRequest.key: EnvelopeRequest,
    FetchSnapshotRequest.key: FetchSnapshotRequest,
}
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponse.ApiVersion(
            api_key=key, min_version=kind.versions.first, max_version=kind.versions.last
        )
        for key, kind in _KINDS.items()
    ]
)
"""Every version of every API."""


class Asked:
    """A request that the other node has received."""

    def __init__(self, frame: bytes, writer: asyncio.StreamWriter):
        key, self.version, self.correlation_id = struct.unpack_from(">hhi", frame)
        kind = _KINDS[key]
        header, at = RequestHeader.decoder(request_header_version(kind, self.version))(
            frame, 0, len(frame)
        )
        self.client_id = header.client_id
        self.request: Any = kind.decode(frame, self.version, at)
        self._writer = writer

    def answer(self, response: Response, *, version: int | None = None, shift: int = 0) -> None:
        self._writer.write(self.frame(response, version=version, shift=shift))

    def frame(self, response: Response, *, version: int | None = None, shift: int = 0) -> bytes:
        version = self.version if version is None else version
        kind = type(self.request)
        tags = b"\0" if version in kind.flexible and kind.key != 18 else b""
        body = struct.pack(">i", self.correlation_id + shift) + tags + response.encode(version)
        return struct.pack(">i", len(body)) + body


class OtherNode:
    """A node that responds to ApiVersions by itself, and to requests with a handler in `answers`.

    Other requests wait in `asked` until the test takes them.
    """

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()
        self.history: list[Asked] = []
        """Every request but ApiVersions."""
        self.versions_asked: list[Asked] = []
        self.answers: dict[type[Request], Response | Callable[[Asked], None]] = {
            ApiVersionsRequest: VERSIONS
        }
        self.writers: list[asyncio.StreamWriter] = []
        self.address = ("127.0.0.1", *free_ports(1))

    @asynccontextmanager
    async def listening(self, **options: Any) -> AsyncIterator[OtherNode]:
        """Accept connections meanwhile."""
        server = await asyncio.start_server(self._serve, *self.address, **options)
        try:
            yield self
        finally:
            self.hang_up()
            server.close()

    def hang_up(self) -> None:
        """Cut every connection."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self._take(Asked(await reader.readexactly(size), writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _take(self, asked: Asked) -> None:
        kind = type(asked.request)
        (self.versions_asked if kind is ApiVersionsRequest else self.history).append(asked)
        answer = self.answers.get(kind)
        if answer is None:
            self.asked.put_nowait(asked)
        elif isinstance(answer, Response):
            asked.answer(answer)
        else:
            answer(asked)
