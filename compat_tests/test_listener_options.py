"""Options of listeners while a broker runs: Apache Kafka's answers, and who can log in then."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.listener_stage import PASSWORDS, PLANTED, Side, jaas, kafka_side, wirekafka_side
from tests.certificates import client_context
from tests.eventually import eventually
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.sasl_client import plain
from wirekafka.config.option import Type
from wirekafka.config.options import BROKER
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

_BROKER = 4
_MAP = "listener.security.protocol.map"
_REFERENCE = "${env:PLANTED}"
_STORE = "listener.name.tls.ssl.keystore.location"
_MODULE = "listener.name.login.plain.sasl.jaas.config"
_EVIL = jaas(dict.fromkeys(PASSWORDS, "evil"))
_OPTIONS = sorted(
    name
    for name in BROKER
    if name.startswith(("ssl.", "sasl.", "max.connection", "connection", "num.network."))
    or name in ("principal.builder.class", "advertised.listeners", "controller.listener.names")
)
_VALUES = {
    "ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "ssl.protocol": "TLSv1.2",
    "ssl.enabled.protocols": "TLSv1.2",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
}
_OF_A_TYPE = {
    Type.BOOLEAN: "true",
    Type.INT: "100",
    Type.SHORT: "5",
    Type.LONG: "100000",
    Type.DOUBLE: "0.81",
    Type.CLASS: "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
}
_DIFFERENT = ("listener.name.tls.ssl.key.password", "max.connections.per.ip.overrides")
"""A password for a key that is not encrypted is ignored here; a message of Java's own."""

Changes = dict[str, str | None]


class Clients:
    """Clients of one broker: one that may do everything, and others that log in."""

    def __init__(self, side: Side):
        self.side = side
        self._admin = RawClient(side.ports["PLAINTEXT"], timeout_s=30)

    def alter(
        self,
        changes: Changes,
        node: str = "1",
        *,
        validate: bool = False,
        client: RawClient | None = None,
    ) -> tuple[int, str | None]:
        """Change options, each to None for its removal; returns the error and its message."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=name, value=value, config_operation=value is None)
            for name, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=_BROKER, resource_name=node, configs=configs)],
            validate_only=validate,
        )
        [result] = (client or self._admin).call(request, 1).responses
        return result.error_code, result.error_message

    def replace(self, changes: Changes, node: str, client: RawClient) -> tuple[int, str | None]:
        """Validate a replacement of all options."""
        resource = AlterConfigsRequest.Resource
        configs = [resource.AlterableConfig(name=n, value=v) for n, v in changes.items()]
        request = AlterConfigsRequest(
            resources=[resource(resource_type=_BROKER, resource_name=node, configs=configs)],
            validate_only=True,
        )
        [result] = client.call(request, 2).responses
        return result.error_code, result.error_message

    def described(self, name: str) -> list[str | None]:
        """The value of an option and of its synonyms."""
        resource = DescribeConfigsRequest.Resource(
            resource_type=_BROKER, resource_name="1", configuration_keys=[name]
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        [result] = self._admin.call(request, 4).results
        return [
            value
            for entry in result.configs
            for value in (entry.value, *(each.value for each in entry.synonyms))
        ]

    def logged_in(self, password: str, port: int | None = None) -> RawClient | None:
        """A client that has logged in as the user without rights; None if it is refused."""
        client = RawClient(port or self.side.ports["LOGIN"], timeout_s=20)
        shaken = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = plain("nobody", password)
        if (
            shaken.error_code
            or client.call(SaslAuthenticateRequest(auth_bytes=token), 1).error_code
        ):
            client.socket.close()
            return None
        return client

    def logins(self) -> list[bool]:
        """Whether the first password, and the one that was set afterwards, are accepted."""
        found = []
        for password in (PASSWORDS["nobody"], "evil"):
            client = self.logged_in(password)
            found.append(client is not None)
            if client is not None:
                client.socket.close()
        return found

    def serves_without_a_certificate(self) -> bool:
        with RawClient(self.side.ports["TLS"], timeout_s=20) as client:
            context = client_context(self.side.authority)
            client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
            try:
                return bool(client.call(ApiVersionsRequest(), 0).api_keys)
            except (RawClient.Closed, ssl.SSLError):
                return False


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Clients, Clients]]:
    """Apache Kafka, and wirekafka."""
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(kafka_side(tmp_path_factory.mktemp("kafka")))
        ours = stack.enter_context(wirekafka_side(tmp_path_factory.mktemp("wirekafka")))
        yield Clients(kafka), Clients(ours)


def on_both(sides: tuple[Clients, Clients], ask: Callable[[Clients], Any]) -> Any:
    """The answer of both, which must be the same."""
    kafka, ours = (ask(each) for each in sides)
    assert ours == kafka
    return ours


@pytest.mark.parametrize("node", ["1", "", "2", "x"])
def test_a_user_without_rights_is_answered_alike(sides: Any, node: str) -> None:
    changes: list[Changes] = [
        {_STORE: _REFERENCE},
        {_STORE: "/etc/shadow"},
        {"log.retention.ms": "x"},
        {"node.id": "7"},
        {"listeners": "NONSENSE"},
        {"no.such.option": "x"},
    ]
    for change in changes:

        def ask(clients: Clients, change: Changes = change) -> Any:
            client = clients.logged_in(PASSWORDS["nobody"])
            assert client is not None
            with client:
                return [
                    clients.alter(change, node, validate=True, client=client),
                    clients.alter(change, node, client=client),
                    clients.replace(change, node, client),
                ]

        assert on_both(sides, ask) == [(31, None)] * 3


@pytest.mark.parametrize("prefix", ["", "listener.name.tls.", "listener.name.login.plain."])
def test_every_option_of_listeners_is_accepted_or_refused_alike(sides: Any, prefix: str) -> None:
    differing = []
    for option in _OPTIONS:
        name = prefix + option
        value = _VALUES.get(option) or _OF_A_TYPE.get(BROKER[option].type, "x")
        for node in ("1", "") if not prefix else ("1",):
            codes = [each.alter({name: value}, node, validate=True) for each in sides]
            kafka, ours = codes
            is_store = "SSLFactory" in (kafka[1] or "")
            if (kafka[0] if is_store else kafka) != (ours[0] if is_store else ours):
                differing.append((name, node, kafka, ours))
    assert [each for each in differing if each[0] not in _DIFFERENT] == []


@pytest.mark.parametrize(
    "changes",
    [
        {_MODULE: _EVIL},
        {"sasl.jaas.config": _EVIL},
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        {"listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        {
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        },
        {"ssl.client.auth": "required"},
        {"listener.name.tls.ssl.client.auth": "required"},
        {"listener.name.tls.ssl.client.auth": "required", "ssl.client.auth": "required"},
        {"listener.name.tls.ssl.principal.mapping.rules": "RULE:.*/admin/"},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_who_can_log_in_at_a_running_listener_does_not_change(sides: Any, changes: Changes) -> None:
    before = [[each.described(name) for name in changes] for each in sides]
    answers = on_both(sides, lambda each: (each.alter(changes, validate=True), each.alter(changes)))
    assert answers[0] == answers[1]
    if answers[0][0] == 0:
        for each in sides:  # Once it is described, it is applied.
            name = next(iter(changes))
            eventually(lambda each=each, name=name: each.described(name))
    assert on_both(sides, Clients.logins) == [True, False]
    assert on_both(sides, Clients.serves_without_a_certificate)
    on_both(sides, lambda each: each.alter(dict.fromkeys(changes)))
    for each, described in zip(sides, before, strict=True):
        # Until the removal is applied, Kafka compares the next change with what is removed.
        eventually(
            lambda each=each, described=described: (
                [each.described(name) for name in changes] == described
            )
        )


def test_only_apache_kafka_shows_what_an_option_refers_to(sides: Any) -> None:
    """A difference that is meant: Kafka's messages quote what its config providers find."""
    for name in (_STORE, "listener.name.login.sasl.oauthbearer.clock.skew.seconds"):
        kafka, ours = (each.alter({name: _REFERENCE}, validate=True) for each in sides)
        assert kafka[0] == ours[0]
        assert PLANTED in kafka[1] and PLANTED not in ours[1] and _REFERENCE in ours[1]
    name = "sasl.enabled.mechanisms"
    for each in sides:
        assert each.alter({name: _REFERENCE})[0] == 0
        eventually(lambda each=each: _REFERENCE in each.described(name))
        if each is sides[1]:
            assert PLANTED not in each.described(name)
        assert each.alter({name: None})[0] == 0


def test_listeners_are_added_and_removed_alike(sides: Any) -> None:
    ports = dict(zip((each.side.name for each in sides), free_ports(2), strict=True))

    def with_extra(clients: Clients, map_end: str, list_end: str = "") -> Changes:
        listeners, protocols = (clients.described(name)[0] for name in ("listeners", _MAP))
        extra = list_end or f",EXTRA://127.0.0.1:{ports[clients.side.name]}"
        return {"listeners": f"{listeners}{extra}", _MAP: f"{protocols}{map_end}"}

    def refusal(clients: Clients, changes: Changes) -> tuple[int, str]:
        code, message = clients.alter(changes, validate=True)
        for number in (*clients.side.ports.values(), ports[clients.side.name]):
            message = (message or "").replace(str(number), "PORT")
        # The port of the controllers' listener, the only one that is left.
        return code, " ".join(w for w in message.split() if "CONTROLLER" not in w)

    for ends in (
        ("",),
        (",EXTRA:NOPE",),
        (",EXTRA",),
        (",EXTRA:PLAINTEXT", ",LOGIN://127.0.0.1:1"),
        (",EXTRA:PLAINTEXT", ",nonsense"),
    ):
        code, _ = on_both(sides, lambda each, ends=ends: refusal(each, with_extra(each, *ends)))
        assert code == 42, ends
    lost = {_MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    assert on_both(sides, lambda each: refusal(each, lost))[0] == 42
    module = {"listener.name.extra.plain.sasl.jaas.config": _EVIL}
    for each in sides:
        added = {**with_extra(each, ",EXTRA:SASL_PLAINTEXT"), **module}
        assert each.alter(added) == (0, None)
        port = ports[each.side.name]
        client = eventually(lambda each=each, port=port: _opened(each, port), timeout_s=30)
        changed = {_MAP: str(added[_MAP]).replace("EXTRA:SASL_", "EXTRA:")}
        assert "updated" in refusal(each, changed)[1]
        assert each.alter(dict.fromkeys(added)) == (0, None)
        assert client.is_closed()
        eventually(lambda each=each, port=port: _opened(each, port) is None, timeout_s=30)


def _opened(clients: Clients, port: int) -> RawClient | None:
    try:
        return clients.logged_in("evil", port)
    except (OSError, RawClient.Closed):
        return None


def test_nothing_that_was_planted_is_in_a_log(tmp_path: Path) -> None:
    with wirekafka_side(tmp_path) as side:
        clients = Clients(side)
        for option in _OPTIONS:
            for prefix in ("", "listener.name.tls.", "listener.name.login.plain."):
                message = clients.alter({prefix + option: _REFERENCE})[1]
                assert PLANTED not in (message or "")
    assert PLANTED not in (tmp_path / "server.log").read_text()
