"""What can be seen of transactions: logs with their markers, stable offsets, committed offsets."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.record import decode_records
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

_MARKERS = {0: "abort", 1: "commit"}
_LATEST = -1
_FETCHED_BYTES = 1 << 20


def log(stage: Stage, topic: str, partition: int = 0) -> dict[str, Any]:
    """The batches of a partition by their offsets, markers included.

    The epochs of coordinators in markers are left out: they count elections.
    """
    found = {}
    for data, header in _read(stage, topic, partition, isolation=0)[0]:
        records = list(decode_records(data))
        if header.is_control:
            key = bytes(records[0].key or b"")
            kind = f"{_MARKERS.get(key[3], 'unknown')} marker of version {key[1]}"
        else:
            kind = f"{len(records)} records"
        found[f"{header.base_offset}-{header.end_offset - 1}"] = {
            "kind": kind,
            "transactional": header.is_transactional,
            "producer_id": header.producer_id,
            "epoch": header.producer_epoch,
            "sequence": header.base_sequence,
        }
    return found


def positions(stage: Stage, topic: str, partition: int = 0) -> dict[str, Any]:
    """Where readers of committed records are held, and which transactions they must leave out."""
    fetched, answers = _read(stage, topic, partition, isolation=1)
    aborted = dict.fromkeys(
        (each.producer_id, each.first_offset)
        for answer in answers
        for each in answer.aborted_transactions or []
    )
    return {
        "high_watermark": answers[-1].high_watermark,
        "last_stable_offset": answers[-1].last_stable_offset,
        "aborted": [{"producer_id": id, "first_offset": offset} for id, offset in aborted],
        "fetched": " ".join(f"{each.base_offset}-{each.end_offset - 1}" for _, each in fetched),
        "end": _end(stage, topic, partition, isolation=0),
        "committed end": _end(stage, topic, partition, isolation=1),
    }


def producers(stage: Stage, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """The producers of a partition; of a coordinator's epoch only whether there is one."""
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    answer = stage.do(DescribeProducersRequest(topics=[asked]), 0)
    return [
        {
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last sequence": each.last_sequence,
            "has a coordinator": each.coordinator_epoch >= 0,
            "open since offset": each.current_txn_start_offset,
        }
        for each in answer.topics[0].partitions[0].active_producers
    ]


def committed(
    stage: Stage, group: str, topic: str, *partitions: int, is_stable: bool = False
) -> list[dict[str, Any]]:
    """The committed offsets of a group as OffsetFetch has them, `is_stable` if it must be so."""
    kind = OffsetFetchRequest.Group
    topics = [kind.Topics(name=topic, partition_indexes=[*(partitions or (0,))])]
    group_part = kind(group_id=group, topics=topics)
    answer = stage.do(OffsetFetchRequest(groups=[group_part], require_stable=is_stable), 8)
    return list(answer.groups[0].topics[0].partitions)


def _read(
    stage: Stage, topic: str, partition: int, *, isolation: int
) -> tuple[list[tuple[bytes, BatchHeader]], list[Any]]:
    """All batches that there are for an isolation level, and the answers that have them.

    An answer may end where a segment of the log does.
    """
    found: list[tuple[bytes, BatchHeader]] = []
    answers = []
    while True:
        offset = found[-1][1].end_offset if found else 0
        answers.append(_fetched(stage, topic, partition, offset, isolation))
        data = bytes(answers[-1].records or b"")
        more = [(data[at : at + each.size_bytes], each) for at, each in batches(data)]
        if not more:
            return found, answers
        found += more


def _fetched(stage: Stage, topic: str, partition: int, offset: int, isolation: int) -> Any:
    part = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=_FETCHED_BYTES
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchRequest.Topic(topic=topic, partitions=[part])],
    )
    return stage.do(request, 12).responses[0].partitions[0]


def _end(stage: Stage, topic: str, partition: int, *, isolation: int) -> int:
    kind = ListOffsetsRequest.Topic
    part = kind.Partition(partition_index=partition, timestamp=_LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[kind(name=topic, partitions=[part])]
    )
    return int(stage.do(request, 6).topics[0].partitions[0].offset)
