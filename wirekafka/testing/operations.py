"""Topics, records and groups, as methods of a broker or of a cluster under test."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from wirekafka.testing import admin, groups, records, share_locks
from wirekafka.testing.access import Security
from wirekafka.testing.faults import Faults
from wirekafka.testing.groups import Group
from wirekafka.testing.hooks.traffic import Traffic
from wirekafka.testing.records import Recordlike, StoredRecord
from wirekafka.testing.share_locks import InFlightRecord

T = TypeVar("T")

_POLL_S = 0.003


class Operations(Faults):
    """The operations of a test on a broker or a cluster, beside faults."""

    requests: Traffic
    _security: Security

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""

    def client_config(self, client: str = "confluent", user: str | None = None) -> dict[str, Any]:
        """The settings by which a client connects as one of the `users`.

        client: "confluent", "kafka-python", "aiokafka" or "java". Raises ValueError for an
        unknown client or user.
        """
        return self._security.client_config(client, user, self.bootstrap_servers)

    @property
    def cluster_id(self) -> str:
        """The cluster id that clients see."""
        return str(self._engine.on_broker(attrgetter("cluster_id")))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        replication_factor: int = -1,
        replicas: Sequence[Sequence[int]] = (),
        **options: object,
    ) -> None:
        """Create a topic with Kafka's topic configs, and return when all brokers know it.

        replication_factor: -1 is `default.replication.factor`: in a cluster 3, or the number of
        its brokers.
        replicas: the brokers of each partition, the leader first, as [[1, 2], [2, 3]].

        Raises KafkaError, such as TOPIC_ALREADY_EXISTS.
        """
        layout = admin.TopicLayout(partitions, replication_factor, replicas)
        admin.create_topic(self._engine, name, layout, {**(config or {}), **options})

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        admin.delete_topics(self._engine, [name])

    def topics(self) -> dict[str, int]:
        """All topics with their partition counts, without internal topics."""
        return {
            name: count
            for name, count in self._engine.topics().items()
            if not name.startswith("__")
        }

    def produce(self, topic: str, given: Iterable[Recordlike]) -> list[int]:
        """Append records, each a `Record`, a value or a (key, value) pair; returns their offsets.

        A missing topic is created with one partition. Fault rules do not apply. Raises the
        KafkaError that a producer would get.
        """
        if isinstance(given, bytes | str | Mapping | records.Record):
            raise TypeError(
                f"give a list of records, such as [{given!r}]"
                if not isinstance(given, Mapping)
                else "give a list of records, such as [(key, value)]"
            )
        if topic not in self._engine.topics():
            self.create_topic(topic)
        return records.produce(self._engine, topic, given)

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """All records of a topic or one partition, by partition and offset.

        Includes records of aborted and open transactions (see `StoredRecord.transaction`). Raises
        LookupError for an unknown topic or partition.
        """
        count = self._engine.topics().get(topic)
        if count is None:
            raise LookupError(
                f"there is no topic {topic!r}; there are: "
                f"{', '.join(sorted(self.topics())) or 'none'}"
            )
        if partition is not None and not 0 <= partition < count:
            raise LookupError(f"{topic!r} has partitions 0 to {count - 1}, not {partition}")
        wanted = range(count) if partition is None else (partition,)
        return [record for index in wanted for record in records.stored(self._engine, topic, index)]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, by (topic, partition)."""
        return admin.committed(self._engine, group)

    def groups(self) -> list[Group]:
        """All groups with their members, sorted by id."""
        return list(groups.groups(self._engine))

    def group(self, group: str) -> Group:
        """One group with its members, their epochs and assignments.

        Raises LookupError for an unknown group.
        """
        found = groups.groups(self._engine)
        for each in found:
            if each.id == group:
                return each
        raise LookupError(
            f"there is no group {group!r}; there are: "
            f"{', '.join(each.id for each in found) or 'none'}"
        )

    def in_flight(self, group: str) -> list[InFlightRecord]:
        """The records that a share group has acquired and not completed, by partition and offset.

        It is empty for an unknown group, and without members that have fetched.
        """
        return [
            record
            for member in self._engine.members()
            for record in member.on_broker(share_locks.in_flight, group)
        ]

    def wait_for(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        """Call `condition` until it returns a true value, and return this value.

        Raises TimeoutError, whose message lists the last requests of clients. It blocks; with
        clients on an event loop, use `await asyncio.to_thread(broker.wait_for, ...)`.
        """
        __tracebackhide__ = True
        if not callable(condition):
            raise TypeError(f"give a function, such as lambda: {condition!r}")
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if isinstance(value, Coroutine):
                value.close()
                raise TypeError("the condition is to be a plain function, not an `async def`")
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not so within {timeout_s} s{_hint_of_loop()}; the broker"
                    f" saw:\n{self._traffic_text()}"
                )
            time.sleep(_POLL_S)

    def _traffic_text(self) -> str:
        return str(self.requests)


def in_asyncio() -> bool:
    """Whether the caller runs on an event loop of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _hint_of_loop() -> str:
    if not in_asyncio():
        return ""
    return (
        ", while the event loop it was called in stood still (write"
        " await asyncio.to_thread(broker.wait_for, ...))"
    )
