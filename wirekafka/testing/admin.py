"""Topics and groups of a broker, looked at and changed as an admin client would."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirekafka.apis.create_topics import CreateTopicsRequest
from wirekafka.apis.delete_topics import DeleteTopicsRequest
from wirekafka.apis.describe_groups import DescribeGroupsRequest
from wirekafka.apis.init_producer_id import InitProducerIdRequest
from wirekafka.apis.leave_group import LeaveGroupRequest
from wirekafka.apis.list_groups import ListGroupsRequest
from wirekafka.apis.offset_fetch import OffsetFetchRequest
from wirekafka.errors import Error, KafkaError
from wirekafka.testing.engine import Engine
from wirekafka.testing.settings import topic_settings

_TIMEOUT_MS = 30_000
_FENCING_TIMEOUT_MS = 60_000
_CONCURRENT_WAIT_S = 0.02
_CONCURRENT_TRIES = 250


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group; `host` as Kafka tells it, such as "/127.0.0.1"."""

    id: str
    client_id: str
    host: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group; `state` as Kafka names it: Stable, Empty, PreparingRebalance, ..."""

    id: str
    state: str
    protocol: str
    members: tuple[Member, ...]


def create_topic(engine: Engine, name: str, partitions: int,
                 config: Mapping[str, object] | None) -> None:
    """Make a topic. Raises KafkaError, such as TOPIC_ALREADY_EXISTS; ValueError."""
    kind = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(timeout_ms=_TIMEOUT_MS, topics=[kind(
        name=name, num_partitions=partitions, replication_factor=-1, configs=[
            kind.CreatableTopicConfig(name=key, value=text)
            for key, text in topic_settings(config).items()])])
    answer: Any = engine.ask(request, 7)
    for topic in answer.topics:
        _check(topic.error_code, topic.error_message or name)


def delete_topics(engine: Engine, names: list[str]) -> None:
    """Delete topics. Raises KafkaError."""
    if not names:
        return
    state = DeleteTopicsRequest.DeleteTopicState
    answer: Any = engine.ask(DeleteTopicsRequest(
        topics=[state(name=name) for name in names], timeout_ms=_TIMEOUT_MS), 6)
    for topic in answer.responses:
        _check(topic.error_code, str(topic.name))


def committed(engine: Engine, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed, by topic and partition; nothing for an unknown group."""
    kind = OffsetFetchRequest.Group
    answer: Any = engine.ask(OffsetFetchRequest(
        groups=[kind(group_id=group, topics=None)], require_stable=False), 8)
    (told,) = answer.groups
    if told.error_code == Error.NOT_COORDINATOR:
        return {}  # There is no group yet, so there are no offsets either.
    _check(told.error_code, group)
    return {(topic.name, each.partition_index): each.committed_offset
            for topic in told.topics for each in topic.partitions}


def groups(engine: Engine) -> list[Group]:
    """Every group, by id."""
    listed: Any = engine.ask(ListGroupsRequest(), 4)
    ids = sorted(each.group_id for each in listed.groups)
    if not ids:
        return []
    described: Any = engine.ask(DescribeGroupsRequest(groups=ids), 5)
    return [Group(each.group_id, each.group_state, each.protocol_data, tuple(
        Member(member.member_id, member.client_id, member.client_host, member.group_instance_id)
        for member in each.members)) for each in described.groups]


def remove_member(engine: Engine, group: str, member_id: str) -> None:
    """Have a group do without a member, as when its session runs out. Raises KafkaError."""
    kind = LeaveGroupRequest.MemberIdentity
    answer: Any = engine.ask(
        LeaveGroupRequest(group_id=group, members=[kind(member_id=member_id)]), 5)
    _check(answer.error_code, group)
    for member in answer.members:
        _check(member.error_code, f"{member_id} of {group}")


def fence(engine: Engine, transactional_id: str) -> None:
    """Take over a transactional id, as a newer producer of that id does. Raises KafkaError, and
    LookupError where there is none."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS)
    for _ in range(_CONCURRENT_TRIES):
        answer: Any = engine.ask(request, 4)
        if answer.error_code == Error.NOT_COORDINATOR:
            raise LookupError(f"no producer of transactional.id {transactional_id!r} has started")
        if answer.error_code != Error.CONCURRENT_TRANSACTIONS:
            _check(answer.error_code, transactional_id)
            return
        # Its open transaction is being aborted.
        time.sleep(_CONCURRENT_WAIT_S)
    _check(answer.error_code, transactional_id)


def _check(code: int, about: str) -> None:
    if code:
        raise KafkaError(Error(code), about)
