"""Connections of commands, whatever the other side does."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from wirekafka.client.client import CliError, Connection
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets that were connected."""
    connected: list[socket.socket] = []
    connect = socket.create_connection

    def recorded(*arguments: Any, **options: Any) -> socket.socket:
        connected.append(connect(*arguments, **options))
        return connected[-1]

    monkeypatch.setattr(socket, "create_connection", recorded)
    return connected


def closing_server(listening: socket.socket) -> None:
    accepted, _ = listening.accept()
    accepted.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, CliError),
        ({"security.protocol": "SSL"}, CliError),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, ConfigError),
    ],
)
def test_a_connection_that_cannot_be_set_up_is_closed(
    opened: list[socket.socket], options: dict[str, str], error: type[Exception]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=closing_server, args=(listening,))
        server.start()
        with pytest.raises(error):
            Connection(Address(*listening.getsockname()), ClientConfig(options))
        server.join()
    assert [each.fileno() for each in opened] == [-1]
