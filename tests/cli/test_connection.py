"""Connections of commands, whatever the other side does."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from wirekafka import Broker
from wirekafka.client.client import BrokerConnection, CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse


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
            BrokerConnection(Address(*listening.getsockname()), ClientConfig(options))
        server.join()
    assert [each.fileno() for each in opened] == [-1]


TLS, SASL = {"security.protocol": "SSL"}, {"security.protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("answer", "options", "hint"),
    [
        (
            b"",
            None,
            "may expect TLS or a login: give --command-config FILE with security.protocol=",
        ),
        (b"", {}, "set security.protocol=SSL, SASL_PLAINTEXT or SASL_SSL in the file of"),
        (b"", SASL, "may expect TLS: set security.protocol=SASL_SSL in the file of"),
        (b"\x15\x03\x03\x00\x02", None, "expects TLS: give --command-config FILE with"),
        (b"\x15\x03\x03\x00\x02", SASL, "expects TLS: set security.protocol=SASL_SSL in the"),
        (b"", TLS, "may be one without TLS: set security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
        (b"HTTP/1.1 400", TLS, "may be one without TLS: set security.protocol=PLAINTEXT or"),
    ],
)
def test_a_listener_of_another_protocol_is_reported_with_what_to_change(
    answer: bytes, options: dict[str, str] | None, hint: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(1 << 12)
                accepted.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        config = None if options is None else ClientConfig(options)
        with pytest.raises(CliError) as raised:
            BrokerConnection(Address(*listening.getsockname()), config)
        server.join()
    assert hint in str(raised.value), str(raised.value)


def test_a_listener_that_expects_a_login_is_reported_as_such() -> None:
    with Broker(users={"alice": "secret"}) as broker:
        connection = BrokerConnection(Address.parse(broker.bootstrap_servers))
        with pytest.raises(CliError, match=r"closed the connection; .* may expect TLS or a login"):
            connection.send(MetadataRequest(), MetadataResponse)


def test_a_broker_that_closes_later_gets_no_hint() -> None:
    with Broker() as broker:
        connection = BrokerConnection(Address.parse(broker.bootstrap_servers))
        connection.send(MetadataRequest(), MetadataResponse)
        broker.stop()
        with pytest.raises(CliError) as raised:
            connection.send(MetadataRequest(), MetadataResponse)
    assert "--command-config" not in str(raised.value)
