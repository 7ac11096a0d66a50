"""A proxy in front of Apache Kafka that applies the fault rules of `wirekafka.testing`."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from types import CoroutineType, SimpleNamespace
from typing import Any

from tests.ports import free_ports
from wirekafka.apis.shared import routes
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.frame import RequestHeader, decode_response, encode_frame, encode_request
from wirekafka.codec.message import Part, Request
from wirekafka.server.connections.replies import Replies
from wirekafka.testing.hooks.hook import FaultsAndTraffic
from wirekafka.testing.hooks.rules import RuleBook
from wirekafka.testing.hooks.traffic import Recorder

Address = tuple[str, int]
_LARGEST = 64 << 20


class Proxy:
    """Accepts client connections, and opens one connection to Kafka for each.

    What it can decode goes through the hook, as in a broker under test, with Kafka as the
    handler of every API; what it cannot, such as newer APIs, is forwarded unchanged.
    """

    def __init__(self, kafka: Address):
        self._kafka = kafka
        self.address: Address = ("127.0.0.1", *free_ports(1))
        self.rules = RuleBook()
        self.recorder = Recorder()
        self.hook = FaultsAndTraffic(self.rules, self.recorder)
        self.topic_names: dict[bytes, str] = {}
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._serial = 0

    async def open(self) -> None:
        """Accept connections, on the same port as before. Raises OSError."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, *self.address, limit=_LARGEST)

    async def refuse(self) -> None:
        """Stop accepting connections, and close the existing ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Close all connections, including those to Kafka."""
        clients = [*self._clients]
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._server is None:  # The connection was accepted just before `refuse`.
            writer.transport.abort()
            return
        self._clients.add(task)
        self._serial += 1
        upstream = None
        try:
            upstream = await asyncio.open_connection(*self._kafka, limit=_LARGEST)
            client = _Client(self, upstream, f"{self._serial}")
            while await client.answer(await _frame(reader), writer):
                await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # When one end closes its connection, close the other too.
        finally:
            self._clients.discard(task)
            writer.transport.abort()
            if upstream is not None:
                upstream[1].transport.abort()

    def shown(self, message: Any) -> None:
        """Replace Kafka's address in a response with the proxy's."""
        for field in message.fields:
            value = getattr(message, field.name)
            if isinstance(value, Part):
                self.shown(value)
            elif isinstance(value, list | tuple):
                for each in value:
                    if isinstance(each, Part):
                        self.shown(each)
            elif field.name == "port" and value == self._kafka[1]:
                message.host, message.port = self.address


class _Client:
    """One client's connection and the matching connection to Kafka."""

    def __init__(
        self, proxy: Proxy, upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter], name: str
    ):
        self._proxy = proxy
        self._reader, self._writer = upstream
        names = proxy.topic_names
        topics = SimpleNamespace(
            get=lambda topic_id: (
                SimpleNamespace(name=names[topic_id]) if topic_id in names else None
            )
        )
        broker: Any = SimpleNamespace(
            clock=SimpleNamespace(
                now_ms=lambda: int(time.time() * 1000), work_ns=time.perf_counter_ns
            ),
            image=SimpleNamespace(topics_by_id=topics),
            authorizer=None,
        )
        self._call = Call(broker, connection_id=name)

    async def answer(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Handle a request; return whether the connection stays open."""
        found = routes.BROKERS.find(int.from_bytes(data[:4], "big"))
        if found is None:
            writer.write(encode_frame([await self._passed_on(data)]))
            return True
        call = self._call
        header, position = RequestHeader.decoder(2 if found.header_is_flexible else 1)(
            data, 0, len(data)
        )
        call.version, call.client_id = found.version, header.client_id
        call.correlation_id, call.wants_close = header.correlation_id, False
        request, _ = found.decode(memoryview(data), position, len(data))
        route = Route(found.api, found.version, self._ask_kafka)
        call.throttle_ms = 0
        response = self._proxy.hook.handle(route, request, call)
        if response.__class__ is CoroutineType:
            response = await response
        if response is not None:
            replies = Replies()
            replies.add(route, header.correlation_id, response)
            writer.write(b"".join([*replies.buffers, replies.tail]))
            if call.throttle_ms:
                await asyncio.sleep(call.throttle_ms / 1000)
        return not call.wants_close

    async def _passed_on(self, data: bytes) -> bytes:
        self._writer.write(encode_frame([data]))
        return await _frame(self._reader)

    async def _ask_kafka(self, request: Request, call: Call) -> Any:
        frame = encode_request(call.correlation_id, call.client_id, request, call.version)
        self._writer.write(frame)
        if getattr(request, "acks", None) == 0:
            return None
        answered = routes.BROKERS.find(type(request).key << 16 | call.version)
        assert answered is not None
        try:
            payload = await _frame(self._reader)
        except EOFError:
            # Kafka closed the connection, so close the client's: there is no error code for that.
            call.close()
            return None
        correlation_id, response = decode_response(answered.api.response, call.version, payload)
        assert correlation_id == call.correlation_id
        self._learn(response)
        self._proxy.shown(response)
        return response

    def _learn(self, response: Any) -> None:
        for topic in getattr(response, "topics", None) or ():
            if getattr(topic, "topic_id", None) and getattr(topic, "name", None):
                self._proxy.topic_names[topic.topic_id] = topic.name


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def in_loop(loop: asyncio.AbstractEventLoop, do: Callable[[], Any]) -> Any:
    """Call `do` in the event loop of another thread and return its result."""

    async def call() -> Any:
        with suppress(asyncio.CancelledError):
            result = do()
            return await result if asyncio.iscoroutine(result) else result

    return asyncio.run_coroutine_threadsafe(call(), loop).result(60)
