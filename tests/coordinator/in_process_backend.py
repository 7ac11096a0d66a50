"""A transcript's coordinator in a complete node in this process, with a manual clock."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from tests.coordinator.wire_backend import reply_of, request_of
from tests.in_process import Exchange, InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.errors import KafkaError
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

_SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


class InProcessBackend:
    """Sends each request over its own connection, since a waiting join blocks its connection."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clock = ManualClock()
        self._disk = SimulatedDisk()
        self._waiting: dict[str, list[tuple[Exchange, Any]]] = defaultdict(list)
        self._kafka = self._start()
        for name in ("t", "u"):
            self._kafka.create(name, 4)
        self._kafka.call(FindCoordinatorRequest(key="g"), 1)

    def close(self) -> None:
        self._loop.run_until_complete(self._kafka.node.stop())
        self._loop.close()

    def send(self, actor: str, command: Any, version: int) -> None:
        request, version = request_of(command, version)

        async def begin() -> Exchange:
            exchange = self._kafka.begin(request, version, actor)
            # A timer that is due now fires now, as on an event loop.
            self._clock.advance(1)
            return await exchange.settled()

        self._waiting[actor].append((self._loop.run_until_complete(begin()), command))

    def next_reply(self, actor: str) -> Any:
        for pair in self._waiting[actor]:
            if pair[0].is_done:
                return self._read(actor, pair)
        raise AssertionError("but no response came")

    def unread(self) -> list[tuple[str, Any]]:
        return [
            (actor, self._read(actor, pair))
            for actor, waiting in self._waiting.items()
            for pair in list(waiting)
            if pair[0].is_done
        ]

    def pass_time(self, ms: int) -> None:
        async def advance() -> None:
            self._clock.advance(ms)
            for waiting in self._waiting.values():
                for exchange, _ in waiting:
                    await exchange.settled()

        self._loop.run_until_complete(advance())

    def restart(self) -> None:
        """Restart without a clean stop."""

        async def abort() -> None:
            self._kafka.node.abort()

        self._waiting.clear()
        self._loop.run_until_complete(abort())
        self._clock = ManualClock(self._clock.now_ms())  # A process's timers end with it.
        self._kafka = self._start()

    def last_record(self) -> Any:
        return None

    def _start(self) -> InProcessBroker:
        kafka = InProcessBroker("/data", self._clock, disk=self._disk, **_SETTINGS)
        self._clock.advance(1)
        return kafka

    def _read(self, actor: str, pair: tuple[Exchange, Any]) -> Any:
        self._waiting[actor].remove(pair)
        exchange, command = pair
        try:
            return reply_of(command, exchange.response)
        except KafkaError as error:
            return error
