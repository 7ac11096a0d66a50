"""The requests and confirmed results before a crash, which the state after it must match."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """A batch that was sent; its offset is predicted, as there is no other writer."""

    offset: int
    batch: bytes
    key: bytes = b""
    value: bytes | None = None
    transaction: int = -1
    producer: tuple[int, int] = (-1, -1)


@dataclass(slots=True)
class ObservedTransaction:
    """A transaction, its requested outcome (None: no EndTxn sent), and whether it was confirmed."""

    offset: int
    """The offset that it commits for its group."""
    commits: bool | None = None
    is_confirmed: bool = False


@dataclass(slots=True)
class Value:
    """A value that is set repeatedly: the confirmed one, and possibly an unconfirmed one."""

    confirmed: Any = None
    requested: Any = None

    def request(self, value: object) -> None:
        self.requested = value

    def confirm(self) -> None:
        self.confirmed = self.requested

    def may_be(self, found: object) -> bool:
        return found in (self.confirmed, self.requested)


@dataclass
class Observed:
    """The broker's state as clients know it."""

    sent: dict[Place, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    acknowledged_end: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    synced_end: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    started: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    """The highest start offset that may have been reached."""
    transactions: list[ObservedTransaction] = field(default_factory=list)
    topics: dict[str, Value] = field(default_factory=lambda: defaultdict(Value))
    """Whether a topic exists."""
    retention: Value = field(default_factory=Value)
    group_offset: Value = field(default_factory=Value)
    generation: Value = field(default_factory=Value)
    assigned: Value = field(default_factory=Value)
    """The members of the group whose partitions the broker assigns."""
    streams: Value = field(default_factory=Value)
    """The members of the streams group."""
    share_start: Value = field(default_factory=Value)
    """The start offset of a share partition."""
    producer_ids: set[int] = field(default_factory=set)

    @property
    def assigned_members(self) -> frozenset[str]:
        """The members that were confirmed."""
        return _members(self.assigned)

    @property
    def streams_members(self) -> frozenset[str]:
        """The members of the streams group that were confirmed."""
        return _members(self.streams)


def _members(value: Value) -> frozenset[str]:
    return value.confirmed if isinstance(value.confirmed, frozenset) else frozenset()
