"""The hostile values that are not sent: what would harm others, and what is no expectation."""

from __future__ import annotations

import re

_LISTS_OTHERS = "the answer has what others have"
_FAILS = "Kafka answers UNKNOWN_SERVER_ERROR, or not at all"
_COORDINATOR = "another broker may be the coordinator"
_REPEATS = "as another value of the field"
_ONCE_OR_TWICE = "what is there twice is answered once or twice, what is empty or not, by API"

LEFT_OUT: dict[str, dict[re.Pattern[str], str]] = {
    "": {
        re.compile("timeout_ms = -1"): "Kafka's commands time out in the controller's queue",
        re.compile(r".* = 'nobody'|.* = b'.*\\x01'"): _REPEATS,
        re.compile(r"(?!.*\b(name|topic|resource_name|topic_name) =).* = 't/\\n'"): _REPEATS,
    },
    "ListGroups": {re.compile(".* (empty|null)"): _LISTS_OTHERS},
    "ListTransactions": {
        re.compile(".* (empty|null)"): _LISTS_OTHERS,
        re.compile("state_filters with an element twice"): _ONCE_OR_TWICE,
    },
    "DescribeLogDirs": {re.compile("topics (empty|null)"): _LISTS_OTHERS},
    "DescribeConfigs": {
        re.compile(".*configuration_keys (empty|null)"): "the answer has all options",
        re.compile("include_documentation = True"): "the answer has words for people",
    },
    "DescribeClientQuotas": {re.compile("components empty"): _LISTS_OTHERS},
    "DescribeUserScramCredentials": {re.compile("users (empty|null)"): _LISTS_OTHERS},
    "DescribeTopicPartitions": {
        re.compile("topics empty"): _LISTS_OTHERS,
        re.compile(r"cursor.partition_index = \d+"): "Kafka's next cursor is negative",
    },
    "ListPartitionReassignments": {re.compile("topics null"): _LISTS_OTHERS},
    "AlterClientQuotas": {re.compile(".*entity_name null"): "null means the default"},
    "AddPartitionsToTxn": {
        re.compile("transactions empty"): _FAILS,
        re.compile("transactions.transactional_id = .*"): _COORDINATOR,
        re.compile("transactions.topics.* (empty|with an element twice)"): _ONCE_OR_TWICE,
    },
    "AlterReplicaLogDirs": {re.compile("dirs.* (empty|with an element twice)"): _ONCE_OR_TWICE},
    "DeleteRecords": {
        re.compile("topics( with an element twice|.partitions empty)"): _ONCE_OR_TWICE
    },
    "ElectLeaders": {
        re.compile("topic_partitions null"): "null means all partitions",
        re.compile("topic_partitions with an element twice"): _ONCE_OR_TWICE,
    },
    "Produce": {re.compile("topic_data.* (empty|with an element twice)"): _ONCE_OR_TWICE},
    "TxnOffsetCommit": {
        re.compile("transactional_id = ''"): "as another id of no transaction",
        re.compile("producer_epoch = -1"): "either of two faults is answered",
    },
    "InitProducerId": {
        re.compile("as it is|transaction(_timeout_ms|al_id) = .+"): "it succeeds, soon or later"
    },
    "CreateTopics": {re.compile("topics.num_partitions = -1"): "the answer has all options"},
    "CreatePartitions": {re.compile("topics.count = 2147483647"): _FAILS},
    "AlterConfigs": {re.compile("resources with an element twice"): _FAILS},
    "DescribeShareGroupOffsets": {
        re.compile("groups.group_id = ''|groups.topics.partitions empty"): _FAILS
    },
    # Brokers take offsets of the group of no name, which all clients share.
    "OffsetCommit": {re.compile("group_id = ''"): _LISTS_OTHERS},
    "OffsetFetch": {
        re.compile("groups.group_id = .*"): _COORDINATOR,
        re.compile("groups empty"): _FAILS,
    },
    "Fetch": {
        re.compile(r"max_bytes = -1|isolation_level = -?\d+|session_id = \d+"): _FAILS,
        re.compile(r"topics.partitions.partition_max_bytes = -1"): _FAILS,
    },
    "IncrementalAlterConfigs": {re.compile(r"resources.configs.config_operation = -?\d+"): _FAILS},
    "ListOffsets": {
        re.compile(r"isolation_level = -?\d+"): _FAILS,
        re.compile("topics( with an element twice|.partitions empty)"): _ONCE_OR_TWICE,
    },
    "Metadata": {re.compile("topics null"): _LISTS_OTHERS, re.compile("topics.name null"): _FAILS},
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
    return any(each.fullmatch(label) for each in patterns)
