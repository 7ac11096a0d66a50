"""Ports of servers that start again are taken by nobody meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.ports import free_ports

ROOT = Path(__file__).parent.parent


def test_ports_are_consecutive_and_given_once() -> None:
    first, second = free_ports(30), free_ports(30)
    for ports in (first, second):
        assert ports == list(range(ports[0], ports[0] + 30))
    assert not set(first) & set(second)


def test_a_taken_port_is_passed_over() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port + 1)):
        assert free_ports(2) == [port + 2, port + 3]


def test_another_process_gets_other_ports() -> None:
    own = free_ports(100)
    program = "from tests.ports import free_ports; print(*free_ports(100))"
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    others = {int(port) for port in printed.stdout.split()}
    assert len(others) == 100 and not others & set(own)


def test_no_outgoing_connection_has_such_a_port() -> None:
    ports = free_ports(10)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        for _ in range(50):
            with socket.create_connection(server.getsockname()) as outgoing:
                assert outgoing.getsockname()[1] > ports[-1]
