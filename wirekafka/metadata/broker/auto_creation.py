"""Creation of topics on first use, and of Kafka's internal topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import ControllerChannel
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise

logger = logging.getLogger(__name__)

_PATIENCE_MS = 2_000
"""How long after its request a creation is awaited."""


_MOST_FAILURES = 1_000
"""Kept at a time. A further one is not reported: its group tries again with the next heartbeat."""
_LONGEST = 500
"""In characters, of a name or a message."""


class AutoCreation:
    """Creates topics with the broker's defaults, and internal topics with Kafka's settings."""

    def __init__(
        self, channel: ControllerChannel, config: Callable[[], BrokerConfig], clock: Clock
    ):
        self._channel = channel
        self._config = config
        self._clock = clock
        self._creations: dict[str, _Creation] = {}
        """The creations in progress, by topic."""
        self._failures: dict[str, _Failure] = {}
        self.is_reserved: Callable[[str], bool] = _nothing
        """Whether a topic is not created on first use: it is about to be mirrored."""

    async def create(
        self, names: Iterable[str], wanted_by: Any = None
    ) -> dict[str, KafkaError | None]:
        """Create topics; returns the error of each topic, None for a created topic.

        `wanted_by` is as in `ControllerChannel.create_topics`. This broker knows the created topics
        when this returns. The call waits for at most two seconds, since all other requests of a
        client's connection wait too; Apache Kafka does not wait at all. After that the creation
        goes on, and the error of its topics is REQUEST_TIMED_OUT until it has ended.
        """
        names = list(names)
        reserved = [name for name in names if self.is_reserved(name)]
        if reserved:
            names = [name for name in names if name not in reserved]
        creations = {name: self._creations.get(name) for name in names}
        missing = [name for name, creation in creations.items() if creation is None]
        if missing:
            topics = [_new_topic(name, self._config()) for name in missing]
            creations |= dict.fromkeys(missing, self._begin(topics, wanted_by))
        absent = KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        errors: dict[str, KafkaError | None] = dict.fromkeys(reserved, absent)
        for name, creation in creations.items():
            assert creation is not None
            await creation.end()
            errors[name] = creation.error_of(name)
        return errors

    async def ensure(self, name: str) -> None:
        """Create a topic unless it exists at the controller. Raises KafkaError, as `create`."""
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

        Topics that are being created, or whose creation failed recently, are passed over. It waits
        as long as `create`.
        """
        failed = self.recent_failures((topic.name for topic in topics), now_ms)
        wanted = [
            topic
            for topic in topics
            if topic.name not in failed and topic.name not in self._creations
        ]
        if not wanted:
            return

        def note(errors: Mapping[str, KafkaError | None]) -> None:
            for name, refusal in errors.items():
                has_room = len(self._failures) < _MOST_FAILURES and len(name) <= _LONGEST
                if refusal is not None and has_room:
                    message = (refusal.message or refusal.error.name)[:_LONGEST]
                    self._failures[name] = _Failure(message, now_ms + retry_after_ms)

        await self._begin(wanted, wanted_by, note).end()

    def recent_failures(self, names: Iterable[str], now_ms: int) -> dict[str, str]:
        """Return the errors of topics whose creation failed recently."""
        self._failures = {
            name: failure for name, failure in self._failures.items() if failure.until_ms > now_ms
        }
        return {name: self._failures[name].message for name in names if name in self._failures}

    def _begin(
        self, topics: Sequence[NewTopic], wanted_by: Any, note: _Note | None = None
    ) -> _Creation:
        creation = _Creation(self._clock)
        self._creations |= {topic.name: creation for topic in topics}
        start(self._run(creation, topics, wanted_by, note))
        return creation

    async def _run(
        self, creation: _Creation, topics: Sequence[NewTopic], wanted_by: Any, note: _Note | None
    ) -> None:
        try:
            errors = await self._channel.create_topics(topics, wanted_by)
        except KafkaError as error:
            names = [topic.name for topic in topics]
            logger.warning("Topics %s could not be created: %s", names[:10], error)
            errors = dict.fromkeys(names, error)
        finally:
            for topic in topics:
                del self._creations[topic.name]
        if note is not None:
            note(errors)
        creation.finish(errors)


_Note = Callable[[Mapping[str, KafkaError | None]], None]
"""The callbacks that get the error of each topic."""


class _Creation:
    """One request to create topics."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awaited_until_ms = clock.now_ms() + _PATIENCE_MS
        self._errors: Mapping[str, KafkaError | None] | None = None
        self._waiting: list[Promise[None]] = []

    def finish(self, errors: Mapping[str, KafkaError | None]) -> None:
        """Store the error of each topic for the waiting requests."""
        self._errors = errors
        for each in self._waiting:
            each.set(None)

    async def end(self) -> None:
        """Wait for the end, but not for longer than `_PATIENCE_MS` after the request."""
        left_ms = self._awaited_until_ms - self._clock.now_ms()
        if self._errors is None and left_ms > 0:
            over: Promise[None] = Promise()
            self._waiting.append(over)
            await over.within(self._clock, left_ms)

    def error_of(self, name: str) -> KafkaError | None:
        """The error of a topic; REQUEST_TIMED_OUT before the end."""
        if self._errors is None:
            return KafkaError(Error.REQUEST_TIMED_OUT, f"topic {name} is being created")
        return self._errors.get(name)


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
    configured = config.sources.static
    return NewTopic(
        name=name,
        # -1 is the controllers' own setting.
        num_partitions=config.num_partitions if "num.partitions" in configured else -1,
        replication_factor=(
            config.default_replication_factor if "default.replication.factor" in configured else -1
        ),
    )


def _nothing(name: str) -> bool:
    """The default of `is_reserved`."""
    return False
