"""Apache Kafka and wirekafka with an authorizer, and clients under any name on both."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat_tests import apache_kafka
from compat_tests.wire import CLOSED, SILENT, Wire
from tests import share_state_topic
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.ports import free_ports
from tests.raw_client import response_in
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

_GUARDED = "GUARDED"
"""The listener of Apache Kafka's controller on which clients log in."""
_SILENCE_S = 0.7
"""How long a broker that does not answer is waited for."""
ADMIN = "admin"
"""The super user."""
_PASSWORD = "secret"
_SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    **share_state_topic.settings(2),
    "group.initial.rebalance.delay.ms": "0",
    # Members need not send heartbeats to stay while the brokers are compared.
    "group.share.session.timeout.ms": "3600000",
    "group.share.max.session.timeout.ms": "3600000",
    "group.streams.session.timeout.ms": "3600000",
    "group.streams.max.session.timeout.ms": "3600000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


class SaslWire(Wire):
    """A connection that logs in with SASL/PLAIN when it is opened."""

    def __init__(self, address: tuple[str, int], user: str):
        super().__init__(address)
        self._user = user

    def ask(self, request: Request, version: int, timeout_s: float | None = None) -> Any:
        if not self.is_open:
            self._log_in()
        return super().ask(request, version, timeout_s)

    def ask_frame(self, sent: bytes, version: int, request: type[Request]) -> Any:
        """The response to a request that is already encoded, without its size."""
        if not self.is_open:
            self._log_in()
        received = self.exchange(struct.pack(">i", len(sent)) + sent, _SILENCE_S)
        return received if isinstance(received, str) else response_in(received, request, version)

    def _log_in(self) -> None:
        shaken = super().ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert shaken != CLOSED and shaken.error_code == 0, shaken
        token = f"\0{self._user}\0{_PASSWORD}".encode()
        answer = super().ask(SaslAuthenticateRequest(auth_bytes=token), 1)
        assert answer != CLOSED and answer.error_code == 0, answer


class KafkaUsers:
    """Connections to Apache Kafka, one per user and kind of listener."""

    def __init__(self, address: tuple[str, int], controller: tuple[str, int]):
        self.address, self._controller = address, controller
        self._wires: dict[tuple[str, bool], SaslWire] = {}

    def ask(self, user: str, request: Request, version: int) -> Any:
        return self.wire(user).ask(request, version)

    def wire(self, user: str, to_controller: bool = False) -> SaslWire:
        """The user's connection to the broker's or the controller's listener."""
        key = user, to_controller
        if key not in self._wires:
            self._wires[key] = SaslWire(self._controller if to_controller else self.address, user)
        return self._wires[key]

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()


class OurUsers:
    """A broker in this process, whose clients choose their user without authentication."""

    address = ("broker.test", 9092)

    def __init__(self, **settings: str):
        self.clock = ManualClock()
        self.kafka = InProcessBroker(
            "/data", self.clock, disk=SimulatedDisk(), **_SETTINGS, **settings
        )

    def ask(self, user: str, request: Request, version: int) -> Any:
        """The response message, CLOSED or SILENT."""
        exchange = self.kafka.begin(request, version, "wire", principal=f"User:{user}")
        self.clock.advance(1)
        if exchange.response is not None:
            return exchange.response
        return CLOSED if exchange.closes_connection else SILENT

    def ask_frame(
        self, user: str, sent: bytes, version: int, request: type[Request], listener: str
    ) -> Any:
        """The response to a request that is already encoded, without its size."""
        [address] = [each.address for each in self.kafka.node.listeners if each.name == listener]
        connection = self.kafka.net.open(address)
        connection.protocol.call.authenticated(f"User:{user}")
        connection.feed(struct.pack(">i", len(sent)) + sent)
        self.clock.advance(1)
        received = bytes(connection.received)
        if connection.is_closing():
            return response_in(received[4:], request, version) if received else CLOSED
        connection.hang_up()
        return response_in(received[4:], request, version) if received else SILENT

    def close(self) -> None:
        self.kafka.stop()


@contextmanager
def secured_kafka(directory: Path, users: Sequence[str], **more: str) -> Iterator[KafkaUsers]:
    """Apache Kafka with the same settings; each of these users may log in with SASL/PLAIN.

    In the names of `more` settings, underscores stand for dots.
    """
    logins = " ".join(f'user_{user}="{_PASSWORD}"' for user in (ADMIN, *users))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = f'{module} username="{ADMIN}" password="{_PASSWORD}" {logins};'
    sasl_port, controller_port = free_ports(2)
    settings = {
        **_SETTINGS,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            f"CLIENTS:SASL_PLAINTEXT,{_GUARDED}:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        f"listener.name.{_GUARDED.lower()}.sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{_GUARDED.lower()}.plain.sasl.jaas.config": jaas,
        "sasl.enabled.mechanisms": "PLAIN",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    text = apache_kafka.SMALL_CLEANER + "".join(f"{k}={v}\n" for k, v in settings.items())
    port, command = apache_kafka.prepare(directory, apache_kafka.SMALL_JVM, text)
    properties = directory / "server.properties"
    listed = properties.read_text()
    guarded = f",{_GUARDED}://127.0.0.1:{controller_port}"
    for name, further in (("listeners", guarded), ("advertised.listeners", "")):
        listed = listed.replace(
            f"\n{name}=PLAINTEXT://127.0.0.1:{port}",
            f"\n{name}=PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{sasl_port}{further}",
        )
    # Only now: the tool that formats the directory refuses further listeners of controllers.
    listed = listed.replace(
        "\ncontroller.listener.names=CONTROLLER",
        f"\ncontroller.listener.names=CONTROLLER,{_GUARDED}",
    )
    properties.write_text(listed)
    with apache_kafka.running(command, directory, port, sasl_port, controller_port):
        made = KafkaUsers(("127.0.0.1", sasl_port), ("127.0.0.1", controller_port))
        try:
            yield made
        finally:
            made.close()
