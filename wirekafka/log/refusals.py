"""The errors of a log that clients see, with the texts of Kafka."""

from __future__ import annotations

from typing import Protocol

from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError


class Refusing(Protocol):
    """The log that refuses something."""

    name: str
    start_offset: int
    end_offset: int

    @property
    def config(self) -> TopicConfig:
        """The topic's configuration."""


def out_of_range(log: Refusing, offset: int) -> KafkaError:
    """A read outside of the log."""
    return KafkaError(
        Error.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {log.name}, but we only have"
        f" log segments upto {log.end_offset} (log start {log.start_offset})",
    )


def too_large(log: Refusing, size_bytes: int) -> KafkaError:
    """A batch that does not fit into a segment."""
    return KafkaError(
        Error.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size_bytes} bytes in append to partition"
        f" {log.name}, which exceeds the maximum configured segment size of"
        f" {log.config.segment_bytes}.",
    )
