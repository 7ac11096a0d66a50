"""The names of the topics in which Kafka keeps its own state."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Written by brokers alone; Metadata reports them as internal."""

METADATA_TOPIC = "__cluster_metadata"
"""The log of the controller quorum. It is not a topic that clients can see or create."""
