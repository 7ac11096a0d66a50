"""aiokafka: produce, consume, groups and administration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as Errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from compat_tests.conftest import NewTopicName
from tests.eventually import eventually_async


@asynccontextmanager
async def producing(bootstrap: str, **settings: Any) -> AsyncIterator[Any]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(
    bootstrap: str, group: str | None, *topics: str, **settings: Any
) -> AsyncIterator[Any]:
    config: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 300,
        "metadata_max_age_ms": 2000,
    }
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=group, **(config | settings)
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def administering(bootstrap: str) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def read(consumer: Any, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), 30) for _ in range(count)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acks_round_trips(
    bootstrap: str, topic: str, unique: str, codec: str | None, acks: Any
) -> None:
    values = [f"value {number} ".encode() * 20 for number in range(300)]

    async def scenario() -> None:
        settings = {"compression_type": codec, "acks": acks, "linger_ms": 20}
        async with producing(bootstrap, **settings) as producer:
            for value in values:
                await producer.send(topic, value)
            await producer.flush()
        async with consuming(bootstrap, unique, topic) as consumer:
            records = await read(consumer, 300)
        assert [record.value for record in records] == values
        assert [record.offset for record in records] == list(range(300))

    asyncio.run(scenario())


def test_an_idempotent_producer_keeps_order(bootstrap: str, topic: str, unique: str) -> None:
    values = [str(number).encode() for number in range(2000)]

    async def scenario() -> None:
        async with producing(bootstrap, enable_idempotence=True, max_batch_size=400) as producer:
            for value in values:
                await producer.send(topic, value)
            await producer.flush()
        async with consuming(bootstrap, unique, topic) as consumer:
            assert [record.value for record in await read(consumer, 2000)] == values

    asyncio.run(scenario())


def test_nulls_headers_and_timestamps_survive(bootstrap: str, topic: str, unique: str) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]

    async def scenario() -> None:
        async with producing(bootstrap) as producer:
            await producer.send_and_wait(topic, None, b"tombstone", timestamp_ms=1_357_034_400_000)
            sent = await producer.send_and_wait(topic, b"keyless", headers=headers)
            assert (sent.offset, sent.partition, sent.log_start_offset) == (1, 0, 0)
        async with consuming(bootstrap, unique, topic) as consumer:
            tombstone, keyless = await read(consumer, 2)
        assert (tombstone.key, tombstone.value) == (b"tombstone", None)
        assert (tombstone.timestamp, tombstone.timestamp_type) == (1_357_034_400_000, 0)
        assert (keyless.key, keyless.value, list(keyless.headers)) == (None, b"keyless", headers)

    asyncio.run(scenario())


def test_a_message_over_the_limit_is_refused(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with producing(bootstrap, max_request_size=10_000_000) as producer:
            await producer.send_and_wait(topic, b"x" * 1_000_000)
            with pytest.raises(Errors.MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 1_100_000)

    asyncio.run(scenario())


def test_members_share_the_partitions(bootstrap: str, new_topic: NewTopicName, unique: str) -> None:
    topic = new_topic(6)

    async def scenario() -> None:
        async with consuming(bootstrap, unique, topic) as first:
            async with consuming(bootstrap, unique, topic) as second:

                async def shared() -> bool:
                    return len(first.assignment()) == len(second.assignment()) == 3

                await eventually_async(shared)

            async def alone() -> bool:
                return len(first.assignment()) == 6

            await eventually_async(alone)

    asyncio.run(scenario())


def test_a_static_member_keeps_its_partitions(
    bootstrap: str, new_topic: NewTopicName, unique: str
) -> None:
    topic = new_topic(4)

    async def scenario() -> None:
        settings = {"session_timeout_ms": 30_000}
        async with consuming(
            bootstrap, unique, topic, group_instance_id="stays", **settings
        ) as stays:
            async with consuming(
                bootstrap, unique, topic, group_instance_id="leaves", **settings
            ) as leaves:

                async def shared() -> bool:
                    return len(stays.assignment()) == len(leaves.assignment()) == 2

                await eventually_async(shared)
                before = leaves.assignment()
            async with consuming(
                bootstrap, unique, topic, group_instance_id="leaves", **settings
            ) as again:

                async def back() -> bool:
                    return len(again.assignment()) == 2

                await eventually_async(back)
                assert again.assignment() == before
                assert len(stays.assignment()) == 2

    asyncio.run(scenario())


def test_commits_seeks_positions_and_times(bootstrap: str, topic: str, unique: str) -> None:
    partition = TopicPartition(topic, 0)

    async def scenario() -> None:
        async with producing(bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"x", timestamp_ms=1_000_000 + number * 100)
        async with consuming(bootstrap, unique) as consumer:
            consumer.assign([partition])
            assert await consumer.committed(partition) is None
            await read(consumer, 10)
            await consumer.commit({partition: OffsetAndMetadata(4, "half way")})
            assert await consumer.committed(partition) == 4
            await consumer.seek_to_committed()
            assert (await read(consumer, 1))[0].offset == 4
            consumer.seek(partition, 8)
            assert [record.offset for record in await read(consumer, 2)] == [8, 9]
            assert await consumer.position(partition) == 10
            assert (consumer.highwater(partition), consumer.last_stable_offset(partition)) == (
                10,
                10,
            )
            found = await consumer.offsets_for_times({partition: 1_000_101})
            assert (found[partition].offset, found[partition].timestamp) == (2, 1_000_200)
            assert (await consumer.offsets_for_times({partition: 1_000_901}))[partition] is None
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}

    asyncio.run(scenario())


def test_pause_and_resume(bootstrap: str, new_topic: NewTopicName, unique: str) -> None:
    topic = new_topic(2)
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def scenario() -> None:
        async with producing(bootstrap) as producer, consuming(bootstrap, unique) as consumer:
            consumer.assign([held, free])
            consumer.pause(held)
            await producer.send_and_wait(topic, b"held", partition=0)
            await producer.send_and_wait(topic, b"free", partition=1)
            assert (await read(consumer, 1))[0].value == b"free"
            assert await consumer.getmany(timeout_ms=500) == {}
            consumer.resume(held)
            assert (await read(consumer, 1))[0].value == b"held"

    asyncio.run(scenario())


def test_a_pattern_subscription_follows_new_topics(
    bootstrap: str, new_topic: NewTopicName, unique: str
) -> None:
    async def scenario() -> None:
        async with (
            producing(bootstrap) as producer,
            consuming(bootstrap, unique, metadata_max_age_ms=500) as consumer,
        ):
            consumer.subscribe(pattern=f"^{unique}-.*")
            for value in (b"1", b"2"):
                topic = await asyncio.to_thread(new_topic)
                await producer.send_and_wait(topic, value)
                (record,) = await read(consumer, 1)
                assert (record.topic, record.value) == (topic, value)
                await consumer.commit()

    asyncio.run(scenario())


def test_topics_configs_and_groups_are_administered(bootstrap: str, unique: str) -> None:
    async def scenario() -> None:
        async with administering(bootstrap) as admin:
            new = NewTopic(unique, 2, 1, topic_configs={"retention.ms": "1000"})
            created = await admin.create_topics([new])
            assert [error[:2] for error in created.topic_errors] == [(unique, 0)]
            again = await admin.create_topics([new])
            assert again.topic_errors[0][1] == Errors.TopicAlreadyExistsError.errno
            await admin.create_partitions({unique: NewPartitions(3)})

            async def grown() -> bool:
                (described,) = await admin.describe_topics([unique])
                return len(described["partitions"]) == 3

            await eventually_async(grown)
            cluster = await admin.describe_cluster()
            assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [bootstrap]
            asked = ConfigResource(ConfigResourceType.TOPIC, unique)
            (described,) = await admin.describe_configs([asked])
            values = {entry[0]: entry[1] for entry in described.resources[0][4]}
            assert values["retention.ms"] == "1000"
            async with consuming(bootstrap, f"{unique}-group", unique) as consumer:
                await consumer.getmany(timeout_ms=100)
                listed = await admin.list_consumer_groups()
                assert (f"{unique}-group", "consumer") in [group[:2] for group in listed]
                (groups,) = await admin.describe_consumer_groups([f"{unique}-group"])
                assert groups.groups[0][2] == "Stable"
                offset = {TopicPartition(unique, 1): OffsetAndMetadata(0, "")}
                await consumer.commit(offset)
                found = await admin.list_consumer_group_offsets(f"{unique}-group")
                assert found[TopicPartition(unique, 1)].offset == 0
            deleted = await admin.delete_topics([unique])
            assert deleted.topic_error_codes == [(unique, 0)]

    asyncio.run(scenario())
