"""Encodes and decodes the records of consumer groups in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Message
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerCurrentRecord,
    ConsumerEpochRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
    ConsumerTopicsRecord,
)
from wirekafka.coordinator.groups.record_types import record_type
from wirekafka.protocol.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

_SCHEMAS: tuple[tuple[type, type[Message], type[Message]], ...] = (
    (ConsumerEpochRecord, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerTopicsRecord, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerMemberRecord, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (
        ConsumerTargetEpochRecord,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    (
        ConsumerTargetRecord,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    (
        ConsumerCurrentRecord,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    (ConsumerRegexRecord, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)


CONSUMER_RECORD_TYPES = tuple(record_type(*schemas) for schemas in _SCHEMAS)

CONSUMER_SCHEMAS: dict[int, tuple[type[Message], type[Message]]] = {
    key.key: (key, value) for _, key, value in _SCHEMAS
}
"""The key and value schema of each record type, by the version in its key."""
