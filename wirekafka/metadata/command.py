"""The contract of a controller command: it turns the cluster's state into records and a reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.sessions import Sessions
from wirekafka.security.tokens import TokenHmacs

MOST_RECORDS_PER_BATCH = 10_000
"""Kafka's limit for one atomic change, so that no request can stall the quorum."""


@dataclass(slots=True)
class ControllerState:
    """Everything that a command may read. `new_id` returns a random topic id of 16 bytes.

    `sessions` is soft state: only the effects of a decision change it. `token_hmacs` is a cache.
    """

    image: MetadataImage
    current_config: Callable[[], BrokerConfig]
    new_id: Callable[[], bytes]
    sessions: Sessions
    token_hmacs: TokenHmacs = field(default_factory=TokenHmacs)

    @property
    def config(self) -> BrokerConfig:
        """The current configuration; parts of it are dynamic."""
        return self.current_config()


class Decision(NamedTuple):
    """Records to append as one batch, and the reply once they are committed.

    `effects` change soft state, in order, once the records are appended.
    """

    records: Sequence[Message]
    reply: Any = None
    effects: Sequence[Callable[[], None]] = ()


class Command(Protocol):
    """A request to the controller; its reply is released when its records are committed."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return records and reply; must not change `state`. Raises `KafkaError` to refuse."""


def bounded(records: Sequence[Message]) -> Sequence[Message]:
    """Return the records; raises POLICY_VIOLATION for more than one batch may have."""
    if len(records) > MOST_RECORDS_PER_BATCH:
        raise KafkaError(
            Error.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
    return records
