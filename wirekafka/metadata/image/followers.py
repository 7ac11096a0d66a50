"""The parts of the metadata image for partition leaders: followers' brokers, and throttles."""

from __future__ import annotations

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.image.image import BROKER, BrokerImage, MetadataImage
from wirekafka.replication.fetching.throttle import ReplicationThrottle


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


def replication_throttle(
    image: MetadataImage, config: BrokerConfig, role: str
) -> ReplicationThrottle:
    """The throttle of this broker's replication; `role` is `leader` or `follower` (KIP-73)."""
    return _throttle(
        image,
        config.node_id,
        f"{role}.replication.throttled.rate",
        window_count=config.replication_quota_window_num,
        window_s=config.replication_quota_window_size_seconds,
    )


def relocation_throttle(image: MetadataImage, config: BrokerConfig) -> ReplicationThrottle:
    """The throttle of copies between this broker's log directories (KIP-113)."""
    return _throttle(
        image,
        config.node_id,
        "replica.alter.log.dirs.io.max.bytes.per.second",
        window_count=config.alter_log_dirs_replication_quota_window_num,
        window_s=config.alter_log_dirs_replication_quota_window_size_seconds,
    )


def _throttle(
    image: MetadataImage, node_id: int, name: str, *, window_count: int, window_s: int
) -> ReplicationThrottle:
    """A throttle whose rate exists only as a dynamic setting, of one broker or of all brokers."""

    def limit_bytes_per_s() -> int | None:
        for resource in (str(node_id), ""):
            text = image.config(BROKER, resource).get(name)
            if text is not None:
                return int(text)
        return None

    return ReplicationThrottle(node_id, limit_bytes_per_s, window_count, window_s * 1000)
