"""Apache Kafka and wirekafka with an authorizer, and clients under any name on both."""

from __future__ import annotations

import asyncio
import select
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
_OWN_CONTROLLER = "CONTROLLER"
"""The listener for controllers of wirekafka's broker."""
_TURNS = 8
"""The turns of the event loop after which a request that need not wait is served."""
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


class Pending(NamedTuple):
    """A request that may wait in the broker."""

    is_answered: Callable[[], bool]
    response: Callable[[], Any]
    """Waits for the response."""


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

    def begin(self, request: Request, version: int) -> Pending:
        """Send a request without waiting for its response."""
        if not self.is_open:
            self._log_in()
        client = self._client
        assert client is not None, "open"
        client.send(request, version, "wire")
        return Pending(
            lambda: bool(select.select([client.socket], [], [], 0)[0]),
            lambda: client.receive(type(request), version),
        )

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

    def begin(self, user: str, request: Request, version: int) -> Pending:
        """Send a request over a connection of its own; it stays open until `close`."""
        wire = self._wires[f"{user} {len(self._wires)}", False] = SaslWire(self.address, user)
        return wire.begin(request, version)

    def ask_controller(self, request: Request, version: int) -> Any:
        """The controller's response to the administrator."""
        return self.wire(ADMIN, to_controller=True).ask(request, version)

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


class OurPatientUsers(OurUsers):
    """The same on an event loop, with a listener for controllers: requests may wait."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        super().__init__(
            listeners=f"PLAINTEXT://broker.test:9092,{_OWN_CONTROLLER}://broker.test:9093",
            controller_listener_names=_OWN_CONTROLLER,
        )

    def ask(self, user: str, request: Request, version: int) -> Any:
        """The response message."""
        return self.begin(user, request, version).response()

    def begin(
        self, user: str, request: Request, version: int, listener: str | None = None
    ) -> Pending:
        """Send a request over a connection of its own."""
        exchange = self._turned(
            lambda: self.kafka.begin(request, version, "wire", listener, f"User:{user}")
        )
        return Pending(
            lambda: self._turned(lambda: exchange).is_done,
            lambda: self._turned(lambda: exchange).response,
        )

    def ask_controller(self, request: Request, version: int) -> Any:
        """The controller's response to the administrator."""
        return self.begin(ADMIN, request, version, _OWN_CONTROLLER).response()

    def close(self) -> None:
        self._turned(self.kafka.node.abort)
        self._loop.close()

    def _turned(self, call: Callable[[], Any]) -> Any:
        """What a call on the event loop returns, after some turns and a millisecond."""

        async def turn() -> Any:
            found = call()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self.clock.advance(1)
            return found

        return self._loop.run_until_complete(turn())


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
