"""The refusal of batches whose schemas are not registered, while there is no registry to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from wirekafka.codec.batch import Buffer
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError

RunApart: TypeAlias = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
"""Runs a piece of work while other requests are served, then calls back on the event loop."""


class SchemaRefusal(Protocol):
    """The error of a valid batch with a record whose schema is not registered for its topic."""

    def __call__(
        self, records: Buffer, topic: str, config: TopicConfig, check_apart: RunApart
    ) -> Awaitable[KafkaError | None]:
        """The error; None if all records may be appended. `check_apart` reads the records."""


async def refusal_without_registry(
    records: Buffer, topic: str, config: TopicConfig, check_apart: RunApart
) -> KafkaError | None:
    """The error of every batch to topics that validate schemas: none can be looked up."""
    return KafkaError(
        Error.INVALID_CONFIG,
        f"Topic {topic} validates schemas, but the broker has no confluent.schema.registry.url",
    )
