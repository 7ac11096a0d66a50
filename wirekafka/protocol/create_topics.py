"""CreateTopics: creates topics (KIP-4)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool

    class CreatableTopic(Part):
        name: String
        num_partitions: Int32
        replication_factor: Int16
        assignments: list[CreatableReplicaAssignment]
        configs: list[CreatableTopicConfig]

        class CreatableReplicaAssignment(Part):
            partition_index: Int32
            broker_ids: list[Int32]

        class CreatableTopicConfig(Part):
            name: String
            value: String | None = field(default="")


class CreateTopicsResponse(Response, answers=CreateTopicsRequest):
    throttle_time_ms: Int32
    topics: list[CreatableTopicResult]

    class CreatableTopicResult(Part):
        name: String
        topic_id: Uuid = field("7+")
        error_code: Int16
        error_message: String | None = field(default="")
        topic_config_error_code: Int16 = field("5+", tag=0)
        num_partitions: Int32 = field("5+", default=-1)
        replication_factor: Int16 = field("5+", default=-1)
        configs: list[CreatableTopicConfigs] | None = field("5+", default=[])

        class CreatableTopicConfigs(Part):
            name: String
            value: String | None = field(default="")
            read_only: Bool
            config_source: Int8 = field(default=-1)
            is_sensitive: Bool
