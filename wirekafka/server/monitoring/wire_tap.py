"""Watches the requests and responses of single clients while they are served."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, TypeVar

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import BROKERS, Route
from wirekafka.codec.message import Message
from wirekafka.errors import KafkaError
from wirekafka.server.connections.exchange_facts import ExchangeFacts, TopicNames
from wirekafka.server.connections.message_json import Room, to_json
from wirekafka.server.connections.pipeline import Hook, Pipeline
from wirekafka.server.node import Node

T = TypeVar("T")

MOST_WATCHES = 8
KEPT = 200
"""The exchanges that a watch keeps."""
FORGOTTEN_S = 30.0
"""A watch that nobody has read for this long ends."""
_ELEMENTS = 200
_ROOM_BYTES = 8 << 10
_ANSWER_S = 10.0
_NS_PER_MS = 1_000_000


class TooManyWatches(Exception):
    """No more clients can be watched at a time."""


@dataclass(slots=True, frozen=True)
class Connected:
    """A client's connection."""

    connection_id: str
    client_id: str
    host: str
    principal: str
    software: str
    listener: str


@dataclass(slots=True, frozen=True)
class Choice:
    """Which client is watched: all connections with a client id, one connection, or all clients.

    With `api`, only requests of that API.
    """

    client_id: str | None = None
    connection_id: str | None = None
    api: str | None = None

    def includes(self, call: Call, api: str) -> bool:
        """Whether a request is of this client."""
        if self.api is not None and api != self.api:
            return False
        if self.connection_id is not None:
            return call.connection_id == self.connection_id
        return self.client_id is None or (call.client_id or "") == self.client_id


@dataclass(slots=True)
class WatchedExchange:
    """A request, and its response once it is there; both as JSON, without secrets or records."""

    number: int
    at_ms: int
    api: str
    version: int
    correlation_id: int
    client_id: str
    connection_id: str
    principal: str
    request: str
    response: str = ""
    failure: str = ""
    """The error that the handler raised."""
    took_ms: float | None = None
    """None while it waits."""
    facts: ExchangeFacts = field(default_factory=ExchangeFacts)


@dataclass(slots=True)
class _Watch:
    choice: Choice
    read_s: float
    exchanges: deque[WatchedExchange] = field(default_factory=lambda: deque(maxlen=KEPT))
    number: int = 0


class WireWatches:
    """The watches of one broker. Methods may be called from any thread except the loop's thread.

    The pipeline has a hook only while there is a watch: otherwise watching costs nothing.
    """

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop):
        self._node, self._loop = node, loop
        self._tap = _Tap(node.pipeline, self._topic_name)
        self._numbers = 0
        self._expires = False

    def clients(self) -> list[Connected]:
        """The clients that are connected now."""
        return self._on_loop(lambda: sorted(self._connected(), key=lambda each: each.client_id))

    @staticmethod
    def apis() -> list[str]:
        """The names of the APIs that clients may use."""
        registry.load()
        return sorted(each.request.__name__.removesuffix("Request") for each in BROKERS.served())

    def watch(self, choice: Choice) -> int:
        """Start to keep a client's exchanges; returns the number of the watch.

        Raises TooManyWatches.
        """
        return self._on_loop(lambda: self._watch(choice))

    def read(self, watch: int, after: int = 0) -> list[WatchedExchange] | None:
        """The kept exchanges behind number `after`, up to the first that still waits.

        None for a watch that has ended.
        """
        return self._on_loop(lambda: self._read(watch, after))

    def stop(self, watch: int) -> None:
        """End a watch; no effect if it has ended."""
        self._on_loop(lambda: self._tap.remove(watch))

    def _on_loop(self, run: Callable[[], T]) -> T:
        async def running() -> T:
            return run()

        return asyncio.run_coroutine_threadsafe(running(), self._loop).result(_ANSWER_S)

    def _topic_name(self, topic_id: bytes) -> str | None:
        found = self._node.broker.image.topics_by_id.get(topic_id)
        return None if found is None else found.name

    def _connected(self) -> Iterator[Connected]:
        for listener in self._node.listeners:
            for connection in tuple(listener.established()):
                call = connection.call
                if call is None or call.client.is_for_controllers:
                    continue
                yield Connected(
                    call.connection_id,
                    call.client_id or "",
                    call.client_host.removeprefix("/"),
                    call.principal,
                    " ".join(call.client.software),
                    call.listener,
                )

    def _watch(self, choice: Choice) -> int:
        if len(self._tap.watches) >= MOST_WATCHES:
            raise TooManyWatches(f"{MOST_WATCHES} clients are watched already")
        self._numbers += 1
        self._tap.add(self._numbers, choice)
        if not self._expires:
            self._expires = True
            self._loop.call_later(FORGOTTEN_S / 2, self._expire)
        return self._numbers

    def _read(self, number: int, after: int) -> list[WatchedExchange] | None:
        watch = self._tap.watches.get(number)
        if watch is None:
            return None
        watch.read_s = time.monotonic()
        found = []
        for each in watch.exchanges:
            if each.number > after:
                if each.took_ms is None:
                    break
                found.append(each)
        return found

    def _expire(self) -> None:
        limit = time.monotonic() - FORGOTTEN_S
        for number, watch in list(self._tap.watches.items()):
            if watch.read_s < limit:
                self._tap.remove(number)
        self._expires = bool(self._tap.watches)
        if self._expires:
            self._loop.call_later(FORGOTTEN_S / 2, self._expire)


class _Tap:
    """The pipeline's hook while clients are watched; calls the hook that was there before."""

    def __init__(self, pipeline: Pipeline, names: TopicNames):
        self._pipeline, self._names = pipeline, names
        self._before: Hook | None = None
        self.watches: dict[int, _Watch] = {}

    def add(self, number: int, choice: Choice) -> None:
        """Watch a client."""
        if not self.watches:
            self._before = self._pipeline.hook
            self._pipeline.hook = self
        self.watches[number] = _Watch(choice, time.monotonic())

    def remove(self, number: int) -> None:
        """End a watch, and with the last one leave the pipeline."""
        if self.watches.pop(number, None) is not None and not self.watches:
            self._pipeline.hook = self._before

    def handle(self, route: Route, request: Any, call: Call) -> Any:
        """Serve a request, and keep it if its client is watched."""
        serve = route.handle
        before = self._before
        watches = [each for each in self.watches.values() if each.choice.includes(call, route.name)]
        if not watches:
            return serve(request, call) if before is None else before.handle(route, request, call)
        began_ns = time.perf_counter_ns()
        exchange = _begun(route, request, call, watches, self._names)
        try:
            response = (
                serve(request, call) if before is None else before.handle(route, request, call)
            )
        except Exception as error:
            _end(exchange, route, error, began_ns, self._names)
            raise
        if response.__class__ is CoroutineType:
            return _awaited(response, exchange, route, began_ns, self._names)
        _end(exchange, route, response, began_ns, self._names)
        return response


async def _awaited(
    handling: Any, exchange: list[WatchedExchange], route: Route, began_ns: int, names: TopicNames
) -> Any:
    outcome: Any = ConnectionError("the client has disconnected")
    try:
        outcome = await handling
    except Exception as error:
        outcome = error
        raise
    finally:
        _end(exchange, route, outcome, began_ns, names)
    return outcome


def _begun(
    route: Route, request: Message, call: Call, watches: list[_Watch], names: TopicNames
) -> list[WatchedExchange]:
    """Add the request to each watch. Its buffer is used again: it is converted at once."""
    text = _text(request, route.version)
    facts = ExchangeFacts.of_request(request, route.version, names)
    found = []
    for watch in watches:
        watch.number += 1
        exchange = WatchedExchange(
            watch.number,
            call.now_ms,
            route.name,
            route.version,
            call.correlation_id,
            call.client_id or "",
            call.connection_id,
            call.principal,
            text,
            facts=facts,
        )
        watch.exchanges.append(exchange)
        found.append(exchange)
    return found


def _end(
    exchanges: list[WatchedExchange], route: Route, outcome: Any, began_ns: int, names: TopicNames
) -> None:
    took_ms = (time.perf_counter_ns() - began_ns) / _NS_PER_MS
    response = failure = ""
    if isinstance(outcome, Exception):
        failure = outcome.error.name if isinstance(outcome, KafkaError) else str(outcome)
        detail = outcome.message if isinstance(outcome, KafkaError) else None
        exchanges[0].facts.errors.append(failure)
        failure = f"{failure}: {detail}" if detail else failure
    elif outcome is not None:
        response = _text(outcome, route.version)
        exchanges[0].facts.add_response(outcome, route.version, names)
    for each in exchanges:
        each.response, each.failure, each.took_ms = response, failure, took_ms


def _text(message: Message, version: int) -> str:
    return json.dumps(to_json(message, version, Room(_ELEMENTS, _ROOM_BYTES)), ensure_ascii=False)
