"""`wirekafka.Cluster`: nodes that start, stop, crash and lose each other, as clients see it."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import confluent_kafka
import pytest

from tests.testing.clients import CLIENTS, confluent_producer, deliver, read, send
from wirekafka import Broker, Cluster
from wirekafka.errors import Error, KafkaError
from wirekafka.testing import Allow
from wirekafka.testing.loop_thread import EngineGone

each_client = pytest.mark.parametrize("client", CLIENTS)


def failed_over(cluster: Cluster, topic: str, old: int) -> int:
    """Wait for another leader; returns it."""
    return cluster.wait_for(lambda: (new := cluster.leader(topic)) not in (None, old) and new)


def broker_epochs(cluster: Cluster) -> list[int]:
    """The epochs of the registrations of brokers that are not fenced."""
    return [each.epoch for each in cluster._running.image().live_brokers()]


@each_client
def test_a_record_is_on_all_replicas_once_it_is_acknowledged(client: str) -> None:
    with Cluster(topics=["t"]) as cluster:
        assert send(client, cluster, "t") is None
        assert cluster.isr("t") == sorted(cluster.replicas("t")) == [1, 2, 3]
        for broker in cluster:
            cluster.wait_for(lambda broker=broker: cluster[broker].records("t"))
        assert read(client, cluster, "t", 1, "g") == [b"v"]


@each_client
def test_a_producer_continues_with_the_next_leader(client: str) -> None:
    with Cluster(topics=["t"]) as cluster:
        assert send(client, cluster, "t", b"1") is None
        killed = cluster.leader("t")
        cluster.kill(killed)
        assert send(client, cluster, "t", b"2") is None
        assert cluster.leader("t") not in (None, killed)
        assert killed not in cluster.isr("t")
        cluster.start(killed)
        cluster.wait_for_full_isr()
        cluster.wait_for(lambda: len(cluster[killed].records("t")) == 2)
        assert read(client, cluster, "t", 2) == [b"1", b"2"]


def test_a_stopped_broker_hands_its_leaderships_over() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 2)
        assert cluster.leader("t") == 2
        cluster.stop(2)
        assert cluster.leader("t") != 2
        cluster.produce("t", ["1"])
        with pytest.raises(EngineGone):
            cluster[2].records("t")
        cluster.start(2)
        cluster.wait_for_full_isr("t")


def test_each_broker_has_its_own_requests_and_faults() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 2)
        assert isinstance(cluster[2], Broker)
        producer = confluent_producer(cluster)
        with cluster[1].fail("Produce", "INVALID_TIMESTAMP"):
            assert deliver(producer, "t") is None
        with cluster[2].fail("Produce", "INVALID_TIMESTAMP", required=True):
            assert deliver(producer, "t") == "INVALID_TIMESTAMP"
        assert len(cluster[2].requests.of("Produce")) == 2
        assert cluster[1].requests.of("Produce") == []
        assert [each.broker_id for each in cluster.requests.of("Produce")] == [2, 2]
        # Other nodes are no clients.
        assert {each.api for each in cluster.requests} <= {"ApiVersions", "Metadata", "Produce"}


def test_a_rule_of_the_cluster_counts_the_requests_to_all_brokers() -> None:
    with Cluster(topics={"t": 3}) as cluster:
        producer = confluent_producer(cluster)
        with cluster.fail("Produce", "INVALID_TIMESTAMP", times=2) as rule:
            failed = []
            for index in range(3):
                cluster.move_leader("t", index, index + 1)
                producer.produce(
                    "t", b"v", partition=index, on_delivery=lambda *x: failed.append(x)
                )
                producer.flush(30)
            assert [error is None for error, _ in failed] == [False, False, True]
            assert rule.hits == 2


def test_a_single_broker_refuses_records_of_partitions_that_it_does_not_lead() -> None:
    with Cluster(topics=["t"]) as cluster:
        follower = cluster.followers("t")[0]
        with pytest.raises(KafkaError) as raised:
            cluster[follower].produce("t", ["1"])
        assert raised.value.error is Error.NOT_LEADER_OR_FOLLOWER


def test_an_isolated_broker_is_fenced_and_comes_back() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 1)
        with cluster.isolate(1):
            assert failed_over(cluster, "t", 1) in (2, 3)
            cluster.produce("t", ["1"])
            assert cluster[1].records("t") == []
        cluster.wait_for_full_isr()
        assert len(cluster[1].records("t")) == 1


def test_a_paused_broker_does_nothing_until_it_continues() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 1)
        cluster.pause(1)
        assert failed_over(cluster, "t", 1) in (2, 3)
        cluster.produce("t", ["1"])
        cluster.resume(1)
        cluster.wait_for_full_isr()
        assert len(cluster[1].records("t")) == 1


def test_a_slow_link_delays_the_acknowledgement() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 1)
        cluster.produce("t", ["1"])
        before_ms = cluster.clock.now_ms
        with cluster.slow(1, 2, seconds=0.3):
            cluster.produce("t", ["2"])
        assert cluster.clock.now_ms - before_ms >= 300


def test_too_few_replicas_in_sync_refuse_records() -> None:
    with Cluster(topics=["t"], min_insync_replicas=3) as cluster:
        cluster.produce("t", ["1"])
        cluster.kill(cluster.followers("t")[0])
        cluster.wait_for(lambda: len(cluster.isr("t")) == 2)
        with pytest.raises(KafkaError) as raised:
            cluster.produce("t", ["2"])
        assert raised.value.error is Error.NOT_ENOUGH_REPLICAS


def test_three_controllers_elect_another_active_one() -> None:
    with Cluster(controllers=3, topics=["t"]) as cluster:
        active = cluster.controller
        assert active in cluster.controllers == [101, 102, 103]
        cluster.kill(active)
        cluster.wait_for(lambda: cluster.controller not in (None, active))
        cluster.create_topic("u")
        cluster.start(active)
        assert send("confluent-kafka", cluster, "u") is None


def test_the_cluster_goes_on_without_its_controller_and_with_it_again() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.kill(101)
        assert cluster.controller is None
        assert send("confluent-kafka", cluster, "t") is None
        cluster.start(101)
        cluster.create_topic("u")
        assert send("confluent-kafka", cluster, "u") is None


def test_the_nodes_and_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        Cluster(brokers=0)
    with pytest.raises(ValueError, match="listeners"):
        Cluster(listeners="PLAINTEXT://:9092")
    with pytest.raises(ValueError, match="there is no node 9"):
        Cluster(nodes={9: {}})
    with pytest.raises(ValueError, match=r"num\.partitions"):
        Cluster(num_partition=1)
    with pytest.raises(RuntimeError, match="was not started"):
        Cluster().leader("t")
    with Cluster(brokers=1) as cluster:
        with pytest.raises(LookupError, match="there is no broker 2"):
            cluster[2]
        with pytest.raises(LookupError, match="there is no node 7"):
            cluster.kill(7)
        with pytest.raises(LookupError, match="there is no partition"):
            cluster.leader("t")
        with pytest.raises(TypeError, match="name a node"):
            cluster.kill()
    with pytest.raises(RuntimeError, match="was stopped"):
        cluster.leader("t")


def test_a_frozen_and_advanced_clock_keeps_the_cluster_together() -> None:
    with Cluster(topics={"t": 3}, log_retention_ms=3_600_000) as cluster:
        with cluster.clock.freeze(at_ms=1_700_000_000_000):
            cluster.produce("t", ["1", "2", "3"])
            cluster.kill(1)
            for index in range(3):
                cluster.wait_for(lambda index=index: cluster.leader("t", index) in (2, 3))
            cluster.start(1)
            cluster.wait_for_full_isr()
            assert cluster.clock.now_ms == 1_700_000_000_000
        epochs = broker_epochs(cluster)
        cluster.clock.advance(days=10)
        assert broker_epochs(cluster) == epochs
        cluster.wait_for_full_isr()
        cluster.wait_for(lambda: cluster.records("t") == [])  # Retention has deleted them.
        cluster.produce("t", ["4"])


def test_a_broker_that_refuses_clients_still_replicates() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.move_leader("t", 0, 1)
        with cluster[2].refuse_connections(), pytest.raises(ConnectionRefusedError):
            cluster.produce("t", ["1"])
            assert cluster.isr("t") == [1, 2, 3]
            socket.create_connection((cluster[2].host, cluster[2].port))
        socket.create_connection((cluster[2].host, cluster[2].port)).close()


def test_users_acls_and_tls_hold_at_every_broker() -> None:
    users, acls = {"alice": "secret", "bob": "hidden"}, [Allow("alice", "all", topic="t")]
    with Cluster(topics=["t"], users=users, acls=acls, tls=True, controllers=3) as cluster:
        for leader in cluster:
            cluster.move_leader("t", 0, leader)
            for user, error in (("alice", None), ("bob", "TOPIC_AUTHORIZATION_FAILED")):
                producer = confluent_producer(cluster, **cluster.client_config(user=user))
                assert deliver(producer, "t") == error
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_for_full_isr()


@each_client
def test_groups_and_transactions_are_those_of_the_whole_cluster(client: str) -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.produce("t", ["1"])
        for group in ("a", "b", "c", "d", "e"):
            assert read(client, cluster, "t", 1, group) == [b"1"]
        assert [each.id for each in cluster.groups()] == ["a", "b", "c", "d", "e"]
        coordinators = {group: cluster.coordinator(group=group) for group in "abcde"}
        assert len(set(coordinators.values())) > 1
        for group, broker in coordinators.items():
            assert group in {each.id for each in cluster[broker].groups()}
        cluster.move_coordinator(group="a", to=coordinators["a"] % 3 + 1)
        assert cluster.coordinator(group="a") == coordinators["a"] % 3 + 1
        assert read(client, cluster, "t", 1, "f") == [b"1"]


def test_a_fenced_producer_is_fenced_at_its_coordinator() -> None:
    with Cluster(topics=["t"]) as cluster:
        producer = confluent_producer(cluster, **{"transactional.id": "x"})
        producer.init_transactions(30)
        producer.begin_transaction()
        assert deliver(producer, "t") is None
        cluster.fence_producer("x")
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            producer.commit_transaction(30)
        assert raised.value.args[0].fatal()
        assert [each.transaction for each in cluster.records("t")] == ["aborted"]


def test_a_reset_ends_all_faults_and_empties_the_cluster() -> None:
    with Cluster(topics=["t"]) as cluster:
        addresses = cluster.bootstrap_servers
        cluster.produce("t", ["1"])
        cluster.create_topic("u", replicas=[[3, 1], [2, 3]])
        assert (cluster.replicas("u", 1), cluster.leader("u", 0)) == ([2, 3], 3)
        cluster.fail("Produce", "INVALID_TIMESTAMP")
        cluster.isolate(1)
        cluster.kill(2)
        cluster.pause(3)
        cluster.reset()
        assert cluster.topics() == {"t": 1} and cluster.records("t") == []
        assert cluster.bootstrap_servers == addresses
        cluster.wait_for_full_isr()
        assert send("confluent-kafka", cluster, "t") is None


def test_a_directory_is_kept_and_served_again(tmp_path: Path) -> None:
    for controllers in (1, 3):
        directory = tmp_path / str(controllers)
        with Cluster(directory=directory, controllers=controllers, topics=["t"]) as cluster:
            cluster.produce("t", ["1"])
            cluster_id = cluster.cluster_id
        with Cluster(directory=directory, controllers=controllers) as cluster:
            assert cluster.cluster_id == cluster_id
            assert [each.value for each in cluster.records("t")] == [b"1"]


def test_an_unreferenced_cluster_is_stopped() -> None:
    cluster = Cluster(topics=["t"]).start()
    thread, directory = cluster._running.thread, Path(cluster.directory)
    del cluster
    gc.collect()
    thread.join(30)
    assert not thread.is_alive() and not directory.exists()


async def _in_a_coroutine() -> None:
    async with Cluster(topics=["t"]) as cluster:
        assert await asyncio.to_thread(send, "kafka-python", cluster, "t") is None


def test_a_cluster_in_a_coroutine() -> None:
    asyncio.run(_in_a_coroutine())
