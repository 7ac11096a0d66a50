"""The commands of a share coordinator's shard that are not part of the `ShareStates` interface."""

from __future__ import annotations

from typing import TypeAlias

from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
)
from wirekafka.errors import KafkaError
from wirekafka.runtime.machine import Command, command


class StateRefused(KafkaError):
    """The refusal of a command by a shard, with Kafka's message; not an error of its log."""


@command
class StateDeletion(Command[None]):
    """DeleteShareGroupState. The reply is None, also if there is no state."""

    key: ShareKey


@command
class SummaryRead(Command[StateSummary]):
    """ReadShareGroupStateSummary. The reply is a `StateSummary`."""

    key: ShareKey


@command
class TopicsDeletion(Command[bool]):
    """Delete the states of some of the share partitions of deleted topics.

    The reply is whether there are more, for which the command is to be repeated.
    """

    topic_ids: frozenset[bytes]


KeyedCommand: TypeAlias = StateInitialization | StateRead | StateWrite | StateDeletion | SummaryRead
"""The commands that concern one share partition, their `key`; replies are as in `ShareStates`."""

ShareCommand: TypeAlias = KeyedCommand | TopicsDeletion
