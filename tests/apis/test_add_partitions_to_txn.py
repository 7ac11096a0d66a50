"""AddPartitionsToTxn as leaders send it; errors as Kafka 4.4.0 gave them."""

from __future__ import annotations

import pytest

from tests.in_process import InProcessBroker
from wirekafka.errors import Error
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.init_producer_id import InitProducerIdRequest

ID = "transaction"


@pytest.mark.parametrize("version", [4, 5])
def test_a_partition_that_was_not_added_is_abortable_in_both_versions(
    kafka: InProcessBroker, version: int
) -> None:
    kafka.create("t")
    kafka.create("__transaction_state", 2)
    identity = kafka.call(
        InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5
    )
    transaction = AddPartitionsToTxnRequest.Transaction(
        transactional_id=ID,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        verify_only=True,
        topics=[Topic(name="t", partitions=[0])],
    )
    answer = kafka.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
    [result] = answer.results_by_transaction[0].topic_results[0].results_by_partition
    assert result.partition_error_code == Error.TRANSACTION_ABORTABLE
