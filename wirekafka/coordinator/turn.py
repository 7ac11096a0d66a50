"""What one command leads to, as it is put together."""

from __future__ import annotations

from typing import Any

from wirekafka.coordinator.group_records import ShardRecord
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Outcome, Ticket


class Turn:
    """The records and replies of one command or tick, and the time it is."""

    __slots__ = ("now_ms", "records", "replies")

    def __init__(self, now_ms: int):
        self.now_ms = now_ms
        self.records: list[ShardRecord] = []
        self.replies: list[tuple[Ticket, Any]] = []

    def write(self, record: ShardRecord) -> None:
        """Append this too."""
        self.records.append(record)

    def answer(self, ticket: Ticket | None, reply: Any) -> None:
        """Answer a ticket, if there is one."""
        if ticket is not None:
            self.replies.append((ticket, reply))

    def refuse(self, ticket: Ticket | None, error: Error) -> None:
        """Answer a ticket, if there is one, with an error."""
        if ticket is not None:
            self.replies.append((ticket, KafkaError(error)))

    def outcome(self) -> Outcome:
        """All of it."""
        return Outcome(self.records, self.replies)
