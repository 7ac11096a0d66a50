"""The page of the brokers, their disks, and the quorum of controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.client.admin.cluster import Quorum, describe_cluster, describe_quorum, quorum_of
from wirekafka.client.client import Client, CliError
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.render import now_ms
from wirekafka.console.source import Known, Unknown
from wirekafka.console.summary import disks

if TYPE_CHECKING:
    from wirekafka.log.directories.disk_budget import BudgetDeletion, UnreadLoss
    from wirekafka.server.space.directory_space import DirectoryStatus

LINK = ("Brokers", "/brokers", "b")
_MOST_LOSSES = 50


class DirectoryBudget(NamedTuple):
    """The budget of a log directory, and what another day would delete of the user's topics."""

    status: DirectoryStatus
    deletions: Sequence[BudgetDeletion]
    losses: Sequence[UnreadLoss]


def show(visit: Visit) -> PageView:
    """All brokers and controllers."""
    client = visit.client
    cluster = describe_cluster(client)
    client.metadata([])
    values = {
        "title": "Brokers",
        "cluster": cluster,
        "disks": [
            disks(client, broker.broker_id) for broker in cluster.brokers if not broker.is_fenced
        ],
        "budgets": _budgets(visit),
        "quorum": _quorum(client),
        "now_ms": now_ms(),
    }
    return PageView("brokers.html", values)


def _budgets(visit: Visit) -> Sequence[DirectoryBudget]:
    """The directories of the broker with the console that have a budget, if the user may know."""
    insight, snapshot = visit.source.insight(), visit.source.snapshot()
    if isinstance(insight, Unknown) or isinstance(snapshot, Unknown):
        return ()
    if not snapshot.summary.may_see_cluster or isinstance(snapshot.rates, Unknown):
        return ()
    names = {each.name for each in snapshot.rates}
    return [
        DirectoryBudget(
            status,
            [each for each in status.outlook.deletions if each.topic in names],
            [each for each in status.outlook.losses if each.topic in names][:_MOST_LOSSES],
        )
        for status in insight.budgets
    ]


def _quorum(client: Client) -> Known[Quorum]:
    try:
        return quorum_of(describe_quorum(client))
    except CliError as error:
        return Unknown(str(error))


ENTRIES = (Page("/brokers", show),)
