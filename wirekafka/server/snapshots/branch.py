"""Branches: snapshots that become nodes of clusters of their own, beside their origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from uuid import uuid4

from wirekafka.codec.batch import batches
from wirekafka.config.topic_config import TopicConfig
from wirekafka.coordinator.transactions.records import TransactionRecordCodec
from wirekafka.coordinator.transactions.shard import TransactionConfig, TransactionShard
from wirekafka.coordinator.transactions.transaction import TransactionState
from wirekafka.log.append import Append, Origin
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.log.directories.log_names import log_names
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.recovery import Opening
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from wirekafka.server.snapshots.taking import take
from wirekafka.snapshot.creation import Created, SnapshotOptions
from wirekafka.snapshot.instant import Instant
from wirekafka.snapshot.manifest import UnusableSnapshot

GROUP_TOPICS = frozenset({OFFSETS_TOPIC, SHARE_STATE_TOPIC})
"""The topics that hold all groups, which a branch may begin without."""
_NO_TOPICS: frozenset[str] = frozenset()
_READ_BYTES = 1 << 20


class _NoProducerIds:
    """The producer ids of a shard that only aborts transactions, for which none is needed."""

    async def reserve(self) -> None:
        raise AssertionError

    def take(self) -> int:
        raise AssertionError


def branch(
    disk: Disk, data: Sequence[str], target: str, *, emptied: frozenset[str] = _NO_TOPICS
) -> Created:
    """Create a node `target` with the data of another, as it is at one instant.

    It has a cluster id of its own, and aborts the transactions that are open at the instant as soon
    as it starts. `emptied` topics keep no records. Raises UnusableSnapshot, OSError.
    """
    options = SnapshotOptions(
        cluster_id=_new_cluster_id(),
        emptied_topics=emptied,
        is_described=False,
        amended=partial(_amend, disk),
    )
    return take(disk, data, target, options)


def _new_cluster_id() -> str:
    """A random id whose text does not start with `-`, which command lines take for an option."""
    while (new := uuid_text(uuid4().bytes)).startswith("-"):
        pass
    return new


def _amend(disk: Disk, paths: list[str], instant: Instant) -> None:
    for path in paths:
        _check_alone(disk, path, instant.node_id)
        for name in log_names(disk, path):
            if name.rpartition("-")[0] == TRANSACTIONS_TOPIC:
                _abort_open(disk, f"{path}/{name}", instant.at_ms)


def _check_alone(disk: Disk, path: str, node_id: int) -> None:
    """Refuse a node whose quorum has other voters: it would wait for them in vain."""
    state = f"{path}/{METADATA_LOG}/quorum-state"
    if not disk.exists(state):
        return
    voters = json.loads(disk.read(state)).get("currentVoters") or ()
    others = [voter["voterId"] for voter in voters if voter["voterId"] != node_id]
    if others:
        raise UnusableSnapshot(
            f"node {node_id} is one of a cluster with the controllers {sorted([node_id, *others])}:"
            " only a node that is a cluster of its own can be branched"
        )


def _abort_open(disk: Disk, directory: str, now_ms: int) -> None:
    """Decide to abort the open transactions of a coordinator, which then writes the markers."""
    log = Log.open(disk, directory, TopicConfig(), Opening(is_clean=True, now_ms=now_ms))
    try:
        codec = TransactionRecordCodec()
        shard = TransactionShard(TransactionConfig(), _NoProducerIds())
        for batch in _batches_of(log):
            for record in codec.decode(batch):
                shard.replay(record)
        records = [
            aborted
            for transactional_id, transaction in list(shard.snapshot())
            if transaction is not None and transaction.state is TransactionState.ONGOING
            for aborted in shard.tick(transactional_id, now_ms).records
        ]
        if records:
            append = Append(
                leader_epoch=max(log.epochs.latest, 0), now_ms=now_ms, origin=Origin.COORDINATOR
            )
            log.append_as_leader(codec.encode(records, now_ms, None), append)
        log.close()
    finally:
        log.release()


def _batches_of(log: Log) -> Iterator[memoryview]:
    """The data batches of a log."""
    offset = log.start_offset
    while offset < log.end_offset:
        data = memoryview(log.load(log.read(offset, _READ_BYTES, end_offset=log.end_offset)))
        for position, header in batches(data):
            offset = header.end_offset
            if not header.is_control:
                yield data[position : position + header.size_bytes]
