"""Creation of topics on first use, and of Kafka's internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.channel import ControllerChannel
from wirekafka.metadata.topics import NewTopic
from wirekafka.replication.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)


class AutoCreation:
    """Creates topics with the broker's defaults, internal ones with the settings Kafka uses."""

    def __init__(self, channel: ControllerChannel, config: Callable[[], BrokerConfig]):
        self._channel = channel
        self._config = config
        self._in_flight: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    async def create(
        self, names: Iterable[str], wanted_by: Any = None
    ) -> dict[str, KafkaError | None]:
        """Create topics; returns the error of each, None for those created.

        `wanted_by` is as in `ControllerChannel.create_topics`. This broker knows the created topics
        when this returns. Raises `KafkaError` when the controller cannot be reached.
        """
        topics = [_new_topic(name, self._config()) for name in names]
        return await self._channel.create_topics(topics, wanted_by)

    async def ensure(self, name: str) -> None:
        """Create a topic unless it exists at the controller. Raises KafkaError."""
        refusal = (await self.create([name]))[name]
        if refusal is not None and refusal.error is not Error.TOPIC_ALREADY_EXISTS:
            raise refusal

    async def create_with(self, topic: NewTopic) -> None:
        """Create a topic as described, without the defaults of `create`. Raises KafkaError."""
        refusal = (await self._channel.create_topics([topic]))[topic.name]
        if refusal is not None:
            raise refusal

    async def create_internal(
        self, topics: Sequence[NewTopic], now_ms: int, retry_after_ms: int, wanted_by: Any
    ) -> None:
        """Create a client's internal topics; failures are kept for `retry_after_ms`.

        Topics that are being created, or whose creation failed recently, are passed over.
        """
        failed = self.recent_failures((topic.name for topic in topics), now_ms)
        wanted = [
            topic
            for topic in topics
            if topic.name not in failed and topic.name not in self._in_flight
        ]
        if not wanted:
            return
        names = {topic.name for topic in wanted}
        self._in_flight |= names
        try:
            errors = await self._channel.create_topics(wanted, wanted_by)
        except KafkaError as error:
            errors = dict.fromkeys(names, error)
        finally:
            self._in_flight -= names
        for name, refusal in errors.items():
            if refusal is not None:
                message = refusal.message or refusal.error.name
                self._failures[name] = _Failure(message, now_ms + retry_after_ms)

    def recent_failures(self, names: Iterable[str], now_ms: int) -> dict[str, str]:
        """Return why topics could not be created, for those that failed recently."""
        self._failures = {
            name: failure for name, failure in self._failures.items() if failure.until_ms > now_ms
        }
        return {name: self._failures[name].message for name in names if name in self._failures}


class _Failure(NamedTuple):
    message: str
    until_ms: int


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
                # An unclean election could lose the state of a transaction.
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    if name == SHARE_STATE_TOPIC:
        return NewTopic(
            name=name,
            num_partitions=config.share_coordinator_state_topic_num_partitions,
            replication_factor=config.share_coordinator_state_topic_replication_factor,
            configs={
                # Kafka prunes the state by deleting records, so it is neither compacted nor aged.
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "cleanup.policy": "delete",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "retention.ms": "-1",
            },
        )
    return NewTopic(name=name)
