"""The settings of the nodes of a cluster under test."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wirekafka.config.address import Address
from wirekafka.testing.net import BETWEEN_NODES
from wirekafka.testing.settings import broker_settings, given_settings

FIRST_CONTROLLER = 101
"""The node id of the first controller, so that the ids of brokers begin at 1."""
CONTROLLERS = "CONTROLLER"
LOOPBACK = "127.0.0.1"

_USER = "wirekafka-node"
_MECHANISM = "PLAIN"
_MOST_REPLICAS = 3

_FOR_TESTS = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.fetch.backoff.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}
"""Defaults for tests: a lost broker is fenced after a second instead of nine."""

_OF_THE_CLUSTER = (
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
)
_OF_THE_CONTROLLERS = ("controller.listener.names", "controller.quorum.voters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The nodes of a cluster, and the settings of all nodes and of single nodes."""

    brokers: int
    controllers: int
    shared: Mapping[str, str]
    single: Mapping[int, Mapping[str, str]]
    host: str
    protocol: str
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """With which the nodes log in to each other, in a cluster with an authorizer."""

    def with_single(self, single: Mapping[int, Mapping[str, str]]) -> ClusterLayout:
        """The same nodes with settings of single nodes."""
        return replace(self, single=single)

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def controller_ids(self) -> range:
        return range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)

    def of_broker(self, node_id: int, voters: Mapping[int, int]) -> dict[str, str]:
        """The settings of a broker, without its listeners; `voters` are the controllers' ports."""
        own = {"process.roles": "broker", "inter.broker.listener.name": BETWEEN_NODES}
        return self._of_node(node_id, voters) | own

    def of_controller(self, node_id: int, voters: Mapping[int, int]) -> dict[str, str]:
        """The settings of a controller."""
        address = Address(LOOPBACK, voters[node_id])
        own = {"process.roles": "controller", "listeners": f"{CONTROLLERS}://{address}"}
        return self._of_node(node_id, voters) | own

    def _of_node(self, node_id: int, voters: Mapping[int, int]) -> dict[str, str]:
        between = "SASL_PLAINTEXT" if self._has_authorizer else "PLAINTEXT"
        protocols = {self.protocol: self.protocol, BETWEEN_NODES: between, CONTROLLERS: between}
        return {
            **self.shared,
            **self.single.get(node_id, {}),
            **(self._logins() if self._has_authorizer else {}),
            "node.id": str(node_id),
            "controller.listener.names": CONTROLLERS,
            "controller.quorum.voters": ",".join(
                f"{id}@{Address(LOOPBACK, port)}" for id, port in voters.items()
            ),
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        }

    @property
    def _has_authorizer(self) -> bool:
        return bool(self.shared.get("authorizer.class.name"))

    def _logins(self) -> dict[str, str]:
        """With an authorizer, nodes log in to each other as a super user."""
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' username="{_USER}" password="{self.password}" user_{_USER}="{self.password}";'
        )
        settings = {
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            "sasl.mechanism.controller.protocol": _MECHANISM,
            "super.users": f"{self.shared['super.users']};User:{_USER}",
        }
        for name in (BETWEEN_NODES.lower(), CONTROLLERS.lower()):
            settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = _MECHANISM
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas
        return settings


def cluster_settings(
    brokers: int,
    config: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    arguments: Iterable[str] = (),
) -> dict[str, str]:
    """The settings of all nodes. Raises ValueError as `broker_settings`."""
    replicas = str(min(brokers, _MOST_REPLICAS))
    in_sync = str(min(brokers, _MOST_REPLICAS - 1))
    settings = {
        **_FOR_TESTS,
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        **broker_settings(config, keywords, arguments),
    }
    _check(settings)
    return settings


def node_settings(
    given: Mapping[int, Mapping[str, object]] | None, node_ids: Sequence[int]
) -> dict[int, dict[str, str]]:
    """The settings of single nodes, by id. Raises ValueError."""
    found = {}
    for node_id, settings in (given or {}).items():
        if node_id not in node_ids:
            raise ValueError(f"nodes: there is no node {node_id!r}; there are {list(node_ids)}")
        found[node_id] = given_settings(settings, {})
        _check(found[node_id])
    return found


def _check(settings: Mapping[str, str]) -> None:
    for name in settings:
        if name in (*_OF_THE_CLUSTER, *_OF_THE_CONTROLLERS):
            raise ValueError(f"{name} is set for each node by the cluster itself")
