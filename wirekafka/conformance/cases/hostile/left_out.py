"""The hostile values that are not sent: what would harm others, and what is no expectation."""

from __future__ import annotations

import re

_LISTS_OTHERS = "the answer has what others have"
_FAILS = "Kafka answers UNKNOWN_SERVER_ERROR, or not at all"
_REPEATS = "as another value of the field"
_ONCE_OR_TWICE = "what is there twice is answered once or twice, what is empty or not, by API"

LEFT_OUT: dict[str, dict[str, str]] = {
    "": {
        "timeout_ms = -1": "Kafka's commands time out in the controller's queue",
        r".* = 'nobody'|.* = b'.*\\x01'": _REPEATS,
        r"(?!.*\b(name|topic|resource_name|topic_name) =).* = 't/\\n'": _REPEATS,
    },
    "ListGroups": {".* (empty|null)": _LISTS_OTHERS},
    "ListTransactions": {
        ".* (empty|null)": _LISTS_OTHERS,
        "state_filters with an element twice": _ONCE_OR_TWICE,
    },
    "DescribeLogDirs": {"topics (empty|null)": _LISTS_OTHERS},
    "DescribeConfigs": {
        ".*configuration_keys (empty|null)": "the answer has all options",
        "include_documentation = True": "the answer has words for people",
    },
    "DescribeClientQuotas": {"components empty": _LISTS_OTHERS},
    "DescribeUserScramCredentials": {"users (empty|null)": _LISTS_OTHERS},
    "DescribeTopicPartitions": {
        "topics empty": _LISTS_OTHERS,
        r"cursor.partition_index = \d+": "Kafka's next cursor is negative",
    },
    "ListPartitionReassignments": {"topics null": _LISTS_OTHERS},
    "AlterClientQuotas": {".*entity_name null": "null means the default"},
    "AddPartitionsToTxn": {
        "transactions empty": _FAILS,
        "transactions.transactional_id = .*": "another broker may be its coordinator",
        "transactions.topics.* (empty|with an element twice)": _ONCE_OR_TWICE,
    },
    "AlterReplicaLogDirs": {"dirs.* (empty|with an element twice)": _ONCE_OR_TWICE},
    "DeleteRecords": {"topics( with an element twice|.partitions empty)": _ONCE_OR_TWICE},
    "ElectLeaders": {
        "topic_partitions null": "null means all partitions",
        "topic_partitions with an element twice": _ONCE_OR_TWICE,
    },
    "Produce": {"topic_data.* (empty|with an element twice)": _ONCE_OR_TWICE},
    "TxnOffsetCommit": {
        "transactional_id = ''": "as another id of no transaction",
        "producer_epoch = -1": "one of two faults is answered, by the brokers that take part",
    },
    "InitProducerId": {
        "as it is|transaction(_timeout_ms|al_id) = .+": "a producer id is given, sooner or later"
    },
    "CreateTopics": {"topics.num_partitions = -1": "the answer has all options"},
    "CreatePartitions": {"topics.count = 2147483647": _FAILS},
    "AlterConfigs": {"resources with an element twice": _FAILS},
    "DescribeShareGroupOffsets": {"groups.group_id = ''|groups.topics.partitions empty": _FAILS},
    # Brokers take offsets of the group of no name, which all clients share.
    "OffsetCommit": {"group_id = ''": _LISTS_OTHERS},
    "OffsetFetch": {"groups.group_id = ''": _LISTS_OTHERS, "groups empty": _FAILS},
    "Fetch": {
        r"max_bytes = -1|isolation_level = -?\d+|session_id = \d+": _FAILS,
        r"topics.partitions.partition_max_bytes = -1": _FAILS,
    },
    "IncrementalAlterConfigs": {r"resources.configs.config_operation = -?\d+": _FAILS},
    "ListOffsets": {
        r"isolation_level = -?\d+": _FAILS,
        "topics( with an element twice|.partitions empty)": _ONCE_OR_TWICE,
    },
    "Metadata": {"topics null": _LISTS_OTHERS, "topics.name null": _FAILS},
}
"""Patterns of the labels of variants, by API or for all APIs, with the reasons."""

INDIFFERENT: dict[str, str] = {
    "AddOffsetsToTxn": "group_id",
    "AddPartitionsToTxn": "transactions.verify_only",
    "EndTxn": "committed",
    "Fetch": (
        "min_bytes session_id topics.partitions.log_start_offset "
        "topics.partitions.partition_max_bytes topics.partitions.replica_directory_id "
        "topics.partitions.high_watermark forgotten_topics_data rack_id"
    ),
    "Heartbeat": "group_instance_id",
    "JoinGroup": "protocol_type protocols protocols.name protocols.metadata reason",
    "ListTransactions": "transactional_id_pattern",
    "OffsetCommit": (
        "topics.partitions.committed_offset topics.partitions.committed_leader_epoch "
        "topics.partitions.committed_metadata"
    ),
    "OffsetDelete": "topics.partitions topics.partitions.partition_index",
    "OffsetFetch": "require_stable",
    "Produce": "topic_data.partition_data.records",
    "ShareAcknowledge": (
        "topics.topic_id topics.partitions topics.partitions.partition_index "
        "topics.partitions.acknowledgement_batches "
        "topics.partitions.acknowledgement_batches.first_offset "
        "topics.partitions.acknowledgement_batches.last_offset "
        "topics.partitions.acknowledgement_batches.acknowledge_types"
    ),
    "ShareFetch": (
        "min_bytes max_bytes max_records batch_size share_acquire_mode topics.topic_id "
        "topics.partitions topics.partitions.partition_index "
        "topics.partitions.acknowledgement_batches "
        "topics.partitions.acknowledgement_batches.first_offset "
        "topics.partitions.acknowledgement_batches.last_offset "
        "topics.partitions.acknowledgement_batches.acknowledge_types "
        "forgotten_topics_data forgotten_topics_data.topic_id "
        "forgotten_topics_data.partitions"
    ),
    "StreamsGroupHeartbeat": (
        "topology process_id user_endpoint user_endpoint.host user_endpoint.port "
        "client_tags client_tags.key client_tags.value task_offsets task_end_offsets "
        "shutdown_application"
    ),
    "SyncGroup": "group_instance_id assignments assignments.member_id assignments.assignment",
    "TxnOffsetCommit": (
        "generation_id_or_member_epoch member_id group_instance_id "
        "topics.partitions.committed_offset topics.partitions.committed_leader_epoch "
        "topics.partitions.committed_metadata"
    ),
}
"""Fields of requests that are refused for another reason, and are like fields that are replaced."""


def is_left_out(api: str, label: str) -> bool:
    """Whether a variant of a request is not sent."""
    if label.split(" ")[0] in INDIFFERENT.get(api, "").split():
        return True
    patterns = [*LEFT_OUT[""], *LEFT_OUT.get(api, ())]
    return any(re.fullmatch(pattern, label) for pattern in patterns)
