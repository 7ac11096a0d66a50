"""A leader limits the rate of throttled followers that are out of sync (KIP-73)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apis.brokers import beat, create_on, follower_fetch, register
from tests.apis.test_fetch import only
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.metadata.image.image import BROKER, TOPIC
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

LEADER, FOLLOWER = 1, 2
SIZE_BYTES = len(batch(bytes(1_000)))


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    """Broker 1 leads t-0 alone in sync; broker 2 has to fetch three batches of about 1 kB."""
    kafka = InProcessBroker(tmp_path, manual_clock)
    register(kafka, FOLLOWER)
    create_on(kafka, "t", [LEADER, FOLLOWER])
    beat(kafka, FOLLOWER, wants_fence=True)
    beat(kafka, FOLLOWER)
    assert kafka.partition("t").isr == (LEADER,)
    append(kafka, 3)
    yield kafka
    beat(kafka, FOLLOWER, wants_fence=True)
    kafka.stop()


def append(kafka: InProcessBroker, count: int = 1) -> None:
    leader = kafka.partition("t").leading()
    for _ in range(count):
        leader.append_from_client(batch(bytes(1_000)), 1, kafka.clock.now_ms())


def configure(kafka: InProcessBroker, type: int, resource: str, name: str, value: str) -> None:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            kind(
                resource_type=type,
                resource_name=resource,
                configs=[kind.AlterableConfig(name=name, config_operation=0, value=value)],
            )
        ]
    )
    [result] = kafka.call(request, 1).responses
    assert result.error_code == 0, result.error_message


def throttle(kafka: InProcessBroker, replicas: str, rate: int, broker: str = "1") -> None:
    configure(kafka, TOPIC, "t", "leader.replication.throttled.replicas", replicas)
    configure(kafka, BROKER, broker, "leader.replication.throttled.rate", str(rate))


def fetch(kafka: InProcessBroker, offset: int, **options: Any) -> int:
    """The number of bytes of records that the follower gets."""
    response = kafka.call(
        follower_fetch(kafka, "t", FOLLOWER, offset, max_bytes=SIZE_BYTES, **options), 17
    )
    assert only(response).error_code == 0
    return len(only(response).records)


@pytest.mark.parametrize("replicas", ["*", "0:1,7:2"])
def test_a_throttled_follower_gets_nothing_while_the_rate_is_exceeded(
    kafka: InProcessBroker, replicas: str
) -> None:
    throttle(kafka, replicas, 1_000)
    assert fetch(kafka, 0) == SIZE_BYTES
    assert fetch(kafka, 1) == 0
    kafka.clock.advance(1_500)
    assert fetch(kafka, 1) == SIZE_BYTES
    assert fetch(kafka, 2) == 0


@pytest.mark.parametrize(("replicas", "rate"), [("0:2", 1), ("1:1", 1), ("*", 1 << 30)])
def test_other_replicas_and_lower_rates_are_not_throttled(
    kafka: InProcessBroker, replicas: str, rate: int
) -> None:
    throttle(kafka, replicas, rate)
    assert [fetch(kafka, offset) for offset in range(3)] == [SIZE_BYTES] * 3


def test_the_rate_may_be_set_for_all_brokers_and_a_brokers_own_wins(kafka: InProcessBroker) -> None:
    throttle(kafka, "*", 1, broker="")
    assert [fetch(kafka, offset) for offset in range(2)] == [SIZE_BYTES, 0]
    configure(kafka, BROKER, "1", "leader.replication.throttled.rate", str(1 << 30))
    assert fetch(kafka, 1) == SIZE_BYTES


def test_a_follower_in_sync_is_not_throttled(kafka: InProcessBroker) -> None:
    throttle(kafka, "*", 1)
    assert fetch(kafka, 3) == 0
    kafka.clock.advance(0)
    assert kafka.partition("t").isr == (LEADER, FOLLOWER)
    append(kafka, 2)
    assert [fetch(kafka, offset) for offset in (3, 4)] == [SIZE_BYTES] * 2


def test_a_waiting_fetch_is_not_woken_by_throttled_partitions(kafka: InProcessBroker) -> None:
    throttle(kafka, "*", 1_000)
    assert fetch(kafka, 0) == SIZE_BYTES

    async def scenario() -> None:
        request = follower_fetch(kafka, "t", FOLLOWER, 1, max_wait_ms=500)
        exchange = kafka.begin(request, 17)
        append(kafka)
        assert not (await exchange.settled()).is_done
        kafka.clock.advance(500)
        assert only((await exchange.settled()).response).records == b""

    asyncio.run(scenario())
