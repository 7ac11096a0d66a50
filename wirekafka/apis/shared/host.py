"""The interface of a node for connections, the pipeline and handlers on every listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from wirekafka.clock import Clock
    from wirekafka.config.broker_config import BrokerConfig
    from wirekafka.controller import ControllerRole
    from wirekafka.metadata.image.image import MetadataImage
    from wirekafka.quotas.client_quotas import ClientQuotas
    from wirekafka.replication.partition.waiting import Waiting
    from wirekafka.replication.raft.metadata_log import MetadataLog
    from wirekafka.security.authorizer import Authorizer


class Host(Protocol):
    """The node behind a listener: a `Broker`, or the `ControllerHost` of a controller.

    Both have these members for connections, the pipeline and handlers on every listener.
    """

    @property
    def config(self) -> BrokerConfig:
        """The configuration with dynamic settings."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    @property
    def node_id(self) -> int:
        """This node's id."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""

    @property
    def authorizer(self) -> Authorizer | None:
        """Decides on requests; None allows everything."""

    @property
    def quotas(self) -> ClientQuotas | None:
        """The quotas of clients; None while none is stored."""

    @property
    def stored_quotas(self) -> ClientQuotas:
        """The stored quotas, quotas of addresses included."""

    @property
    def waiting(self) -> Waiting:
        """The parked requests."""

    @property
    def new_id(self) -> Callable[[], bytes]:
        """Makes a random id of 16 bytes."""

    @property
    def quorum(self) -> MetadataLog:
        """The metadata log."""

    @property
    def metadata_offset(self) -> int:
        """The last metadata offset in `image`."""

    @property
    def controller(self) -> ControllerRole:
        """The controller in this process."""
