"""A log directory of any Kafka since 3.3 opens: records, offsets, transactions, configs."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.directories import contents
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import batches, read_header
from wirekafka.codec.record import decode_records
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

_TOPIC = 2
_SET_ON_TOPIC = 1


def unpacked(version: str, path: Path) -> Path:
    """The log directory of this Kafka release."""
    with tarfile.open(contents.archive(version)) as archive:
        archive.extractall(path, filter="data")
    return path / "data"


@pytest.fixture(params=contents.VERSIONS)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def kafka(directory: Path) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(directory, ManualClock(_written_ms(directory)))
    yield broker
    broker.stop()


def _written_ms(directory: Path) -> int:
    """When the directory's last offsets were committed: the clock starts there."""
    data = (directory / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes()
    return max(header.max_timestamp for _, header in batches(data))


def test_a_directory_opens_with_all_of_its_contents(kafka: InProcessBroker) -> None:
    assert kafka.broker.cluster_id == contents.CLUSTER_ID
    assert not [each.offline for each in kafka.broker.directories if each.offline]
    _check_contents(kafka)
    _check_configs(kafka)


def test_an_opened_directory_can_be_stopped_and_opened_again(directory: Path) -> None:
    now_ms = _written_ms(directory)
    for _ in range(2):
        kafka = InProcessBroker(directory, ManualClock(now_ms))
        _check_contents(kafka)
        kafka.stop()


def test_a_producer_continues_under_its_transactional_id(kafka: InProcessBroker) -> None:
    answer = kafka.call(
        InitProducerIdRequest(
            transactional_id=contents.TRANSACTIONAL_ID, transaction_timeout_ms=60_000
        ),
        5,
    )
    assert (answer.error_code, answer.producer_id) == (0, _ledger_producer_id(kafka))
    assert answer.producer_epoch > 0


def _check_contents(kafka: InProcessBroker) -> None:
    assert [(r.timestamp, r.key, r.value) for r in _records(kafka, contents.EVENTS)] == (
        contents.events()
    )
    assert {header.compression for header in _headers(kafka, contents.EVENTS)} == {0, 1, 2, 3, 4}
    assert [(r.key, r.value) for r in _records(kafka, contents.TABLE)] == (
        list(contents.TABLE_RECORDS)
    )
    assert tuple(r.value for r in _committed(kafka)) == contents.COMMITTED
    everything = tuple(r.value for r in _records(kafka, contents.LEDGER))
    assert everything == (*contents.COMMITTED[:2], *contents.ABORTED, *contents.COMMITTED[2:])
    kind = OffsetFetchRequest.Group
    answer = kafka.call(OffsetFetchRequest(groups=[kind(group_id=contents.GROUP, topics=None)]), 8)
    [[topic]] = [group.topics for group in answer.groups]
    [place] = topic.partitions
    assert (topic.name, place.partition_index, place.committed_offset, place.metadata) == (
        contents.EVENTS,
        0,
        contents.GROUP_OFFSET,
        contents.GROUP_METADATA,
    )


def _check_configs(kafka: InProcessBroker) -> None:
    for topic, expected in (
        (contents.EVENTS, contents.EVENTS_CONFIG),
        (contents.TABLE, contents.TABLE_CONFIG),
        (contents.LEDGER, contents.LEDGER_CONFIG),
    ):
        asked = DescribeConfigsRequest.Resource(
            resource_type=_TOPIC, resource_name=topic, configuration_keys=None
        )
        [result] = kafka.call(DescribeConfigsRequest(resources=[asked]), 4).results
        found = {
            entry.name: entry.value
            for entry in result.configs
            if entry.config_source == _SET_ON_TOPIC
        }
        assert found == expected


def _fetched(kafka: InProcessBroker, topic: str, isolation_level: int = 0) -> Any:
    kind = FetchRequest.Topic
    wanted = kind(
        topic=topic,
        partitions=[kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
    )
    answer = kafka.call(
        FetchRequest(max_bytes=1 << 20, isolation_level=isolation_level, topics=[wanted]), 12
    )
    [[partition]] = [each.partitions for each in answer.responses]
    assert partition.error_code == 0
    return partition


def _headers(kafka: InProcessBroker, topic: str) -> list[Any]:
    return [header for _, header in batches(_fetched(kafka, topic).records)]


def _records(kafka: InProcessBroker, topic: str) -> list[Any]:
    """All records but control records."""
    return _decoded(_fetched(kafka, topic).records, dropped=set())


def _committed(kafka: InProcessBroker) -> list[Any]:
    """The records of LEDGER as a read_committed client gets them."""
    partition = _fetched(kafka, contents.LEDGER, isolation_level=1)
    data = memoryview(partition.records)
    [aborted] = partition.aborted_transactions
    ends = next(
        header.base_offset
        for _, header in batches(data)
        if header.is_control and header.base_offset > aborted.first_offset
    )
    dropped = set(range(aborted.first_offset, ends))
    assert {header.producer_id for header in _headers(kafka, contents.LEDGER)} == {
        aborted.producer_id
    }
    return _decoded(data, dropped)


def _decoded(data: Any, dropped: set[int]) -> list[Any]:
    view, found = memoryview(data), []
    for at, header in batches(view):
        if not read_header(view, at).is_control:
            found += [
                record
                for record in decode_records(view[at : at + header.size_bytes])
                if record.offset not in dropped
            ]
    return found


def _ledger_producer_id(kafka: InProcessBroker) -> int:
    [producer_id] = {header.producer_id for header in _headers(kafka, contents.LEDGER)}
    number: int = producer_id
    return number
