"""The console's knowledge of a cluster beyond single responses: rates, lag over time, readers.

It has two sources: `Sampler` asks any cluster periodically, over Kafka's protocol. A wirekafka
broker that runs the console adds its own state (`Insight`). A panel that cannot be filled is an
`Unknown`, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from wirekafka.metrics.lag import LagHistory, LagSample

if TYPE_CHECKING:
    from wirekafka.server.space.directory_space import DirectoryStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why something cannot be shown: one sentence for the user."""

    reason: str


Known: TypeAlias = T | Unknown


_IDLE_MS = 60_000
_QUIET_MS = 20_000


class GroupLag(NamedTuple):
    """The lag of a group, or of a reader that commits nothing, over all of its partitions."""

    name: str
    kind: str
    """The type of the group, or "reader"."""
    state: str
    lag: int
    behind_ms: int | None
    """The age in ms of the oldest unread record in any partition; None if unknown."""
    partitions: int
    kept: LagHistory | None
    idle_ms: int = 0
    """The time in ms since the last Fetch of a reader; 0 for groups."""
    is_query: bool = False
    """Whether this is a reader that reads for a Spark query."""

    @property
    def is_idle(self) -> bool:
        """Whether this is a reader that has not fetched for a minute."""
        return self.idle_ms >= _IDLE_MS

    @property
    def urgency(self) -> tuple[int, int, str]:
        """A sort key: the furthest behind first, and readers that may have ended last.

        A Spark query that was stopped in a session that lives on keeps its connections for minutes.
        It must not stand above its successor, so that some seconds without a Fetch count already.
        """
        is_quiet = self.idle_ms >= _QUIET_MS
        return is_quiet + self.is_idle, -self.lag, self.name

    @property
    def history(self) -> Sequence[LagSample]:
        """The samples of the last hour, oldest first."""
        return () if self.kept is None else list(self.kept.samples())


class TopicHistory(Protocol):
    """The rates of a topic over time."""

    def rates(self) -> Sequence[tuple[int, float]]:
        """(time in ms, records per second), oldest first."""


class TopicRate(NamedTuple):
    """The rates of writes to a topic and reads from it; None if unknown."""

    name: str
    records_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    kept: TopicHistory | None

    @property
    def history(self) -> Sequence[tuple[int, float]]:
        """(time in ms, records per second) of the last hour, oldest first."""
        return () if self.kept is None else self.kept.rates()


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
    """The state of a wirekafka broker with the console inside."""

    broker_id: int
    groups: Mapping[str, GroupLag]
    """The groups that this broker coordinates, by name, exact to the instant of the request."""
    readers: Sequence[GroupLag]
    rates: Mapping[str, TopicRate]
    errors: Sequence[ApiErrors]
    software: Sequence[Software]
    budgets: Sequence[DirectoryStatus] = ()
    """The log directories that have a disk budget."""


class MirrorReport(NamedTuple):
    """The state of a broker's copies of another cluster's topics: `wirekafka mirror status`."""

    summary: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


class DirectorySample(NamedTuple):
    """A log directory of a broker; sizes below 0 are not known."""

    broker: int
    path: str
    error: str | None
    used_bytes: int
    """The bytes of the logs in the directory."""
    total_bytes: int
    free_bytes: int
    logs: int

    @property
    def filled(self) -> float | None:
        """The share of the volume that is in use, from 0 to 1."""
        return None if self.total_bytes <= 0 else 1 - self.free_bytes / self.total_bytes


class OpenTransaction(NamedTuple):
    """An incomplete transaction."""

    name: str
    state: str
    age_ms: int


class Unsynced(NamedTuple):
    """A partition with replicas out of sync, or without a leader."""

    topic: str
    partition: int
    replicas: Sequence[int]
    in_sync: Sequence[int]


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A cluster in numbers, and its problems."""

    brokers: Sequence[int]
    topics: int
    partitions: int
    unsynced: Sequence[Unsynced]
    transaction: Known[OpenTransaction | None]
    """The open transaction that began first, None without any."""
    disks: Sequence[Known[Sequence[DirectorySample]]]
    """Of each broker."""
    may_see_cluster: bool
    """Whether the user may see cluster-wide values: DESCRIBE on the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """A cluster as it was sampled last, with one user's rights."""

    at_ms: int
    summary: ClusterSummary
    groups: Known[Sequence[GroupLag]]
    rates: Known[Sequence[TopicRate]]
    problems: Sequence[str] = field(default=())
    """The failures of sampling, a sentence each."""


class Source(Protocol):
    """The knowledge of a cluster with one user's rights."""

    def snapshot(self) -> Known[ClusterSample]:
        """The last samples; waits a moment for the first samples."""

    def insight(self) -> Known[Insight]:
        """The state of the broker; Unknown outside of a wirekafka broker."""

    def wire(self) -> Known[Any]:
        """The `Tap` of the broker's requests; Unknown outside of a wirekafka broker."""

    def mirror(self) -> Known[MirrorReport]:
        """The broker's copies of another cluster; Unknown where the broker has none."""

    def close(self) -> None:
        """Stop to collect."""
