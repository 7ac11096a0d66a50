"""The brokers that lead partitions, and the requests that coordinators send to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError

TopicPartition = tuple[str, int]


class Links(Protocol):
    """Connections to other brokers.

    Requests with one client id share a connection. A broker serves a connection's requests one
    after the other, so requests that wait for something should not share one with others.
    """

    @property
    def request_timeout_ms(self) -> int:
        """How long a response is waited for."""

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        """Send a request to a broker and return its response; nothing is retried here.

        Raises `KafkaError`: BROKER_NOT_AVAILABLE for a broker that is not in service,
        NETWORK_EXCEPTION and REQUEST_TIMED_OUT if no response arrives.
        """


class NoLinks:
    """`Links` without connections: every broker is BROKER_NOT_AVAILABLE."""

    request_timeout_ms = 0

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        raise KafkaError(Error.BROKER_NOT_AVAILABLE)


@dataclass(slots=True)
class Routing:
    """Finds the leaders of partitions, and sends requests to their brokers."""

    node_id: int
    """The id of this broker."""
    leader_of: Callable[[str, int], int | None]
    """Returns the id of the broker that leads a partition, `NO_LEADER` if none does; None if
    there is no such partition in this broker's metadata."""
    links: Links = field(default_factory=NoLinks)


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """Return the indexes of partitions by topic, in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
