"""The readiness of a broker while something fails: it turns off, or warns, and on by itself."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.server.test_failing_directories import Stage
from tests.server.test_quorum_of_nodes import configs, platform
from wirekafka.config.address import Address
from wirekafka.errors import Error, KafkaError
from wirekafka.log.files import RealDisk, RealFile
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.image.image import BROKER
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.monitoring.service import Monitoring
from wirekafka.server.node import Node

UP: dict[str, str] = {"status": "up"}


class Observed:
    """The metrics listener of a node."""

    def __init__(self, node: Node | ControllerNode, monitoring: Monitoring):
        self._node = node
        self._monitoring = monitoring

    def check_space(self) -> None:
        """What the node does at intervals."""
        if isinstance(self._node, ControllerNode):
            self._node._keep_house()
        else:
            Housekeeping(self._node.broker, list)._check_space()

    async def ready(self) -> dict[str, str]:
        """The response, whose status has to agree with its code."""
        status, body = await asyncio.to_thread(self._get, "/ready")
        found: dict[str, str] = json.loads(body)
        assert status == (200 if found["status"] == "up" else 503)
        return found

    async def values(self, metric: str) -> list[float]:
        """The values of a metric, by the order of the log directories if it has one for each."""
        _, body = await asyncio.to_thread(self._get, "/metrics")
        families = text_string_to_metric_families(body.decode())
        return [s.value for each in families for s in each.samples if s.name == metric]

    def _get(self, path: str) -> tuple[int, bytes]:
        try:
            with urlopen(f"http://{self._monitoring.address}{path}", timeout=20) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()


@asynccontextmanager
async def observed(node: Node | ControllerNode) -> AsyncIterator[Observed]:
    monitoring = Monitoring(Address("127.0.0.1", 0))
    monitoring.start()
    monitoring.serving(node)
    try:
        yield Observed(node, monitoring)
    finally:
        monitoring.stopping()
        await asyncio.to_thread(monitoring.stop)


def observe(kafka: InProcessBroker, scenario: Callable[[Observed], Awaitable[None]]) -> None:
    """Run a scenario with the metrics listener of a broker under a manual clock."""

    async def run() -> None:
        async with observed(kafka.node) as found:
            await scenario(found)

    asyncio.run(run())


@pytest.fixture
def stage(tmp_path: Path, manual_clock: ManualClock) -> Any:
    made = Stage(tmp_path, manual_clock)
    yield made
    made.kafka.stop()


def _free_bytes(monkeypatch: pytest.MonkeyPatch, **by_directory: int) -> None:
    def free_bytes(disk: RealDisk, path: str) -> int:
        return by_directory.get(path.rpartition("/")[2], 1 << 40)

    monkeypatch.setattr(RealDisk, "free_bytes", free_bytes)


def test_a_broker_whose_disks_are_all_full_is_not_ready_until_one_has_room(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(observed: Observed) -> None:
        assert await observed.ready() == UP
        _free_bytes(monkeypatch, a=1000, b=2000, c=3000)
        observed.check_space()
        assert {stage.produce(index) for index in range(6)} == {Error.KAFKA_STORAGE_ERROR}
        assert await observed.ready() == {
            "status": "down",
            "reason": "appends are refused: no log directory has enough free space",
        }
        assert await observed.values("wirekafka_log_directory_full") == [1, 1, 1]
        assert await observed.values("wirekafka_log_directory_free_bytes") == [1000, 2000, 3000]
        _free_bytes(monkeypatch, b=2000, c=3000)
        observed.check_space()
        assert await observed.ready() == {
            "status": "up",
            "warning": "2 of 3 log directories refuse appends for lack of free space",
        }
        assert await observed.values("wirekafka_log_directory_full") == [0, 1, 1]
        _free_bytes(monkeypatch)
        observed.check_space()
        assert await observed.ready() == UP
        assert {stage.produce(index) for index in range(6)} == {Error.NONE}
        totals = await observed.values("wirekafka_log_directory_total_bytes")
        assert totals == [stage.disk.total_bytes(str(stage.path))] * 3

    observe(stage.kafka, scenario)


@pytest.mark.parametrize("code", [errno.EDQUOT, errno.ENOSPC])
def test_a_broker_that_cannot_write_is_not_ready_although_the_file_system_has_free_space(
    tmp_path: Path, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    stage = Stage(tmp_path, manual_clock)

    def refused(file: RealFile, *_: object) -> None:
        raise OSError(code, os.strerror(code), file.path)

    async def scenario(observed: Observed) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(RealFile, "append", refused)
            for index in range(6):
                assert stage.produce(index) is Error.KAFKA_STORAGE_ERROR
            observed.check_space()
            assert (await observed.ready())["status"] == "down"
        assert stage.produce(0) is Error.NONE, "it is tried again at once"
        stage.clock.advance(10_000)
        observed.check_space()
        assert await observed.ready() == UP

    observe(stage.kafka, scenario)
    stage.kafka.stop()


def test_a_controller_that_cannot_write_metadata_is_not_ready_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: RealFile, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)

    change = ConfigChange("log.retention.ms", ConfigOperation.SET, "1000")
    alter = AlterConfigs([ResourceChanges(BROKER, "", [change])])

    async def scenario() -> None:
        [config] = configs(tmp_path, "controller", 1)
        node = ControllerNode(config, platform())
        await node.start()
        async with observed(node) as found:
            assert await found.ready() == UP
            with monkeypatch.context() as patched:
                patched.setattr(RealFile, "append", refused)
                with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
                    await node.source.controller.submit(alter)
                found.check_space()
                assert (await found.ready())["status"] == "down"
            later_ms = node._clock.now_ms() + 10_000
            monkeypatch.setattr(node._clock.__class__, "now_ms", lambda _: later_ms)
            found.check_space()
            monkeypatch.undo()
            assert await found.ready() == UP
            assert await node.source.controller.submit(alter) == [None]
        await node.stop()

    asyncio.run(scenario())


def test_a_broker_that_has_lost_a_directory_is_ready_with_a_warning(stage: Stage) -> None:
    async def scenario(observed: Observed) -> None:
        stage.fail("b")
        stage.produce(stage.where("b")[0])
        stage.clock.advance(1)
        warning = (
            "1 of 3 log directories are out of service; 2 of 6 partitions have no leader; "
            "2 replicas are out of service with their logs"
        )
        assert await observed.ready() == {"status": "up", "warning": warning}
        assert await observed.values("kafka_log_logmanager_offlinelogdirectorycount") == [1]
        assert await observed.values("kafka_server_replicamanager_offlinereplicacount") == [2]
        assert await observed.values("wirekafka_leaderless_partitions") == [2]
        assert await observed.values("wirekafka_unapplied_replicas") == [0]
        assert len(await observed.values("wirekafka_log_directory_free_bytes")) == 2

    observe(stage.kafka, scenario)
    stage.kafka.stop()
    stage.disk.failed.clear()
    stage.start()

    async def restarted(observed: Observed) -> None:
        assert await observed.ready() == UP
        assert await observed.values("wirekafka_leaderless_partitions") == [0]

    observe(stage.kafka, restarted)


def test_the_full_directory_that_is_left_after_a_failure_makes_the_broker_unready(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(observed: Observed) -> None:
        for name in "bc":
            stage.fail(name)
            stage.produce(stage.where(name)[0])
        stage.clock.advance(1)
        assert (await observed.ready())["status"] == "up"
        _free_bytes(monkeypatch, a=1000)
        observed.check_space()
        assert (await observed.ready())["status"] == "down"
        monkeypatch.undo()
        observed.check_space()
        assert (await observed.ready())["status"] == "up"

    observe(stage.kafka, scenario)


def test_a_broker_without_its_controllers_is_ready_with_a_warning_until_one_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(channel: object, beat: object) -> None:
        raise KafkaError(Error.NETWORK_EXCEPTION)

    async def scenario(observed: Observed) -> None:
        with monkeypatch.context() as patched:
            channel = type(stage.kafka.broker.controller_channel)
            patched.setattr(channel, "heartbeat", unreachable)
            stage.clock.advance(7_000)
            assert await observed.ready() == UP, "until the session ends"
            stage.clock.advance(3_000)
            found = await observed.ready()
            assert found["status"] == "up"
            assert re.fullmatch("no controller has answered for 1[01] s", found["warning"])
        stage.clock.advance(2_000)
        assert await observed.ready() == UP

    observe(stage.kafka, scenario)


def _refuse_new_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    make_directory = RealDisk.make_directory

    def refused(disk: RealDisk, path: str) -> None:
        if "__cluster_metadata" not in path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        make_directory(disk, path)

    monkeypatch.setattr(RealDisk, "make_directory", refused)


def test_a_broker_that_serves_none_of_its_replicas_is_not_ready_until_they_are_created(
    tmp_path: Path, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = InProcessBroker(tmp_path, manual_clock)

    async def scenario(observed: Observed) -> None:
        assert await observed.ready() == UP, "without any replica"
        _refuse_new_logs(monkeypatch)
        kafka.create("t", 3)
        assert await observed.ready() == {
            "status": "down",
            "reason": "none of its 3 replicas is served: metadata is not applied to 3 replicas",
        }
        assert await observed.values("wirekafka_unapplied_replicas") == [3]
        assert await observed.values("wirekafka_metadata_lagging_partitions") == [3]
        monkeypatch.undo()
        manual_clock.advance(1_000)
        assert await observed.ready() == UP

    observe(kafka, scenario)
    kafka.stop()


def test_a_broker_that_cannot_create_new_replicas_is_ready_with_a_warning(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(observed: Observed) -> None:
        _refuse_new_logs(monkeypatch)
        stage.kafka.create("later", 2)
        warning = "metadata is not applied to 2 replicas"
        assert await observed.ready() == {"status": "up", "warning": warning}
        assert await observed.values("wirekafka_assigned_replicas") == [8]
        monkeypatch.undo()
        stage.clock.advance(1_000)
        assert await observed.ready() == UP
        assert await observed.values("wirekafka_unapplied_replicas") == [0]

    observe(stage.kafka, scenario)
