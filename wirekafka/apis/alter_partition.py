"""AlterPartition: changes the ISRs of partitions, as proposed by their leader (KIP-497).

v2: topic ids, v3: the broker epochs of the ISR's members (KIP-903).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Replica
from wirekafka.metadata.controller.isr_changes import ChangeIsrs
from wirekafka.metadata.controller.sweep import in_portions
from wirekafka.protocol.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange, IsrMember
from wirekafka.replication.partition.replica import NO_EPOCH
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Proposed = AlterPartitionRequest.TopicData.PartitionData
_Topic = AlterPartitionResponse.TopicData


@controller_api(AlterPartitionRequest, AlterPartitionResponse)
async def alter_partition(
    request: AlterPartitionRequest, call: ControllerCall
) -> AlterPartitionResponse:
    """Change each ISR if the proposal is based on the partition's current epochs."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    changes = {
        (topic.topic_id, each.partition_index): _change(each, call.version)
        for topic in request.topics
        for each in topic.partitions
    }
    results: dict[Replica, DecidedIsr | KafkaError] = {}
    for portion in in_portions(changes.items()):
        results |= await call.controller.submit(
            ChangeIsrs(request.broker_id, request.broker_epoch, dict(portion))
        )
    return AlterPartitionResponse(
        topics=[
            _Topic(
                topic_id=topic.topic_id,
                partitions=[
                    _result(each.partition_index, results[topic.topic_id, each.partition_index])
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _change(proposed: _Proposed, version: int) -> IsrChange:
    members = (
        [
            IsrMember(member.broker_id, member.broker_epoch)
            for member in proposed.new_isr_with_epochs
        ]
        if version >= 3
        else [IsrMember(broker_id, NO_EPOCH) for broker_id in proposed.new_isr]
    )
    return IsrChange(
        tuple(members),
        proposed.leader_epoch,
        proposed.partition_epoch,
        proposed.leader_recovery_state,
    )


def _result(index: int, result: DecidedIsr | KafkaError) -> _Topic.PartitionData:
    if isinstance(result, KafkaError):
        return _Topic.PartitionData(partition_index=index, error_code=result.error)
    return _Topic.PartitionData(
        partition_index=index,
        error_code=Error.NONE,
        leader_id=result.leader_id,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )
