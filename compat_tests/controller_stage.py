"""A stage for controllers: simulated brokers, admin requests, and a transcript of what follows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from compat_tests.controllers import ActiveController
from compat_tests.wire import VARYING
from wirekafka.codec.message import Message, Part, Request
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.image.image import MetadataImage, PartitionImage
from wirekafka.protocol.allocate_producer_ids import AllocateProducerIdsRequest
from wirekafka.protocol.alter_partition import AlterPartitionRequest
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.controller_registration import ControllerRegistrationRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest
from wirekafka.protocol.unregister_controller import UnregisterControllerRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest

HAS_ALL = 1 << 40
"""A metadata offset beyond everything that the controller has written."""
PREFERRED, UNCLEAN = 0, 1
_TIMEOUT_MS = 30_000
TOPIC, BROKER = 2, 4
Features = Mapping[str, tuple[int, int]]


def _deletion(names: Iterable[str]) -> DeleteTopicsRequest:
    kind = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest(topics=[kind(name=name) for name in names], timeout_ms=_TIMEOUT_MS)


def _counts(values: Iterable[Any]) -> list[Any]:
    return sorted(Counter(values).items(), key=repr)


@dataclass
class Scripted:
    """The state of one simulated broker."""

    id: int
    epoch: int = -1
    starts: int = 0
    rack: str | None = None
    log_dirs: Sequence[bytes] = ()
    features: Features = field(default_factory=lambda: SUPPORTED)


@dataclass(frozen=True)
class Step:
    """A request's label, its response, and the batches of records that it caused."""

    label: str
    response: Any
    batches: Any


class Stage:
    """Sends requests to one controller, and writes the transcript."""

    def __init__(self, controller: ActiveController):
        self.controller = controller
        self.transcript: list[Step] = []
        self.brokers: dict[int, Scripted] = {}
        self._seen = len(controller.batches())
        self._names: dict[Any, str] = {}
        self._image: tuple[int, MetadataImage] = (0, MetadataImage())

    def clear(self) -> None:
        """Remove topics and brokers, for the next script."""
        self.delete(*self.image.topics)
        for id in sorted(self.image.brokers):
            self.unregister(id)

    # Reading

    @property
    def image(self) -> MetadataImage:
        """The metadata that follows from the log."""
        done, image = self._image
        found = self.controller.batches()
        for records in found[done:]:
            for record in records:
                image.replay(record)
        self._image = len(found), image
        return image

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        return self.image.topics[topic].partitions[index]

    def ask(self, label: str, request: Request, version: int) -> Any:
        """Send a request, and note the response and the records under the label."""
        response = self.controller.ask(request, version)
        self.note(label, response)
        return response

    def note(self, label: str, response: Any = None) -> None:
        """Note the records written since the last step."""
        found = self.controller.batches()
        fresh, self._seen = found[self._seen :], len(found)
        for records in fresh:
            for record in records:
                self._name(record)
        self.transcript.append(
            Step(label, self._plain(response), [self._batch(records) for records in fresh])
        )

    def _name(self, record: Message) -> None:
        kind = type(record).__name__
        values: Any = record
        if kind == "TopicRecord":
            self._names[values.topic_id] = f"id of {values.name}"

    def _batch(self, records: Sequence[Message]) -> list[Any]:
        """Records of one kind that follow each other have no order: Kafka's is that of a hash."""
        plain = [{"record": type(record).__name__, **self._plain(record)} for record in records]
        return [
            each
            for _, alike in groupby(plain, key=lambda each: each["record"])
            for each in sorted(alike, key=repr)
        ]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Message | Part) or hasattr(value, "fields"):
            return {
                each.name: self._plain_field(each.name, getattr(value, each.name))
                for each in value.fields
                if each.name not in VARYING
            }
        if isinstance(value, list | tuple):
            found = [self._plain(each) for each in value]
            return sorted(found, key=repr) if found and isinstance(found[0], dict) else found
        if isinstance(value, bytes | memoryview):
            return self._names.get(bytes(value), bytes(value))
        if isinstance(value, str):
            return re.sub(r"(broker epoch|got|offset) -?\d+", r"\1 N", value)
        return value

    def _plain_field(self, name: str, value: Any) -> Any:
        if name == "broker_epoch":
            return {each.epoch: f"epoch of {each.id}" for each in self.brokers.values()}.get(
                value, "another epoch"
            )
        if name == "topic_id":
            return self._names.get(value, "id of no topic" if any(value) else "no id")
        return self._plain(value)

    # Brokers

    def register(
        self,
        id: int,
        label: str = "",
        *,
        rack: str | None = None,
        log_dirs: Sequence[bytes] | None = None,
        previous_epoch: int = -1,
        again: bool = False,
        features: Features | None = None,
        version: int = 4,
        **fields: Any,
    ) -> int:
        """Register a broker; `again` with the incarnation that it had. Returns the error code."""
        broker = self.brokers.setdefault(id, Scripted(id))
        broker.starts += not again
        kind = BrokerRegistrationRequest
        dirs = [bytes([id]) * 16] if log_dirs is None else log_dirs
        values = {
            "broker_id": id,
            "cluster_id": self.controller.cluster_id,
            "incarnation_id": bytes([id, broker.starts]) + b"incarnation...",
            "listeners": [
                kind.Listener(name="PLAINTEXT", host=f"host{id}", port=9092, security_protocol=0)
            ],
            "features": [
                kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in (SUPPORTED if features is None else features).items()
            ],
            "rack": rack,
            "log_dirs": list(dirs),
            "previous_broker_epoch": previous_epoch,
        }
        response = self.controller.ask(kind(**{**values, **fields}), version)
        if not response.error_code:
            broker.epoch = response.broker_epoch
        self.note(f"register {id} {label}", response)
        return int(response.error_code)

    def beat(self, id: int, label: str = "", *, offset: int = HAS_ALL, **fields: Any) -> Any:
        """Send a heartbeat of a broker that has no cordoned directories."""
        values = {"cordoned_log_dirs": [], "broker_epoch": self.brokers[id].epoch}
        request = BrokerHeartbeatRequest(
            broker_id=id, current_metadata_offset=offset, **{**values, **fields}
        )
        return self.ask(f"beat {id} {label}", request, 2)

    def join(self, id: int, **options: Any) -> None:
        """Register, and be unfenced."""
        self.register(id, "to join", **options)
        self.beat(id, "to be unfenced")

    def until(self, condition: Callable[[], bool], *alive: int) -> None:
        """Let time pass in which these brokers send heartbeats, until the condition holds."""

        def holds() -> bool:
            for id in alive:
                request = BrokerHeartbeatRequest(
                    broker_id=id,
                    broker_epoch=self.brokers[id].epoch,
                    current_metadata_offset=HAS_ALL,
                    cordoned_log_dirs=[],
                )
                assert self.controller.ask(request, 2).error_code == 0
            return condition()

        self.controller.until(holds)

    def fence(self, id: int) -> None:
        self.beat(id, "to be fenced", want_fence=True)

    def leave(self, id: int) -> None:
        """Shut down in a controlled way, all others having applied the metadata."""
        for turn in range(5):
            if self.beat(id, f"to leave, {turn}", want_shut_down=True).should_shut_down:
                return
            for other in self.brokers:
                if other != id:
                    self.beat(other, "while another leaves")

    def alter_isr(self, id: int, topic: str, isr: Sequence[int], label: str = "", **fields: Any):
        """Propose an ISR as the broker that leads the partition does."""
        present = self.partition(topic)
        kind = AlterPartitionRequest.TopicData
        values = {
            "partition_index": 0,
            "leader_epoch": present.leader_epoch,
            "partition_epoch": present.partition_epoch,
            "leader_recovery_state": 0,
            "new_isr_with_epochs": [
                kind.PartitionData.BrokerState(
                    broker_id=each,
                    broker_epoch=self.brokers[each].epoch if each in self.brokers else -1,
                )
                for each in isr
            ],
        }
        changed = kind.PartitionData(**{**values, **fields})
        topic_id = self.image.topics[topic].id
        request = AlterPartitionRequest(
            broker_id=id,
            broker_epoch=self.brokers[id].epoch,
            topics=[kind(topic_id=topic_id, partitions=[changed])],
        )
        return self.ask(f"alter {topic} to {list(isr)} {label}", request, 3)

    # Administration

    def create(
        self, name: str, replicas: Sequence[Sequence[int]] = (), label: str = "", **options: Any
    ) -> Any:
        """Create a topic, with manual assignments if replicas are given."""
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(
            name=name,
            num_partitions=options.get("partitions", -1),
            replication_factor=options.get("factor", -1),
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                for index, each in options.get("assignments", enumerate(replicas))
            ],
            configs=[
                kind.CreatableTopicConfig(name=key, value=value)
                for key, value in options.get("configs", {}).items()
            ],
        )
        request = CreateTopicsRequest(
            topics=[topic], validate_only=options.get("validate_only", False)
        )
        return self.ask(f"create {name} {label}", request, 7)

    def place(self, name: str, partitions: int, factor: int, *, is_even: bool = True) -> None:
        """Create a topic whose replicas the controller places, and note what is not random.

        `is_even` if each rack leads equally many partitions, whichever is the first.
        """
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(name=name, num_partitions=partitions, replication_factor=factor)
        response = self.controller.ask(CreateTopicsRequest(topics=[topic]), 7)
        brokers = self.image.brokers
        placed = [each.replicas for each in self.image.topics[name].partitions.values()]
        racks = [[brokers[each].rack for each in replicas] for replicas in placed]
        noted = {
            "error": response.topics[0].error_code,
            "brokers": sorted({each for replicas in placed for each in replicas}),
            "fenced leaders": sum(brokers[replicas[0]].fenced for replicas in placed),
            "racks of a partition": sorted({len(set(each)) for each in racks}),
            "leaders by rack": _counts(each[0] for each in racks) if is_even else None,
            "distinct": all(len(set(replicas)) == factor for replicas in placed),
        }
        self.transcript.append(Step(f"place {name}", noted, []))
        self.controller.ask(_deletion([name]), 6)
        self._seen = len(self.controller.batches())

    def grow(self, name: str, count: int, assignments: Any = None, label: str = "") -> Any:
        kind = CreatePartitionsRequest.Topic
        part = kind.Assignment
        topic = kind(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else [part(broker_ids=list(each)) for each in assignments],
        )
        return self.ask(
            f"grow {name} {label}",
            CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS),
            3,
        )

    def delete(self, *names: str) -> Any:
        return self.ask(f"delete {names}", _deletion(names), 6)

    def move(
        self, topic: str, moves: Mapping[int, Sequence[int] | None], label: str = "", **fields: Any
    ) -> Any:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        request = AlterPartitionReassignmentsRequest(
            topics=[
                kind(
                    name=topic,
                    partitions=[
                        kind.ReassignablePartition(partition_index=index, replicas=replicas)
                        for index, replicas in moves.items()
                    ],
                )
            ],
            **fields,
        )
        return self.ask(f"move {topic} {moves} {label}", request, 1)

    def moving(self) -> Any:
        return self.ask("list moves", ListPartitionReassignmentsRequest(topics=None), 0)

    def elect(self, kind: int, *partitions: tuple[str, int]) -> Any:
        """Elect leaders; of all partitions if none are given."""
        part = ElectLeadersRequest.TopicPartitions
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[part(topic=name, partitions=found) for name, found in topics.items()]
            or None,
        )
        return self.ask(f"elect {kind} {partitions}", request, 2)

    def configure(
        self, type: int, name: str, changes: Mapping[str, str | None], label: str = ""
    ) -> Any:
        """Set configs; None deletes one."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        resource = kind(
            resource_type=type,
            resource_name=name,
            configs=[
                kind.AlterableConfig(name=key, config_operation=int(value is None), value=value)
                for key, value in changes.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        return self.ask(f"configure {name} {dict(changes)} {label}", request, 1)

    def update(self, levels: Mapping[str, int], *, type: int = 1, dry_run: bool = False) -> Any:
        """Update features; the types of upgrade are Kafka's: 1 up, 2 down, 3 unsafely down."""
        kind = UpdateFeaturesRequest.FeatureUpdateKey
        request = UpdateFeaturesRequest(
            feature_updates=[
                kind(feature=name, max_version_level=level, upgrade_type=type)
                for name, level in levels.items()
            ],
            validate_only=dry_run,
        )
        return self.ask(f"update {dict(levels)} type {type} dry {dry_run}", request, 2)

    # Other requests of brokers and controllers

    def assign(self, id: int, topic: str, index: int, directory: bytes, label: str = "") -> Any:
        """Report the log directory of a replica."""
        kind = AssignReplicasToDirsRequest.DirectoryData
        part = kind.TopicData
        request = AssignReplicasToDirsRequest(
            broker_id=id,
            broker_epoch=self.brokers[id].epoch,
            directories=[
                kind(
                    id=directory,
                    topics=[
                        part(
                            topic_id=self.image.topics[topic].id,
                            partitions=[part.PartitionData(partition_index=index)],
                        )
                    ],
                )
            ],
        )
        return self.ask(f"assign {topic}-{index} of {id} {label}", request, 0)

    def producer_ids(self, id: int, **fields: Any) -> Any:
        values = {"broker_id": id, "broker_epoch": self.brokers[id].epoch, **fields}
        return self.ask(f"producer ids {id}", AllocateProducerIdsRequest(**values), 0)

    def unregister(self, id: int) -> Any:
        return self.ask(f"unregister {id}", UnregisterBrokerRequest(broker_id=id), 0)

    def register_controller(self, id: int, features: Features, label: str) -> Any:
        kind = ControllerRegistrationRequest
        request = kind(
            controller_id=id,
            incarnation_id=bytes([9]) * 16,
            listeners=[
                kind.Listener(name="CONTROLLER", host="host", port=9093, security_protocol=0)
            ],
            features=[
                kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in features.items()
            ],
        )
        return self.ask(f"register controller {id} {label}", request, 0)

    def unregister_controller(self, id: int) -> Any:
        return self.ask(
            f"unregister controller {id}", UnregisterControllerRequest(controller_id=id), 0
        )
