"""The dynamic configuration of a node: read at the start, checked and applied while it runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.constraints import is_applicable
from wirekafka.config.checks.listener_update import usable
from wirekafka.metadata.image.image import BROKER, MetadataImage
from wirekafka.replication.raft.metadata_log import Sync

logger = logging.getLogger(__name__)

Values = Mapping[str, str]


class Configured(Protocol):
    """A broker or a controller, as its dynamic configuration sees it."""

    config: BrokerConfig
    node_id: int
    run_apart: Sync

    def configured(self) -> None:
        """Use the configuration, which has changed."""


class DynamicConfig:
    """Applies the newest dynamic configuration to a broker or a controller."""

    def __init__(self, host: Configured):
        self.check: Callable[[Values, Values], Awaitable[None]] = _accept
        """Called with new dynamic settings, of all brokers and of this one, before they are stored.
        Raises ConfigError if they cannot be applied."""
        self.applied: Callable[[BrokerConfig], None] = lambda config: None
        """Called after `Configured.configured`."""
        self._host = host
        self._arrived = 0

    def load(self, image: MetadataImage) -> None:
        """Add the dynamic settings in the image, before the node serves anybody."""
        host = self._host
        config = usable(host.config.with_dynamic(*settings_in(image, host.node_id)))
        if is_applicable(config):
            host.config = config

    def apply(self, cluster: Values, own: Values) -> None:
        """Apply settings of all brokers and of this one: at once if nothing has to be looked up."""
        self._arrived += 1
        number, config = self._arrived, self._host.config
        if not config.sources.refers({**cluster, **own}):
            self._use(config.with_dynamic(cluster, own))
            return
        found: list[BrokerConfig] = []

        def use(error: BaseException | None) -> None:
            if error is not None:
                logger.error("A dynamic configuration is not applied: %s", error)
            elif number == self._arrived:
                self._use(found[0])

        # Config providers read files, which may be on a network.
        self._host.run_apart(lambda: found.append(config.with_dynamic(cluster, own)), use)

    def _use(self, config: BrokerConfig) -> None:
        config = usable(config)
        if is_applicable(config):
            self._host.config = config
            self._host.configured()
            self.applied(config)


def settings_in(image: MetadataImage, node_id: int) -> tuple[Values, Values]:
    """The dynamic settings of all brokers, and of one node."""
    return image.config(BROKER, ""), image.config(BROKER, str(node_id))


async def _accept(cluster: Values, own: Values) -> None:
    """The check of a broker without listeners."""
