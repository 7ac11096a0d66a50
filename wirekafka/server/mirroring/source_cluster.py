"""The cluster that is mirrored: its brokers, and requests that a consumer may send to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from wirekafka.clock import Clock
from wirekafka.codec.message import Request
from wirekafka.config.address import Address
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.replication.mirroring.topic_plan import Key, SourcePartition, SourceTopic, SourceView
from wirekafka.server.mirroring.source_security import SourceSecurity
from wirekafka.server.net import Net
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.peer_security import PLAINTEXT

TIMEOUT_MS = 30_000
_CLIENT_ID = "wirekafka-mirror"
_CONSUMER = -1
_FIRST_NAMED_COORDINATORS = 3
"""The newest version of FindCoordinator that has one key."""
_HIDDEN_PREFIX = "__"
"""Kafka's internal topics, and topics of its tools, belong to their own cluster."""

_Found = TypeVar("_Found")


class SourceCluster:
    """Connections to the source; a request fails with KafkaError, and is not repeated."""

    def __init__(
        self, net: Net, clock: Clock, bootstrap: Sequence[Address], security: SourceSecurity | None
    ):
        self._net, self._clock = net, clock
        self._bootstrap = list(bootstrap)
        self._security = security
        self._nodes: dict[int, Address] = {}
        self._peers: dict[Address, Peer] = {}

    async def view(self) -> SourceView:
        """The topics that may be mirrored, from the first broker that answers. Raises KafkaError.

        Bootstrap brokers are asked first, in turn after a failure.
        """
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response: MetadataResponse = await self._ask_any(request)
        if response.error_code:
            raise KafkaError.of(response.error_code, "Metadata")
        self._nodes = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        known = {*self._nodes.values(), *self._bootstrap}
        for address in self._peers.keys() - known:
            self._peers.pop(address).close()
        topics = {
            each.name: _topic(each)
            for each in response.topics
            if each.name
            and not each.error_code
            and not each.is_internal
            and not each.name.startswith(_HIDDEN_PREFIX)
        }
        return SourceView(response.cluster_id or "", topics)

    def new_peer(self, node_id: int, number: int = 0) -> Peer:
        """A connection of its own to a broker. Raises KafkaError(BROKER_NOT_AVAILABLE)."""
        return self._connect(self._address_of(node_id), f"{_CLIENT_ID}-{number}")

    async def offsets(
        self, node_id: int, timestamps: Mapping[Key, int]
    ) -> dict[Key, int | KafkaError]:
        """The offset of each partition for a timestamp in ms (-1: high watermark, -2: start)."""
        kind = ListOffsetsRequest.Topic
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for (name, index), timestamp in timestamps.items():
            topic = topics.setdefault(name, kind(name=name))
            topic.partitions.append(kind.Partition(partition_index=index, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=_CONSUMER, topics=list(topics.values()), timeout_ms=TIMEOUT_MS
        )
        response = await self.send(node_id, request)
        return {
            (topic.name, each.partition_index): KafkaError.of(each.error_code)
            if each.error_code
            else each.offset
            for topic in response.topics
            for each in topic.partitions
        }

    async def send(self, node_id: int, request: Request, *, most: int | None = None) -> Any:
        """Send a request to a broker. Raises KafkaError."""
        peer = self._peer(self._address_of(node_id))
        return await peer.send(request, timeout_ms=TIMEOUT_MS, most=most)

    async def send_to_each(self, request: Request) -> list[Any]:
        """Send a request to all brokers, one after the other. Raises KafkaError."""
        return [await self.send(node_id, request) for node_id in sorted(self._nodes)]

    async def send_to_any(self, request: Request, *, most: int | None = None) -> Any:
        """Send a request to the first broker that answers. Raises KafkaError."""
        return await self._ask_any(request, most)

    async def coordinator(self, group_id: str) -> int:
        """The id of the broker that coordinates a group. Raises KafkaError."""
        request = FindCoordinatorRequest(key=group_id, key_type=0)
        found = await self._ask_any(request, _FIRST_NAMED_COORDINATORS)
        if found.error_code:
            raise KafkaError.of(found.error_code, found.error_message)
        node_id: int = found.node_id
        return node_id

    def close(self) -> None:
        """Close all connections, except what `new_peer` has returned."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    async def _ask_any(self, request: Request, most: int | None = None) -> Any:
        failure: KafkaError | None = None
        for address in _distinct([*self._bootstrap, *self._nodes.values()]):
            try:
                answer = await self._peer(address).send(request, timeout_ms=TIMEOUT_MS, most=most)
            except KafkaError as error:
                failure = failure or error
            else:
                return answer
        assert failure is not None, "there is a bootstrap address"
        raise failure

    def _peer(self, address: Address) -> Peer:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = self._connect(address, _CLIENT_ID)
        return peer

    def _connect(self, address: Address, client_id: str) -> Peer:
        options = PeerOptions(address.host, address.port, client_id, self._security or PLAINTEXT)
        return Peer(self._net, self._clock, options)

    def _address_of(self, node_id: int) -> Address:
        address = self._nodes.get(node_id)
        if address is None:
            raise KafkaError(Error.BROKER_NOT_AVAILABLE, f"the source has no broker {node_id}")
        return address


def _topic(topic: MetadataResponse.Topic) -> SourceTopic:
    return SourceTopic(
        topic.name or "",
        bytes(topic.topic_id),
        {
            each.partition_index: SourcePartition(each.leader_id, each.leader_epoch)
            for each in topic.partitions
        },
    )


def _distinct(items: Iterable[_Found]) -> list[_Found]:
    return list(dict.fromkeys(items))
