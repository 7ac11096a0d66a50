"""Creates, deletes and grows topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wirekafka.client.client import Client, check
from wirekafka.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The properties of new topics; -1 is the broker's default."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


class Result(NamedTuple):
    """The result for one topic; error 0 is success."""

    name: str | None
    error_code: int
    message: str | None


def create_topics(client: Client, names: Sequence[str], new: TopicCreation) -> list[Result]:
    """Create topics that are alike."""
    kind = CreateTopicsRequest.CreatableTopic
    configs = [
        kind.CreatableTopicConfig(name=key, value=value) for key, value in new.configs.items()
    ]
    request = CreateTopicsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[
            kind(
                name=name,
                num_partitions=new.partitions,
                replication_factor=new.replication_factor,
                configs=configs,
            )
            for name in names
        ],
    )
    response = client.send(request, CreateTopicsResponse)
    return [Result(topic.name, topic.error_code, topic.error_message) for topic in response.topics]


def delete_topics(client: Client, names: Sequence[str]) -> list[Result]:
    """Delete topics and all their records."""
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    request = DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=_TIMEOUT_MS)
    response = client.send(request, DeleteTopicsResponse)
    return [Result(each.name, each.error_code, each.error_message) for each in response.responses]


def grow_topic(client: Client, name: str, count: int) -> None:
    """Add partitions, so that there are `count`. Raises CliError."""
    wanted = CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)
    response = client.send(
        CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS), CreatePartitionsResponse
    )
    for result in response.results:
        check(result.error_code, f"topic {name}", result.error_message)
