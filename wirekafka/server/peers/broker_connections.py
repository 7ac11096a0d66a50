"""This broker's connections to the inter-broker listeners of other brokers."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.clock import Clock
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.server.net import Net
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.peer_security import PeerSecurity


class BrokerConnections:
    """Creates connections to brokers at the addresses that they have in the metadata.

    All connections share one `PeerSecurity`, so that the key and trust stores are read once.
    """

    def __init__(
        self, image: MetadataImage, config: Callable[[], BrokerConfig], net: Net, clock: Clock
    ):
        self._image = image
        self._config = config
        self._net = net
        self.clock = clock
        """The clock of requests to other brokers."""
        self._security: PeerSecurity | None = None

    def address_of(self, broker_id: int) -> Address:
        """Return a broker's current address. Raises BROKER_NOT_AVAILABLE if it is unknown."""
        broker = self._image.brokers.get(broker_id)
        name = listeners.between_brokers(self._config()).name
        endpoint = None if broker is None else broker.endpoint(name)
        if endpoint is None:
            reason = f"the address of broker {broker_id} at {name} is unknown"
            raise KafkaError(Error.BROKER_NOT_AVAILABLE, reason)
        return Address(*endpoint)

    def connect(self, broker_id: int, client_id: str) -> Peer:
        """Return a new, unconnected peer at a broker's current address.

        Raises BROKER_NOT_AVAILABLE if the address is unknown, or the options of connections
        between brokers cannot be used.
        """
        host, port = self.address_of(broker_id)
        timeout_ms = self._config().socket_connection_setup_timeout_ms
        options = PeerOptions(host, port, client_id, self._shared_security(), timeout_ms)
        return Peer(self._net, self.clock, options)

    def _shared_security(self) -> PeerSecurity:
        if self._security is None:
            try:
                self._security = PeerSecurity.between_brokers(self._config)
            except ConfigError as error:
                raise KafkaError(Error.BROKER_NOT_AVAILABLE, str(error)) from error
        return self._security
