"""Clusters whose nodes serve metrics, for a Prometheus that labels them as Strimzi's does."""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster import HOST, Cluster, Node, Shape
from compat_tests.prometheus import Target
from tests.ports import free_ports

CLUSTER = "my-cluster"
LABELS = {
    "namespace": "kafka",
    "strimzi_io_cluster": CLUSTER,
    "strimzi_io_name": f"{CLUSTER}-kafka",
    "kubernetes_pod_name": f"{CLUSTER}-broker-1",
    "container": "kafka",
}
"""What Strimzi's PodMonitor and Kubernetes add, as far as its dashboards select by it."""


class MeasuredCluster(Cluster):
    """A cluster of wirekafka; `targets` are the metrics listeners of its nodes."""

    def __init__(self, shape: Shape, directory: Path):
        self.targets: list[Target] = []
        super().__init__(shape, directory)

    def _properties(self, node: Node) -> dict[str, str]:
        [port] = free_ports(1)
        self.targets.append(_target(node, port))
        return {**super()._properties(node), "wirekafka.metrics.listener": f"{HOST}:{port}"}


def _target(node: Node, port: int) -> Target:
    labels = {**LABELS, "kubernetes_pod_name": f"{CLUSTER}-broker-{node.id}"}
    return Target(f"{HOST}:{port}", labels)
