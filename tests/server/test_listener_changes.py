"""Listeners that are added, changed and removed while a broker runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority, client_context
from tests.eventually import eventually
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.sasl_client import plain
from tests.server.serving import Serving
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

_HOST = "127.0.0.1"
_MAP = "listener.security.protocol.map"
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_JAAS = "listener.name.login.plain.sasl.jaas.config"


class Changing:
    """A broker in a process of its own, whose listeners change; it can be started again."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.port, self.login_port, self.new_port = free_ports(3)
        self.authority = Authority(directory)
        keystore = self.authority.issue("CN=broker", _HOST, "localhost").pem()
        self.listeners = f"PLAINTEXT://{_HOST}:{self.port},LOGIN://{_HOST}:{self.login_port}"
        self.settings = {
            "listeners": self.listeners,
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self.port}",
            _MAP: _PROTOCOLS,
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            _JAAS: f'{_PLAIN} user_alice="first";',
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keystore,
        }
        self.start()

    def start(self) -> None:
        chosen = [f"--set={name}={value}" for name, value in self.settings.items()]
        self._serving = Serving(self._directory / "data", *chosen, listen="")
        assert self._serving.port == self.port

    def stop(self) -> str:
        """End the broker; returns its log."""
        self._serving.stop()
        return self._serving.errors

    def alter(self, **values: str) -> tuple[int, str | None]:
        """Replace all dynamic options of the broker; underscores stand for dots."""
        resource = AlterConfigsRequest.Resource
        changes = [
            resource.AlterableConfig(name=name.replace("_", "."), value=value)
            for name, value in values.items()
        ]
        request = AlterConfigsRequest(
            resources=[resource(resource_type=4, resource_name="1", configs=changes)]
        )
        with RawClient(self.port) as client:
            [result] = client.call(request, 2).responses
        return result.error_code, result.error_message

    def add(self, protocol: str, **more: str) -> None:
        """Add the listener EXTRA at the new port."""
        values = {
            "listeners": f"{self.listeners},EXTRA://{_HOST}:{self.new_port}",
            _MAP: f"{_PROTOCOLS},EXTRA:{protocol}",
        }
        assert self.alter(**values, **more) == (0, None)

    def logs_in(self, port: int, password: str) -> bool:
        with RawClient(port) as client:
            assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            token = plain("alice", password)
            answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
            return not answer.error_code


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Changing]:
    made = Changing(tmp_path)
    yield made
    made.stop()


def is_served(port: int) -> bool:
    try:
        with RawClient(port) as client:
            return bool(client.call(ApiVersionsRequest(), 0).api_keys)
    except (OSError, RawClient.Closed):
        return False


def is_open(port: int) -> bool:
    try:
        RawClient(port).socket.close()
    except OSError:
        return False
    return True


def test_a_listener_is_opened_at_once_and_closed_with_its_connections(broker: Changing) -> None:
    assert not is_open(broker.new_port)
    broker.add("PLAINTEXT")
    eventually(lambda: is_served(broker.new_port))
    with RawClient(broker.new_port) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        assert broker.alter() == (0, None)
        assert client.is_closed()
    eventually(lambda: not is_open(broker.new_port))
    assert is_served(broker.port)
    broker.add("PLAINTEXT")
    eventually(lambda: is_served(broker.new_port))


def test_an_added_listener_is_there_after_a_restart(broker: Changing) -> None:
    broker.add("PLAINTEXT")
    eventually(lambda: is_served(broker.new_port))
    broker.stop()
    broker.start()
    eventually(lambda: is_served(broker.new_port))


def test_an_added_listener_has_the_security_that_its_options_say(broker: Changing) -> None:
    module = f'{_PLAIN} user_alice="second";'
    broker.add("SASL_PLAINTEXT", listener_name_extra_plain_sasl_jaas_config=module)
    eventually(lambda: is_open(broker.new_port))
    assert broker.logs_in(broker.new_port, "second")
    assert not broker.logs_in(broker.new_port, "first")
    assert broker.alter() == (0, None)
    eventually(lambda: not is_open(broker.new_port))
    broker.add("SSL")
    eventually(lambda: is_open(broker.new_port))
    with RawClient(broker.new_port) as client:
        context = client_context(broker.authority)
        client.socket = context.wrap_socket(client.socket, server_hostname=_HOST)
        assert client.call(ApiVersionsRequest(), 0).api_keys


def test_a_listener_that_cannot_be_opened_is_logged_and_changes_nothing_else(
    broker: Changing,
) -> None:
    broker.add("SASL_PLAINTEXT")
    assert broker.alter() == (0, None)
    with socket.create_server((_HOST, 0)) as other:
        taken = f"{broker.listeners},EXTRA://{_HOST}:{other.getsockname()[1]}"
        values = {"listeners": taken, _MAP: f"{_PROTOCOLS},EXTRA:PLAINTEXT"}
        assert broker.alter(**values) == (0, None)
    assert broker.alter() == (0, None)
    assert is_served(broker.port) and not is_open(broker.new_port)
    broker.add("PLAINTEXT")
    eventually(lambda: is_served(broker.new_port))
    log = broker.stop()
    assert "EXTRA is not opened: " in log and "needs a login module" in log


def test_who_can_log_in_at_a_running_listener_does_not_change(broker: Changing) -> None:
    """Until a restart: only then Kafka reads the options too."""
    assert broker.alter(**{_JAAS: f'{_PLAIN} user_alice="other";'}) == (0, None)
    broker.add("PLAINTEXT", **{_JAAS: f'{_PLAIN} user_alice="other";'})
    eventually(lambda: is_served(broker.new_port))
    assert broker.logs_in(broker.login_port, "first")
    assert not broker.logs_in(broker.login_port, "other")
    broker.stop()
    broker.start()
    assert broker.logs_in(broker.login_port, "other")
    assert not broker.logs_in(broker.login_port, "first")


def test_stored_listeners_that_no_longer_fit_are_ignored(broker: Changing) -> None:
    broker.add("PLAINTEXT")
    eventually(lambda: is_served(broker.new_port))
    broker.stop()
    broker.settings["listeners"] = broker.listeners.replace("PLAINTEXT", "OTHER")
    broker.settings["advertised.listeners"] = f"OTHER://{_HOST}:{broker.port}"
    broker.settings["inter.broker.listener.name"] = "OTHER"
    broker.settings[_MAP] = _PROTOCOLS.replace("PLAINTEXT:", "OTHER:", 1)
    broker.start()
    assert is_served(broker.port) and not is_open(broker.new_port)
    assert "Dynamic settings of listeners are ignored" in broker.stop()
