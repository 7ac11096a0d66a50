"""Notifications to systemd: READY=1, WATCHDOG=1 and STOPPING=1 on its socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.server.serving import Serving


def _listen(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bound.bind(str(path))
    bound.settimeout(20)
    return bound


def test_systemd_is_notified_of_the_start_and_of_the_stop(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"}
    with _listen(path) as manager, Serving(tmp_path / "data", environment=environment) as serving:
        assert manager.recv(100) == b"READY=1"
        assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        assert serving.stop() == 0
        manager.setblocking(False)
        received = []
        while not received or received[-1] != b"STOPPING=1":
            received.append(manager.recv(100))
        assert set(received[:-1]) <= {b"WATCHDOG=1"}


@pytest.mark.parametrize(
    "environment", [{}, {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}]
)
def test_without_a_watchdog_only_the_states_are_sent(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = tmp_path / "notify"
    with (
        _listen(path) as manager,
        Serving(
            tmp_path / "data", environment={"NOTIFY_SOCKET": str(path), **environment}
        ) as serving,
    ):
        assert manager.recv(100) == b"READY=1"
        assert serving.stop() == 0
        assert manager.recv(100) == b"STOPPING=1"


def test_a_manager_that_cannot_be_reached_does_not_stop_the_broker(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "missing")}
    with Serving(tmp_path / "data", environment=environment) as serving:
        assert serving.port
        assert serving.stop() == 0
        assert "systemd could not be notified of READY=1" in serving.errors


def test_logs_are_json_objects_if_asked_for(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--log-format", "json") as serving:
        assert serving.port
        assert serving.stop() == 0
        logged = [json.loads(line) for line in serving.errors.splitlines()]
    messages = [line["message"] for line in logged]
    assert messages[-1] == "Stopped"
    assert "Stopping" in messages
    assert {line["level"] for line in logged} == {"info"}
    assert all(line["time"].endswith("Z") and "logger" in line for line in logged)
