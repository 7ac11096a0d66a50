"""The node behind the listeners of a controller, for their connections and handlers."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.controller import ControllerRole
from wirekafka.metadata.broker.source import Published
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.replication.partition.waiting import Waiting
from wirekafka.replication.raft.metadata_log import MetadataLog
from wirekafka.security.authorizer import Authorizer


class ControllerHost:
    """A `registry.Host` for one controller; on a combined node, the broker is another host.

    Requests of clients and nodes are not counted against quotas, as in Kafka; only changes of
    topics are, by the controller itself.
    """

    quotas = None

    def __init__(
        self, controller: ControllerRole, published: Published, new_id: Callable[[], bytes]
    ):
        """`published` is the committed metadata; `new_id` returns a random id of 16 bytes."""
        self.controller = controller
        self.new_id = new_id
        self.waiting = Waiting(controller.clock)
        self.stored_quotas = ClientQuotas.of_broker(controller.config)
        self._published = published

    @property
    def config(self) -> BrokerConfig:
        """The configuration with dynamic settings."""
        return self.controller.config

    @property
    def clock(self) -> Clock:
        return self.controller.clock

    @property
    def node_id(self) -> int:
        return self.controller.node_id

    @property
    def cluster_id(self) -> str:
        return self.controller.cluster_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self._published.image

    @property
    def metadata_offset(self) -> int:
        """The last metadata offset in `image`; -1 if there is none."""
        return self._published.end_offset - 1

    @property
    def authorizer(self) -> Authorizer | None:
        """Decides on requests; None allows everything."""
        return self.controller.authorizer

    @property
    def quorum(self) -> MetadataLog:
        """The metadata log."""
        return self.controller.quorum
