"""Schemas of the metadata records; `key` is the record type, Kafka's "apiKey" (KIP-631)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Part,
    String,
    UInt16,
    Uuid,
    field,
)


class AbortTransactionRecord(Message, key=25, versions="0", flexible="0+"):
    reason: String | None = field(default=None, tag=0)


class AccessControlEntryRecord(Message, key=18, versions="0", flexible="0+"):
    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class BeginTransactionRecord(Message, key=23, versions="0", flexible="0+"):
    name: String | None = field(default=None, tag=0)


class BrokerRegistrationChangeRecord(Message, key=17, versions="0-3", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1)
    log_dirs: list[Uuid] = field("2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", default=None, tag=3)


class ClearElrRecord(Message, key=28, versions="0", flexible="0+"):
    topic_name: String


class ClientQuotaRecord(Message, key=14, versions="0", flexible="0+"):
    entity: list[EntityData]
    key: String
    value: Float64
    remove: Bool

    class EntityData(Part):
        entity_type: String
        entity_name: String | None = field(default="")


class ConfigRecord(Message, key=4, versions="0", flexible="0+"):
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None = field(default="")


class DelegationTokenRecord(Message, key=10, versions="0", flexible="0+"):
    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class EndTransactionRecord(Message, key=24, versions="0", flexible="0+"):
    pass


class FeatureLevelRecord(Message, key=12, versions="0", flexible="0+"):
    name: String
    feature_level: Int16


class FenceBrokerRecord(Message, key=7, versions="0", flexible="0+"):
    id: Int32
    epoch: Int64


class NoOpRecord(Message, key=20, versions="0", flexible="0+"):
    pass


class PartitionChangeRecord(Message, key=5, versions="0-2", flexible="0+"):
    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    isr: list[Int32] | None = field(default=None, tag=0)
    leader: Int32 = field(default=-2, tag=1)
    replicas: list[Int32] | None = field(default=None, tag=2)
    removing_replicas: list[Int32] | None = field(default=None, tag=3)
    adding_replicas: list[Int32] | None = field(default=None, tag=4)
    leader_recovery_state: Int8 = field(default=-1, tag=5)
    directories: list[Uuid] | None = field("1+", default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=6)
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=7)


class PartitionRecord(Message, key=3, versions="0-2", flexible="0+"):
    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = field(default=-1)
    leader_recovery_state: Int8 = field(tag=0)
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    directories: list[Uuid] = field("1+")
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=1)
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=2)


class ProducerIdsRecord(Message, key=15, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64


class RegisterBrokerRecord(Message, key=0, versions="0-4", flexible="0+"):
    broker_id: Int32
    is_migrating_zk_broker: Bool = field("2+")
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None = field(default="")
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field("1+")
    log_dirs: list[Uuid] = field("3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", default=None, tag=1)

    class BrokerEndpoint(Part):
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    class BrokerFeature(Part):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


class ZkMigrationStateRecord(Message, key=21, versions="0", flexible="0+"):
    zk_migration_state: Int8


class UnregisterControllerRecord(Message, key=29, versions="0", flexible="0+"):
    controller_id: Int32


class RegisterControllerRecord(Message, key=27, versions="0", flexible="0+"):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]

    class ControllerEndpoint(Part):
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    class ControllerFeature(Part):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


class RemoveAccessControlEntryRecord(Message, key=19, versions="0", flexible="0+"):
    id: Uuid


class RemoveDelegationTokenRecord(Message, key=26, versions="0", flexible="0+"):
    token_id: String


class RemoveTopicRecord(Message, key=9, versions="0", flexible="0+"):
    topic_id: Uuid


class RemoveUserScramCredentialRecord(Message, key=22, versions="0", flexible="0+"):
    name: String
    mechanism: Int8


class TopicRecord(Message, key=2, versions="0", flexible="0+"):
    name: String
    topic_id: Uuid


class UnfenceBrokerRecord(Message, key=8, versions="0", flexible="0+"):
    id: Int32
    epoch: Int64


class UnregisterBrokerRecord(Message, key=1, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64


class UserScramCredentialRecord(Message, key=11, versions="0", flexible="0+"):
    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32
