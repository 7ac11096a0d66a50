"""The Unix socket of a broker, which is a convenience: no broker fails for want of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.eventually import eventually_async
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.local_socket import SOCKET, LocalSocket
from wirekafka.server.snapshots import holding
from wirekafka.snapshot.instant import instant_from
from wirekafka.snapshot.socket_name import SNAPSHOT_SOCKET


@pytest.mark.parametrize("obstacle", ["a directory in its place", "a long path"])
def test_a_path_that_cannot_be_used_is_logged(
    obstacle: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    directory = tmp_path
    if obstacle == "a long path":
        directory = tmp_path / ("d" * 120)
        directory.mkdir()
    else:
        (directory / SOCKET).mkdir()
    local = LocalSocket(SimpleNamespace(directories=[SimpleNamespace(path=str(directory))]))  # type: ignore[arg-type]
    asyncio.run(local.start())
    assert "`wirekafka clients` and `snapshot` are not available" in caplog.text
    local.stop()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    kafka.create("orders", retention_ms="1000")
    yield kafka
    kafka.stop()


@pytest.mark.parametrize("end", ["the peer closes", "the time is up"])
def test_files_are_kept_until_a_snapshot_has_them(
    end: str, kafka: InProcessBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if end == "the time is up":
        monkeypatch.setattr(holding, "_LONGEST_S", 0.2)
    disk = kafka.broker.disk

    async def held() -> None:
        local = LocalSocket(kafka.broker)
        await local.start()
        path = str(tmp_path / "data" / SNAPSHOT_SOCKET)
        reader, writer = await asyncio.open_unix_connection(path)
        lines = []
        while not lines or b'"end"}' not in lines[-1]:
            lines.append(await reader.readline())
        assert [log.topic for log in instant_from(lines).directories[0].logs] == ["orders"]
        assert disk.holds == 1
        if end == "the peer closes":
            writer.close()
        await eventually_async(lambda: disk.holds == 0)
        writer.close()
        local.stop()

    asyncio.run(held())


def test_nothing_is_deleted_while_files_are_kept(kafka: InProcessBroker) -> None:
    log = kafka.partition("orders").log
    deleted = Path(log.directory) / "00000000000000000009.log.deleted"
    housekeeping = Housekeeping(kafka.broker, list)
    log.roll(0)
    segment = log.segments.active
    log.segments.add(9, 0)
    log.segments.retire_from_end([log.segments.active], -1_000_000)
    log.segments.active = segment
    kafka.broker.disk.holds = 1
    housekeeping._remove_deleted()
    assert deleted.exists()
    kafka.broker.disk.holds = 0
    housekeeping._remove_deleted()
    assert not deleted.exists()
