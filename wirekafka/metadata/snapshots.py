"""When the metadata log gets its next snapshot, so that a start need not read all of history."""

from __future__ import annotations

import logging

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import MetadataImage
from wirekafka.replication.quorum import QuorumLog

logger = logging.getLogger(__name__)

_WORTH_SPARING_BYTES = 128 << 10
"""Some 3,000 records: what a start takes some hundredths of a second for."""


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
        self._write()
        self._written_ms = now_ms
        return True

    def write_at_stop(self) -> None:
        """Spare the next start what has gathered: each stop and start adds two records a partition.

        A failure is logged only, as nothing depends on it.
        """
        if (self._quorum.bytes_since_snapshot < _WORTH_SPARING_BYTES
                or self._image.in_transaction):
            return
        try:
            self._write()
        except (OSError, KafkaError) as error:
            logger.warning("No snapshot of the metadata was written: %s", error)

    def _write(self) -> None:
        self._quorum.write_snapshot(self._image.snapshot(), MetadataCodec())
