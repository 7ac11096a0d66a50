"""Small requests whose responses list much: divided among turns, and encoded in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.replication.raft.metadata_log import sync_inline

MANY = 520
"""More than two turns' worth."""
_TURNS = 40


@pytest.fixture(scope="module")
def kafka() -> Iterator[InProcessBroker]:
    running = InProcessBroker(
        "/data",
        ManualClock(),
        disk=SimulatedDisk(),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:admin",
        delegation_token_secret_key="secret",
        offsets_topic_num_partitions="1",
    )
    topic = CreateTopicsRequest.CreatableTopic
    topics = [
        topic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(MANY)
    ]
    send(running, CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    for _ in range(MANY):
        send(running, CreateDelegationTokenRequest(), 3)
    running.create("__consumer_offsets")
    for number in range(MANY):
        send(running, committed(f"g{number}"), 8)
    yield running
    running.stop()


LISTS: dict[str, tuple[Request, int, Callable[[Any], int]]] = {
    "all topics": (MetadataRequest(topics=None), 12, lambda answer: len(answer.topics)),
    "topics by name": (
        MetadataRequest(topics=[MetadataRequest.Topic(name=f"t{n}") for n in range(MANY)]),
        12,
        lambda answer: len(answer.topics),
    ),
    "partitions": (
        DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2000),
        0,
        lambda answer: len(answer.topics),
    ),
    "tokens": (DescribeDelegationTokenRequest(owners=None), 3, lambda answer: len(answer.tokens)),
    "groups": (ListGroupsRequest(), 5, lambda answer: len(answer.groups)),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_long_list_takes_several_turns_and_is_encoded_apart(
    kafka: InProcessBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, version, count = LISTS[name]
    apart: list[Callable[[], None]] = []

    def run_apart(run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        apart.append(run)
        sync_inline(run, done)

    async def asked() -> Any:
        exchange = kafka.begin(request, version, principal="User:admin")
        turns = 0
        while not exchange.is_done:
            await asyncio.sleep(0)
            turns += 1
            assert turns < _TURNS
        return exchange.response, turns

    monkeypatch.setattr(kafka.node.pipeline, "run_apart", run_apart)
    response, turns = asyncio.run(asked())
    assert count(response) >= MANY
    assert turns >= 2
    assert len(apart) == 2, "the response is encoded, then freed"


@pytest.mark.parametrize("name", LISTS)
def test_who_may_see_nothing_of_it_waits_in_turns_too(kafka: InProcessBroker, name: str) -> None:
    request, version, count = LISTS[name]

    async def asked() -> Any:
        exchange = kafka.begin(request, version, principal="User:nobody")
        assert not exchange.is_done
        while not exchange.is_done:
            await asyncio.sleep(0)
        return exchange.response

    response = asyncio.run(asked())
    if name == "topics by name":
        codes = [each.error_code for each in response.topics]
        assert codes == [Error.TOPIC_AUTHORIZATION_FAILED] * MANY
    else:
        assert not count(response)


def send(kafka: InProcessBroker, request: Request, version: int) -> None:
    async def sent() -> None:
        exchange = kafka.begin(request, version, principal="User:admin")
        while not exchange.is_done:
            await asyncio.sleep(0)
        exchange.abandon()

    asyncio.run(sent())


def committed(group_id: str) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.Topic
    partition = topic.Partition(committed_offset=0, committed_metadata="")
    return OffsetCommitRequest(group_id=group_id, topics=[topic(name="t0", partitions=[partition])])
