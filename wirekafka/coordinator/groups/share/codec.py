"""Encodes and decodes the records of share groups in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Message
from wirekafka.coordinator.groups.record_types import record_type
from wirekafka.coordinator.groups.share.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareMemberRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareTopicsRecord,
)
from wirekafka.protocol.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

_SCHEMAS: tuple[tuple[type, type[Message], type[Message]], ...] = (
    (ShareMemberRecord, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareEpochRecord, ShareGroupMetadataKey, ShareGroupMetadataValue),
    (
        ShareTargetEpochRecord,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMetadataValue,
    ),
    (ShareTargetRecord, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (
        ShareCurrentRecord,
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupCurrentMemberAssignmentValue,
    ),
    (ShareTopicsRecord, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)

SHARE_RECORD_TYPES = tuple(record_type(*schemas) for schemas in _SCHEMAS)

SHARE_SCHEMAS: dict[int, tuple[type[Message], type[Message]]] = {
    key.key: (key, value) for _, key, value in _SCHEMAS
}
"""The key and value schema of each record type, by the version in its key."""
