"""Which metrics a client pushes, and how often, by the configs of client metrics (KIP-714)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from wirekafka.codec.crc import crc32c
from wirekafka.config.checks.client_match import (
    CLIENT_ID,
    INSTANCE_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    SOURCE_ADDRESS,
    SOURCE_PORT,
    ClientMatch,
)
from wirekafka.config.option import ConfigError
from wirekafka.config.options import CLIENT_METRICS
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order, uuid_hash_code
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metadata.image.image import CLIENT_METRICS as RESOURCE
from wirekafka.metadata.image.image import MetadataImage

logger = logging.getLogger(__name__)

ALL = "*"
"""The name that stands for all metrics."""
_INTERVAL_MS: int = CLIENT_METRICS["interval.ms"].default
"""How often clients without a subscription ask again."""


class TelemetryClient(NamedTuple):
    """A broker's knowledge of a client that asks for subscriptions or pushes."""

    client_id: str | None
    software: tuple[str, str]
    """Name and version, as in ApiVersions (KIP-511)."""
    address: str
    port: str
    connection_id: str

    def attributes(self, instance_id: bytes) -> dict[str, str | None]:
        """The values that subscriptions are matched with, by selector."""
        name, version = self.software
        return {
            INSTANCE_ID: uuid_text(instance_id),
            CLIENT_ID: self.client_id,
            SOFTWARE_NAME: name,
            SOFTWARE_VERSION: version,
            SOURCE_ADDRESS: self.address,
            SOURCE_PORT: self.port,
        }


class Subscription(NamedTuple):
    """All metrics that one client instance is to push."""

    id: int
    metrics: list[str]
    """Prefixes of names; ["*"] for all metrics."""
    interval_ms: int


class _Configured(NamedTuple):
    metrics: list[str]
    interval_ms: int
    match: ClientMatch


class TelemetrySubscriptions:
    """The configured subscriptions, read from the metadata again when it has changed."""

    def __init__(self, image: MetadataImage):
        self.version = 0
        """Raised by each change."""
        self._image = image
        self._generation = -1
        self._texts: dict[str, dict[str, str]] = {}
        self._configured: list[_Configured] = []

    def refresh(self) -> None:
        """Take over the subscriptions configured since the last call."""
        image = self._image
        if image.generation == self._generation:
            return
        self._generation = image.generation
        texts = {
            name: dict(values) for (type, name), values in image.configs.items() if type == RESOURCE
        }
        if texts == self._texts:
            return
        self._texts = texts
        self.version += 1
        names = strings_in_order(texts, grown_capacity(len(texts)))
        found = (_configured(name, texts[name]) for name in names)
        self._configured = [each for each in found if each is not None]

    def of(self, instance_id: bytes, client: TelemetryClient) -> Subscription:
        """The subscription of a client instance: the union of all that match it."""
        attributes = client.attributes(instance_id)
        matching = [each for each in self._configured if each.match.matches(attributes)]
        names = list(dict.fromkeys(name for each in matching for name in each.metrics))
        if ALL in names:
            names = [ALL]
        # The id depends on the order, in Kafka the order of a hash set.
        names = strings_in_order(names, grown_capacity(len(names)))
        interval_ms = min((each.interval_ms for each in matching), default=_INTERVAL_MS)
        return Subscription(_id_of(names, interval_ms, instance_id), names, interval_ms)


def _configured(name: str, texts: Mapping[str, str]) -> _Configured | None:
    def value(option: str) -> Any:
        row = CLIENT_METRICS[option]
        return row.parse(texts[option]) if option in texts else row.default

    try:
        match = ClientMatch(value("match"))
        return _Configured(list(value("metrics")), value("interval.ms"), match)
    except (ConfigError, KafkaError) as error:
        # A controller of another kind may have accepted it.
        logger.warning("The client metrics subscription %s matches no client: %s", name, error)
        return None


def _id_of(names: list[str], interval_ms: int, instance_id: bytes) -> int:
    """Kafka's id of a subscription, a signed 32-bit number."""
    checksum = crc32c(f"[{', '.join(names)}]{interval_ms}".encode())
    id = checksum ^ uuid_hash_code(instance_id)
    return id - (1 << 32) if id >> 31 else id
