"""The first page: who is behind, what fails, what grows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from wirekafka.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wirekafka.apis.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wirekafka.apis.metadata import MetadataResponse
from wirekafka.client.client import Client, CliError, check
from wirekafka.console.brokers import disks
from wirekafka.console.lag import group_lags
from wirekafka.console.page import Page, View, Visit
from wirekafka.console.render import now_ms
from wirekafka.console.source import GroupLag, Insight, Known, Snapshot, TopicRate, Unknown
from wirekafka.security.acl import Operation

LINK = ("Overview", "/", "o")

_SHOWN = 12
"""Rows of each panel; the other pages have them all."""
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_MOST_DESCRIBED = 200
_NOT_PERMITTED = Unknown("Your user may not see this: it needs DESCRIBE on the cluster.")


class Panel(NamedTuple):
    """The first rows of something, and how many there are."""

    rows: Sequence[Any]
    total: int


class OpenTransaction(NamedTuple):
    """A transaction that is not complete."""

    name: str
    state: str
    age_ms: int


def show(visit: Visit) -> View:
    """What an operator asks first."""
    client, source = visit.client, visit.source
    metadata = client.metadata()
    brokers = [each.node_id for each in metadata.brokers]
    names = {topic.name or "" for topic in metadata.topics}
    snapshot, insight = source.snapshot(), source.insight()
    if not isinstance(insight, Unknown) and not _may_see_cluster(client):
        own: Known[Insight] = _NOT_PERMITTED
    else:
        own = insight
    problems = [] if isinstance(snapshot, Unknown) else snapshot.problems
    values = {
        "title": "Overview",
        "brokers": brokers,
        "topics": len(names),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "problems": problems,
        "groups": _groups(visit),
        "rates": _rates(snapshot, insight, names),
        "under_replicated": _panel(under_replicated(metadata)),
        "transaction": oldest_transaction(client, brokers),
        "disks": [disks(client, broker) for broker in brokers],
        "insight": own,
        "readers": own if isinstance(own, Unknown) else _panel(_by_lag(own.readers)),
        "errors": own
        if isinstance(own, Unknown)
        else _panel(sorted(own.errors, key=lambda row: -row.responses)),
        "software": own
        if isinstance(own, Unknown)
        else _panel(sorted(own.software, key=lambda row: (-row.connections, -row.requests))),
    }
    return View("overview.html", values)


def under_replicated(metadata: MetadataResponse) -> list[tuple[str, int, list[int], list[int]]]:
    """(topic, partition, replicas, in sync) of partitions with fewer in sync, or no leader."""
    return [
        (topic.name or "", each.partition_index, each.replica_nodes, each.isr_nodes)
        for topic in metadata.topics
        for each in topic.partitions
        if len(each.isr_nodes) < len(each.replica_nodes) or each.leader_id < 0
    ]


def oldest_transaction(client: Client, brokers: Iterable[int]) -> Known[OpenTransaction | None]:
    """The open transaction that began first, None without any."""
    found: list[OpenTransaction] = []
    try:
        for broker in brokers:
            connection = client.node(broker)
            response = connection.send(
                ListTransactionsRequest(state_filters=list(_OPEN)), ListTransactionsResponse
            )
            check(response.error_code, f"transactions of broker {broker}")
            states: list[Any] = list(response.transaction_states)
            listed = [each.transactional_id for each in states]
            if not listed:
                continue
            described = connection.send(
                DescribeTransactionsRequest(transactional_ids=listed[:_MOST_DESCRIBED]),
                DescribeTransactionsResponse,
            )
            at_ms = now_ms()
            found += [
                OpenTransaction(
                    each.transactional_id,
                    each.transaction_state,
                    max(at_ms - each.transaction_start_time_ms, 0),
                )
                for each in described.transaction_states
                if not each.error_code and each.transaction_start_time_ms >= 0
            ]
    except CliError as error:
        return Unknown(str(error))
    return max(found, key=lambda each: each.age_ms, default=None)


def _groups(visit: Visit) -> Known[Panel]:
    lags = group_lags(visit.source)
    return lags if isinstance(lags, Unknown) else _panel(_by_lag(lags.values()))


def _by_lag(lags: Iterable[GroupLag]) -> list[GroupLag]:
    return sorted(lags, key=lambda each: (-each.lag, each.name))


def _rates(
    snapshot: Known[Snapshot], insight: Known[Insight], names: Collection[str]
) -> Known[Panel]:
    """Topics by what is written to them, with bytes where the broker itself counts them."""
    if isinstance(snapshot, Unknown):
        return snapshot
    if isinstance(snapshot.rates, Unknown):
        return snapshot.rates
    own = {} if isinstance(insight, Unknown) else insight.rates
    rates = []
    for rate in snapshot.rates:
        exact = own.get(rate.name)
        if exact is not None:
            rate = rate._replace(
                bytes_in_per_s=exact.bytes_in_per_s, bytes_out_per_s=exact.bytes_out_per_s
            )
        if rate.name in names:
            rates.append(rate)
    return _panel(sorted(rates, key=_by_rate))


def _by_rate(rate: TopicRate) -> tuple[float, float, str]:
    return -(rate.records_per_s or 0.0), -(rate.bytes_out_per_s or 0.0), rate.name


def _panel(rows: Sequence[Any]) -> Panel:
    return Panel(rows[:_SHOWN], len(rows))


def _may_see_cluster(client: Client) -> bool:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    operations = client.send(request, DescribeClusterResponse).cluster_authorized_operations
    return bool(operations >= 0 and operations >> Operation.DESCRIBE & 1)


ENTRIES = (Page("/", show),)
