"""Faults of a cluster under test, and the leaders and replicas of its partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.elections import ElectionType
from wirekafka.metadata.image.image import MetadataImage, PartitionImage
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.testing.cluster.all_brokers import AllBrokers
from wirekafka.testing.cluster.cluster_nodes import Nodes
from wirekafka.testing.engine import Engine
from wirekafka.testing.faults import State
from wirekafka.testing.operations import Operations

Condition = Callable[[MetadataImage], bool]
"""The queries of a node's metadata."""

_TIMEOUT_MS = 30_000


class ClusterOperations(Operations):
    """The operations of a test on a running cluster, beside the operations on a broker."""

    @property
    @abstractmethod
    def controllers(self) -> list[int]:
        """The ids of all controllers, also of stopped controllers."""

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """The ids of all brokers, also of stopped brokers."""

    @property
    @abstractmethod
    def _running(self) -> Nodes:
        """The nodes. Raises EngineGone before the start and after the stop."""

    @property
    @abstractmethod
    def _engine(self) -> AllBrokers:  # type: ignore[override]
        """All brokers, while they run."""

    # Faults.

    def pause(self, *nodes: int) -> State:
        """Let nodes do nothing, as SIGSTOP does, until `resume` or the end of the `with`.

        Connections stay open, and requests wait.
        """
        running = self._on_nodes(nodes)
        return State(
            f"pause of {_names(nodes)}",
            lambda: running.thread.do(_for_each, running.pause, nodes),
            lambda: running.thread.do(_for_each, running.resume, nodes),
        )

    def resume(self, *nodes: int) -> None:
        """Let paused nodes continue."""
        running = self._on_nodes(nodes)
        running.thread.do(_for_each, running.resume, nodes)

    def isolate(self, *nodes: int) -> State:
        """Cut nodes off from every other node, until `heal` or the end of the `with`.

        Clients still reach them: close their connections by `cluster[1].refuse_connections()`.
        Messages between nodes are delivered when the isolation ends.
        """
        running = self._on_nodes(nodes)
        return State(
            f"isolation of {_names(nodes)}",
            lambda: running.thread.do(_for_each, running.isolate, nodes),
            lambda: running.thread.do(_for_each, running.heal, nodes),
        )

    def heal(self, *nodes: int) -> None:
        """Undo `isolate`; without nodes, of all."""
        running = self._on_nodes(nodes or (*self, *self.controllers))
        running.thread.do(_for_each, running.heal, nodes or (*self, *self.controllers))

    def slow(self, a: int, b: int, seconds: float) -> State:
        """Delay the messages between two nodes by `seconds`, until the `with` ends.

        A later call for the same nodes replaces it; 0 seconds is the normal network.
        """
        if a == b or seconds < 0:
            raise ValueError("slow: give two different nodes, and how many seconds")
        running = self._on_nodes((a, b))
        ends = frozenset({a, b})
        return State(
            f"slow link between {a} and {b}",
            lambda: running.thread.do(running.links.slow, ends, seconds),
            lambda: running.thread.do(running.links.slow, ends, 0.0),
        )

    # Leaders and replicas.

    @property
    def controller(self) -> int | None:
        """The id of the active controller; None while no reachable controller is active."""
        running = self._running
        return running.thread.do(lambda: running.active)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The broker that leads a partition; None while it has no leader.

        Raises LookupError for an unknown topic or partition.
        """
        leader = self._partition(topic, partition).leader
        return None if leader < 0 else leader

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers that a partition is assigned to, the preferred leader first."""
        return list(self._partition(topic, partition).replicas)

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers in the ISR of a partition, in ascending order."""
        return sorted(self._partition(topic, partition).isr)

    def followers(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers that a partition is assigned to, without its leader."""
        found = self._partition(topic, partition)
        return [id for id in found.replicas if id != found.leader]

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make a broker of the ISR the leader of a partition, and its preferred leader.

        Returns when all brokers know it. Raises LookupError for a broker without a replica,
        KafkaError(PREFERRED_LEADER_NOT_AVAILABLE) for a broker outside the ISR.
        """
        replicas = self.replicas(topic, partition)
        if to not in replicas:
            raise LookupError(f"broker {to} has no replica of {topic}-{partition}: {replicas} have")
        order = [to, *(id for id in replicas if id != to)]
        _make_preferred(self._engine, topic, partition, order)
        self._until(lambda image: _leader_is(image, topic, partition, to))

    def elect_unclean(self, topic: str, partition: int = 0) -> int:
        """Elect a leader outside of the ISR, which may lose records; returns its id.

        As `kafka-leader-election --election-type unclean`. Raises KafkaError
        (ELECTION_NOT_NEEDED) if there is a leader.
        """
        _elect_unclean(self._engine, topic, partition)
        self._until(lambda image: not _leader_is(image, topic, partition, -1))
        leader = self.leader(topic, partition)
        assert leader is not None, "elected"
        return leader

    def coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None
    ) -> int | None:
        """The broker that coordinates a group or a transactional id; None while there is none.

        Raises LookupError if no client has looked for it yet.
        """
        return self.leader(*self._coordinating(group, transactional_id))

    def move_coordinator(
        self,
        *,
        group: str | None = None,
        transactional_id: str | None = None,
        seconds: float = 0.0,
        to: int | None = None,
    ) -> None:
        """Make another broker the coordinator of a group or transactional id.

        `to` None is another broker of the ISR. With `seconds`, no broker coordinates it for that
        time, and then the same broker again, as for a single broker. Raises LookupError if no
        client has looked for the coordinator yet.
        """
        where = self._coordinating(group, transactional_id)
        if seconds:
            super().move_coordinator(
                group=group, transactional_id=transactional_id, seconds=seconds
            )
            return
        others = [id for id in self.isr(*where) if id != self.leader(*where)]
        if to is None and not others:
            raise LookupError(f"no other broker is in the ISR of {where[0]}-{where[1]}")
        self.move_leader(*where, others[0] if to is None else to)

    def wait_for_full_isr(self, topic: str | None = None, timeout_s: float = 10.0) -> None:
        """Wait until all replicas of a topic, or of all topics, are in sync. Raises TimeoutError.

        The preferred leaders need not lead.
        """
        __tracebackhide__ = True
        running = self._running

        def is_full(image: MetadataImage) -> bool:
            return all(
                set(partition.isr) == set(partition.replicas) and partition.leader >= 0
                for name, found in image.topics.items()
                if topic in (None, name)
                for partition in found.partitions.values()
            )

        self.wait_for(
            lambda: running.thread.do(lambda: is_full(running.image())), timeout_s=timeout_s
        )

    def _on_nodes(self, nodes: tuple[int, ...]) -> Nodes:
        """The nodes, with a check that these exist. Raises LookupError."""
        known = (*self, *self.controllers)
        if not nodes:
            raise TypeError(f"name a node; there are {known}")
        for node in nodes:
            if node not in known:
                raise LookupError(f"there is no node {node!r}; there are {known}")
        return self._running

    def _partition(self, topic: str, partition: int) -> PartitionImage:
        running = self._running
        found = running.thread.do(lambda: running.image().partition(topic, partition))
        if found is None:
            raise LookupError(
                f"there is no partition {topic}-{partition}; there are:"
                f" {self._engine.topics() or 'none'}"
            )
        return found

    def _coordinating(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        if (group is None) == (transactional_id is None):
            raise ValueError("name one: group=... or transactional_id=...")
        kind = "group" if group is not None else "transaction"
        return self._engine.coordinating_partition(kind, group or transactional_id or "")

    def _until(self, holds: Condition) -> None:
        """Wait until the metadata of all brokers that can be reached is so."""
        running = self._running
        self.wait_for(lambda: running.thread.do(running.knows, holds))


def _leader_is(image: MetadataImage, topic: str, partition: int, leader: int) -> bool:
    found = image.partition(topic, partition)
    return found is not None and found.leader == leader


def _for_each(do: Callable[[int], None], nodes: tuple[int, ...]) -> None:
    for node in nodes:
        do(node)


def _names(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


def _make_preferred(engine: Engine, topic: str, partition: int, order: Sequence[int]) -> None:
    """Order the replicas of a partition, and elect the first replica. Raises KafkaError."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    move = kind.ReassignablePartition(partition_index=partition, replicas=list(order))
    response: Any = engine.ask(
        AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS, topics=[kind(name=topic, partitions=[move])]
        ),
        1,
    )
    _check(response.error_code, response.error_message)
    for each in response.responses:
        for result in each.partitions:
            _check(result.error_code, result.error_message)
    try:
        _elect(engine, ElectionType.PREFERRED, topic, partition)
    except KafkaError as error:
        if error.error is not Error.ELECTION_NOT_NEEDED:
            raise


def _elect_unclean(engine: Engine, topic: str, partition: int) -> None:
    """Elect a leader outside of the ISR. Raises KafkaError."""
    _elect(engine, ElectionType.UNCLEAN, topic, partition)


def _elect(engine: Engine, kind: ElectionType, topic: str, partition: int) -> None:
    partitions = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
    response: Any = engine.ask(
        ElectLeadersRequest(
            election_type=kind, topic_partitions=[partitions], timeout_ms=_TIMEOUT_MS
        ),
        2,
    )
    _check(response.error_code, None)
    for each in response.replica_election_results:
        for result in each.partition_result:
            _check(result.error_code, result.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(Error(code), message)
