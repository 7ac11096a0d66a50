"""Requests of a broker to the active controller, local or remote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.heartbeats import Standing
from wirekafka.metadata.controller.producer_ids import Block
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange

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


class ControllerChannel(Protocol):
    """Requests to the active controller.

    All raise `KafkaError`: the controller's error, or a retriable one if it cannot be reached.
    """

    @property
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """First and last version of the active controller's APIs, by key.

        Empty if the active controller is in this process, or while none is connected.
        """

    async def register(self, registration: Registration) -> int:
        """Register as a fenced broker; returns the broker epoch (BrokerRegistration)."""

    async def heartbeat(self, beat: Beat) -> Standing:
        """Extend the broker's session (BrokerHeartbeat)."""

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Block:
        """Allocate the next block of producer ids (AllocateProducerIds)."""

    async def assign_directories(
        self, broker_id: int, broker_epoch: int, directories: Mapping[Replica, bytes]
    ) -> None:
        """Report the log directories (ids) of replicas (AssignReplicasToDirs)."""

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Mapping[Replica, IsrChange]
    ) -> dict[Replica, DecidedIsr | KafkaError]:
        """Propose ISRs of partitions that the broker leads (AlterPartition).

        Returns the controller's decision, or its error, for each partition. Raises KafkaError.
        """

    async def create_topics(
        self, topics: Sequence[NewTopic], wanted_by: Any = None
    ) -> dict[str, KafkaError | None]:
        """Create topics, and wait until this broker knows them.

        `wanted_by` is the request of the client in whose name the topics are created, and for whose
        controller_mutation_rate they count; None for creation by the broker itself. Returns the
        error of each topic by name, None for a created topic.
        """

    async def forward(self, request: Any, call: Any) -> Any:
        """Forward a client's request with its principal and address.

        Returns the response, once this broker has applied the changed metadata.
        """
