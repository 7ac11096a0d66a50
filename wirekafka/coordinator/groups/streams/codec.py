"""Encodes and decodes the records of streams groups in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Message
from wirekafka.coordinator.groups.record_types import record_type
from wirekafka.coordinator.groups.streams.records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
)
from wirekafka.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

_SCHEMAS: tuple[tuple[type, type[Message], type[Message]], ...] = (
    (StreamsEpochRecord, StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsMemberRecord, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (
        StreamsTargetEpochRecord,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMetadataValue,
    ),
    (
        StreamsTargetRecord,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
    ),
    (
        StreamsCurrentRecord,
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
    ),
    (StreamsTopologyRecord, StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)

STREAMS_RECORD_TYPES = tuple(record_type(*schemas) for schemas in _SCHEMAS)

STREAMS_SCHEMAS: dict[int, tuple[type[Message], type[Message]]] = {
    key.key: (key, value) for _, key, value in _SCHEMAS
}
"""The key and value schema of each record type, by the version in its key."""
