"""The metrics listener and the control port of tests, with slow, many and hostile clients."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.eventually import eventually
from wirekafka.config.address import Address
from wirekafka.server import bounded_http
from wirekafka.server.bounded_http import BoundedServer
from wirekafka.server.monitoring.endpoint import Application, MonitoringEndpoint
from wirekafka.server.monitoring.health import NodeCondition
from wirekafka.testing.control_port import ControlPort


class _Control:
    def answer(self, method: str, path: str, body: dict[str, object]) -> object:
        return {"method": method, "path": path, **body}


@pytest.fixture
def metrics() -> Iterator[Address]:
    health: dict[str, Callable[[], NodeCondition]] = {"live": NodeCondition}
    application = Application(
        lambda openmetrics: ["x 1\n"], health, hosts=frozenset({"broker.test"})
    )
    endpoint = MonitoringEndpoint(Address("127.0.0.1", 0), application)
    endpoint.start()
    yield endpoint.address
    endpoint.stop()


@pytest.fixture
def control() -> Iterator[Address]:
    port = ControlPort(_Control())  # type: ignore[arg-type]
    yield Address.parse(port.url.removeprefix("http://"))
    port.close()


@pytest.fixture(params=["metrics", "control"])
def server(request: pytest.FixtureRequest) -> Address:
    found: Address = request.getfixturevalue(request.param)
    return found


def get(address: Address, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=20)
    connection.request("GET", path, headers=headers)
    with connection.getresponse() as response:
        return response.status, response.read()


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed a connection, which it did not respond to."""
    client.settimeout(0.01)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_health_is_served_while_many_clients_send_nothing(metrics: Address) -> None:
    with ExitStack() as stack:
        for _ in range(2 * BoundedServer.most_connections):
            client = stack.enter_context(socket.create_connection(metrics))
            client.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
            assert get(metrics, "/health/live")[0] == 200
        assert get(metrics, "/metrics")[0] == 200


def test_one_address_takes_only_a_part_of_the_connections(metrics: Address) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(
            socket.create_connection(metrics, source_address=("127.0.0.2", 0))
        )
        clients = [
            stack.enter_context(socket.create_connection(metrics))
            for _ in range(BoundedServer.most_of_address + 5)
        ]
        eventually(lambda: sum(map(is_closed, clients)) == 5)
        assert not is_closed(other)


def test_a_request_has_a_deadline_however_it_trickles_in(
    server: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "REQUEST_S", 0.3)
    with socket.create_connection(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")

        def closed_meanwhile() -> bool:
            try:
                client.sendall(b"A: b\r\n")
            except ConnectionError:
                return True
            return is_closed(client)

        eventually(closed_meanwhile)


def test_a_head_without_end_has_no_response(server: Address) -> None:
    with socket.create_connection(server) as client:
        line = b"A: " + b"x" * 60_000 + b"\r\n"
        try:
            client.sendall(b"GET / HTTP/1.1\r\n" + line * 50 + b"\r\n")
            response = client.recv(100)
        except ConnectionError:
            response = b""
        assert not response


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "localhost.evil.test", "[evil]", ""])
@pytest.mark.parametrize(
    ("path", "server"), [("/metrics", "metrics"), ("/x", "control")], indirect=["server"]
)
def test_another_host_is_refused(server: Address, path: str, host: str) -> None:
    assert get(server, path, Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:9", "LOCALHOST.", "127.0.0.1", "[::1]:80", "10.1.2.3"])
def test_addresses_and_names_of_the_loopback_are_served(server: Address, host: str) -> None:
    assert get(server, "/metrics", Host=host)[0] == 200


def test_further_hosts_are_served_metrics_and_every_host_is_served_health(metrics: Address) -> None:
    assert get(metrics, "/metrics", Host="Broker.test:9404")[0] == 200
    assert get(metrics, "/health/live", Host="any.test")[0] == 200


@pytest.mark.parametrize(
    "length", ["-1", "+1", "1_0", "x", "99999999999999999999", str(1 << 40), str((1 << 20) + 1)]
)
def test_a_control_request_of_no_or_of_too_many_bytes_is_refused(
    control: Address, length: str
) -> None:
    """With -1, the connection was read without an end."""
    with socket.create_connection(control, timeout=20) as client:
        client.sendall(f"POST /x HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 400 " in client.recv(100)


def test_a_control_request_that_does_not_end_is_given_up(
    control: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "REQUEST_S", 0.2)
    with socket.create_connection(control, timeout=20) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        assert b" 400 " in client.recv(100)


def test_a_control_request_with_a_body_is_answered(control: Address) -> None:
    connection = http.client.HTTPConnection(*control, timeout=20)
    connection.request("POST", "/faults", body=b'{"api": "Fetch"}')
    with connection.getresponse() as response:
        assert b'"api": "Fetch"' in response.read()
