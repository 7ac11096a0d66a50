"""The guide's recipes about clusters with clients that the guide does not show there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest

from tests.testing.clients import confluent_producer, deliver
from wirekafka import Cluster

TIMEOUT_S = 60


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def _values(cluster: Cluster) -> list[bytes | None]:
    return [each.value for each in cluster.records("orders")]


def test_a_leader_lost_in_a_transaction_with_kafka_python() -> None:
    with Cluster(topics=["orders"]) as cluster:
        producer = kafka.KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id="billing",
            retry_backoff_ms=20,
        )
        producer.init_transactions()
        # kafka-python 3.0.12 does not send EndTxn again after its coordinator was lost as well.
        coordinator = cluster.coordinator(transactional_id="billing")
        assert coordinator is not None
        cluster.move_leader("orders", 0, coordinator % 3 + 1)
        producer.begin_transaction()
        producer.send("orders", b"1").get(TIMEOUT_S)
        cluster.kill(coordinator % 3 + 1)
        producer.send("orders", b"2").get(TIMEOUT_S)
        producer.commit_transaction()
        cluster.wait_for(
            lambda: [each.transaction for each in cluster.records("orders")] == ["committed"] * 2
        )
        assert _values(cluster) == [b"1", b"2"]
        producer.close(2)


def test_what_acks_1_loses_with_aiokafka() -> None:
    async def scenario() -> None:
        async with (
            Cluster(topics=["orders"]) as cluster,
            aiokafka.AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, acks=1, retry_backoff_ms=20
            ) as producer,
        ):
            await producer.send_and_wait("orders", b"1")
            await asyncio.to_thread(
                cluster.wait_for,
                lambda: all(len(cluster[each].records("orders")) == 1 for each in cluster),
            )
            leader = cluster.leader("orders")
            with cluster.isolate(leader):
                await producer.send_and_wait("orders", b"2")
                await asyncio.to_thread(
                    cluster.wait_for, lambda: cluster.leader("orders") not in (None, leader)
                )
            await asyncio.to_thread(cluster.wait_for_full_isr)
            assert _values(cluster) == [b"1"]

    _run(scenario)


def test_too_few_replicas_with_confluent_kafka() -> None:
    with Cluster(topics=["orders"], min_insync_replicas=2) as cluster:
        producer = confluent_producer(cluster, retries=0)
        assert deliver(producer, "orders", b"1") is None
        followers = cluster.followers("orders")
        cluster.kill(*followers)
        cluster.wait_for(lambda: cluster.isr("orders") == [cluster.leader("orders")])
        assert deliver(producer, "orders", b"2") == "NOT_ENOUGH_REPLICAS"
        cluster.start(*followers)
        cluster.wait_for_full_isr("orders")
        assert deliver(producer, "orders", b"3") is None
        assert _values(cluster) == [b"1", b"3"]


def test_an_unclean_election_with_aiokafka() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            cluster.create_topic("orders", replicas=[[1, 2]])
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, acks="all", retry_backoff_ms=20
            ) as producer:
                await producer.send_and_wait("orders", b"1")
                cluster.kill(2)
                await producer.send_and_wait("orders", b"2")
            cluster.kill(1)
            await asyncio.to_thread(cluster.start, 2)
            await asyncio.to_thread(cluster.wait_for, lambda: cluster.leader("orders") is None)
            assert cluster.elect_unclean("orders") == 2
            assert _values(cluster) == [b"1"]

    _run(scenario)


def test_the_nearest_replica_with_aiokafka() -> None:
    async def scenario() -> None:
        racks = {id: {"broker.rack": rack} for id, rack in enumerate("abc", 1)}
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with Cluster(nodes=racks, replica_selector_class=selector) as cluster:
            cluster.create_topic("orders", replicas=[[1, 2, 3]])
            cluster.produce("orders", ["1"])
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                client_id="reader",
                client_rack="b",
                auto_offset_reset="earliest",
            ) as consumer:
                consumer.assign([aiokafka.TopicPartition("orders", 0)])
                assert (await consumer.getone()).value == b"1"
            assert cluster[2].requests.of("Fetch", client_id="reader", topic="orders")
            assert not cluster[3].requests.of("Fetch", client_id="reader")

    _run(scenario)


def test_a_rolling_restart_under_load_with_confluent_kafka() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=3, min_insync_replicas=2)
        producer = confluent_producer(cluster, **{"enable.idempotence": True})
        restart = threading.Thread(target=cluster.restart)
        restart.start()
        sent = 0
        while restart.is_alive() or not sent:
            assert deliver(producer, "orders", b"%d" % sent) is None
            sent += 1
        restart.join()
        assert sorted(int(value or b"") for value in _values(cluster)) == list(range(sent))


def test_a_client_of_an_isolated_broker_with_kafka_python() -> None:
    with Cluster(topics=["orders"]) as cluster:
        cluster.produce("orders", ["1"])
        old = cluster.leader("orders")
        with cluster.isolate(old), ExitStack() as refusals:
            cluster.wait_for(lambda: cluster.leader("orders") not in (None, old))
            for other in set(cluster) - {old}:  # The client would learn of the new leader there.
                refusals.enter_context(cluster[other].refuse_connections())
            producer = kafka.KafkaProducer(
                bootstrap_servers=cluster[old].bootstrap_servers,
                acks="all",
                enable_idempotence=False,
                retries=0,
                request_timeout_ms=1000,
                delivery_timeout_ms=2000,
            )
            with pytest.raises(kafka.errors.KafkaError):
                producer.send("orders", b"2").get(TIMEOUT_S)
            assert cluster[old].requests.of("Produce", topic="orders")
            producer.close(0)
        cluster.wait_for_full_isr("orders")
        assert _values(cluster) == [b"1"]


def test_a_follower_out_of_sync_with_confluent_kafka() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
        producer = confluent_producer(cluster)
        assert deliver(producer, "orders", b"1") is None
        with cluster.pause(3):
            assert deliver(producer, "orders", b"2") is None
            assert cluster.isr("orders") == [1, 2]
        cluster.wait_for_full_isr("orders")
        cluster.wait_for(lambda: len(cluster[3].records("orders")) == 2)


def test_a_lost_controller_with_confluent_kafka() -> None:
    with Cluster(topics=["orders"]) as cluster:
        producer = confluent_producer(cluster)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        returns, refunds = (
            confluent_kafka.admin.NewTopic(name, 1, 1) for name in ("returns", "refunds")
        )
        cluster.kill(101)
        assert deliver(producer, "orders", b"1") is None
        refused: Any = admin.create_topics([returns], operation_timeout=0.5, request_timeout=1)
        with pytest.raises(confluent_kafka.KafkaException):
            refused["returns"].result(TIMEOUT_S)
        cluster.start(101)
        # The broker may still pass on the first request, whose client has given up.
        created: Any = admin.create_topics([refunds], request_timeout=30)
        created["refunds"].result(TIMEOUT_S)
        assert deliver(producer, "orders", b"2") is None
        assert _values(cluster) == [b"1", b"2"]
