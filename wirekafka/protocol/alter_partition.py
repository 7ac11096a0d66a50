"""AlterPartition: changes the ISRs of partitions, as proposed by their leader (KIP-497)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Int64, Part, Request, Response, Uuid, field


class AlterPartitionRequest(Request, key=56, versions="2-3", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    topics: list[TopicData]

    class TopicData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            leader_epoch: Int32
            new_isr: list[Int32] = field("0-2")
            new_isr_with_epochs: list[BrokerState] = field("3+")
            leader_recovery_state: Int8
            partition_epoch: Int32

            class BrokerState(Part):
                broker_id: Int32
                broker_epoch: Int64 = field(default=-1)


class AlterPartitionResponse(Response, answers=AlterPartitionRequest):
    throttle_time_ms: Int32
    error_code: Int16
    topics: list[TopicData]

    class TopicData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            leader_id: Int32
            leader_epoch: Int32
            isr: list[Int32]
            leader_recovery_state: Int8
            partition_epoch: Int32
