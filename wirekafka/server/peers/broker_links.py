"""Requests of this broker's coordinators to other brokers, one connection per client id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.server.peers.broker_connections import BrokerConnections
from wirekafka.server.peers.peer import Peer


class BrokerLinks:
    """The `Links` of a broker: one connection per broker and client id.

    Addresses are the addresses of the brokers' inter-broker listeners in the metadata.
    """

    def __init__(
        self,
        image: MetadataImage,
        config: Callable[[], BrokerConfig],
        connections: BrokerConnections,
    ):
        self._image = image
        self._config = config
        self._connections = connections
        self._peers: dict[tuple[int, str], Peer] = {}
        self._is_closed = False

    def close(self) -> None:
        """Close all connections permanently: outstanding and later requests fail."""
        self._is_closed = True
        peers = self._peers
        self._peers = {}
        for peer in peers.values():
            peer.close()

    # Links

    @property
    def request_timeout_ms(self) -> int:
        """See `Links`."""
        return self._config().request_timeout_ms

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        """See `Links`."""
        peer = self._peer(broker_id, client_id)
        return await peer.send(request, timeout_ms=self._config().request_timeout_ms)

    def _peer(self, broker_id: int, client_id: str) -> Peer:
        """Return the connection to a broker's current address. Raises BROKER_NOT_AVAILABLE."""
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._is_closed:
            raise KafkaError(Error.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service")
        key = broker_id, client_id
        peer = self._peers.get(key)
        if peer is not None:
            if peer.options.address == self._connections.address_of(broker_id):
                return peer
            self._peers.pop(key).close()
        peer = self._peers[key] = self._connections.connect(broker_id, client_id)
        return peer
