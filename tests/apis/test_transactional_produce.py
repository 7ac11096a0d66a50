"""Produce in transactions: batches that are refused before the coordinator is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from wirekafka.errors import Error
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest

ID = "transaction"
ADDS_PARTITIONS = 12


@pytest.fixture
def producer(kafka: InProcessBroker) -> Any:
    """A producer id of the transactional id, beside a topic `t`."""
    kafka.create("t")
    kafka.create("__transaction_state", 2)
    return kafka.call(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5)


def produced(kafka: InProcessBroker, producer: Any, transactional_id: str, count: int) -> Any:
    """The answer to so many batches for the one partition."""
    records = batch(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=0, records=records * count)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[kind(name="t", partition_data=[part])],
    )
    return kafka.call(request, ADDS_PARTITIONS).responses[0].partition_responses[0]


def state(kafka: InProcessBroker) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[ID])
    return str(kafka.call(request, 0).transaction_states[0].transaction_state)


def test_two_batches_for_a_partition_begin_no_transaction(
    kafka: InProcessBroker, producer: Any
) -> None:
    assert produced(kafka, producer, ID, 2).error_code == Error.INVALID_RECORD
    assert state(kafka) == "Empty"
    assert produced(kafka, producer, ID, 1).error_code == Error.NONE
    assert state(kafka) == "Ongoing"


def test_the_empty_id_is_no_transaction(kafka: InProcessBroker, producer: Any) -> None:
    assert produced(kafka, producer, "", 1).error_code == Error.INVALID_REQUEST
    assert state(kafka) == "Empty"
