"""Where the offsets of a tiered topic are: on disks, in remote storage, or in both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.client.client import Client, CliError
from wirekafka.client.configurations import TOPIC, described
from wirekafka.client.membership import TopicPartition
from wirekafka.codec.batch import BatchHeader
from wirekafka.console.offsets import offsets_at
from wirekafka.console.topic_reads import EARLIEST, LATEST, Positions, TopicReads, bounded_records
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.tiered.audit import folded
from wirekafka.tiered.metadata_record import (
    REMOTE_LOG_METADATA_TOPIC,
    MalformedMetadata,
    MetadataRecord,
    decode,
    metadata_partition,
)
from wirekafka.tiered.remote_segment import SegmentState, TieredPartition

_REMOTE_STORAGE = "remote.storage.enable"
_EARLIEST_LOCAL, _LATEST_TIERED = -4, -5
_TIERED = 9
"""From this version on, ListOffsets has the latest tiered offset (KIP-1005)."""
_FETCH_BYTES = 1 << 20
_MOST_BYTES = 32 << 20
"""Of metadata: what is larger is not read for one page."""


@dataclass(frozen=True, slots=True)
class RemoteSize:
    """What a partition has in remote storage."""

    segments: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TierLine:
    """The offsets of a tiered partition, from the log start to the log end."""

    index: int
    start: int
    local_start: int
    tiered_end: int
    """After the last offset in remote storage; the log start if nothing is there."""
    end: int
    remote: RemoteSize | None
    """None if the metadata could not be read."""

    @property
    def remote_only(self) -> int:
        """How many offsets are in remote storage and no longer on the leader's disk."""
        return self.local_start - self.start

    @property
    def both(self) -> int:
        """How many offsets are in remote storage and on the leader's disk."""
        return max(self.tiered_end - self.local_start, 0)

    @property
    def local_only(self) -> int:
        """How many offsets are on disks only."""
        return self.end - max(self.tiered_end, self.local_start)

    def share(self, offsets: int) -> float:
        """A number of offsets in thousandths of all."""
        return round(1000 * offsets / max(self.end - self.start, 1), 1)


@dataclass(frozen=True, slots=True)
class TopicTier:
    """The tiered partitions of a topic, and what could not be found out."""

    lines: list[TierLine]
    problems: list[str]

    @property
    def remote_bytes(self) -> int | None:
        """The bytes in remote storage; None if they are not known."""
        sizes = [each.remote.size_bytes for each in self.lines if each.remote is not None]
        return sum(sizes) if len(sizes) == len(self.lines) else None


def has_tiered_storage(metadata: MetadataResponse) -> bool:
    """Whether a cluster may have tiered topics, by the `__remote_log_metadata` in its metadata.

    The topic may exist and be hidden from a user without permission.
    """
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
    return all(
        each.error_code != unknown
        for each in metadata.topics
        if each.name == REMOTE_LOG_METADATA_TOPIC
    )


def topic_tier(
    client: Client,
    topic: MetadataResponse.Topic,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> TopicTier | None:
    """Where the offsets of a topic are; None if it has nothing in remote storage."""
    if not _may_be_tiered(client, topic):
        return None
    leaders = {each.leader_id for each in topic.partitions if each.leader_id >= 0}
    try:
        if any(client.node(each).version_of(ListOffsetsRequest) < _TIERED for each in leaders):
            return None
    except CliError:
        return None  # The page names the brokers that cannot be reached.
    tiered = offsets_at(client, [topic], _LATEST_TIERED)
    local = offsets_at(client, [topic], _EARLIEST_LOCAL)
    keys = [
        key
        for each in topic.partitions
        if (key := (topic.name or "", each.partition_index)) in starts
        and key in ends
        and (key in tiered or local.get(key, -1) > starts[key])
    ]
    if not keys:
        return None
    partitions = {index: _identity(topic, index) for _, index in keys}
    try:
        sizes, problems = _remote_sizes(client, partitions), []
    except CliError as error:
        sizes, problems = {}, [f"The size of what is in remote storage is not known: {error}"]
    lines = []
    for key in keys:
        start, end = starts[key], ends[key]
        local_start = min(max(local.get(key, start), start), end)
        tiered_end = min(max(tiered.get(key, -1) + 1, local_start), end)
        lines.append(TierLine(key[1], start, local_start, tiered_end, end, sizes.get(key[1])))
    return TopicTier(lines, problems)


def _may_be_tiered(client: Client, topic: MetadataResponse.Topic) -> bool:
    """Whether a topic's configuration says that it is tiered, or cannot be read."""
    try:
        entries = described(client, TOPIC, topic.name or "", only=(_REMOTE_STORAGE,))
    except CliError:
        return True
    return any(each.name == _REMOTE_STORAGE and each.value == "true" for each in entries)


def _identity(topic: MetadataResponse.Topic, index: int) -> TieredPartition:
    return TieredPartition(topic.name or "", bytes(topic.topic_id), index)


def _remote_sizes(
    client: Client, partitions: Mapping[int, TieredPartition]
) -> dict[int, RemoteSize]:
    """The size of each partition in remote storage, by the metadata there. Raises CliError."""
    reads = TopicReads(client, REMOTE_LOG_METADATA_TOPIC)
    count = len(reads.partitions())
    wanted = {metadata_partition(each, count) for each in partitions.values()}
    led = wanted & reads.shape.leaders.keys()
    if led != wanted:
        raise CliError(f"{REMOTE_LOG_METADATA_TOPIC}-{min(wanted - led)} has no leader")
    tier = folded(_records(reads, led))
    found = {}
    for index, identity in partitions.items():
        there = [
            each for each in tier.get(identity, ()) if each.state is SegmentState.COPY_FINISHED
        ]
        found[index] = RemoteSize(len(there), sum(each.size_bytes for each in there))
    return found


def _records(reads: TopicReads, partitions: set[int]) -> Iterator[MetadataRecord]:
    """All records of some partitions of the metadata. Raises CliError if they are too many."""
    positions: Positions = reads.offsets(partitions, EARLIEST)
    ends = reads.offsets(partitions, LATEST)
    while left := {index: at for index, at in positions.items() if at < ends[index]}:
        if reads.fetched_bytes > _MOST_BYTES:
            raise CliError(f"its metadata has more than {_MOST_BYTES >> 20} MiB")
        for chunk in reads.fetch(left, _FETCH_BYTES):
            if chunk.error:
                raise CliError(f"{REMOTE_LOG_METADATA_TOPIC}-{chunk.partition}: {chunk.error}")
            for header, batch, _ in chunk.batches(left[chunk.partition]):
                positions[chunk.partition] = header.end_offset
                yield from _decoded(batch, header)
        if all(positions[index] == at for index, at in left.items()):
            return  # The last offsets have no records, or are of an open transaction.


def _decoded(batch: bytes, header: BatchHeader) -> Iterator[MetadataRecord]:
    """The records of a batch; what cannot be decoded is left out, as the brokers do."""
    if header.is_control:
        return
    try:
        for record in bounded_records(batch, header):
            with suppress(MalformedMetadata):
                yield decode(record.value)
    except KafkaError:
        return
