"""Replicas of a partition whose fetches a test triggers, under a manual clock."""

from __future__ import annotations

from typing import Any

from tests.in_process import batch
from tests.log.batches import new_log, read_all
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import batches
from wirekafka.errors import KafkaError
from wirekafka.replication.partition.follower import LeaderData
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.replica import Leadership, PartitionIdentity

LAG_MS = 30_000


class FakeBrokers:
    """Brokers by id with their epochs; one that is missing is fenced."""

    max_lag_ms = LAG_MS

    def __init__(self, *broker_ids: int):
        self.epochs = dict.fromkeys(broker_ids, 10)
        self.stopping: set[int] = set()

    def alive_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def may_join(self, broker_id: int) -> bool:
        return broker_id in self.epochs and broker_id not in self.stopping


class Replicas:
    """A partition on brokers 1 to `count`, led by broker 1 with all in sync at the start."""

    def __init__(self, count: int = 3, **config: Any):
        self.clock = ManualClock()
        ids = range(1, count + 1)
        self.brokers = FakeBrokers(*ids)
        self.disks = {broker: SimulatedDisk() for broker in ids}
        self.partitions: dict[int, Partition] = {}
        self.leadership = Leadership(leader_id=-1, leader_epoch=-1, partition_epoch=-1)
        for broker in ids:
            partition = Partition(
                PartitionIdentity("topic", bytes(16), 0),
                new_log(self.disks[broker], **config),
                broker,
                self.clock,
            )
            partition.brokers = self.brokers
            self.partitions[broker] = partition
        self.elect(1, *ids)

    def __getitem__(self, broker: int) -> Partition:
        return self.partitions[broker]

    @property
    def leader(self) -> Partition:
        return self.partitions[self.leadership.leader_id]

    def elect(self, leader: int, *isr: int) -> None:
        """A new leader epoch."""
        self._publish(leader, self.leadership.leader_epoch + 1, isr)

    def set_isr(self, *isr: int) -> None:
        """A new ISR in the same leader epoch."""
        self._publish(self.leadership.leader_id, self.leadership.leader_epoch, isr)

    def append(self, *values: bytes, acks: int = 1, **options: Any) -> int:
        """A client's batch to the leader; returns its base offset."""
        appended = self.leader.leading().append_from_client(
            batch(*values, timestamp=self.clock.now_ms(), **options), acks, self.clock.now_ms()
        )
        return appended.base_offset

    def fetch(self, broker: int, max_bytes: int = 1 << 20) -> LeaderData:
        """The response to a broker's fetch; the leader records its position, as Fetch does."""
        follower = self[broker].follower
        assert follower is not None
        epoch, offset = self[broker].leader_epoch, follower.fetch_offset
        leading = self.leader.leading(epoch)
        leading.check_follower(broker, epoch)
        found = self.leader.read(
            ReadRange(
                offset=offset,
                max_bytes=max_bytes,
                to_log_end=True,
                current_leader_epoch=epoch,
                last_fetched_epoch=follower.last_fetched_epoch,
            )
        )
        assert isinstance(found, ReadResult)
        if found.diverging is None:
            leading.follower_fetched(
                broker,
                offset,
                self[broker].log.start_offset,
                self.brokers.epochs.get(broker, -1),
                self.clock.now_ms(),
            )
        records = b"" if found.records is None else b"".join(found.records.buffers())
        return LeaderData(
            leader_epoch=epoch,
            fetch_offset=offset,
            records=records,
            high_watermark=found.high_watermark,
            start_offset=found.start_offset,
            diverging=found.diverging,
        )

    def replicate(self, broker: int, max_bytes: int = 1 << 20) -> LeaderData:
        """One fetch, whose response the follower applies."""
        follower = self[broker].follower
        assert follower is not None
        data = self.fetch(broker, max_bytes)
        assert follower.take(data, self.clock.now_ms())
        return data

    def settle(self, *brokers: int) -> None:
        """Have these followers, or all, fetch until they have all records and high watermarks."""
        others = [
            broker for broker in brokers or self.partitions if broker != self.leadership.leader_id
        ]
        for _ in range(100):
            for broker in others:
                self.replicate(broker)
            leader = self.leader
            end_offset = leader.log.end_offset
            if leader.high_watermark == end_offset and all(
                self[broker].log.end_offset == self[broker].high_watermark == end_offset
                for broker in others
            ):
                return
        raise AssertionError("the followers do not get anywhere")

    def stored(self, broker: int) -> list[bytes]:
        """The batches in one replica's log."""
        return read_all(self[broker].log)

    def committed(self, broker: int) -> bytes:
        """The bytes of one replica's log below its high watermark."""
        data = b"".join(self.stored(broker))
        return b"".join(
            data[at : at + header.size_bytes]
            for at, header in batches(data)
            if header.end_offset <= self[broker].high_watermark
        )

    def _publish(self, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        self.leadership = Leadership(
            leader_id=leader,
            leader_epoch=leader_epoch,
            partition_epoch=self.leadership.partition_epoch + 1,
            isr=isr,
            replicas=tuple(self.partitions),
        )
        for broker, partition in self.partitions.items():
            (partition.lead if broker == leader else partition.follow)(self.leadership)


def error_of(attempt: Any) -> int:
    """The code of the KafkaError that a call raises."""
    try:
        attempt()
    except KafkaError as error:
        return error.error
    raise AssertionError("nothing was raised")
