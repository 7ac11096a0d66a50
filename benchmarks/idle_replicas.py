"""What a follower's Fetch costs whose session has many idle partitions, without sockets.

    python -m benchmarks.idle_replicas --partitions 1000

A leader and a follower, each a broker in this process under a manual clock, share a fetch session.
The figures are CPU per Fetch: planning the request and taking the response at the follower, and
serving it at the leader. A round is idle, with a wait that ends at `max_wait_ms`, or has new
records in one partition.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.driver import batch_of
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.apis.fetch import FetchRequest
from wirekafka.replication.fetcher import Fetched, Fetcher
from wirekafka.replication.fetcher_session import FollowedKey, Plan
from wirekafka.replication.replica import Leadership
from wirekafka.replication.throttle import ReplicationThrottle

_TOPIC = "idle"
_VERSION = 17
_WAIT_MS = 500
_LED = Leadership(leader_id=1, leader_epoch=1, partition_epoch=1, isr=(1, 2), replicas=(1, 2))
_FOLLOWED = Leadership(leader_id=2, leader_epoch=1, partition_epoch=1, isr=(2, 1), replicas=(2, 1))


class Costs(NamedTuple):
    """CPU per Fetch in ms."""

    follower_ms: float
    leader_ms: float


class Pair:
    """A leader and a follower of the same partitions."""

    def __init__(self, directory: Path, partition_count: int):
        self.clock = ManualClock(time.time_ns() // 1_000_000)
        self.leader = InProcessBroker(directory / "leader", self.clock)
        self.follower = InProcessBroker(directory / "follower", self.clock)
        self.fetcher = Fetcher(lambda: 1_000, ReplicationThrottle(2, lambda: None, (11, 1_000)))
        topic_id = self.leader.create(_TOPIC, partition_count)
        self.follower.create(_TOPIC, partition_count)
        for index in range(partition_count):
            led = self.leader.partition(_TOPIC, index)
            led.brokers = FakeBrokers(1, 2)
            led.lead(_LED)
            followed = self.follower.partition(_TOPIC, index)
            followed.topic_id = topic_id
            followed.follow(_FOLLOWED)
            self.fetcher.follow(followed, self.clock.now_ms())
        self._batch = batch_of(1, 200)

    async def idle_round(self) -> Costs:
        """One Fetch that finds nothing new until its wait ends."""
        return await self._round(self._wait)

    async def busy_round(self) -> Costs:
        """One Fetch that gets one batch, of one partition."""
        leader = self.leader.partition(_TOPIC).leading()
        leader.append_from_client(self._batch, 1, self.clock.now_ms())
        return await self._round(_not_waiting)

    def stop(self) -> None:
        self.leader.stop()
        self.follower.stop()

    async def _wait(self) -> None:
        self.clock.advance(_WAIT_MS)

    async def _round(self, wait: Callable[[], Awaitable[None]]) -> Costs:
        start_s = time.process_time()
        plan = self.fetcher.plan(self.clock.now_ms())
        assert plan is not None
        planned_s = time.process_time()
        request = _request(plan)
        asked_s = time.process_time()
        exchange = self.leader.begin(request, _VERSION)
        if not exchange.is_done:
            await wait()
            await exchange.settled()
        served_s = time.process_time()
        response = exchange.response
        answered_s = time.process_time()
        self._take(response)
        taken_s = time.process_time()
        follower_s = planned_s - start_s + taken_s - answered_s
        return Costs(follower_s * 1_000, (served_s - asked_s) * 1_000)

    def _take(self, response: Any) -> None:
        assert response.error_code == 0
        self.fetcher.accept(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                key: FollowedKey = (topic.topic_id, data.partition_index)
                fetched = Fetched(
                    error=data.error_code,
                    high_watermark=data.high_watermark,
                    start_offset=data.log_start_offset,
                    diverging=None,
                    records=data.records or b"",
                )
                self.fetcher.take(key, fetched, self.clock.now_ms())


def costs(directory: Path, partition_count: int, rounds: int = 50) -> dict[str, Costs]:
    """Return the costs of an idle and of a busy round: the median of so many of each."""

    async def measure() -> dict[str, Costs]:
        pair = Pair(directory, partition_count)
        for _ in range(3):  # The full request, what it changed, and the first idle one.
            await pair.idle_round()
        found = {
            "idle": [await pair.idle_round() for _ in range(rounds)],
            "one busy partition": [await pair.busy_round() for _ in range(rounds)],
        }
        pair.stop()
        return {name: _median(each) for name, each in found.items()}

    return asyncio.run(measure())


async def _not_waiting() -> None:
    raise AssertionError("the leader has something new to send")


def _median(found: list[Costs]) -> Costs:
    middle = len(found) // 2
    return Costs(
        sorted(each.follower_ms for each in found)[middle],
        sorted(each.leader_ms for each in found)[middle],
    )


def _request(plan: Plan) -> FetchRequest:
    topics: dict[bytes, list[FetchRequest.Topic.Partition]] = {}
    for (topic_id, index), at in plan.wanted.items():
        topics.setdefault(topic_id, []).append(
            FetchRequest.Topic.Partition(
                partition=index,
                current_leader_epoch=at.leader_epoch,
                fetch_offset=at.fetch_offset,
                last_fetched_epoch=at.last_fetched_epoch,
                log_start_offset=at.log_start_offset,
                partition_max_bytes=1 << 20,
            )
        )
    return FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=10),
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=[
            FetchRequest.Topic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = costs(Path(directory), arguments.partitions)
    for name, (follower_ms, leader_ms) in found.items():
        print(f"{name}: {follower_ms:.3f} ms at the follower, {leader_ms:.3f} ms at the leader")


if __name__ == "__main__":
    main()
