"""Metadata: lists the brokers, and topics with their partitions and leaders."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics: list[Topic] | None = field(nullable="1+", default=[])
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10")
    include_topic_authorized_operations: Bool = field("8+")

    class Topic(Part):
        topic_id: Uuid = field("10+")
        name: String | None = field(nullable="10+", default="")


class MetadataResponse(Response, answers=MetadataRequest):
    throttle_time_ms: Int32 = field("3+")
    brokers: list[Broker]
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    topics: list[Topic]
    cluster_authorized_operations: Int32 = field("8-10", default=NOT_REQUESTED)
    error_code: Int16 = field("13+")

    class Broker(Part):
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field("1+", default=None)

    class Topic(Part):
        error_code: Int16
        name: String | None = field(nullable="12+", default="")
        topic_id: Uuid = field("10+")
        is_internal: Bool = field("1+")
        partitions: list[Partition]
        topic_authorized_operations: Int32 = field("8+", default=NOT_REQUESTED)

        class Partition(Part):
            error_code: Int16
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = field("7+", default=-1)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            offline_replicas: list[Int32] = field("5+")
