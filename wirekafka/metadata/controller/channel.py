"""The channel of a broker to the active controller, local or remote, and what it sends there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.heartbeats import Standing
from wirekafka.metadata.controller.producer_ids import Block
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.allocate_producer_ids import AllocateProducerIdsRequest
from wirekafka.protocol.alter_partition import AlterPartitionRequest
from wirekafka.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange

_CREATE_TOPICS_VERSION = 7

Replica = tuple[bytes, int]
"""A topic's id and a partition index."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The contents of a BrokerRegistration request; ids are 16 bytes.

    The incarnation id is random for every start of the broker.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    endpoints: Sequence[Endpoint]
    rack: str | None
    log_dirs: Sequence[bytes]
    previous_epoch: int = -1
    """The broker epoch of the last clean shutdown, -1 if there was none."""
    features: Mapping[str, tuple[int, int]]

    @classmethod
    def with_own_features(cls, **values: Any) -> Registration:
        """A registration with the features that this version supports."""
        return cls(features=SUPPORTED, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The contents of a BrokerHeartbeat; `metadata_offset` is the last that was applied."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shut_down: bool = False
    offline_directories: Sequence[bytes] = ()
    """The ids of all log directories that have failed since the start."""
    cordoned_directories: Sequence[bytes] = ()
    """The ids of the log directories that get no new replicas (KIP-1066)."""


class ControllerChannel(ABC):
    """Requests to the active controller; subclasses supply the transport.

    All raise `KafkaError`: the controller's error, or a retriable one if it cannot be reached.
    """

    @property
    @abstractmethod
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """First and last version of the active controller's APIs, by key.

        Empty if the active controller is in this process, or while none is connected.
        """

    @abstractmethod
    async def send(self, request: Request, version: int) -> Any:
        """Send one of this broker's own requests and return the response.

        Raises KafkaError if no response arrives; may raise an error that the response reports.
        """

    @abstractmethod
    async def follow(self) -> None:
        """Wait until this broker's metadata includes everything committed so far."""

    @abstractmethod
    async def forward(self, request: Any, call: Any) -> Any:
        """Forward a client's request with its principal and address.

        Returns the response, once this broker has applied the changed metadata.
        """

    async def register(self, registration: Registration) -> int:
        """Register as a fenced broker; returns the broker epoch (BrokerRegistration)."""
        kind = BrokerRegistrationRequest
        response = await self._send_checked(
            kind(
                broker_id=registration.broker_id,
                cluster_id=registration.cluster_id,
                incarnation_id=registration.incarnation_id,
                listeners=[
                    kind.Listener(**endpoint._asdict()) for endpoint in registration.endpoints
                ],
                features=[
                    kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
                    for name, (first, last) in registration.features.items()
                ],
                rack=registration.rack,
                log_dirs=list(registration.log_dirs),
                previous_broker_epoch=registration.previous_epoch,
            ),
            4,
        )
        epoch: int = response.broker_epoch
        return epoch

    async def heartbeat(self, beat: Beat) -> Standing:
        """Extend the broker's session (BrokerHeartbeat)."""
        response = await self._send_checked(
            BrokerHeartbeatRequest(
                broker_id=beat.broker_id,
                broker_epoch=beat.broker_epoch,
                current_metadata_offset=beat.metadata_offset,
                want_fence=beat.wants_fence,
                want_shut_down=beat.wants_shut_down,
                offline_log_dirs=list(beat.offline_directories),
                cordoned_log_dirs=list(beat.cordoned_directories),
            ),
            2,
        )
        return Standing(response.is_caught_up, response.is_fenced, response.should_shut_down)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Block:
        """Allocate the next block of producer ids (AllocateProducerIds)."""
        response = await self._send_checked(
            AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch), 0
        )
        first = response.producer_id_start
        return Block(first, first + response.producer_id_len)

    async def assign_directories(
        self, broker_id: int, broker_epoch: int, directories: Mapping[Replica, bytes]
    ) -> None:
        """Report the log directories (ids) of replicas (AssignReplicasToDirs)."""
        kind = AssignReplicasToDirsRequest.DirectoryData
        places: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory in directories.items():
            places.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        part = kind.TopicData
        await self._send_checked(
            AssignReplicasToDirsRequest(
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                directories=[
                    kind(
                        id=directory,
                        topics=[
                            part(
                                topic_id=topic_id,
                                partitions=[
                                    part.PartitionData(partition_index=index) for index in indexes
                                ],
                            )
                            for topic_id, indexes in topics.items()
                        ],
                    )
                    for directory, topics in places.items()
                ],
            ),
            0,
        )

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Mapping[Replica, IsrChange]
    ) -> dict[Replica, DecidedIsr | KafkaError]:
        """Propose ISRs of partitions that the broker leads (AlterPartition).

        Returns the controller's decision, or its error, for each partition. Raises KafkaError.
        """
        kind = AlterPartitionRequest.TopicData
        topics: dict[bytes, AlterPartitionRequest.TopicData] = {}
        for (topic_id, index), change in changes.items():
            topic = topics.setdefault(topic_id, kind(topic_id=topic_id))
            topic.partitions.append(
                kind.PartitionData(
                    partition_index=index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        kind.PartitionData.BrokerState(**member._asdict())
                        for member in change.members
                    ],
                    leader_recovery_state=change.leader_recovery_state,
                    partition_epoch=change.partition_epoch,
                )
            )
        response = await self._send_checked(
            AlterPartitionRequest(
                broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
            ),
            3,
        )
        return {
            (topic.topic_id, each.partition_index): _refusal(each.error_code, None)
            or DecidedIsr(
                each.leader_id,
                each.leader_epoch,
                tuple(each.isr),
                each.leader_recovery_state,
                each.partition_epoch,
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def create_topics(
        self, topics: Sequence[NewTopic], wanted_by: Any = None
    ) -> dict[str, KafkaError | None]:
        """Create topics, and wait until this broker knows them.

        `wanted_by` is the request of the client in whose name the topics are created, and for whose
        controller_mutation_rate they count; None for creation by the broker itself. Returns the
        error of each topic by name, None for a created topic.
        """
        request = _creation(topics)
        if wanted_by is None:
            response = await self.send(request, _CREATE_TOPICS_VERSION)
            await self.follow()
        else:
            # As if the client had sent it, except that its own request is not throttled for it.
            call = copy(wanted_by)
            call.api_name, call.version = "CreateTopics", _CREATE_TOPICS_VERSION
            response = await self.forward(request, call)
        return {
            result.name: _refusal(result.error_code, result.error_message)
            for result in (response.topics if response is not None else ())
        }

    async def _send_checked(self, request: Request, version: int) -> Any:
        response = await self.send(request, version)
        refusal = _refusal(response.error_code, None)
        if refusal is not None:
            raise refusal
        return response


def _creation(topics: Sequence[NewTopic]) -> CreateTopicsRequest:
    kind = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[
            kind(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    kind.CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ]
    )


def _refusal(code: int, message: str | None) -> KafkaError | None:
    return KafkaError.of(code, message) if code else None
