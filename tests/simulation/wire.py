"""The client's side of the simulated network: it sends requests, and gets responses or Lost."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tests.memory_transport import Address
from tests.raw_client import frame, response_in
from tests.simulation.network import Network
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.metadata import MetadataRequest


class Lost(Exception):
    """There is no response, so it is unknown whether the request was served."""


class Refused(Exception):
    """The response has an error."""

    def __init__(self, code: int, asked: str):
        super().__init__(f"{Error(code).name} for {asked}")
        self.error = Error(code)


def check(code: int, asked: str) -> None:
    """Raises Refused if this is the code of an error."""
    if code:
        raise Refused(code, asked)


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
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
    }
)
"""The errors after which every client retries."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The node that leads a partition."""

    topic: str
    index: int


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The node that coordinates a group (`key_type` 0) or a transactional id (1)."""

    key_type: int
    key: str


Whom = Leader | Coordinator | Address | None
"""The recipient of a request; None: any node."""

GROUP, TRANSACTION = 0, 1


class Wire:
    """A client on a host of its own, with a connection to each node it needs.

    It knows some nodes' addresses and finds leaders and coordinators by asking, as all clients do.
    """

    def __init__(
        self, network: Network, name: str, bootstrap: Sequence[Address], *, may_linger: bool
    ):
        self.network = network
        self.name = name
        self.retried = BUSY
        """The errors of a fetch after which a reader retries."""
        self._host = network.host(name, lingers=may_linger)
        self._bootstrap = bootstrap
        self._sessions: dict[Address, _Session] = {}
        self._found: dict[Leader | Coordinator, Address] = {}
        self._epochs: dict[Leader, int] = {}

    async def send(
        self, request: Request, version: int, whom: Whom = None, timeout_s: float = 3
    ) -> asyncio.Future[Any]:
        """A future of the response, or of Lost if there is none. Raises Lost."""
        session = await self._session(await self.find(whom))
        return session.send(request, version, timeout_s)

    async def ask(
        self, request: Request, version: int, whom: Whom = None, timeout_s: float = 3
    ) -> Any:
        """The response. Raises Lost."""
        return await (await self.send(request, version, whom, timeout_s))

    async def find(self, whom: Whom) -> Address:
        """The node's address, looked up if it is not known. Raises Lost."""
        if whom is None:
            return self.network.random.choice(self._bootstrap)
        if isinstance(whom, tuple):
            return whom
        if whom not in self._found:
            if isinstance(whom, Leader):
                await self._find_leaders(whom.topic)
            else:
                await self._find_coordinator(whom)
        if whom not in self._found:
            raise Lost
        return self._found[whom]

    def leader_epoch(self, leader: Leader) -> int:
        """The epoch of a leader that `find` has returned."""
        return self._epochs[leader]

    def forget(self) -> None:
        """Look up leaders and coordinators again, since they may have changed."""
        self._found.clear()

    async def pause(self, longest_s: float = 0.4) -> None:
        """Wait a little before trying again."""
        self.forget()
        await asyncio.sleep(self.network.random.uniform(0.01, longest_s))

    def close(self) -> None:
        for session in self._sessions.values():
            session.give_up()
        self._sessions.clear()

    async def _find_leaders(self, topic: str) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False
        )
        answer = await self.ask(request, 12)
        addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for partition in answer.topics[0].partitions:
            found = Leader(topic, partition.partition_index)
            # As Kafka's clients do: a broker that lags behind may still name an earlier leader.
            is_newest = partition.leader_epoch >= self._epochs.get(found, -1)
            if partition.leader_id in addresses and is_newest:
                self._found[found] = addresses[partition.leader_id]
                self._epochs[found] = partition.leader_epoch

    async def _find_coordinator(self, whom: Coordinator) -> None:
        request = FindCoordinatorRequest(key_type=whom.key_type, coordinator_keys=[whom.key])
        [answer] = (await self.ask(request, 4)).coordinators
        if not answer.error_code:
            self._found[whom] = answer.host, answer.port

    async def _session(self, address: Address) -> _Session:
        session = self._sessions.get(address)
        if session is None or not session.is_up:
            try:
                _, session = await self._host.connect(*address, partial(_Session, self.name))
            except OSError:
                raise Lost from None
            self._sessions[address] = session
        return session


class _Session(asyncio.Protocol):
    """One connection of a Wire."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._correlation_id = 0
        self._waiting: dict[int, tuple[asyncio.Future[Any], type[Request], int]] = {}
        self._bytes = bytearray()
        self._transport: asyncio.Transport

    @property
    def is_up(self) -> bool:
        return not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: Request, version: int, timeout_s: float) -> asyncio.Future[Any]:
        self._correlation_id += 1
        number = self._correlation_id
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting[number] = future, type(request), version
        payload = frame(request, version, number, self._name)
        self._transport.write(struct.pack(">i", len(payload)) + payload)
        timer = loop.call_later(timeout_s, self.give_up)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            (size,) = struct.unpack_from(">i", self._bytes)
            if len(self._bytes) < 4 + size:
                return
            body = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            (number,) = struct.unpack_from(">i", body)
            future, request, version = self._waiting.pop(number)
            answer = response_in(body, request, version)
            if not future.done():
                future.set_result(answer)

    def give_up(self) -> None:
        """Time out: the response takes too long."""
        self._transport.close()
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _, _ in waiting.values():
            if not future.done():
                future.set_exception(Lost())
                # A caller that sent several requests gives up after the first loss.
                future.exception()
