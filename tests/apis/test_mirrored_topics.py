"""Topics that are mirrors: read-only for clients until they are promoted."""

from __future__ import annotations

import pytest

from tests.in_process import InProcessBroker, batch, now
from wirekafka.codec.batch import with_prefix
from wirekafka.errors import Error
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.controller.mirrors import RaiseLeaderEpochs, RaiseProducerIds
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.follower import PartitionResponse
from wirekafka.replication.partition.partition import Partition


@pytest.fixture
def mirror(kafka: InProcessBroker) -> InProcessBroker:
    kafka.create("t", **{"wirekafka.mirror.source": "cluster/topic"})
    return kafka


def partition(kafka: InProcessBroker) -> Partition:
    return kafka.partition("t")


def copy(kafka: InProcessBroker, value: bytes, offset: int, epoch: int) -> None:
    found = partition(kafka).mirror
    assert found is not None
    records = b"".join(with_prefix(batch(value), offset, epoch))
    response = PartitionResponse(records=records, high_watermark=offset + 1, start_offset=0)
    found.append_mirrored(response, kafka.clock.now_ms())


def produce(kafka: InProcessBroker, records: bytes) -> tuple[int, str | None]:
    kind = ProduceRequest.TopicProduceData
    data = kind.PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[kind(name="t", partition_data=[data])]
    )
    [found] = kafka.call(request, 9).responses[0].partition_responses
    return found.error_code, found.error_message


def promote(kafka: InProcessBroker) -> None:
    change = ConfigChange("wirekafka.mirror.promoted", ConfigOperation.SET, "true")
    command = AlterConfigs([ResourceChanges(TOPIC, "t", [change])])
    assert now(kafka.broker.controller.submit(command)) == [None]


def raise_epoch(kafka: InProcessBroker, epoch: int) -> None:
    now(kafka.broker.controller.submit(RaiseLeaderEpochs({("t", 0): epoch})))


def test_a_producer_is_refused_with_the_reason(mirror: InProcessBroker) -> None:
    error, message = produce(mirror, batch(b"v"))
    assert error == Error.POLICY_VIOLATION
    assert message == "t is a read-only mirror until `wirekafka mirror promote t`"
    assert partition(mirror).log.end_offset == 0


def test_records_are_not_deleted_and_partitions_not_added(mirror: InProcessBroker) -> None:
    raise_epoch(mirror, 1)
    copy(mirror, b"v", 0, 0)
    deleted = DeleteRecordsRequest.Topic
    request = DeleteRecordsRequest(
        topics=[deleted(name="t", partitions=[deleted.Partition(partition_index=0, offset=1)])]
    )
    [result] = mirror.call(request, 2).topics[0].partitions
    assert result.error_code == Error.POLICY_VIOLATION
    grown = CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="t", count=2)])
    [result] = mirror.call(grown, 3).results
    assert result.error_code == Error.POLICY_VIOLATION


def test_no_transaction_gets_a_mirror(mirror: InProcessBroker) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=[Topic(name="t", partitions=[0])]
    )
    [result] = mirror.call(request, 3).results_by_topic_v3_and_below
    assert result.results_by_partition[0].partition_error_code == Error.POLICY_VIOLATION


def test_batches_keep_their_epochs_and_wait_for_a_higher_epoch_here(
    mirror: InProcessBroker,
) -> None:
    copy(mirror, b"v", 0, 7)
    assert partition(mirror).log.end_offset == 0
    raise_epoch(mirror, 9)
    assert partition(mirror).leader_epoch == 9
    copy(mirror, b"v", 0, 7)
    copy(mirror, b"v", 1, 8)
    assert partition(mirror).log.epochs.entries == [(7, 0), (8, 1)]
    assert (partition(mirror).high_watermark, partition(mirror).last_stable_offset) == (2, 2)
    [topic] = mirror.call(MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 7).topics
    assert topic.partitions[0].leader_epoch == 9
    kind = ListOffsetsRequest.Topic
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[kind(name="t", partitions=[kind.Partition(partition_index=0, timestamp=-1)])],
    )
    [found] = mirror.call(request, 5).topics[0].partitions
    assert (found.offset, found.leader_epoch) == (2, 8), "clients ask where the epoch ends"


def test_a_promoted_topic_goes_on_in_an_epoch_of_its_own(mirror: InProcessBroker) -> None:
    raise_epoch(mirror, 9)
    copy(mirror, b"v", 0, 7)
    produce(mirror, batch(b"v"))
    promote(mirror)
    assert partition(mirror).mirror is None
    assert produce(mirror, batch(b"w")) == (0, None)
    assert produce(mirror, batch(b"x")) == (0, None)
    assert partition(mirror).log.epochs.entries == [(7, 0), (9, 1)]
    assert partition(mirror).high_watermark == 3


def test_an_epoch_is_never_lowered(mirror: InProcessBroker) -> None:
    raise_epoch(mirror, 9)
    raise_epoch(mirror, 4)
    assert partition(mirror).leader_epoch == 9


def test_transactions_that_are_open_when_a_topic_is_promoted_are_aborted(
    mirror: InProcessBroker,
) -> None:
    raise_epoch(mirror, 1)
    found = partition(mirror).mirror
    assert found is not None
    options = {"producer_id": 5, "producer_epoch": 3, "base_sequence": 0}
    sent = b"".join(with_prefix(batch(b"v", is_transactional=True, **options), 0, 0))
    response = PartitionResponse(records=sent, high_watermark=1, start_offset=0)
    found.append_mirrored(response, mirror.clock.now_ms())
    assert partition(mirror).last_stable_offset == 0
    promote(mirror)
    assert partition(mirror).last_stable_offset == partition(mirror).log.end_offset == 2
    [aborted] = partition(mirror).log.aborted_transactions(0, 2)
    assert (aborted.producer_id, aborted.first_offset) == (5, 0)


def test_producer_ids_are_raised_above_the_sources(mirror: InProcessBroker) -> None:
    broker = mirror.broker
    command = RaiseProducerIds(broker.node_id, broker.epoch, 1 << 40)
    now(broker.controller.submit(command))
    broker.producer_ids.discard()
    assert now(broker.producer_ids.next()) == 1 << 40
    now(broker.controller.submit(command))
    assert broker.image.next_producer_id == (1 << 40) + 1000
