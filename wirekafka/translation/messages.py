"""The lines of JSON between a node and its worker.

The first line that the worker reads is a `WorkerSetUp`, every other line an `Assignment`: all
tables and partitions that the node leads now. The worker writes a line for each change of a
`metrics.table_status.TableStatus`, and once a `DeletableTable` for each table that goes with its
topic. It ends when its input does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from wirekafka.config.own import RegistryAccess


class LeaderRange(NamedTuple):
    """A partition that is led here: where its log begins, what is committed, under which epoch."""

    start_offset: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetUp:
    """What does not change while a node runs."""

    node_id: int
    url: str
    """Where the tables are, as in `serve --tables`."""
    namespace: str
    catalog_name: str
    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    tier: str | None = None
    rate_bytes: int = 0
    """The most bytes of records that are read per second; 0 is no limit."""
    registry: RegistryAccess | None = None

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """The set-up of a line of JSON."""
        fields = json.loads(line)
        registry = fields.get("registry")
        if registry is not None:
            certificate = registry.pop("certificate", None)
            registry = RegistryAccess(
                **registry, certificate=None if certificate is None else Path(certificate)
            )
        catalog = dict(fields["catalog"])
        return cls(
            node_id=fields["node"],
            url=fields["url"],
            namespace=fields["namespace"],
            catalog_name=catalog.pop("name"),
            catalog_properties=catalog,
            directories=tuple(fields["directories"]),
            tier=fields.get("tier"),
            rate_bytes=fields.get("rate_bytes", 0),
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A topic with a table, and its partitions that are led here."""

    topic: str
    topic_id: str
    options: Mapping[str, Any]
    partitions: Mapping[int, LeaderRange]
    deletion_mark: str | None = None
    """What the table is marked with if it goes with its topic."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All topics with tables, and by name and id the deleted topics whose tables go with them."""

    topics: tuple[TopicAssignment, ...] = ()
    deleted: tuple[tuple[str, str], ...] = ()

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """The assignment of a line of JSON."""
        fields = json.loads(line)
        topics = tuple(
            TopicAssignment(
                each["topic"],
                each["id"],
                each["options"],
                {
                    int(partition): LeaderRange(*numbers)
                    for partition, numbers in each["partitions"].items()
                },
                each.get("deletion_mark"),
            )
            for each in fields.get("topics", ())
        )
        return cls(topics, tuple((name, id) for name, id in fields.get("deleted", ())))
