"""The actions of the control port on a cluster under test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from wirekafka.testing.control import Actions, BrokerControl, Control, Controlled, ControlledBroker
from wirekafka.testing.faults import State


class ClusterMember(ControlledBroker, Protocol):
    """A broker of a cluster under test."""

    @property
    def is_up(self) -> bool: ...
    @property
    def bootstrap_servers(self) -> str: ...


class ControlledCluster(Controlled, Protocol):
    """A cluster under test; `wirekafka.Cluster` implements it."""

    @property
    def controller(self) -> int | None: ...
    def __iter__(self) -> Iterator[int]: ...
    def __getitem__(self, broker: int) -> ClusterMember: ...
    def start(self, *nodes: int) -> object: ...
    def stop(self, *nodes: int) -> None: ...
    def kill(self, *nodes: int) -> None: ...
    def restart(self, *nodes: int) -> None: ...
    def pause(self, *nodes: int) -> State: ...
    def resume(self, *nodes: int) -> None: ...
    def isolate(self, *nodes: int) -> State: ...
    def heal(self, *nodes: int) -> None: ...
    def slow(self, a: int, b: int, seconds: float) -> State: ...
    def leader(self, topic: str, partition: int = ...) -> int | None: ...
    def replicas(self, topic: str, partition: int = ...) -> list[int]: ...
    def isr(self, topic: str, partition: int = ...) -> list[int]: ...
    def move_leader(self, topic: str, partition: int, to: int) -> None: ...
    def elect_unclean(self, topic: str, partition: int = ...) -> int: ...
    def wait_for_full_isr(self, topic: str | None = ..., timeout_s: float = ...) -> None: ...
    def coordinator(
        self, *, group: str | None = ..., transactional_id: str | None = ...
    ) -> int | None: ...


class ClusterControl(Control):
    """Answers requests about a cluster, and about one broker below /brokers/<id>."""

    def __init__(self, cluster: ControlledCluster):
        super().__init__(cluster)
        self._cluster = cluster
        self._members: dict[int, BrokerControl] = {}

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """As `Control.answer`."""
        head, _, rest = path.strip("/").partition("/")
        if head != "brokers" or not rest:
            return super().answer(method, path, body)
        name, _, rest = rest.partition("/")
        if not name.isdigit():
            raise LookupError(f"brokers have numbers, not {name!r}")
        return self._member(int(name)).answer(method, rest, body)

    def actions(self, body: dict[str, Any]) -> Actions:
        cluster = self._cluster
        return super().actions(body) | {
            ("GET", "brokers"): self._brokers,
            ("GET", "controller"): lambda: {"controller": cluster.controller},
            ("GET", "partition"): lambda: self._partition(**body),
            ("GET", "coordinator"): lambda: {"coordinator": cluster.coordinator(**body)},
            ("POST", "start"): lambda: cluster.start(*_nodes(**body)) and None,
            ("POST", "stop"): lambda: cluster.stop(*_nodes(**body)),
            ("POST", "kill"): lambda: cluster.kill(*_nodes(**body)),
            ("POST", "restart"): lambda: cluster.restart(*_nodes(**body)),
            ("POST", "pause"): lambda: _begun(cluster.pause(*_nodes(**body))),
            ("POST", "resume"): lambda: cluster.resume(*_nodes(**body)),
            ("POST", "isolate"): lambda: _begun(cluster.isolate(*_nodes(**body))),
            ("POST", "heal"): lambda: cluster.heal(*_nodes(**body)),
            ("POST", "slow"): lambda: _begun(cluster.slow(**body)),
            ("POST", "move-leader"): lambda: cluster.move_leader(**body),
            ("POST", "elect-unclean"): lambda: {"leader": cluster.elect_unclean(**body)},
            ("POST", "wait-for-full-isr"): lambda: cluster.wait_for_full_isr(**body),
        }

    def _member(self, broker_id: int) -> BrokerControl:
        with self._lock:
            if broker_id not in self._members:
                self._members[broker_id] = BrokerControl(self._cluster[broker_id])
            return self._members[broker_id]

    def _reset(self) -> None:
        for member in self._members.values():
            member.remove_rules()
        super()._reset()

    def _brokers(self) -> Any:
        members = [(id, self._cluster[id]) for id in self._cluster]
        return [
            {"id": id, "bootstrap_servers": member.bootstrap_servers, "is_up": member.is_up}
            for id, member in members
        ]

    def _partition(self, topic: str, partition: str = "0") -> Any:
        cluster = self._cluster
        where = (topic, int(partition))
        return {
            "leader": cluster.leader(*where),
            "replicas": cluster.replicas(*where),
            "isr": cluster.isr(*where),
        }


def _nodes(nodes: list[int]) -> list[int]:
    """The nodes that a request names: it must name some."""
    if not isinstance(nodes, list) or not nodes:
        raise ValueError('name the nodes, as {"nodes": [1]}')
    return nodes


def _begun(state: State) -> None:
    """The state lasts until another request ends it."""
