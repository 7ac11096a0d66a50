"""The interface to the stored state of share partitions (KIP-932): read, write, initialize, delete.

Apache Kafka calls it the persister. Group coordinators initialize and delete states and read
summaries of them; leaders of partitions read a state when they start to share the partition, and
write the acknowledgements of consumers.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.runtime.machine import Command, command

NO_OFFSET = -1
"""A start offset that is unknown yet, or that a write leaves unchanged."""

NO_COUNT = -1
"""The delivery complete count of writers that do not maintain it (before KIP-1226)."""

NO_EPOCH = -1
"""The leader epoch of readers of a summary that do not lead the partition."""

Result = TypeVar("Result")

_COORDINATOR_KEY = r"(.*):([A-Za-z0-9_-]{22})(?:==)?:([+-]?\d{1,20}):*"
"""Java's `String.split`, which Kafka uses, drops empty parts at the end."""
_BLANKS = "".join(map(chr, range(0x21)))
_SMALLEST_INT = -(1 << 31)
_LARGEST_INT = (1 << 31) - 1


class DeliveryState(IntEnum):
    """The stored delivery states; that a record is acquired is known to its leader alone."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class ShareKey(NamedTuple):
    """A share partition: a partition of a topic, consumed by a share group."""

    group_id: str
    topic_id: bytes
    """16 bytes."""
    partition: int


class StateBatch(NamedTuple):
    """Adjacent offsets in one delivery state, with the number of times they were delivered.

    `last_offset` is inclusive, as in the protocol.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@command
class StateInitialization(Command[None]):
    """The initial state of a share partition; `start_offset` may be `NO_OFFSET`.

    A later initialization of the same share partition must not have a lower `state_epoch`.
    """

    key: ShareKey
    state_epoch: int
    start_offset: int = NO_OFFSET


@command
class StateRead(Command["StoredState"]):
    """A read by the leader of a partition; from then on, writers with lower epochs are fenced.

    Readers of a summary need not lead the partition, and fence no writer.
    """

    key: ShareKey
    leader_epoch: int = NO_EPOCH


@command
class StateWrite(Command[None]):
    """A change of state by the leader of a partition.

    For each offset of a batch, the state with the higher delivery count is kept, new or stored, and
    among equal counts the higher delivery state. Other offsets keep their state. A `start_offset`
    above the stored start offset drops the state of all offsets below it; a lower `start_offset` is
    ignored.
    """

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
    """The number of offsets from the start offset whose delivery is complete (KIP-1226).

    It replaces the stored one, unless the start offset stays and it is lower."""
    batches: tuple[StateBatch, ...] = ()


class StoredState(NamedTuple):
    """The result of a read: `batches` in offset order, without gaps being filled."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """The result of reading a summary: a state without its batches."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareStates(Protocol):
    """Stored states of share partitions, wherever their coordinators are.

    Every method takes any number of partitions, and returns one result for each, in the same order:
    a `KafkaError` for a failed partition. No method raises. Results are returned once the
    coordinators' records are committed. Use `only` for a single partition.
    """

    async def initialize(
        self, initializations: Sequence[StateInitialization]
    ) -> list[KafkaError | None]:
        """Create or reset states. Errors: FENCED_STATE_EPOCH, INVALID_REQUEST, coordinator's."""

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState | KafkaError]:
        """Read states. Errors: FENCED_LEADER_EPOCH, INVALID_REQUEST, coordinator's."""

    async def write(self, writes: Sequence[StateWrite]) -> list[KafkaError | None]:
        """Change states. Errors: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST,
        coordinator's."""

    async def delete(self, keys: Sequence[ShareKey]) -> list[KafkaError | None]:
        """Delete states; a missing state is no error. Errors: coordinator's."""

    async def read_summaries(self, reads: Sequence[StateRead]) -> list[StateSummary | KafkaError]:
        """Read states without their batches.

        Errors: as `read`; a missing state is reported with epochs of 0 and `NO_OFFSET`.
        """


def coordinator_key(key: ShareKey) -> str:
    """Return the key of a share partition that decides its coordinator: "group:topic id:index"."""
    return f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"


def share_key_of(text: str) -> ShareKey | None:
    """Parse a coordinator key as Kafka does; None if it is malformed.

    The group id may contain colons, and must not consist of blanks and control characters only.
    """
    found = re.fullmatch(_COORDINATOR_KEY, text, re.DOTALL)
    if found is None or not found[1].strip(_BLANKS):
        return None
    partition = int(found[3])
    if not _SMALLEST_INT <= partition <= _LARGEST_INT:
        return None
    return ShareKey(found[1], urlsafe_b64decode(found[2] + "=="), partition)


def only(results: Sequence[Result | KafkaError]) -> Result:
    """The result of a call for a single partition; raises its error."""
    [result] = results
    if isinstance(result, KafkaError):
        raise result
    return result
