"""The page of the brokers, their disks, and the quorum of controllers."""

from __future__ import annotations

from wirekafka.client.admin.cluster import Quorum, describe_cluster, describe_quorum, quorum_of
from wirekafka.client.client import Client, CliError
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.render import now_ms
from wirekafka.console.source import Known, Unknown
from wirekafka.console.summary import disks

LINK = ("Brokers", "/brokers", "b")


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
        "quorum": _quorum(client),
        "now_ms": now_ms(),
    }
    return PageView("brokers.html", values)


def _quorum(client: Client) -> Known[Quorum]:
    try:
        return quorum_of(describe_quorum(client))
    except CliError as error:
        return Unknown(str(error))


ENTRIES = (Page("/brokers", show),)
