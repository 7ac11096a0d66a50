"""All brokers of a cluster under test as if they were one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from wirekafka.codec.message import Request, Response
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from wirekafka.testing.cluster.cluster_nodes import Nodes
from wirekafka.testing.engine import Engine
from wirekafka.testing.hooks.rules import RuleBook, RuleSpec
from wirekafka.testing.hooks.traffic import Exchange

T = TypeVar("T")

_TOPICS = {"group": OFFSETS_TOPIC, "transaction": TRANSACTIONS_TOPIC}


class AllBrokers(Engine):
    """An `Engine` whose requests go to the responsible broker, as a client's requests do.

    Rules are in force at all brokers, which count their requests together.
    """

    def __init__(self, nodes: Nodes):
        self._nodes = nodes
        self._thread = nodes.thread
        self._rules = RuleBook()

    # Which broker is responsible.

    def members(self) -> Sequence[Engine]:
        return self._do(self._nodes.running)

    def leader(self, topic: str, partition: int) -> Engine:
        """As `Engine.leader`. Raises KafkaError(LEADER_NOT_AVAILABLE)."""
        return self._do(self._leader, topic, partition)

    def _leader(self, topic: str, index: int) -> Engine:
        found = self._nodes.image().partition(topic, index)
        engine = None if found is None else self._nodes.brokers.get(found.leader)
        if engine is None or not engine.is_up:
            raise KafkaError(Error.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader")
        return engine

    def coordinator(self, kind: str, key: str) -> Engine:
        """As `Engine.coordinator`; any broker while the coordinators' topic does not exist."""
        return self._do(self._coordinator, kind, key)

    def _coordinator(self, kind: str, key: str) -> Engine:
        topic = _TOPICS[kind]
        count = self._nodes.image().partition_count(topic)
        if not count:
            return self._nodes.reachable()[0]
        return self._leader(topic, coordinator_partition(key, count))

    def coordinating_partition(self, kind: str, key: str) -> tuple[str, int]:
        """The partition whose leader is the coordinator. Raises LookupError before it exists."""
        topic = _TOPICS[kind]
        count = self._do(lambda: self._nodes.image().partition_count(topic))
        if not count:
            raise LookupError(
                f"nobody has looked for the coordinator of {kind} {key!r} yet: have"
                " a client join or start first"
            )
        return topic, coordinator_partition(key, count)

    def any_member(self) -> Engine:
        """A broker that reaches the other nodes. Raises EngineGone if there is none."""
        return self._do(self._nodes.reachable)[0]

    # Requests and data.

    def ask(self, request: Request, version: int) -> Response:
        return self.any_member().ask(request, version)

    def topics(self) -> dict[str, int]:
        return self._do(
            lambda: {
                name: len(topic.partitions) for name, topic in self._nodes.image().topics.items()
            }
        )

    def on_broker(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.any_member().on_broker(function, *arguments)

    def topic_id(self, topic: str) -> str:
        return self.any_member().topic_id(topic)

    def exchanges(self) -> list[Exchange]:
        found = [each for broker in self._brokers for each in broker.exchanges()]
        return sorted(found, key=lambda each: each.number)

    def forget_exchanges(self) -> None:
        for broker in self._brokers:
            broker.forget_exchanges()

    # Faults.

    def add_rule(self, spec: RuleSpec) -> int:
        def add() -> int:
            number = self._rules.add(spec)
            for broker in self._brokers:
                broker.adopt_rule(self._rules.rule(number))
            return number

        return self._do(add)

    def remove_rule(self, number: int) -> None:
        def remove() -> None:
            for broker in self._brokers:
                broker.disown_rule(self._rules.rule(number))
            self._rules.remove(number)

        self._do(remove)

    def refuse_connections(self) -> None:
        self._each(Engine.refuse_connections)

    def accept_connections(self) -> None:
        self._each(Engine.accept_connections)

    def cut_connections(self) -> None:
        self._each(Engine.cut_connections)

    def fill_disk(self) -> None:
        self._each(Engine.fill_disk)

    def empty_disk(self) -> None:
        self._each(Engine.empty_disk)

    def hold_assignment(self, group: str) -> None:
        self._each(Engine.hold_assignment, group)

    def release_assignment(self, group: str) -> None:
        self._each(Engine.release_assignment, group)

    def move_coordinator(self, kind: str, key: str, seconds: float) -> None:
        self.coordinator(kind, key).move_coordinator(kind, key, seconds)

    def clear(self) -> None:
        """Drop rules, recorded exchanges and connections, and return to the machine's time."""
        self._do(self._rules.clear)
        self._each(Engine.clear)

    @property
    def _brokers(self) -> Sequence[Engine]:
        return list(self._nodes.brokers.values())

    def _each(self, do: Callable[..., None], *arguments: Any) -> None:
        for broker in self._brokers:
            do(broker, *arguments)
