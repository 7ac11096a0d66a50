"""The facts about a cluster that checks need, as its brokers answered them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from wirekafka.client.admin.transactions import TransactionRow
from wirekafka.config.address import Address

TopicPartition = tuple[str, int]

UNKNOWN = -1
_MOST_DIGITS = 20


def whole_number(text: str) -> int | None:
    """The value of a numeric option, of up to 64 bits; None if it is none."""
    is_number = text.removeprefix("-").isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


class Unanswered(NamedTuple):
    """A request that was refused or failed, so that some checks could not be made."""

    about: str
    reason: str


class FailureCause(Enum):
    """What a connection to a broker failed at; requests on a connection fail at CONNECTION."""

    CONNECTION = auto()
    NAME = auto()
    """The host's name does not resolve."""
    CERTIFICATE = auto()
    """TLS refuses the broker's certificate."""


class CertificateFacts(NamedTuple):
    """The certificate that a broker presents: its validity in ms since 1970, and its names."""

    begins_ms: int
    ends_ms: int
    names: Sequence[str]


class ProducerFacts(NamedTuple):
    """A producer whose transaction is open in a partition, as the partition's leader has it."""

    producer_id: int
    start_offset: int
    last_ms: int


class DirectoryFacts(NamedTuple):
    """A log directory of a broker; sizes are -1 where the broker does not report them."""

    path: str
    error: str = ""
    total_bytes: int = UNKNOWN
    usable_bytes: int = UNKNOWN
    used_bytes: int = UNKNOWN
    """Of the logs in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition; offsets and times are -1 where its leader has not answered."""

    topic: str
    index: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    start_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    """The high watermark."""
    stable_offset: int = UNKNOWN
    newest_ms: int = UNKNOWN
    """The largest timestamp of a record."""
    due_offset: int = UNKNOWN
    """The first offset that retention by time leaves for another quarter of retention.ms."""
    size_bytes: int = UNKNOWN
    open_producers: Sequence[ProducerFacts] = ()

    @property
    def name(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic; `configs` has the options that checks need, and is empty if they are not known."""

    name: str
    id: bytes = bytes(16)
    is_internal: bool = False
    partitions: Sequence[PartitionFacts] = ()
    configs: Mapping[str, str] = field(default_factory=dict)

    def number(self, option: str) -> int | None:
        """A numeric option; None if it is not known."""
        return whole_number(self.configs.get(option, ""))

    @property
    def is_deleted_by_retention(self) -> bool:
        """Whether retention deletes old records of the topic."""
        return "delete" in self.configs.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A registered broker at its advertised address."""

    id: int
    address: Address
    is_fenced: bool = False
    failure: str = ""
    """Why the broker has not answered; empty if it has."""
    cause: FailureCause = FailureCause.CONNECTION
    stranger: str = ""
    """What another node than the registered one said at the address; empty if it is the broker."""
    cluster_id: str = ""
    topic_ids: Mapping[str, bytes] | None = None
    """The ids of all topics, in the broker's own metadata."""
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    """In the broker's own metadata."""
    directories: Sequence[DirectoryFacts] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The lowest and highest level of each feature that the broker supports."""
    certificate: CertificateFacts | None = None
    knows_transactions: bool = False
    """Whether it has listed all transactions that it coordinates."""
    unanswered: Sequence[Unanswered] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group, and the offsets that it has committed."""

    name: str
    state: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class VoterFacts(NamedTuple):
    """A voter of the metadata quorum; times are of the quorum leader's clock, -1 if unknown."""

    id: int
    end_offset: int
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """The metadata quorum, and the time of our clock when its description was sent and received."""

    leader: int
    end_offset: int
    voters: Sequence[VoterFacts]
    asked_ms: int = UNKNOWN
    answered_ms: int = UNKNOWN

    @property
    def leader_clock_ms(self) -> int:
        """The clock of the leader, which it reports as the time of its own last fetch."""
        times = [each.last_fetch_ms for each in self.voters if each.id == self.leader]
        return times[0] if times else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All facts about a cluster at one time."""

    now_ms: int
    bootstrap: Sequence[Address] = ()
    silent: Sequence[Unanswered] = ()
    """The bootstrap addresses at which no broker answers, while another one does."""
    cluster_id: str = ""
    brokers: Mapping[int, BrokerFacts] = field(default_factory=dict)
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    transactions: Sequence[TransactionRow] = ()
    quorum: QuorumFacts | None = None
    finalized: Mapping[str, int] = field(default_factory=dict)
    """The level of each feature in the cluster."""
    unanswered: Sequence[Unanswered] = ()

    def partitions(self) -> Iterator[PartitionFacts]:
        """The partitions of all topics."""
        for topic in self.topics.values():
            yield from topic.partitions
