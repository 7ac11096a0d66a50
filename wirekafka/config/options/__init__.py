"""The option table: every option of brokers, topics, groups and client metrics, by name."""

from __future__ import annotations

from typing import Any

from wirekafka.config.option import Option
from wirekafka.config.options.cluster import ClusterOptions
from wirekafka.config.options.group import ClientMetricsOptions, PerGroupOptions
from wirekafka.config.options.groups import GroupOptions
from wirekafka.config.options.log import LogOptions
from wirekafka.config.options.network import NetworkOptions
from wirekafka.config.options.remote import RemoteOptions
from wirekafka.config.options.replication import ReplicationOptions
from wirekafka.config.options.sasl import SaslOptions
from wirekafka.config.options.security import SecurityOptions
from wirekafka.config.options.share import ShareOptions
from wirekafka.config.options.throttles import ThrottleOptions
from wirekafka.config.options.topic import TopicOptions
from wirekafka.config.options.transactions import TransactionOptions

__all__ = [
    "BROKER",
    "CLIENT_METRICS",
    "FAMILIES",
    "GROUP",
    "THROTTLES",
    "TOPIC",
    "BrokerOptions",
    "ClientMetricsOptions",
    "ClusterOptions",
    "GroupOptions",
    "LogOptions",
    "NetworkOptions",
    "PerGroupOptions",
    "RemoteOptions",
    "ReplicationOptions",
    "SaslOptions",
    "SecurityOptions",
    "ShareOptions",
    "Table",
    "ThrottleOptions",
    "TopicOptions",
    "TransactionOptions",
    "rows",
]


class BrokerOptions(
    ClusterOptions,
    NetworkOptions,
    LogOptions,
    ReplicationOptions,
    GroupOptions,
    TransactionOptions,
    ShareOptions,
    SecurityOptions,
    SaslOptions,
    RemoteOptions,
):
    """Every broker option; on an instance each reads as its value."""


Table = dict[str, Option[Any]]


def rows(*owners: type) -> Table:
    """The options that classes declare, by Kafka's name, in declared order."""
    return {
        option.name: option
        for owner in owners
        for base in reversed(owner.__mro__)
        for option in vars(base).values()
        if isinstance(option, Option)
    }


BROKER: Table = rows(BrokerOptions)
THROTTLES: Table = rows(ThrottleOptions)
TOPIC: Table = rows(TopicOptions)
GROUP: Table = rows(PerGroupOptions)
CLIENT_METRICS: Table = rows(ClientMetricsOptions)

FAMILIES: dict[str, tuple[str, ...]] = {
    member.name: tuple(other.name for other in option.chain)
    for option in TOPIC.values()
    if len(option.chain) > 1
    for member in option.chain
}
"""Broker options that set one value in several units, finest first: log.roll.ms, log.roll.hours."""
