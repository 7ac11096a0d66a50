"""The contract of a controller command: it turns the cluster's state into records and a reply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.sessions import Sessions
from wirekafka.metadata.controller.sweep import Running, Sweep
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.runtime.machine import Command
from wirekafka.security.tokens import TokenHmacs

MOST_RECORDS_PER_BATCH = 10_000
"""Kafka's limit for one atomic change, so that no request can stall the quorum."""


@dataclass(slots=True)
class ControllerState:
    """Everything that a command may read. `new_id` returns a random topic id of 16 bytes.

    `sessions` and `sweeps` (by broker id) are soft state: only the effects of a decision change
    them. `token_hmacs` is a cache. `voters` are the ids of the quorum's controllers.
    """

    image: MetadataImage
    current_config: Callable[[], BrokerConfig]
    new_id: Callable[[], bytes]
    sessions: Sessions
    token_hmacs: TokenHmacs = field(default_factory=TokenHmacs)
    sweeps: dict[int, Running] = field(default_factory=dict)
    voters: Callable[[], Collection[int]] = tuple

    @property
    def config(self) -> BrokerConfig:
        """The current configuration; parts of it are dynamic."""
        return self.current_config()

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead and join ISRs: not fenced, not in controlled shutdown."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.registration.in_controlled_shutdown:
            return False
        running = self.sweeps.get(broker_id)
        return running is None or not running.sweep.is_gone


_Reply = TypeVar("_Reply")
_Reply_co = TypeVar("_Reply_co", covariant=True)


class Decision(NamedTuple, Generic[_Reply]):
    """Records to append as one batch, and the reply once they are committed.

    `effects` change soft state, in order, once the records are appended. The first portion of a
    `sweep` belongs to the batch; further portions follow in batches of their own.
    """

    records: Sequence[Message]
    reply: _Reply
    effects: Sequence[Callable[[], None]] = ()
    sweep: Sweep | None = None


class ControllerCommand(Command[_Reply_co]):
    """A request to the controller; its reply is released when its records are committed.

    A new one is a single class: it decides by itself.
    """

    __slots__ = ()

    @abstractmethod
    def decide(self, state: ControllerState, now_ms: int) -> Decision[_Reply_co]:
        """Return records and reply; must not change `state`. Raises `KafkaError` to refuse."""


def bounded(records: Sequence[Message]) -> Sequence[Message]:
    """Return the records; raises POLICY_VIOLATION for more than one batch may have."""
    if len(records) > MOST_RECORDS_PER_BATCH:
        raise KafkaError(
            Error.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
    return records
