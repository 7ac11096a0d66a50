"""Makes transactions that no coordinator knows."""

import time

from tests.eventually import eventually
from wirekafka.client.client import Client, check
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

ORPHAN = 987_654
"""A producer id that no coordinator has given."""


def leave_hanging(client: Client, topic: str, index: int) -> None:
    """Write within a transaction that no coordinator knows, as producers of old releases could.

    The broker does not verify partitions of transactions.
    """
    options = BatchOptions(
        producer_id=ORPHAN, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    batch = encode_batch(
        [Record(value=b"orphan", timestamp=int(time.time() * 1000))], options=options
    )
    kind = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id="orphan",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            kind(name=topic, partition_data=[kind.PartitionProduceData(index=index, records=batch)])
        ],
    )

    def is_written() -> bool:
        leader = next(
            each.leader_id
            for each in client.topic(topic).partitions
            if each.partition_index == index
        )
        response = client.node(leader).send(request, ProduceResponse, most=11)
        check(response.responses[0].partition_responses[0].error_code, topic)
        return True

    eventually(is_written)  # A new topic's leader may not be ready yet.
