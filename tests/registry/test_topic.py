"""The topic of schemas: how it is made, what is refused, and who follows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

import wirekafka
from tests.eventually import eventually, eventually_async
from tests.registry.instances import entry_of, instance
from tests.registry.rest import record
from tests.registry.servers import ask, registry
from wirekafka.client.client import Client, CliError
from wirekafka.client.transactions import TransactionalProducer
from wirekafka.codec.record import Record
from wirekafka.registry.instance import topic
from wirekafka.registry.instance.topic import TOPIC, TopicFollower


@pytest.fixture
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


def test_the_topic_is_made_as_confluents_registry_makes_it(broker: wirekafka.Broker) -> None:
    with Client(broker.bootstrap_servers) as client:
        topic.prepare(client, TOPIC)
        topic.prepare(client, TOPIC)
    assert broker.topics()[TOPIC] == 1


@pytest.mark.parametrize(
    ("partitions", "config", "reason"),
    [
        (1, {}, "cleanup.policy=delete, which would delete schemas"),
        (1, {"cleanup.policy": "compact,delete"}, "cleanup.policy=compact,delete"),
        (3, {"cleanup.policy": "compact"}, "has 3 partitions, and a registry's has one"),
    ],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    broker: wirekafka.Broker, partitions: int, config: dict[str, str], reason: str
) -> None:
    broker.create_topic(TOPIC, partitions=partitions, config=config)
    with Client(broker.bootstrap_servers) as client, pytest.raises(CliError, match=reason):
        topic.prepare(client, TOPIC)


def test_a_follower_sees_what_the_leader_writes(broker: wirekafka.Broker) -> None:
    async def run() -> None:
        bootstrap = broker.bootstrap_servers
        async with instance(bootstrap) as leader, instance(bootstrap, leads=False) as follower:
            ids = await asyncio.gather(*(leader.register(f"s{n}") for n in range(50)))
            assert sorted(ids) == list(range(1, 51))
            assert len(leader.subjects()) == 50
            await eventually_async(lambda: follower.subjects() == leader.subjects())

    asyncio.run(run())


def test_an_instance_begins_with_all_that_was_written(broker: wirekafka.Broker) -> None:
    async def run() -> None:
        async with instance(broker.bootstrap_servers) as first:
            assert await first.register("a") == 1
        async with instance(broker.bootstrap_servers) as second:
            assert second.subjects() == ["a"]
            assert await second.register("b") == 2

    asyncio.run(run())


def test_a_restarted_broker_interrupts_neither_reading_nor_writing(
    broker: wirekafka.Broker,
) -> None:
    async def run() -> None:
        async with instance(broker.bootstrap_servers) as leader:
            assert await leader.register("a") == 1
            await asyncio.to_thread(broker.restart)
            assert await leader.register_as_elected("b") == 2
            assert leader.subjects() == ["a", "b"]

    asyncio.run(run())


def test_a_topic_that_was_made_again_is_read_from_its_start(broker: wirekafka.Broker) -> None:
    async def run() -> None:
        async with instance(broker.bootstrap_servers) as leader:
            await leader.register("a")
            await asyncio.to_thread(broker.delete_topic, TOPIC)
            await eventually_async(lambda: leader.subjects() == [])
            assert await leader.register_as_elected("b") == 1
            await eventually_async(lambda: leader.subjects() == ["b"])

    asyncio.run(run())


def test_ten_thousand_schemas_are_loaded_within_two_seconds(broker: wirekafka.Broker) -> None:
    text = '{"type":"record","name":"R%d","fields":[{"name":"a","type":"string"}]}'
    with Client(broker.bootstrap_servers) as client:
        topic.prepare(client, TOPIC)
        producer = TransactionalProducer(client, "filling")
        producer.init()
        for start in range(0, 10_000, 1_000):
            entries = [entry_of(f"s{n}", n + 1, text % n) for n in range(start, start + 1_000)]
            records = [Record(key=each.key, value=each.value) for each in entries]
            producer.send(TOPIC, 0, records)
        producer.commit()
    follower = TopicFollower(lambda: Client(broker.bootstrap_servers))
    # Not the time of the clock: the machine is shared.
    began_s = time.process_time()
    follower.load()
    assert time.process_time() - began_s < 2
    assert len(follower.state.subjects()) == 10_000


def test_the_newest_record_has_the_ids_that_no_other_record_has() -> None:
    with wirekafka.Broker() as own:

        def newest_header() -> list[tuple[str, bytes | None]]:
            return list(own.records(TOPIC)[-1].headers)

        with registry(own.bootstrap_servers) as url:
            for number in (1, 2):
                body = {"schema": record(name=f"R{number}")}
                assert ask(url, "POST", f"/subjects/s{number}/versions", body).body["id"] == number
            assert newest_header() == []
            for query in ("", "?permanent=true"):
                assert ask(url, "DELETE", f"/subjects/s2{query}").status == 200
            assert newest_header() == [("wirekafka.given-ids", b'{".":2}')]
        with registry(own.bootstrap_servers) as url:
            eventually(lambda: len(own.records(TOPIC)) >= 7)
            eventually(lambda: newest_header() == [("wirekafka.given-ids", b'{".":2}')])
            body = {"schema": record(name="R3")}
            assert ask(url, "POST", "/subjects/s3/versions", body).body["id"] == 3
            assert newest_header() == []
