"""The contract that the kinds of groups (classic, consumer, share, streams) implement.

A kind consists of two classes. A `Group` is the state of one group. A `GroupKind`, one instance per
shard, processes the commands, timers, records and topic changes of all groups of that kind. The
shard (`shard`) keeps the groups of all kinds by id, with their committed offsets, and calls
the kind.

To add a kind: write the two classes, add its records to `record_table` and the kind to the makers
in `GroupCoordinator.make_shard`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
    ListedGroup,
    QuietHeartbeat,
)
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.runtime.machine import Command, Outcome, Ticket
from wirekafka.runtime.renewal import Renewal

G = TypeVar("G", bound="Group")


@dataclass(slots=True)
class GroupCounts:
    """Counted when the coordinator decides, as in Kafka: before the append, which may fail."""

    classic_rebalances: int = 0
    """Generations of classic groups whose leader has assigned the partitions."""
    consumer_rebalances: int = 0
    """Epochs of consumer groups that began for another reason than the end of a member."""
    share_rebalances: int = 0
    streams_rebalances: int = 0
    commits: int = 0
    """Committed offsets, offsets in transactions included."""
    deletions: int = 0
    """Offsets that a client has deleted, without offsets deleted with their group."""
    expirations: int = 0
    """Offsets deleted because of their age."""


class Expiry(NamedTuple):
    """The time in ms from which a group's offsets expire; None: each from its own commit."""

    since_ms: int | None


class Group(ABC):
    """The state of one group.

    Its durable state follows from records and is changed only by their replay; all other state is
    changed in a draft (see `Turn`).
    """

    type_name: ClassVar[str]
    """The type that ListGroups reports: "classic", "consumer", "share", "streams"."""

    expires: ClassVar[bool] = True
    """Whether the group is deleted once it is empty and its offsets have expired."""

    def __init__(self, group_id: str):
        self.group_id = group_id

    @abstractmethod
    def copy(self) -> Self:
        """Copy the group into a draft, which can be changed independently.

        Most commands make a draft, so this must be cheap: copy containers, share their contents,
        and make members immutable.
        """

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """The number of its members."""

    @abstractmethod
    def listed(self) -> ListedGroup:
        """Return the group for ListGroups."""

    @abstractmethod
    def check_deletion(self) -> None:
        """Raise a `KafkaError`, such as NON_EMPTY_GROUP, unless DeleteGroups may delete it."""

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raise a `KafkaError`, such as NON_EMPTY_GROUP, unless OffsetDelete is allowed."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, whose offsets are then kept."""

    @abstractmethod
    def offset_expiry(self) -> Expiry | None:
        """Return how offsets of unsubscribed topics expire (KIP-211); None: not at all."""

    def clients(self) -> Iterable[tuple[str, str]]:
        """Return the client id and the host of each member, for monitoring."""
        return ()

    def is_affected_by(self, topics: frozenset[str]) -> bool:
        """Whether its kind processes the creation, deletion or extension of these topics.

        Classic groups do not: their members read the metadata themselves.
        """
        return False

    @abstractmethod
    def snapshot(self) -> Iterable[Any]:
        """Yield the records that rebuild its durable state."""

    @abstractmethod
    def tombstones(self) -> Iterable[Any]:
        """Yield the records that delete it, except for its offsets."""


class Turn(Outcome):
    """The outcome of a command or timer in a shard of groups, while it is being computed.

    A group is changed in a draft, a copy that replaces the group together with the outcome's other
    effects, right before its records are replayed: if the append is refused, the group is
    unchanged.
    """

    __slots__ = ("_drafts", "_groups", "counts", "is_atomic", "now_ms")

    def __init__(self, now_ms: int, groups: dict[str, Group], counts: GroupCounts):
        super().__init__()
        self.now_ms = now_ms
        self.counts = counts
        self.is_atomic = False
        """Whether its records must be in one batch, however many there are."""
        self._groups = groups
        self._drafts: dict[str, Group] = {}

    def another(self) -> Turn:
        """Return an empty outcome of the same time and shard."""
        return Turn(self.now_ms, self._groups, self.counts)

    def draft(self, group: G) -> G:
        """Return a group's draft, which may be changed; the same draft during the whole turn."""
        draft = self._drafts.get(group.group_id)
        if draft is None:
            return self.put(group.copy())
        assert type(draft) is type(group), "a group of another kind has taken its place"
        return draft

    def put(self, group: G) -> G:
        """Add a new group, or replace the group with its id, when the outcome takes effect."""
        self._drafts[group.group_id] = group
        self.then(partial(self._groups.__setitem__, group.group_id, group))
        return group

    def put_replayed(self, group: Group) -> None:
        """Put a group in place which has the state after all records, so none is replayed."""
        self._drafts[group.group_id] = group
        self.replayed = partial(self._groups.__setitem__, group.group_id, group)


class GroupKind(ABC, Generic[G]):
    """The behaviour of all groups of one kind in a shard.

    `groups` holds all groups of the shard, groups of other kinds included. Only replay and the
    effects of a `Turn` change it.
    """

    group: type[G]
    """The class of its groups."""

    commands: Mapping[type[Command[Any]], Callable[[Any, Ticket[Any], Turn], Steps[None] | None]]
    """The function that processes each class of command.

    The function responds, parks the ticket in a draft, or raises `KafkaError` before any effect. If
    the processing may take longer than a few milliseconds, it is a generator (see `steps`). A
    command with a `group_id` goes to the kind of that group if it is in that kind's table, else to
    the first kind that has it: classic members of a consumer group send Join.
    """

    timers: Mapping[type, Callable[[Any, Turn], Steps[None] | None]]
    """The function to call when a timer with a key of this class is due.

    The function may be a generator, as for a command. No two kinds share a class. A key with a
    `group_id` waits while a command or timer of that group is processed in steps.
    """

    records: Mapping[type, Callable[[Any], None]]
    """The function that replays each class of record.

    No two kinds share a class.
    """

    is_live = False
    """False while the log is loaded: replay then creates groups from records alone.

    Once loaded, groups also have soft state, which the replay of a record must keep.
    """

    def __init__(self, groups: dict[str, Group]):
        self.groups = groups

    def renew(self, group: G, command: QuietHeartbeat[Any], now_ms: int) -> Renewal[Any] | None:
        """Renew the session of a member that gets nothing new; None if it may get something.

        Changes nothing. The reply has the options of the group.
        """
        return None

    @abstractmethod
    def loaded(self, group: G, turn: Turn) -> None:
        """Start the sessions of a loaded group's members; must not write records."""

    def topics_changed(self, group: G, topics: frozenset[str], turn: Turn) -> None:
        """Process the creation, deletion or extension of topics that affect the group."""

    @abstractmethod
    def check_commit(self, group: G, command: CommitOffsets, turn: Turn) -> None:
        """Raise a `KafkaError` unless the generation or epoch permits the commit.

        A commit may also renew the member's session.
        """

    @abstractmethod
    def check_transactional_commit(self, group: G, command: CommitTransactionOffsets) -> None:
        """Raise a `KafkaError` unless TxnOffsetCommit is permitted (KIP-447)."""

    @abstractmethod
    def check_fetch(self, group: G, command: FetchOffsets | FetchAllOffsets) -> None:
        """Raise a `KafkaError`, such as STALE_MEMBER_EPOCH, unless the member may fetch."""
