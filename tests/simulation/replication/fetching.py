"""Fetches of a follower, one at a time, and how its leader serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.replication.network import Reply
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetch_sessions import NO_SESSION
from wirekafka.replication.fetching.fetcher import FetchedPartition, Fetcher
from wirekafka.replication.fetching.fetcher_session import PartitionFetch
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.waiting import Watched

if TYPE_CHECKING:
    from tests.simulation.replication.broker import SimulatedBroker

_MAX_WAIT_MS = 500
_BACKOFF_MS = 1_000
_TIMEOUT_MS = 2_000


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """A follower's request for the partition."""

    replica_id: int
    broker_epoch: int
    topic_id: bytes
    position: PartitionFetch
    max_bytes: int


class Following:
    """The fetches of one broker's replica, planned by a `Fetcher` for each leader epoch."""

    def __init__(self, broker: SimulatedBroker):
        self._broker = broker
        self._fetcher: Fetcher | None = None
        self._source: tuple[int, int, bytes] | None = None

    def follow(self, partition: Partition | None) -> None:
        """Fetch from the partition's leader of now, or from none."""
        source = None
        if partition is not None and partition.follower is not None and partition.leader_id >= 0:
            source = partition.leader_id, partition.leader_epoch, partition.topic_id
        if source == self._source:
            return
        self._source, self._fetcher = source, None
        if source is not None:
            assert partition is not None
            self._fetcher = fetcher = Fetcher(
                lambda: _BACKOFF_MS, ReplicationThrottle(self._broker.id, lambda: None, 11, 1_000)
            )
            fetcher.follow(partition, partition.clock.now_ms())
            self._fetch(fetcher, partition)

    def _fetch(self, fetcher: Fetcher, partition: Partition) -> None:
        broker, now_ms = self._broker, partition.clock.now_ms()
        if fetcher is not self._fetcher or partition is not broker.partition:
            return
        if fetcher.out_of_range():
            self._find_range(fetcher, partition)
            return
        plan = fetcher.plan(now_ms)
        if plan is None:
            retry_ms = fetcher.next_retry_ms(now_ms)
            delay_ms = _BACKOFF_MS if retry_ms is None else retry_ms - now_ms
            broker.process.call_later(delay_ms, lambda: self._fetch(fetcher, partition))
            return
        [(key, position)] = plan.wanted.items()
        fetch = Fetch(
            replica_id=broker.id,
            broker_epoch=broker.epoch,
            topic_id=partition.topic_id,
            position=position,
            max_bytes=broker.world.random.choice((1, 300, 2_000, 1 << 16)),
        )

        def answered(answer: FetchedPartition | Error | None) -> None:
            # Also a response that comes after the leader has changed: `take` has to notice.
            if answer is None:
                fetcher.interrupt()
            elif partition is broker.partition:
                fetcher.accept(NO_SESSION)
                fetcher.take(key, _failed(answer), partition.clock.now_ms())
                broker.watch()
            delay_ms = 0 if answer is not None else _BACKOFF_MS
            broker.process.call_later(delay_ms, lambda: self._fetch(fetcher, partition))

        leader = broker.world.brokers[partition.leader_id]
        broker.world.network.ask(
            broker.process,
            leader.process,
            lambda reply: Serving(leader, fetch, reply).begin(),
            answered,
            _TIMEOUT_MS,
        )

    def _find_range(self, fetcher: Fetcher, partition: Partition) -> None:
        """ListOffsets for the leader's log start and end, as a replica."""
        broker = self._broker
        leader, epoch = broker.world.brokers[partition.leader_id], partition.leader_epoch

        def serve(reply: Reply) -> None:
            try:
                asked = leader.replica(partition.topic_id)
                asked.leading(epoch)
                reply((asked.log.start_offset, asked.log.end_offset))
            except KafkaError as error:
                reply(error)

        def answered(answer: Any) -> None:
            now_ms = partition.clock.now_ms()
            if fetcher is not self._fetcher or partition is not broker.partition:
                return
            if isinstance(answer, tuple):
                broker.note(f"is out of range at {partition.log.end_offset}: {answer}")
                start_offset, end_offset = answer
                fetcher.return_to_range(partition, start_offset, end_offset, now_ms)
                broker.watch()
            else:
                error = answer or KafkaError(Error.REQUEST_TIMED_OUT)
                fetcher.fail(partition, error, now_ms)
            self._fetch(fetcher, partition)

        broker.world.network.ask(broker.process, leader.process, serve, answered, _TIMEOUT_MS)


def _failed(answer: FetchedPartition | Error) -> FetchedPartition:
    if isinstance(answer, FetchedPartition):
        return answer
    return FetchedPartition(
        error=int(answer), high_watermark=-1, start_offset=-1, diverging=None, records=b""
    )


class Serving:
    """A fetch at the leader, which waits until it has a reply, as in the Fetch API."""

    def __init__(self, broker: SimulatedBroker, fetch: Fetch, reply: Reply):
        self._broker = broker
        self._fetch = fetch
        self._reply = reply
        self._partition: Partition | None = None
        self._high_watermark = -1

    def begin(self) -> None:
        """Read, and record the follower's position."""
        answer = self._read(is_first=True)
        if answer is None:
            assert self._partition is not None
            self._partition.watchers[self] = None
            self._broker.process.call_later(_MAX_WAIT_MS, self._time_out)
        else:
            self._reply(answer)

    def look(self, changed: Watched) -> None:
        """Check after a change of the partition."""
        answer = self._read(is_first=False)
        if answer is not None:
            self._finish(answer)

    def _time_out(self) -> None:
        if self._partition is not None and self in self._partition.watchers:
            self._finish(self._read(is_first=False, waits=False))

    def _finish(self, answer: FetchedPartition | Error | None) -> None:
        assert self._partition is not None and answer is not None
        del self._partition.watchers[self]
        self._reply(answer)

    def _read(self, *, is_first: bool, waits: bool = True) -> FetchedPartition | Error | None:
        fetch, broker = self._fetch, self._broker
        position = fetch.position
        try:
            partition = self._partition or broker.replica(fetch.topic_id)
            if partition is not broker.partition:
                raise KafkaError(Error.UNKNOWN_TOPIC_ID)
            self._partition = partition
            leader = partition.leading(position.leader_epoch)
            leader.check_follower(fetch.replica_id, position.leader_epoch)
            found = partition.read(
                ReadRange(
                    offset=position.fetch_offset,
                    max_bytes=fetch.max_bytes,
                    to_log_end=True,
                    current_leader_epoch=position.leader_epoch,
                    last_fetched_epoch=position.last_fetched_epoch,
                )
            )
            assert isinstance(found, ReadResult)
            if is_first and found.diverging is None:
                # After the read: the reply has the high watermark from before this fetch.
                leader.follower_fetched(
                    fetch.replica_id,
                    position.fetch_offset,
                    position.log_start_offset,
                    fetch.broker_epoch,
                    partition.clock.now_ms(),
                )
                broker.isr.check()
        except KafkaError as error:
            return error.error
        if is_first:
            self._high_watermark = found.high_watermark
        has_records = found.records is not None and found.records.size_bytes > 0
        has_news = has_records or found.high_watermark != self._high_watermark
        if waits and not has_news and found.diverging is None:
            return None
        return FetchedPartition(
            error=Error.NONE,
            high_watermark=found.high_watermark,
            start_offset=found.start_offset,
            diverging=found.diverging,
            records=b"".join(found.records.buffers()) if found.records is not None else b"",
        )
