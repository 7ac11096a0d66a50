"""wirekafka and Apache Kafka take turns on the states of share partitions, and both prune them."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java_tools import JavaTools
from compat_tests.share_states import PARTITIONS, Scenario, find_coordinators, summaries
from compat_tests.turns import Turn, Turns
from tests import share_state_topic
from tests.eventually import eventually
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from wirekafka.replication.partition.internal_topics import SHARE_STATE_TOPIC

SETTINGS = (
    *share_state_topic.lines().splitlines(),
    "share.coordinator.snapshot.update.records.per.snapshot=3",
)
QUICK = (
    "share.coordinator.cold.partition.snapshot.interval.ms=500",
    "share.coordinator.state.topic.prune.interval.ms=500",
)
GROUPS = ("handed over", "also")
STEPS, LATER = 60, 500


class StatesTurn(Turn):
    """The running broker, to which a `Scenario` sends its requests."""

    def __init__(self, bootstrap: str, topic_ids: list[bytes]):
        super().__init__(bootstrap)
        self.topic_ids = topic_ids

    def states(self, leader_epoch: int) -> list[Any]:
        """All states that leaders with this epoch can read."""
        eventually(lambda: find_coordinators(self.ask, self.topic_ids[-1], PARTITIONS))
        found: list[Any] = []
        kind = ReadShareGroupStateRequest.ReadStateData
        for group_id in GROUPS:
            topics = [
                kind(
                    topic_id=topic_id,
                    partitions=[
                        kind.PartitionData(partition=index, leader_epoch=leader_epoch)
                        for index in range(PARTITIONS)
                    ],
                )
                for topic_id in self.topic_ids
            ]
            found.append(self.ask(ReadShareGroupStateRequest(group_id=group_id, topics=topics), 0))
            found.append(self.ask(summaries(group_id, self.topic_ids, PARTITIONS), 1))
        return found

    def work(self, first_epoch: int) -> list[Any]:
        """Change states, with epochs from the first on; returns the states for `LATER` leaders."""
        eventually(lambda: find_coordinators(self.ask, self.topic_ids[-1], PARTITIONS))
        for group_id in GROUPS:
            chance = random.Random(f"{first_epoch} {group_id}")
            scenario = Scenario(chance, self, group_id, first_epoch)
            for _ in range(STEPS):
                scenario.step()
        found = self.states(first_epoch + LATER)
        read = [each for each in found if isinstance(each, ReadShareGroupStateResponse)]
        partitions = [each for one in read for topic in one.results for each in topic.partitions]
        assert any(each.state_batches for each in partitions)
        return found

    def first_offset(self) -> int:
        kind = ListOffsetsRequest.Topic
        partition = kind.Partition(partition_index=0, timestamp=-2)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[kind(name=SHARE_STATE_TOPIC, partitions=[partition])]
        )
        offset: int = self.ask(request, 6).topics[0].partitions[0].offset
        return offset


@pytest.mark.timeout(200)
def test_engines_alternate_on_the_states_of_share_partitions(
    tmp_path: Path, java_tools: JavaTools
) -> None:
    ids: list[bytes] = []
    turns = Turns(
        tmp_path / "data", tmp_path, SETTINGS, lambda bootstrap: StatesTurn(bootstrap, ids)
    )
    with turns.ours() as ours:
        ids += ours.create_topics({"a": PARTITIONS, "b": PARTITIONS})
        before = ours.work(0)
    dumped_alike(turns.data, java_tools)
    with turns.kafka(*QUICK) as kafka:
        assert kafka.states(LATER) == before
        before = kafka.work(1000)
        eventually(lambda: kafka.first_offset() > 0, timeout_s=20)
        assert kafka.states(1000 + LATER) == before
    with turns.ours(*QUICK) as ours:
        assert ours.states(1000 + LATER) == before
        pruned_to = ours.first_offset()
        before = ours.work(2000)
        eventually(lambda: ours.first_offset() > pruned_to, timeout_s=20)
        assert ours.states(2000 + LATER) == before
    with turns.ours() as ours:
        assert ours.states(2000 + LATER) == before


def dumped_alike(data: Path, java_tools: JavaTools) -> None:
    """kafka-dump-log and `wirekafka dump-log` decode the same."""
    path = data / f"{SHARE_STATE_TOPIC}-0" / f"{0:020d}.log"
    done = java_tools.finish(
        "kafka-dump-log", "--files", str(path), "--share-group-state-decoder", "--print-data-log"
    )
    assert done.returncode == 0, done.stderr
    theirs = [
        (json.loads(key)["data"], json.loads(payload)["data"] if payload != "<DELETE>" else None)
        for key, payload in re.findall(r" key: (\{.*?\}) payload: (\{.*\}|<DELETE>)", done.stdout)
    ]
    command = [sys.executable, "-m", "wirekafka", "dump-log", "--json", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    ours = [
        (record["key"], record["value"])
        for line in printed.splitlines()
        for record in json.loads(line).get("records", [])
    ]
    assert len(theirs) > 100
    assert [_comparable(each) for each in ours] == [_comparable(each) for each in theirs]


def _comparable(value: Any) -> Any:
    """Names as in Kafka's JSON, and fields that the tool leaves out where they are the default."""
    if isinstance(value, dict):
        return {
            name.replace("_", "").lower(): _comparable(each)
            for name, each in value.items()
            if (name, each) not in (("delivery_complete_count", -1), ("deliveryCompleteCount", -1))
        }
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    return value
