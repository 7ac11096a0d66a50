"""Elections that `/metrics` of a controller counts, from the records of the metadata log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.records.metadata import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from wirekafka.runtime.observation import Committed
from wirekafka.server.monitoring.controller_state import ControllerCollector

TOPIC_ID = b"t" * 16
PREFIX = "kafka_controller_controllerstats"


class Controller:
    """A controller whose committed records are those of a test."""

    def __init__(self) -> None:
        self._observers: list[Any] = []
        quorum = SimpleNamespace(
            observe=lambda observer, _: self._observers.append(observer),
            committed_offset=1,
            voters_offset=0,
        )
        config = SimpleNamespace(controller_quorum_voters=["1@127.0.0.1:9093"])
        self.collector = ControllerCollector(
            SimpleNamespace(
                quorum=quorum,
                parts=SimpleNamespace(config=config),
                is_active=True,
                committed_image=MetadataImage(),
            ),  # type: ignore[arg-type]
            lambda _: None,
        )

    def commit(self, *records: Any, is_snapshot: bool = False) -> None:
        for observer in self._observers:
            observer(Committed(records, 1, is_snapshot))

    def value(self, name: str) -> int:
        for _ in self.collector.collect():
            pass
        text = "".join(part for table in self.collector.tables for part in table.texts())
        [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return int(line.split()[1])

    @property
    def eligible_elections(self) -> int:
        return self.value(f"{PREFIX}_electionfromeligibleleaderreplicas_total")


def partition(*eligible: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=TOPIC_ID,
        partition_id=0,
        replicas=[1, 2, 3],
        isr=[1],
        leader=1,
        eligible_leader_replicas=list(eligible) or None,
    )


def elected(leader: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=leader, isr=[leader])


def test_only_elections_of_eligible_leader_replicas_are_counted() -> None:
    controller = Controller()
    controller.commit(partition(2))
    controller.commit(elected(3))
    assert controller.eligible_elections == 0
    controller.commit(elected(2))
    assert controller.eligible_elections == 1


def test_replicas_are_eligible_as_long_as_the_metadata_says_so() -> None:
    controller = Controller()
    change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, eligible_leader_replicas=[])
    for end in (change, RemoveTopicRecord(topic_id=TOPIC_ID), ClearElrRecord(topic_name="")):
        controller.commit(partition(2))
        controller.commit(end)
        controller.commit(elected(2))
    controller.commit(partition(2))
    controller.commit(partition(), is_snapshot=True)
    controller.commit(elected(2))
    assert controller.eligible_elections == 0


def test_voters_of_the_configuration_that_the_log_overrides_are_reported() -> None:
    assert Controller().value("kafka_controller_kafkacontroller_ignoredstaticvoters") == 1
