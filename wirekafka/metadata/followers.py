"""What partition leaders need from the metadata image: their followers' brokers, and throttles."""

from __future__ import annotations

from functools import partial

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.image import BROKER, BrokerImage, MetadataImage
from wirekafka.replication.throttle import ReplicationThrottle


class ImageBrokers:
    """Implements `replication.replica.Brokers` over an image that changes as it is replayed."""

    def __init__(self, image: MetadataImage, max_lag_ms: int):
        self._image = image
        self.max_lag_ms = max_lag_ms

    def alive_epoch(self, broker_id: int) -> int | None:
        """The broker epoch of an unfenced broker; None for any other."""
        broker = self._alive(broker_id)
        return None if broker is None else broker.epoch

    def may_join(self, broker_id: int) -> bool:
        """Whether a broker is neither fenced nor in controlled shutdown."""
        broker = self._alive(broker_id)
        return broker is not None and not broker.registration.in_controlled_shutdown

    def _alive(self, broker_id: int) -> BrokerImage | None:
        broker = self._image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker


def leader_throttle(image: MetadataImage, config: BrokerConfig) -> ReplicationThrottle:
    """Return the throttle of what this broker sends to followers (KIP-73)."""
    return ReplicationThrottle(
        config.node_id,
        partial(throttled_rate, image, config.node_id, "leader"),
        (config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000),
    )


def throttled_rate(image: MetadataImage, node_id: int, role: str) -> int | None:
    """Return `<role>.replication.throttled.rate` in bytes per second; None if it is not set.

    `role` is `leader` or `follower`. The rate exists only as a dynamic setting, of one broker or of
    all brokers (KIP-73).
    """
    name = f"{role}.replication.throttled.rate"
    for resource in (str(node_id), ""):
        text = image.config(BROKER, resource).get(name)
        if text is not None:
            return int(text)
    return None
