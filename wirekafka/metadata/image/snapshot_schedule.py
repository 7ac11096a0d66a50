"""The schedule of metadata snapshots, which spare a start from reading the whole log."""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.raft.metadata_log import MetadataLog

logger = logging.getLogger(__name__)

_CLEAN_INTERVAL_MS = 60_000
_WORTH_SPARING_BYTES = 128 << 10
"""About 3,000 records, which a start reads in a few hundredths of a second."""


class Followed(Protocol):
    """An image and its end offset."""

    image: MetadataImage
    end_offset: int


class SnapshotSchedule:
    """Writes a snapshot after so many bytes appended, or so much time, since the last (KIP-876)."""

    def __init__(self, log: MetadataLog, followed: Followed, now_ms: int):
        self._log = log
        self._followed = followed
        self._written_ms = now_ms
        self._is_writing = False
        self._is_failing = False
        self._cleaned_ms = now_ms

    def write_if_due(self, config: BrokerConfig, now_ms: int) -> bool:
        """Begin a snapshot if one is due; returns whether. It is written where the log's syncs run.

        A failure is logged, once until one succeeds; the next call tries again.
        """
        if self._is_writing:
            return False
        grown_bytes = self._log.bytes_since_snapshot
        interval_ms = config.metadata_log_max_snapshot_interval_ms
        is_full = grown_bytes >= config.metadata_log_max_record_bytes_between_snapshots
        is_old = 0 < interval_ms <= now_ms - self._written_ms and grown_bytes > 0
        if not (is_full or is_old) or self._followed.image.in_transaction:
            return False
        followed = self._followed
        self._is_writing = True
        try:
            self._log.begin_snapshot(
                followed.image.frozen().snapshot(),
                MetadataCodec(),
                followed.end_offset,
                partial(self._written, now_ms),
            )
        except BaseException:
            self._is_writing = False
            raise
        return True

    def clean_if_due(self, now_ms: int) -> None:
        """Delete what is beyond the log's retention, once a minute as Kafka."""
        if self._is_writing or now_ms - self._cleaned_ms < _CLEAN_INTERVAL_MS:
            return
        self._cleaned_ms = now_ms
        try:
            self._log.clean(now_ms)
        except (OSError, KafkaError, UnusableDirectory) as error:
            logger.error("Old metadata snapshots cannot be deleted; it is retried: %s", error)

    def write_at_stop(self) -> None:
        """Write a snapshot at shutdown if enough records have accumulated to slow the next start.

        Each restart adds two records per partition. A failure is only logged: the log is complete.
        """
        if (
            self._log.bytes_since_snapshot < _WORTH_SPARING_BYTES
            or self._followed.image.in_transaction
        ):
            return
        followed = self._followed
        try:
            self._log.write_snapshot(
                followed.image.snapshot(), MetadataCodec(), followed.end_offset
            )
        except (OSError, KafkaError) as error:
            logger.warning("Writing a metadata snapshot failed: %s", error)

    def _written(self, begun_ms: int, error: BaseException | None) -> None:
        self._is_writing = False
        if error is None:
            self._written_ms = begun_ms
        elif not self._is_failing:
            logger.error("Writing a metadata snapshot failed: %s", error)
        self._is_failing = error is not None
