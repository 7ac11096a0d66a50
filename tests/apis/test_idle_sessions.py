"""A follower's fetch session under random changes: it ends with all that the leader has."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.apis.test_fetch import fetch_request
from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import Leadership

_PARTITIONS = 4


@dataclass
class Known:
    """What the follower has of a partition."""

    leader_epoch: int = 1
    offset: int = 0
    start_offset: int = 0
    high_watermark: int = 0


class Story:
    """A leader of four partitions, a follower with a session (broker 2), and another (broker 3)."""

    def __init__(self, directory: Path, seed: int):
        self.random = random.Random(seed)
        self.kafka = InProcessBroker(directory, ManualClock())
        self.topic_id = self.kafka.create("t", _PARTITIONS)
        self.partitions = [self.kafka.partition("t", index) for index in range(_PARTITIONS)]
        for partition in self.partitions:
            partition.brokers = FakeBrokers(1, 2, 3)
            partition.lead(
                Leadership(leader_id=1, leader_epoch=1, isr=(1, 2, 3), replicas=(1, 2, 3))
            )
        self.known = {index: Known() for index in range(_PARTITIONS)}
        self.changed = set(self.known)
        self.forgotten: set[int] = set()
        self.session_id = self.session_epoch = 0

    def append(self, partition: Partition) -> None:
        now_ms = self.kafka.clock.now_ms()
        partition.leading().append_from_client(batch(b"v"), 1, now_ms)

    def acknowledge(self, partition: Partition) -> None:
        """Broker 3 fetches from the end of the log."""
        offset, start = partition.end_offset, partition.start_offset
        now_ms = self.kafka.clock.now_ms()
        partition.leading().follower_fetched(3, offset, start, -1, now_ms)

    def delete(self, partition: Partition) -> None:
        partition.delete_records(-1)

    def elect(self, partition: Partition) -> None:
        """Another broker leads for a moment, or the epoch only begins anew."""
        epoch = partition.leader_epoch + 1
        if self.random.random() < 0.5:
            partition.follow(replace(partition.leadership, leader_id=3, leader_epoch=epoch))
            epoch += 1
        partition.lead(replace(partition.leadership, leader_id=1, leader_epoch=epoch))

    def change_isr(self, partition: Partition) -> None:
        isr = self.random.choice([(1, 2, 3), (1, 3), (1, 2)])
        partition.lead(replace(partition.leadership, isr=isr))

    def leave_out(self, partition: Partition) -> None:
        """The follower stops to fetch a partition, or fetches it again."""
        index = partition.index
        if index in self.forgotten:
            self.forgotten.discard(index)
            self.changed.add(index)
        elif len(self.forgotten) < _PARTITIONS - 1:  # A session without partitions would end.
            self.forgotten.add(index)
            self.changed.discard(index)

    def fetch(self) -> None:
        exchange = self.begin(max_wait_ms=0)
        assert exchange.is_done
        self.take(exchange.response)

    async def wait_for_append(self) -> None:
        """A parked fetch gets a batch that is appended, whatever else changes meanwhile."""
        while True:
            exchange = self.begin(max_wait_ms=5_000)
            if not (await exchange.settled()).is_done:
                break
            self.take(exchange.response)
        fetched = [each for each in self.partitions if each.index not in self.forgotten]
        partition = self.random.choice(fetched)
        for change in self.random.choices([self.acknowledge, self.delete], k=2):
            change(partition)
        self.append(partition)
        assert (await exchange.settled()).is_done
        self.take(exchange.response)

    def begin(self, max_wait_ms: int) -> Exchange:
        wanted = [
            (self.topic_id, index, self.known[index].offset, self.known[index].leader_epoch)
            for index in sorted(self.changed)
        ]
        request = fetch_request(
            *wanted,
            max_wait_ms=max_wait_ms,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=10),
        )
        for topic in request.topics:
            for each in topic.partitions:
                each.log_start_offset = self.known[each.partition].start_offset
        if self.forgotten and self.session_epoch:
            gone = FetchRequest.ForgottenTopic(
                topic_id=self.topic_id, partitions=sorted(self.forgotten)
            )
            request.forgotten_topics_data = [gone]
        self.changed = set()
        return self.kafka.begin(request, 17)

    def take(self, response: Any) -> None:
        assert response.error_code == 0
        self.session_id = response.session_id
        self.session_epoch += 1
        for topic in response.responses:
            for data in topic.partitions:
                self.take_one(data)

    def take_one(self, data: Any) -> None:
        known = self.known[data.partition_index]
        if data.error_code == Error.FENCED_LEADER_EPOCH:
            known.leader_epoch = self.partitions[data.partition_index].leader_epoch
        elif data.error_code == Error.OFFSET_OUT_OF_RANGE:
            known.offset = self.partitions[data.partition_index].start_offset
        else:
            assert data.error_code == Error.NONE
            known.offset += len(bytes(data.records or b"")) // len(batch(b"v"))
            known.high_watermark = data.high_watermark
            known.start_offset = data.log_start_offset
        self.changed.add(data.partition_index)


@pytest.mark.parametrize("seed", range(25))
def test_a_follower_gets_everything_whatever_changes(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path / "data", seed)

    async def scenario() -> None:
        story.fetch()
        changes = [
            story.append,
            story.acknowledge,
            story.delete,
            story.elect,
            story.change_isr,
            story.leave_out,
        ]
        for _ in range(60):
            if story.random.random() < 0.3:
                story.fetch()
            elif story.random.random() < 0.2:
                await story.wait_for_append()
            else:
                story.random.choice(changes)(story.random.choice(story.partitions))
        for partition in story.partitions:
            if partition.index in story.forgotten:
                story.leave_out(partition)
        for _ in range(6):
            for partition in story.partitions:
                story.acknowledge(partition)
            story.fetch()

    asyncio.run(scenario())
    for partition in story.partitions:
        assert story.known[partition.index] == Known(
            partition.leader_epoch,
            partition.end_offset,
            partition.start_offset,
            partition.high_watermark,
        )
        assert partition.leading().followers[2].end_offset == partition.end_offset
    story.kafka.stop()
