"""StreamsGroupHeartbeat: joins, stays in or leaves a group of a streams application
(KIP-1071).
"""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    UInt16,
    field,
)
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue

Subtopology = StreamsGroupTopologyValue.Subtopology


class KeyValue(Part):
    key: String
    value: String


class TaskIds(Part):
    subtopology_id: String
    partitions: list[Int32]


class TaskOffset(Part):
    subtopology_id: String
    partition: Int32
    offset: Int64


class Endpoint(Part):
    host: String
    port: UInt16


class TopicPartition(Part):
    topic: String
    partitions: list[Int32]


class StreamsGroupHeartbeatRequest(Request, key=88, versions="0-1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology: Topology | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: String | None = field(default=None)
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: Bool = field(default=False)

    class Topology(Part):
        epoch: Int32
        subtopologies: list[Subtopology]


class StreamsGroupHeartbeatResponse(Response, answers=StreamsGroupHeartbeatRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Int32 = field("0")
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Int64 = field("1+", default=-1)
    status: list[GroupStatus] | None
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    topology_description_required: Bool = field("1+", default=False)
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)

    class GroupStatus(Part):
        status_code: Int8
        status_detail: String

    class EndpointToPartitions(Part):
        user_endpoint: Endpoint
        active_partitions: list[TopicPartition]
        standby_partitions: list[TopicPartition]
