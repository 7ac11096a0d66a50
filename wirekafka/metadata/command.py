"""What a controller command is: a question to the cluster's state, answered by records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image import MetadataImage

MOST_RECORDS_PER_BATCH = 10_000
"""Kafka's bound on one atomic change, so that no request can stall the quorum."""


@dataclass(slots=True)
class ControllerState:
    """All that a command may look at. `new_id` makes a random topic id of 16 bytes."""

    image: MetadataImage
    current_config: Callable[[], BrokerConfig]
    new_id: Callable[[], bytes]

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is by now: parts of it are dynamic."""
        return self.current_config()


class Decision(NamedTuple):
    """Records to append as one batch, and the reply once they are committed."""

    records: Sequence[Message]
    reply: Any = None


class Command(Protocol):
    """A request to the controller. Never parked: it is answered when its records commit."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Records and reply. Raises `KafkaError` to refuse; `state` is left as it is."""


def bounded(records: Sequence[Message]) -> Sequence[Message]:
    """Raises POLICY_VIOLATION for more than one batch may hold."""
    if len(records) > MOST_RECORDS_PER_BATCH:
        raise KafkaError(Error.POLICY_VIOLATION,
                         "Unable to perform excessively large batch operation.")
    return records
