"""Twenty share consumers in Java under kills of the consumers and of the broker.

Each record is processed, none is delivered more often than its limit, and none remains stuck.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.share_settings import SHORT_TIMES
from compat_tests.wire import Wire
from tests import kafka_jars
from tests.eventually import eventually
from tests.repetitions import repetitions
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest

_ROUNDS = repetitions("WIREKAFKA_SHARE_CROWD_ROUNDS", usual=1, thorough=2)
"""In each round the broker is killed, or all consumers are, while records are consumed."""
_SEED = int(os.environ.get("WIREKAFKA_SHARE_SEED", "0"))
_CONSUMERS = 20
_PARTITIONS = 3
_RECORDS = 1_000
"""The number of records that are produced in each round."""
_POISON = 10
"""One record out of this number is never accepted."""
_LIMIT = 10
_TOPIC, _GROUP = "crowded", "crowd"
_SETTINGS = (
    *SHORT_TIMES,
    f"group.share.delivery.count.limit={_LIMIT}",
    f"group.share.max.share.sessions={_CONSUMERS * 100}",
)
_JVM = ("-Xmx512m", *kafka_jars.QUICK_JVM)
_SOURCE = Path(__file__).with_name("java") / "ShareCrowd.java"


class Crowd:
    """The process of the consumers, and what all such processes have reported."""

    def __init__(self, bootstrap: str, java: JavaTools):
        self._bootstrap = bootstrap
        self._java = java
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._starts = 0
        self.deliveries: dict[str, list[int]] = defaultdict(list)
        """The delivery counts that were seen of each value."""

    def start(self) -> None:
        """Start all consumers in a new process."""
        self._starts += 1
        arguments = (_TOPIC, _GROUP, str(_CONSUMERS), str(_SEED * 1000 + self._starts))
        command = self._java.command(str(_SOURCE), self._bootstrap, *arguments, jvm=_JVM)
        self._process = process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, args=[process])
        self._reader.start()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._reader is not None
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, _, rest = line.rstrip("\n").partition("\t")
            value, _, deliveries = rest.partition("\t")
            # The last line of a process that was killed may have been cut.
            if what in ("accepted", "released") and line.endswith("\n"):
                self.deliveries[value].append(int(deliveries))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MortalBroker]:
    broker = MortalBroker(tmp_path / "data", *_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def crowd(broker: MortalBroker, java_clients: JavaTools) -> Iterator[Crowd]:
    crowd = Crowd(broker.bootstrap, java_clients)
    yield crowd
    crowd.kill()


def test_share_consumers_process_every_record_under_kills(
    broker: MortalBroker, crowd: Crowd
) -> None:
    chance = random.Random(_SEED)
    _prepare(broker.bootstrap)
    crowd.start()
    expected: set[str] = set()
    for turn in range(_ROUNDS):
        added = {
            f"{'poison' if number % _POISON == 0 else 'good'}-{turn}-{number}"
            for number in range(_RECORDS)
        }
        _produce(broker.bootstrap, added)
        expected |= added
        count = len(expected) - len(added) + chance.randrange(1, _RECORDS)
        eventually(lambda count=count: len(crowd.deliveries) >= count, timeout_s=60)
        if turn % 2:
            crowd.kill()
            crowd.start()
        else:
            broker.kill()
            broker.start()
    eventually(lambda: set(crowd.deliveries) >= expected, timeout_s=60)
    eventually(lambda: _lags(broker.bootstrap) == [0] * _PARTITIONS, timeout_s=60)
    crowd.kill()
    assert set(crowd.deliveries) == expected
    assert max(map(max, crowd.deliveries.values())) <= _LIMIT
    poison = [each for value, each in crowd.deliveries.items() if value.startswith("poison")]
    assert poison and all(len(deliveries) > 1 for deliveries in poison)


def _prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)]).values():
        made.result(30)
    earliest = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, _GROUP, incremental_configs=[earliest])
    for altered in admin.incremental_alter_configs([group]).values():
        altered.result(30)


def _produce(bootstrap: str, values: set[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    for index, value in enumerate(sorted(values)):
        producer.produce(_TOPIC, value.encode(), partition=index % _PARTITIONS)
    assert producer.flush(30) == 0


def _lags(bootstrap: str) -> list[int]:
    """How many records of each partition the group has not completed."""
    wire = Wire.to(bootstrap)
    asked = DescribeShareGroupOffsetsRequest.Group(group_id=_GROUP, topics=None)
    response = wire.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
    wire.close()
    [group] = response.groups
    return [partition.lag for topic in group.topics for partition in topic.partitions]
