"""The worker process: what it reads, what it reports, and when it ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.translation.topic_world import NAMESPACE, OPTIONS, TopicWorld, topic_world
from wirekafka.metrics.table_status import TableState, TableStatus


class WorkerProcess:
    """A worker of node 1, and what it has reported so far."""

    def __init__(
        self,
        world: TopicWorld,
        arguments: Sequence[str] = ("-m", "wirekafka.translation.worker"),
        **set_up: Any,
    ):
        """`arguments` are Python's."""
        self._world = world
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._send(
            {
                "node": 1,
                "url": world.url,
                "namespace": NAMESPACE,
                "catalog": {"name": "wirekafka"},
                "directories": [str(world.path / "data")],
                "tier": None,
                "rate_bytes": 0,
                "registry": {"url": world.fake_registry.url, "user": "", "password": ""},
                **set_up,
            }
        )

    def assign(self, *topics: str, **options: Any) -> None:
        self._send(
            {
                "topics": [
                    {
                        "topic": topic,
                        "id": self._world.ids[topic],
                        "options": {**OPTIONS, "target_lag_ms": 0, **options},
                        "partitions": {
                            str(partition): list(log)
                            for partition, log in self._world.ranges(topic).items()
                        },
                    }
                    for topic in topics
                ]
            }
        )

    def report(self) -> TableStatus:
        """The next one."""
        assert self.process.stdout is not None
        return TableStatus.from_json(json.loads(self.process.stdout.readline()))

    def until(self, ends: dict[int, int]) -> TableStatus:
        """The report of the commit that ends there."""
        while (report := self.report()).ends != ends:
            pass
        return report

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def worker_of(world: TopicWorld, **set_up: Any) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(world, **set_up)
    with worker.process:
        try:
            yield worker
        finally:
            worker.process.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def test_it_commits_what_it_is_assigned_and_reports_it(world: TopicWorld) -> None:
    world.create("t", partitions=2)
    world.produce("t", [b"a"])
    with worker_of(world) as worker:
        worker.assign("t")
        report = worker.until({0: 1})
        assert (report.topic, report.state, report.rows) == ("t", TableState.RUNNING, 1)
        world.produce("t", [b"b", b"c"], 1)
        worker.assign("t")
        assert worker.until({0: 1, 1: 2}).rows == 3
    assert len(world.rows("t")) == 3


def test_it_ends_with_its_input(world: TopicWorld) -> None:
    with worker_of(world) as worker:
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.process.wait(30) == 0


def test_it_does_not_wait_for_a_catalog_that_never_answers(world: TopicWorld) -> None:
    world.create("t")
    program = "import wirekafka.translation.worker as w; w._END_S = 0.5; w.main()"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        catalog = {"name": "c", "uri": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with worker_of(world, arguments=("-c", program), catalog=catalog) as worker:
            worker.assign("t")
            request, _ = silent.accept()
            with request:
                assert worker.process.stdin is not None
                worker.process.stdin.close()
                assert worker.process.wait(20) == 1


def test_a_file_beside_the_tables_has_the_state_of_each(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    with worker_of(world) as worker:
        worker.assign("t", partition_spec="(nonsense(redpanda.timestamp))")
        assert worker.report().state is TableState.PAUSED
        path = Path(world.url) / "wirekafka-status" / "node-1.json"
        content = json.loads(eventually(lambda: path.exists() and path.read_bytes()))
    assert content["node"] == 1
    [table] = content["tables"]
    assert table["topic"] == "t" and table["state"] == "paused" and "nonsense" in table["error"]


def test_another_worker_goes_on_after_a_kill(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"] * 5)
    for end_offset in (5, 10):
        with worker_of(world) as worker:
            worker.assign("t")
            worker.until({0: end_offset})
        world.produce("t", [b"a"] * 5)
    assert [offset for (offset,) in world.values("t")] == list(range(10))
