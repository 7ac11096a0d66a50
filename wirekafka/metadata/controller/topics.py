"""Commands that create and delete topics, and that add partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.config.checks.update import validate_topic
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller import placement
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.metadata.controller.topic_names import check_collision, check_name
from wirekafka.metadata.image.image import TOPIC, MetadataImage, TopicImage
from wirekafka.protocol.records.metadata import (
    ClearElrRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from wirekafka.quotas.mutations import UNLIMITED, MutationQuota
from wirekafka.runtime.machine import command

NO_ID = bytes(16)
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 is the default.

    `assignments` are pairs of a partition index and its replicas, for a manual assignment.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """The properties of a topic that was created."""

    id: bytes
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@command
class CreateTopics(ControllerCommand[dict[str, CreatedTopic | KafkaError]]):
    """Create topics independently; the reply maps names to a `CreatedTopic` or a `KafkaError`."""

    topics: Sequence[NewTopic]
    validate_only: bool = False
    quota: MutationQuota = UNLIMITED

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[dict[str, CreatedTopic | KafkaError]]:
        """Return the records of all topics that can be created, as one batch."""
        wanted = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in self.topics)
        if wanted > MOST_RECORDS_PER_BATCH:
            raise KafkaError(
                Error.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        records: list[Message] = []
        reply: dict[str, CreatedTopic | KafkaError] = {}
        for topic in self.topics:
            try:
                created, its_records = _create(topic, state)
                self.quota.spend(created.num_partitions, now_ms)
            except KafkaError as error:
                reply[topic.name] = error
            else:
                reply[topic.name] = created
                records += its_records
        bounded(records)
        settle = partial(self.quota.settle, now_ms)
        return Decision(() if self.validate_only else records, reply, (settle,))


def _create(topic: NewTopic, state: ControllerState) -> tuple[CreatedTopic, list[Message]]:
    check_name(topic.name)
    if topic.name in state.image.topics:
        raise KafkaError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    check_collision(topic.name, state.image.topics)
    configs = _given(topic.configs)
    validate_topic(state.config, configs)
    replicas = _assign(topic, state)
    topic_id = state.new_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    if _MIN_ISR in configs and state.image.has_elr:
        records.append(ClearElrRecord(topic_name=topic.name))
    records += _partition_records(
        state, topic_id, replicas, first_index=0, is_manual=bool(topic.assignments)
    )
    return CreatedTopic(topic_id, len(replicas), len(replicas[0]), configs), records


def _given(configs: Mapping[str, str | None]) -> dict[str, str]:
    values = {name: value for name, value in configs.items() if value is not None}
    if len(values) < len(configs):
        absent = ",".join(name for name in configs if name not in values)
        raise KafkaError(
            Error.INVALID_CONFIG, f"Null value not supported for topic configs: {absent}"
        )
    return values


def _assign(topic: NewTopic, state: ControllerState) -> Sequence[Sequence[int]]:
    """The replicas by partition index, assigned manually or placed automatically."""
    if topic.assignments:
        return _manual_assignment(topic, state.image)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            Error.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(
            Error.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = state.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = topic.replication_factor
    if factor == -1:
        factor = state.config.default_replication_factor
    try:
        return placement.place(state, count, factor)
    except KafkaError as error:
        message = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(error.error, message) from error


def _manual_assignment(topic: NewTopic, image: MetadataImage) -> Sequence[Sequence[int]]:
    for value, name in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if value != -1:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    assigned: dict[int, Sequence[int]] = {}
    expected = None
    for index, replicas in topic.assignments:
        if index in assigned:
            raise KafkaError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        placement.check_assignment(image, replicas, expected)
        expected = len(replicas)
        assigned[index] = replicas
    if sorted(assigned) != list(range(len(assigned))):
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [assigned[index] for index in range(len(assigned))]


def _partition_records(
    state: ControllerState,
    topic_id: bytes,
    assigned: Sequence[Sequence[int]],
    *,
    first_index: int,
    is_manual: bool,
) -> list[Message]:
    """The records of partitions with these replicas; `is_manual` if a client has assigned them."""
    records: list[Message] = []
    # Partitions with the same replicas share the lists, as there may be thousands.
    made: dict[tuple[int, ...], tuple[list[int], list[int], list[bytes]]] = {}
    for index, replicas in enumerate(assigned, first_index):
        key = tuple(replicas)
        if key not in made:
            # A replica on a fenced broker cannot be in sync from the start.
            isr = [broker for broker in key if state.is_active(broker)]
            places = [placement.default_directory(state.image, broker) for broker in key]
            made[key] = list(key), isr, places
        its_replicas, isr, directories = made[key]
        if not isr:
            raise _all_fenced(index if is_manual else None, len(replicas))
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=its_replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=directories,
            )
        )
    return records


def _all_fenced(manual_index: int | None, replication_factor: int) -> KafkaError:
    if manual_index is None:
        return KafkaError(
            Error.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are "
            "currently fenced or in controlled shutdown.",
        )
    return KafkaError(
        Error.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment for partition {manual_index} "
        "are fenced or in controlled shutdown.",
    )


class TopicReference(NamedTuple):
    """A topic by its name, or by its id if the name is None."""

    name: str | None
    id: bytes = NO_ID


@command
class DeleteTopics(ControllerCommand[list[tuple[str | None, bytes, KafkaError | None]]]):
    """Delete topics independently; the reply has (name, id, error or None) for each, in order."""

    topics: Sequence[TopicReference]
    quota: MutationQuota = UNLIMITED

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[list[tuple[str | None, bytes, KafkaError | None]]]:
        """Return one RemoveTopicRecord each, which also removes partitions and configs."""
        records: list[Message] = []
        reply: list[tuple[str | None, bytes, KafkaError | None]] = []
        removed: set[bytes] = set()
        for reference in self.topics:
            try:
                topic = find(state.image, reference)
                if topic.id not in removed:
                    self.quota.spend(len(topic.partitions), now_ms)
            except KafkaError as error:
                reply.append((*reference, error))
                continue
            if topic.id not in removed:
                removed.add(topic.id)
                records.append(RemoveTopicRecord(topic_id=topic.id))
            reply.append((topic.name, topic.id, None))
        return Decision(bounded(records), reply, (partial(self.quota.settle, now_ms),))


def find(image: MetadataImage, reference: TopicReference) -> TopicImage:
    """Look up a topic. Raises UNKNOWN_TOPIC_OR_PARTITION for a name, UNKNOWN_TOPIC_ID for an id."""
    if reference.name is not None:
        if reference.name not in image.topics:
            raise KafkaError(
                Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return image.topics[reference.name]
    if reference.id not in image.topics_by_id:
        raise KafkaError(Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return image.topics_by_id[reference.id]


@dataclass(frozen=True)
class Growth:
    """The new total number of partitions of a topic; None in `assignments` places them."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@command
class CreatePartitions(ControllerCommand[dict[str, KafkaError | None]]):
    """Add partitions to topics independently; the reply maps names to None or a `KafkaError`."""

    topics: Sequence[Growth]
    validate_only: bool = False
    quota: MutationQuota = UNLIMITED

    def decide(self, state: ControllerState, now_ms: int) -> Decision[dict[str, KafkaError | None]]:
        """Return the partition records of all valid requests, as one batch."""
        records: list[Message] = []
        reply: dict[str, KafkaError | None] = {}
        for growth in self.topics:
            try:
                added = _grow(growth, state)
                self.quota.spend(len(added), now_ms)
                records += added
                reply[growth.name] = None
            except KafkaError as error:
                reply[growth.name] = error
        settle = partial(self.quota.settle, now_ms)
        return Decision(() if self.validate_only else bounded(records), reply, (settle,))


def _grow(growth: Growth, state: ControllerState) -> list[Message]:
    image = state.image
    topic = image.topics.get(growth.name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if growth.count == present:
        raise KafkaError(Error.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if growth.count < present:
        raise KafkaError(
            Error.INVALID_PARTITIONS,
            (
                f"The topic {growth.name} currently has {present} partition(s); "
                f"{growth.count} would "
                "not be an increase."
            ),
        )
    wanted = range(present, growth.count)
    if len(wanted) > MOST_RECORDS_PER_BATCH:
        raise KafkaError(
            Error.POLICY_VIOLATION, "Excessively large number of additional partitions per request."
        )
    factor = len(topic.partitions[0].replicas)
    assigned = growth.assignments
    is_manual = assigned is not None
    if assigned is None:
        assigned = placement.place(state, len(wanted), factor)
    elif len(assigned) != len(wanted):
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            (
                f"Attempted to add {len(wanted)} additional partition(s), but only {len(assigned)} "
                "assignment(s) were specified."
            ),
        )
    for replicas in assigned:
        placement.check_assignment(image, replicas, factor)
    return _partition_records(state, topic.id, assigned, first_index=present, is_manual=is_manual)
