"""A client's side of the simulated network: requests out, answers or losses back."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from tests.raw_client import frame, response_class
from tests.simulation.network import Link, Network
from wirekafka.codec.message import Request
from wirekafka.errors import Error


class Lost(Exception):
    """No answer: nobody knows whether the request was served."""


class Refused(Exception):
    """The node answered with an error."""

    def __init__(self, code: int, asked: str):
        super().__init__(f"{Error(code).name} for {asked}")
        self.error = Error(code)


BUSY = frozenset(
    {
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.NOT_ENOUGH_REPLICAS,
        Error.REQUEST_TIMED_OUT,
        Error.CONCURRENT_TRANSACTIONS,
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_CONTROLLER,
        Error.UNSTABLE_OFFSET_COMMIT,
    }
)
"""What every client asks again after."""


class Wire:
    """A client's connection, opened again when it was lost."""

    def __init__(self, network: Network, name: str, *, may_linger: bool):
        self.network = network
        self.name = name
        self._may_linger = may_linger
        self._session: _Session | None = None

    def send(self, request: Request, version: int, timeout_s: float = 3) -> asyncio.Future[Any]:
        """The answer to come; the future ends with Lost if it does not. Raises Lost."""
        session = self._session
        if session is None or not session.link.is_up:
            try:
                session = self._session = _Session(self.network, self.name, self._may_linger)
            except ConnectionRefusedError:
                raise Lost from None
        return session.send(request, version, timeout_s)

    async def ask(self, request: Request, version: int, timeout_s: float = 3) -> Any:
        """The answer. Raises Lost."""
        return await self.send(request, version, timeout_s)

    async def pause(self, longest_s: float = 0.4) -> None:
        """Wait a little before trying again."""
        await asyncio.sleep(self.network.random.uniform(0.01, longest_s))

    def close(self) -> None:
        if self._session is not None:
            self._session.give_up()
            self._session = None


class _Session:
    """One connection of a Wire."""

    def __init__(self, network: Network, name: str, may_linger: bool):
        self._loop = network.loop
        self._name = name
        self._correlation_id = 0
        self._waiting: dict[int, tuple[asyncio.Future[Any], type[Request], int]] = {}
        self._bytes = bytearray()
        self.link: Link = network.connect(self, may_linger=may_linger)

    def send(self, request: Request, version: int, timeout_s: float) -> asyncio.Future[Any]:
        self._correlation_id += 1
        number = self._correlation_id
        future = self._loop.create_future()
        self._waiting[number] = future, type(request), version
        payload = frame(request, version, number, self._name)
        self.link.send(struct.pack(">i", len(payload)) + payload)
        timer = self._loop.call_later(timeout_s, self.give_up)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            (size,) = struct.unpack_from(">i", self._bytes)
            if len(self._bytes) < 4 + size:
                return
            body = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            (number,) = struct.unpack_from(">i", body)
            future, request, version = self._waiting.pop(number)
            flexible = version in request.flexible and request.key != 18
            answer = response_class(request).decode(body, version, at=5 if flexible else 4)
            if not future.done():
                future.set_result(answer)

    def give_up(self) -> None:
        """The answer takes too long."""
        self.link.close()
        self.lost()

    def lost(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _, _ in waiting.values():
            if not future.done():
                future.set_exception(Lost())
                # Whoever sent several gives up at the first that is lost.
                future.exception()
