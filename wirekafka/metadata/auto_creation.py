"""Topics that come into being because somebody used them, and those Kafka keeps for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import KafkaError
from wirekafka.metadata.topics import CreatedTopic, CreateTopics, NewTopic
from wirekafka.replication.runtime import Runtime

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


class AutoCreation:
    """Creates topics with the broker's defaults, internal ones as Kafka's coordinators need."""

    def __init__(self, controller: Runtime, config: Callable[[], BrokerConfig]):
        self._controller = controller
        self._config = config

    async def create(self, names: Iterable[str]) -> dict[str, CreatedTopic | KafkaError]:
        """What became of each. Raises `KafkaError` when the controller cannot be asked."""
        topics = [_new_topic(name, self._config()) for name in names]
        reply: dict[str, CreatedTopic | KafkaError]
        reply = await self._controller.submit(CreateTopics(topics))
        return reply


def _new_topic(name: str, config: BrokerConfig) -> NewTopic:
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                "compression.type": "producer",
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return NewTopic(
            name=name,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs={
                # The state must outlive any leader that had not copied it to the others.
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    return NewTopic(name=name)
