"""What the console knows of a cluster beyond single answers: rates, lag over time, readers.

Two things fill it: `Sampler` asks any cluster periodically, over Kafka's protocol. A wirekafka
broker that runs the console adds what only it knows (`Insight`). A panel that cannot be filled is
an `Unknown`, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from wirekafka.metrics.lag import LagSample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why something cannot be shown: one sentence for the user."""

    reason: str


Known: TypeAlias = T | Unknown


class GroupLag(NamedTuple):
    """The lag of a group, or of a reader that commits nothing, over all of its partitions."""

    name: str
    kind: str
    """The type of the group, or "reader"."""
    state: str
    lag: int
    behind_ms: int | None
    """Of the partition that is furthest behind in time; None if it is not known."""
    partitions: int
    history: Sequence[LagSample]


class TopicRate(NamedTuple):
    """What is written to a topic, and read from it; None is not known."""

    name: str
    records_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    history: Sequence[tuple[int, float]]
    """(time in ms, records per second), oldest first."""


class ApiErrors(NamedTuple):
    """The responses of one API with one error, since the broker's start."""

    api: str
    error: str
    responses: int


class Software(NamedTuple):
    """The connections and traffic of clients with one version of one library."""

    name: str
    version: str
    connections: int
    requests: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Insight:
    """What a wirekafka broker knows of itself, where the console runs inside of it."""

    broker_id: int
    groups: Mapping[str, GroupLag]
    """By name: those that this broker coordinates, exact to the instant of the request."""
    readers: Sequence[GroupLag]
    rates: Mapping[str, TopicRate]
    errors: Sequence[ApiErrors]
    software: Sequence[Software]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster as it was sampled last."""

    at_ms: int
    groups: Known[Sequence[GroupLag]]
    rates: Known[Sequence[TopicRate]]
    problems: Sequence[str] = field(default=())
    """What could not be sampled, a sentence each."""


class Source(Protocol):
    """What is known with one user's rights."""

    def snapshot(self) -> Known[Snapshot]:
        """The last samples; waits a moment for the first ones."""

    def insight(self) -> Known[Insight]:
        """What the broker itself knows; Unknown outside of a wirekafka broker."""

    def wire(self) -> Known[Any]:
        """The `Tap` of the broker's requests; Unknown outside of a wirekafka broker."""

    def close(self) -> None:
        """Stop to collect."""
