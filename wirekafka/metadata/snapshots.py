"""When the metadata log gets its next snapshot, so that a start need not read all of history."""

from __future__ import annotations

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import MetadataImage
from wirekafka.replication.quorum import QuorumLog


class Snapshots:
    """Snapshots of one image, by bytes appended and by time passed since the last (KIP-876)."""

    def __init__(self, quorum: QuorumLog, image: MetadataImage, now_ms: int):
        self._quorum = quorum
        self._image = image
        self._written_ms = now_ms

    def write_if_due(self, config: BrokerConfig, now_ms: int) -> bool:
        """Whether one was written. Raises OSError, `KafkaError`.

        `image` must have all that is committed, as it does between requests.
        """
        grown_bytes = self._quorum.bytes_since_snapshot
        interval_ms = config.metadata_log_max_snapshot_interval_ms
        is_full = grown_bytes >= config.metadata_log_max_record_bytes_between_snapshots
        is_old = 0 < interval_ms <= now_ms - self._written_ms and grown_bytes > 0
        if not (is_full or is_old) or self._image.in_transaction:
            return False
        self._quorum.write_snapshot(self._image.snapshot(), MetadataCodec())
        self._written_ms = now_ms
        return True
