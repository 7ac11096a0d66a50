"""What stops a process: SIGTERM, Ctrl-C, and SIGHUP, as with Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.several_brokers import SeveralBrokers
from wirekafka import Broker
from wirekafka.server.stop_signals import stop_signals


def test_a_closed_terminal_stops_several_brokers_cleanly(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path / "data", 1) as brokers:
        os.kill(brokers.process.pid, signal.SIGHUP)
        assert brokers.process.wait(60) == 0
        assert "supervisor: Stopped" in brokers.log
    assert (tmp_path / "data" / "broker1" / ".kafka_cleanshutdown").exists()


def test_a_process_under_nohup_goes_on() -> None:
    assert signal.SIGHUP in stop_signals()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert list(stop_signals()) == [signal.SIGTERM, signal.SIGINT]
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_console_cleanly(number: signal.Signals) -> None:
    pytest.importorskip("starlette")
    with Broker() as broker:
        command = [sys.executable, "-m", "wirekafka", "console", broker.bootstrap_servers]
        with subprocess.Popen(
            [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as console:
            assert console.stdout is not None
            assert console.stdout.readline().startswith("wirekafka console: http://")
            console.send_signal(number)
            _, errors = console.communicate(timeout=30)
    assert (console.returncode, errors) == (0, "")
