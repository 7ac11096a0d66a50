"""The pages of topics: all topics, one topic with partitions and groups, and changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from wirekafka.client.client import Client, CliError, check, only
from wirekafka.client.topic_changes import TopicCreation, create_topics, delete_topics, grow_topic
from wirekafka.console.offsets import EARLIEST, LATEST, committed, list_groups, offsets_at
from wirekafka.console.pages import messages, producing, searching, tailing
from wirekafka.console.pages.page import (
    Change,
    Page,
    PageError,
    PageView,
    Redirect,
    Visit,
    whole_number,
)
from wirekafka.console.pages.tables import table
from wirekafka.console.pages.topic_metadata import described
from wirekafka.console.source import TopicRate, Unknown
from wirekafka.console.topic_tier import has_tiered_storage, topic_tier
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC

LINK = ("Topics", "/topics", "t")
_MOST_COUNT = 999_999
"""Of partitions or replicas that are entered; brokers accept fewer."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic in the list; None is not known."""

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    size_bytes: int | None
    under_replicated: int
    leaderless: int
    rate: TopicRate | None

    @property
    def records_per_s(self) -> float | None:
        return None if self.rate is None else self.rate.records_per_s


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition of a topic; None is not known."""

    index: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int]
    start: int | None
    end: int | None
    size_bytes: int | None

    @property
    def records(self) -> int | None:
        """How many offsets there are; compaction and markers leave fewer records."""
        if self.start is None or self.end is None:
            return None
        return max(self.end - self.start, 0)

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group that has committed offsets in a topic."""

    name: str
    type: str
    state: str
    partitions: int
    lag: int
    behind: int
    """In how many partitions it has not read everything."""


def show(visit: Visit) -> PageView:
    """The list of topics."""
    metadata = visit.client.metadata()
    sizes, problems = sizes_of(visit.client, [each.node_id for each in metadata.brokers])
    snapshot = visit.source.snapshot()
    sampled = snapshot if isinstance(snapshot, Unknown) else snapshot.rates
    rates = {} if isinstance(sampled, Unknown) else {each.name: each for each in sampled}
    with_internal = visit.query.get("internal") == "yes"
    lines = [
        _line(topic, sizes, rates)
        for topic in metadata.topics
        if with_internal or not topic.is_internal
    ]
    values = {
        "title": "Topics",
        "problems": problems,
        "sampled": sampled,
        "with_internal": with_internal,
        "internal": sum(topic.is_internal for topic in metadata.topics),
        "topics": table(lines, visit.query, name=lambda each: each.name, sorts=_SORTS),
    }
    return PageView("topics.html", values)


def one(visit: Visit) -> PageView:
    """A topic's partitions."""
    topic, metadata = described(visit, REMOTE_LOG_METADATA_TOPIC)
    name = topic.name or ""
    sizes, problems = sizes_of(visit.client, [each.node_id for each in metadata.brokers], topic)
    starts = offsets_at(visit.client, [topic], EARLIEST)
    ends = offsets_at(visit.client, [topic], LATEST)
    lines = [
        PartitionLine(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
            starts.get((name, each.partition_index)),
            ends.get((name, each.partition_index)),
            sizes.get((name, each.partition_index)),
        )
        for each in topic.partitions
    ]
    snapshot = visit.source.snapshot()
    sampled = snapshot if isinstance(snapshot, Unknown) else snapshot.rates
    rates = () if isinstance(sampled, Unknown) else sampled
    insight = visit.source.insight()
    tier = topic_tier(visit.client, topic, starts, ends) if has_tiered_storage(metadata) else None
    values = {
        "title": f"Topic {name}",
        "topic": topic,
        "rate": next((each for each in rates if each.name == name), None),
        "traffic": None if isinstance(insight, Unknown) else insight.rates.get(name),
        "prices": visit.prices,
        "tier": tier,
        "tiered": None
        if tier is None
        else table(tier.lines, visit.query, name=lambda each: str(each.index), sorts=_TIER_SORTS),
        "id": str(uuid.UUID(bytes=bytes(topic.topic_id))),
        "problems": problems,
        "records": sum(each.records or 0 for each in lines),
        "size_bytes": sum(each.size_bytes or 0 for each in lines),
        "under_replicated": sum(each.is_under_replicated for each in lines),
        "partitions": table(
            lines, visit.query, name=lambda each: str(each.index), sorts=_PARTITION_SORTS
        ),
    }
    return PageView("topic.html", values)


def groups(visit: Visit) -> PageView:
    """The groups with offsets in a topic, and their lag there."""
    topic, metadata = described(visit)
    name = topic.name or ""
    listed, problems = list_groups(visit.client, [each.node_id for each in metadata.brokers])
    positions, failed = committed(visit.client, listed, name)
    # Ends are read after positions, so that no lag seems negative.
    ends = offsets_at(visit.client, [topic], LATEST)
    lines = []
    for group in listed:
        lags = [
            max(ends[key] - offset, 0)
            for key, offset in positions.get(group.name, {}).items()
            if key in ends
        ]
        if lags:
            behind = sum(lag > 0 for lag in lags)
            lines.append(
                GroupLine(group.name, group.type, group.state, len(lags), sum(lags), behind)
            )
    values = {
        "title": f"Groups on {name}",
        "topic": topic,
        "problems": [*problems, *failed],
        "groups": table(
            lines, visit.query, name=lambda each: each.name, sorts=_GROUP_SORTS, default="-lag"
        ),
    }
    return PageView("topic_groups.html", values)


def create(visit: Visit) -> Redirect:
    """Create a topic, of the form on the list."""
    name = visit.form.get("name", "").strip()
    if not name:
        raise PageError(400, "Enter a name for the topic.")
    new = TopicCreation(
        _count(visit.form, "partitions"), _count(visit.form, "replicas"), _configs(visit.form)
    )
    result = only(create_topics(visit.client, [name], new), f"topic {name}")
    check(result.error_code, f"topic {name}", result.message)
    return Redirect(f"/topics/{quote(name, safe='')}")


def delete(visit: Visit) -> Redirect:
    """Delete a topic whose name was entered once more."""
    name = visit.path["topic"]
    if visit.form.get("name", "") != name:
        raise PageError(400, f"Nothing was deleted: enter {name} to delete this topic.")
    [result] = delete_topics(visit.client, [name])
    check(result.error_code, f"topic {name}", result.message)
    return Redirect("/topics")


def grow(visit: Visit) -> Redirect:
    """Add partitions to a topic."""
    name = visit.path["topic"]
    count = _count(visit.form, "partitions")
    if count < 1:
        raise PageError(400, "Enter how many partitions the topic is to have.")
    grow_topic(visit.client, name, count)
    return Redirect(f"/topics/{quote(name, safe='')}")


def sizes_of(
    client: Client, brokers: Iterable[int], topic: MetadataResponse.Topic | None = None
) -> tuple[dict[tuple[str, int], int], list[str]]:
    """The bytes of each partition on all brokers, of one topic or all; and the failures."""
    wanted = None
    if topic is not None:
        indexes = [each.partition_index for each in topic.partitions]
        kind = DescribeLogDirsRequest.DescribableLogDirTopic
        wanted = [kind(topic=topic.name or "", partitions=indexes)]
    found: dict[tuple[str, int], int] = {}
    problems = []
    for broker in brokers:
        try:
            response = client.node(broker).send(
                DescribeLogDirsRequest(topics=wanted), DescribeLogDirsResponse
            )
            check(response.error_code, f"sizes on broker {broker}")
        except CliError as error:
            problems.append(str(error))
            continue
        for directory in response.results:
            for each in directory.topics:
                for partition in each.partitions:
                    key = (each.name, partition.partition_index)
                    found[key] = found.get(key, 0) + partition.partition_size
    return found, problems


def _line(
    topic: MetadataResponse.Topic,
    sizes: Mapping[tuple[str, int], int],
    rates: Mapping[str, TopicRate],
) -> TopicLine:
    name = topic.name or ""
    known = [
        sizes[name, each.partition_index]
        for each in topic.partitions
        if (name, each.partition_index) in sizes
    ]
    return TopicLine(
        name,
        topic.is_internal,
        len(topic.partitions),
        max((len(each.replica_nodes) for each in topic.partitions), default=0),
        sum(known) if known else None,
        sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        sum(each.leader_id < 0 for each in topic.partitions),
        rates.get(name),
    )


def _count(form: Mapping[str, str], name: str) -> int:
    text = form.get(name, "").strip()
    if not text:
        return -1
    count = whole_number(text, _MOST_COUNT)
    if count is None:
        raise PageError(400, f"{name} must be a whole number, not {text!r}.")
    return count


def _configs(form: Mapping[str, str]) -> dict[str, str]:
    """The lines `name=value` of a form."""
    found = {}
    for line in form.get("configs", "").splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals:
                raise PageError(400, f"{line!r} is not an option: write name=value.")
            found[name.strip()] = value.strip()
    return found


_SORTS = {
    "name": lambda each: each.name,
    "partitions": lambda each: each.partitions,
    "replicas": lambda each: each.replicas,
    "size": lambda each: each.size_bytes,
    "rate": lambda each: each.records_per_s,
    "under": lambda each: each.under_replicated + each.leaderless,
}
_PARTITION_SORTS = {
    "partition": lambda each: each.index,
    "leader": lambda each: each.leader,
    "records": lambda each: each.records,
    "end": lambda each: each.end,
    "size": lambda each: each.size_bytes,
    "under": lambda each: len(each.replicas) - len(each.in_sync),
}
_TIER_SORTS = {"partition": lambda each: each.index}
_GROUP_SORTS = {"name": lambda each: each.name, "lag": lambda each: each.lag}

ENTRIES = (
    Page("/topics", show),
    Change("/topics", create, show),
    Page("/topics/{topic}", one),
    Page("/topics/{topic}/groups", groups),
    # Links of the page below the path of a refused form lead to that path.
    Page("/topics/{topic}/delete", one),
    Change("/topics/{topic}/delete", delete, one),
    Page("/topics/{topic}/partitions", one),
    Change("/topics/{topic}/partitions", grow, one),
    *producing.ENTRIES,
    *messages.ENTRIES,
    *searching.ENTRIES,
    *tailing.ENTRIES,
)
