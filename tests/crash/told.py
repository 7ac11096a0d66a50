"""What a broker was asked and what it answered before it crashed: what has to be there after."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

Place = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """One batch; its offset was foreseen, since nobody else wrote there."""

    offset: int
    batch: bytes
    key: bytes = b""
    value: bytes | None = None
    transaction: int = -1
    producer: tuple[int, int] = (-1, -1)


@dataclass(slots=True)
class TransactionTold:
    """How a transaction was to end (None: nobody said), and whether that was answered."""

    offset: int
    """What it commits for its group."""
    commits: bool | None = None
    is_answered: bool = False


@dataclass(slots=True)
class Value:
    """Something that is set again and again: answered, and perhaps one more under way."""

    answered: object = None
    asked: object = None

    def ask(self, value: object) -> None:
        self.asked = value

    def answer(self) -> None:
        self.answered = self.asked

    def may_be(self, found: object) -> bool:
        return found in (self.answered, self.asked)


@dataclass
class Told:
    """Everything the outside knows."""

    sent: dict[Place, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    acknowledged_end: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    synced_end: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    started: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    """The highest start offset that may have been reached."""
    transactions: list[TransactionTold] = field(default_factory=list)
    topics: dict[str, Value] = field(default_factory=lambda: defaultdict(Value))
    """Whether a topic is there."""
    retention: Value = field(default_factory=Value)
    group_offset: Value = field(default_factory=Value)
    generation: Value = field(default_factory=Value)
    producer_ids: set[int] = field(default_factory=set)
