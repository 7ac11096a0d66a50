"""Sends a broker's requests to the controller as Kafka messages, also within one process."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.registry import Call, ControllerCall
from wirekafka.codec.message import Request
from wirekafka.controller import ControllerRole
from wirekafka.errors import KafkaError
from wirekafka.metadata.broker.feed import MetadataFeed
from wirekafka.metadata.controller.channel import Beat, Registration, Replica
from wirekafka.metadata.controller.heartbeats import Standing
from wirekafka.metadata.controller.producer_ids import Block
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.allocate_producer_ids import AllocateProducerIdsRequest
from wirekafka.protocol.alter_partition import AlterPartitionRequest
from wirekafka.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange

_CREATE_TOPICS_VERSION = 7


class MessageChannel(ABC):
    """A `ControllerChannel` that sends Kafka requests; subclasses supply the transport."""

    @property
    @abstractmethod
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """As `ControllerChannel`."""

    @abstractmethod
    async def send(self, request: Request, version: int) -> Any:
        """Send one of this broker's own requests and return the response.

        Raises KafkaError if no response arrives; may raise an error that the response reports.
        """

    @abstractmethod
    async def follow(self) -> None:
        """Wait until this broker's metadata includes everything committed so far."""

    @abstractmethod
    async def forward(self, request: Any, call: Call) -> Any:
        """As `ControllerChannel`."""

    async def register(self, registration: Registration) -> int:
        """As `ControllerChannel`."""
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
        """As `ControllerChannel`."""
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
        """As `ControllerChannel`."""
        response = await self._send_checked(
            AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch), 0
        )
        first = response.producer_id_start
        return Block(first, first + response.producer_id_len)

    async def assign_directories(
        self, broker_id: int, broker_epoch: int, directories: Mapping[Replica, bytes]
    ) -> None:
        """As `ControllerChannel`."""
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
        """As `ControllerChannel`."""
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
        self, topics: Sequence[NewTopic], wanted_by: Call | None = None
    ) -> dict[str, KafkaError | None]:
        """As `ControllerChannel`."""
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


class LocalChannel(MessageChannel):
    """The channel to a controller in the same process: calls its handlers without encoding."""

    def __init__(self, controller: ControllerRole, feed: MetadataFeed):
        self._controller = controller
        self._feed = feed

    @property
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """As `ControllerChannel`: empty, since the controller is in this process."""
        return {}

    async def send(self, request: Request, version: int) -> Any:
        """As `MessageChannel`. A top-level error is raised with its message; over the network
        only its code is known."""
        return await _call_controller(
            registry.declared_by(type(request)), request, ControllerCall(self._controller, version)
        )

    async def follow(self) -> None:
        """As `MessageChannel`."""
        await self._feed.reached(self._controller.quorum.committed_offset)

    async def forward(self, request: Any, call: Call) -> Any:
        """As `ControllerChannel`. Raises KafkaError for a top-level error."""
        before = self._controller.quorum.end_offset
        response = await _call_controller(
            registry.declared_by(type(request)),
            request,
            ControllerCall(self._controller, call.version, call),
        )
        call.throttle_ms = max(call.throttle_ms, getattr(response, "throttle_time_ms", 0))
        if self._controller.quorum.end_offset > before:
            await self.follow()
        return response


async def _call_controller(declared: registry.Api, request: Any, call: ControllerCall) -> Any:
    assert declared.decide is not None, f"{declared.name} is not for the controller"
    response = declared.decide(request, call)
    return await response if inspect.iscoroutine(response) else response


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
