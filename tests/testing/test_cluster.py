"""`wirekafka.Cluster`: nodes that start, stop, crash and lose each other, as clients see it."""

from __future__ import annotations

import pytest

from tests.testing.clients import CLIENTS, confluent_producer, deliver, read, send
from wirekafka import Broker, Cluster
from wirekafka.errors import Error, KafkaError
from wirekafka.testing.loop_thread import EngineGone

each_client = pytest.mark.parametrize("client", CLIENTS)


def failed_over(cluster: Cluster, topic: str, old: int) -> int:
    """Wait for another leader; returns it."""
    return cluster.wait_for(lambda: (new := cluster.leader(topic)) not in (None, old) and new)


@each_client
def test_a_record_is_on_all_replicas_once_it_is_acknowledged(client: str) -> None:
    with Cluster(topics=["t"]) as cluster:
        assert send(client, cluster, "t") is None
        assert cluster.isr("t") == cluster.replicas("t") == [1, 2, 3] or cluster.isr("t") == sorted(
            cluster.replicas("t")
        )
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
