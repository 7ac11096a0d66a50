"""DescribeProducers: lists the active producers of partitions (KIP-664).

Tools find hanging transactions with it.
"""

from __future__ import annotations

from functools import partial

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.log.producers import ProducerHistory
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from wirekafka.security.acl import READ, TOPIC

_Partition = DescribeProducersResponse.TopicResponse.PartitionResponse


_NOT_HOSTED = "This server does not host this topic-partition."


@api(DescribeProducersRequest, DescribeProducersResponse)
async def describe_producers(
    request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    """List the producer states of each partition that has a replica here."""
    turns = Turns()
    topics = []
    for topic in request.topics:
        partitions = await _of_topic(topic.name, topic.partition_indexes, call, turns)
        kind = DescribeProducersResponse.TopicResponse
        topics.append(kind(name=topic.name, partitions=partitions))
        await turns.step()
    return DescribeProducersResponse(topics=topics)


async def _of_topic(topic: str, indexes: list[int], call: Call, turns: Turns) -> list[_Partition]:
    try:
        check_name(topic)
        call.authorize(READ, TOPIC, topic)
    except KafkaError as error:
        code = error.error
        message = error.message or "Topic authorization failed."
        return await turns.map(
            lambda index: _Partition(partition_index=index, error_code=code, error_message=message),
            indexes,
        )
    return await turns.map(partial(_describe, topic, call), indexes)


def _describe(topic: str, call: Call, index: int) -> _Partition:
    partition = call.broker.partitions.get((topic, index))
    if partition is None:
        found = call.broker.image.topics.get(topic)
        if found is not None and index in found.partitions:
            return _Partition(partition_index=index, error_code=Error.NOT_LEADER_OR_FOLLOWER)
        # As in Kafka: a message for a missing topic, none for a missing partition.
        return _Partition(
            partition_index=index,
            error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=_NOT_HOSTED if found is None else None,
        )
    return _Partition(
        partition_index=index,
        active_producers=[_state(producer) for producer in partition.log.producers],
    )


def _state(producer: ProducerHistory) -> _Partition.ProducerState:
    first_offset = producer.transaction_offset
    return _Partition.ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if first_offset is None else first_offset,
    )


@failure_of(describe_producers)
def describe_producers_failure(
    request: DescribeProducersRequest, error: KafkaError, call: Call
) -> DescribeProducersResponse:
    """Report the error for every partition of the request."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    _Partition(partition_index=index, error_code=error.error)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )
