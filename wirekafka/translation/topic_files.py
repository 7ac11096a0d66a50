"""The log files of this node's partitions, and their tier, as a translation reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import TopicPartition, uuid_text
from wirekafka.log.epochs import EpochEntry
from wirekafka.log.files import RealDisk
from wirekafka.reader import LogReader, LogSource, UnknownLog
from wirekafka.reader.directory_source import DirectorySource
from wirekafka.reader.joined_source import JoinedSource, metadata_records
from wirekafka.reader.tier_source import TierSource
from wirekafka.tiered.store import ObjectStore


class TopicFiles:
    """Directories of a broker that runs, whose committed ends the broker reports."""

    def __init__(
        self,
        directories: Sequence[str],
        committed_ends: Mapping[TopicPartition, int],
        *,
        tier: str | None = None,
    ):
        """`committed_ends` may change between reads. Raises UnknownLog."""
        self._local = DirectorySource(RealDisk(), directories, committed_ends=committed_ends)
        source: LogSource = self._local
        if tier is not None:
            try:
                store = ObjectStore.of_existing(tier)
            except KafkaError as error:
                raise UnknownLog(error.message or str(error)) from error
            records = partial(metadata_records, self._local)
            source = JoinedSource(self._local, TierSource(store, records=records))
        self.reader = LogReader(source)

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic in base64, as its directories have it."""
        found = self._local.topic_id(topic, self._local.partitions(topic)[0])
        return None if found is None else uuid_text(found)

    def epochs(self, topic: str, partition: int) -> list[EpochEntry]:
        """The leader epochs of a partition; none if they cannot be read."""
        return self._local.epochs(topic, partition)

    def close(self) -> None:
        """Release files and connections."""
        self.reader.close()
