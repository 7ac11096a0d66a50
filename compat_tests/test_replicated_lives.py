"""Brokers of both engines are killed, paused and stopped under load: no record is lost or doubled.

`WIREKAFKA_REPLICATED_LIVES` is the number of incidents, `WIREKAFKA_REPLICATED_SEED` chooses them.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.replica_audit import Workload, audit
from tests.repetitions import repetitions

INCIDENTS = repetitions("WIREKAFKA_REPLICATED_LIVES", usual=1, thorough=3)
SEED = int(os.environ.get("WIREKAFKA_REPLICATED_SEED", "1"))
BROKERS = (1, 2, 3)
TOPIC = "lives"
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
}


def fail_a_broker(cluster: Cluster, random: Random, workload: Workload) -> None:
    """Kill, pause or stop a broker; wait until all are in service and writes continue."""
    broker = random.choice(BROKERS)
    match random.choice(["kill", "pause", "stop"]):
        case "kill":
            cluster.kill(broker)
            if random.random() < 0.5:
                workload.goes_on()
            cluster.start(broker)
        case "pause":
            cluster.pause(broker)
            if random.random() < 0.5:
                workload.goes_on()
            cluster.go_on(broker)
        case "stop":
            cluster.stop(broker)
            workload.goes_on()
            cluster.start(broker)
    workload.goes_on()


@pytest.mark.timeout(300 + 120 * INCIDENTS)
def test_acknowledged_records_stay_once_and_in_order_and_replicas_agree(tmp_path: Path) -> None:
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA), is_combined=False, settings=SETTINGS)
    with Cluster.running(shape, tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        config = {"segment.bytes": str(1 << 20)}
        topic = NewTopic(TOPIC, len(ASSIGNMENT), replica_assignment=ASSIGNMENT, config=config)
        admin.create_topics([topic])[TOPIC].result(60)
        random = Random(SEED)
        load = Workload(cluster.bootstrap, TOPIC, len(ASSIGNMENT), most_digits=1_000)
        with load as workload:
            workload.goes_on()
            for _ in range(INCIDENTS):
                fail_a_broker(cluster, random, workload)
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)
