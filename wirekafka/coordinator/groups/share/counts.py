"""The counters of a leader of share partitions since its start, as plain numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from wirekafka.replication.share.acknowledgement import Acknowledgement


@dataclass(slots=True)
class DeadLetterCounts:
    """The dead letters of one group (KIP-1191)."""

    records: int = 0
    """Records that were written to the dead-letter topic."""
    batches: int = 0
    """Attempts to append a batch to the dead-letter topic."""
    failures: int = 0
    """The attempts that failed."""


@dataclass(slots=True)
class ShareCounts:
    """The counters of all share partitions that a broker has led."""

    acknowledged: Counter[int] = field(default_factory=Counter)
    """Records by the type of their acknowledgement, refused acknowledgements included."""
    dead_letters: defaultdict[str, DeadLetterCounts] = field(
        default_factory=lambda: defaultdict(DeadLetterCounts)
    )
    """By group."""

    def acknowledgements(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Count acknowledged records, as in Kafka before their states are looked at."""
        counted = self.acknowledged
        for first, last, types in acknowledgements:
            if len(types) == 1:
                counted[types[0]] += last + 1 - first
            else:
                counted.update(types)
