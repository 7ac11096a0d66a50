"""A transcript's coordinator: the state machine on a log in memory, with a manual clock."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.errors import KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.runtime import Runtime


class MachineBackend:
    def __init__(self, **settings: int):
        self.config = GroupConfig(**settings)
        self.log = MemoryLog()
        self.clock = ManualClock()
        self.waiting: dict[str, list[Ticket]] = defaultdict(list)
        self.runtime = self._load()

    def _load(self) -> Runtime:
        runtime = Runtime(lambda: GroupShard(self.config), self.log, GroupRecordCodec(), self.clock)
        runtime.load()
        return runtime

    @property
    def shard(self) -> GroupShard:
        machine = self.runtime.machine
        assert isinstance(machine, GroupShard)
        return machine

    def send(self, actor: str, command: Any, version: int = 9) -> None:
        self.waiting[actor].append(self.runtime.post(command))
        # A timer that is due now fires now, as in a broker.
        self.clock.advance(1)

    def next_reply(self, actor: str) -> Any:
        for ticket in self.waiting[actor]:
            if ticket.done:
                self.waiting[actor].remove(ticket)
                return _result(ticket)
        raise AssertionError("but no response came")

    def unread(self) -> list[tuple[str, Any]]:
        done = [
            (actor, _result(ticket))
            for actor, tickets in self.waiting.items()
            for ticket in tickets
            if ticket.done
        ]
        for tickets in self.waiting.values():
            tickets[:] = [ticket for ticket in tickets if not ticket.done]
        return done

    def ask(self, command: Any) -> Any:
        """Send a command and return its reply; errors are raised."""
        return self.runtime.post(command).result()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    def restart(self) -> None:
        self.runtime.stop()
        self.waiting.clear()
        self.runtime = self._load()
        self.clock.advance(1)

    def last_record(self) -> Any:
        codec = GroupRecordCodec()
        for batch in reversed(self.log.batches):
            for record in reversed(list(codec.decode(batch))):
                if isinstance(record, GroupRecord):
                    return record.value
        return None


def _result(ticket: Ticket) -> Any:
    try:
        return ticket.result()
    except KafkaError as error:
        return error
