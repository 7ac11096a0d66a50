"""A broker with tables, whose worker is `fake_worker`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metadata.controller.configs import AlterConfigs, ConfigChange, ResourceChanges
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.metadata.image.image import TOPIC
from wirekafka.server.tabling import worker_process
from wirekafka.server.tabling.tabling import Tabling

FAKE = Path(__file__).with_name("fake_worker.py")


class Worker:
    """The processes of the fake worker that have run in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.command = [sys.executable, str(FAKE), str(directory)]

    def processes(self) -> list[int]:
        """Their ids, oldest first."""
        found = sorted(self.directory.glob("input-*"), key=lambda path: path.stat().st_ctime_ns)
        return [int(path.stem.removeprefix("input-")) for path in found]

    def inputs(self, process: int = -1) -> list[dict[str, Any]]:
        """The lines that one of the processes was sent, by its number."""
        ids = self.processes()
        if not ids:
            return []
        text = (self.directory / f"input-{ids[process]}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def report(self, *lines: str | dict[str, Any]) -> None:
        """Let the running process, and those after it, print these lines."""
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path = self.directory / "report.new"
        path.write_text("".join(f"{text}\n" for text in texts))
        path.replace(self.directory / "report.jsonl")


class Stand:
    """A broker on a manual clock, on the running event loop."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch, **settings: str):
        self.worker = Worker(directory / "worker")
        patch.setattr(worker_process, "COMMAND", self.worker.command)
        self.clock = ManualClock()
        self.kafka = InProcessBroker(
            directory / "data",
            self.clock,
            **{"wirekafka.tables.url": str(directory / "lake"), **settings},
        )
        assert self.kafka.node.tabling is not None
        self.tabling: Tabling = self.kafka.node.tabling
        self.tabling.start()

    def create(
        self, topic: str, partitions: int = 1, *, mode: str = "key_value", **options: str
    ) -> str:
        """Create a topic that is a table; returns its id in base64.

        Options of tables are given without their prefix, others as `of_log_...`.
        """
        names = {
            name: name.removeprefix("of_log_")
            if name.startswith("of_log_")
            else f"wirekafka.table.{name}"
            for name in options
        }
        configs = {names[name]: value for name, value in options.items()}
        return uuid_text(self.kafka.create(topic, partitions, wirekafka_table_mode=mode, **configs))

    def alter(self, topic: str, **options: str) -> None:
        """Set options of tables."""
        changes = [
            ConfigChange(f"wirekafka.table.{name.replace('_', '.')}", 0, value)
            for name, value in options.items()
        ]
        self._submit(AlterConfigs([ResourceChanges(TOPIC, topic, changes)]))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._submit(DeleteTopics([TopicReference(topic, None)]))

    @property
    def last(self) -> dict[str, Any] | None:
        """The last message about topics that the present worker was sent."""
        lines = self.worker.inputs()
        return lines[-1] if len(lines) > 1 else None

    async def stop(self) -> None:
        """Stop the broker cleanly."""
        await self.kafka.node.stop()

    def _submit(self, command: Any) -> None:
        now(self.kafka.broker.controller.submit(command))

    def append(self, topic: str, records: int = 1, index: int = 0) -> None:
        """Append a batch for each record."""
        for _ in range(records):
            self.kafka.partition(topic, index).append(batch(bytes(1000)))

    async def until(self, condition: Any, every_ms: int = 250) -> Any:
        """The first true value of a condition, while the broker's time goes on."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 20
        while not (value := condition()):
            assert loop.time() < deadline, "not within 20 s"
            self.clock.advance(every_ms)
            await asyncio.sleep(0.01)
        return value


def run(
    directory: Path,
    patch: pytest.MonkeyPatch,
    test: Callable[[Stand], Awaitable[None]],
    **settings: str,
) -> None:
    """Run a test on an event loop, beside a broker that is stopped afterwards."""

    async def main() -> None:
        stand = Stand(directory, patch, **settings)
        try:
            await test(stand)
        finally:
            await stand.stop()

    asyncio.run(main())


def report_of(topic: str, id: str, ends: dict[int, int], **more: Any) -> dict[str, Any]:
    """A report of the worker, in the state `running` unless it says otherwise."""
    return {
        "topic": topic,
        "topic_id": id,
        "state": "running",
        "error": None,
        "ends": {str(index): end for index, end in ends.items()},
        "rows": sum(ends.values()),
        "dead_letters": 0,
        "commit_ms": 1_700_000_000_000,
        **more,
    }
