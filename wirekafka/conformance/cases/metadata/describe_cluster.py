"""DescribeCluster: the brokers, and what kinds of nodes may be asked for."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_cluster import DescribeClusterRequest

BOOK = Book(
    DescribeClusterRequest, "metadata", ConformanceLevel.ADMIN, "DescribeClusterRequest.json"
)
_TYPES = {"brokers": 1, "controllers": 2, "type 0": 0, "type 3": 3, "type minus 1": -1}


def request(**options: Any) -> DescribeClusterRequest:
    """A request for the brokers."""
    return DescribeClusterRequest(**options)


BOOK.ask("the cluster", lambda _: request(), source="KIP-700")
BOOK.ask(
    "operations on the cluster",
    lambda _: request(include_cluster_authorized_operations=True),
    source="KIP-700",
)
BOOK.ask(
    "fenced brokers too",
    lambda _: request(include_fenced_brokers=True),
    versions="2+",
    source="KIP-1073",
)
for _what, _type in _TYPES.items():
    BOOK.ask(
        f"endpoints of {_what}",
        lambda _, kind=_type: request(endpoint_type=kind),  # type: ignore[misc]
        versions="1+",
        source="KIP-919",
    )
BOOK.ask(
    "operations and controllers",
    lambda _: request(endpoint_type=2, include_cluster_authorized_operations=True),
    versions="1+",
    source="KIP-919",
)


@BOOK.play("every broker's view", source="KIP-700")
def _views(stage: Stage) -> None:
    """All brokers list the same brokers, and a controller among these."""
    answers = [stage.do(request(), at=node) for node in stage.target.nodes]
    lists = [{each.broker_id for each in answer.brokers} for answer in answers]
    stage.note("all list all", all(each == set(stage.target.nodes) for each in lists))
    stage.note("controller", all(each.controller_id in lists[0] for each in answers))
