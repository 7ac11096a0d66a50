"""What a follower's Fetch costs at both ends, by how many partitions have new records.

    python -m benchmarks.idle_replicas --partitions 1000 --busy 50

A leader and a follower, each a broker in this process under a manual clock, share a fetch session;
the follower is the code that runs in a broker, and requests and responses pass as bytes, but
through no socket. A round is idle, with a wait that ends at `replica.fetch.wait.max.ms`, or has a
new batch in some partitions, from Produce requests with acks=all, which the next Fetch completes.
The figures are CPU per Fetch: at the follower, decoding the response, appending, planning and
encoding the next request; at the leader, serving it; and that of all the Produce requests.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.driver import ALL, batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.codec.outgoing_request import OutgoingRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.replica import Leadership
from wirekafka.runtime.promise import Promise
from wirekafka.server.peers.replica_fetcher import ReplicaFetchers, Surroundings

_TOPIC = "idle"
_WAIT_MS = 500
_LED = Leadership(leader_id=1, leader_epoch=1, partition_epoch=1, isr=(1, 2), replicas=(1, 2))
_FOLLOWED = Leadership(leader_id=1, leader_epoch=1, partition_epoch=1, isr=(1, 2), replicas=(1, 2))
_FOLLOWER = 2


class Costs(NamedTuple):
    """CPU per Fetch in ms."""

    follower_ms: float
    leader_ms: float
    produce_ms: float
    """Of the Produce requests of the round, at the leader; 0 if there are none."""


class Link:
    """The follower's connection to the leader, which holds each request until `serve`."""

    def __init__(self, leader: InProcessBroker):
        self._leader = leader
        self._connection = leader.net.open(leader.node.listeners[0].address)
        self._asked: Promise = Promise()
        self._answered: Callable[[memoryview], None] = lambda response: None
        self._version = FetchRequest.versions.last

    def post(
        self, outgoing: OutgoingRequest, answered: Callable[[Any], None], *, timeout_ms: int
    ) -> None:
        """Hold a request for the leader, and later pass its response to `answered`."""
        self._answered = lambda response: answered(outgoing.decode(response, self._version))
        self._asked.set(outgoing.encode(1, "follower", self._version))

    def close(self) -> None:
        self._connection.hang_up()

    async def serve(self) -> Costs:
        """Serve the next request of the follower, and let it take the response."""
        frame = await self._asked
        self._asked = Promise()
        start_s = time.process_time()
        self._connection.feed(frame)
        if self._connection.protocol.is_parked:
            self._leader.clock.advance(_WAIT_MS)
            while self._connection.protocol.is_parked:
                await asyncio.sleep(0)
        served_s = time.process_time()
        await _settled()  # The Produce requests that the Fetch has completed are answered.
        answered_s = time.process_time()
        response = memoryview(bytes(self._connection.received))[4:]
        self._connection.received.clear()
        taking_s = time.process_time()
        self._answered(response)
        while not self._asked.done:
            await asyncio.sleep(0)
        follower_s = time.process_time() - taking_s
        return Costs(*(1e3 * s for s in (follower_s, served_s - start_s, answered_s - served_s)))


class Pair:
    """A leader and a follower of the same partitions."""

    def __init__(self, directory: Path, partition_count: int, record_bytes: int):
        self.clock = ManualClock(time.time_ns() // 1_000_000)
        self.leader = InProcessBroker(directory / "leader", self.clock)
        self.follower = InProcessBroker(directory / "follower", self.clock)
        self._link = Link(self.leader)
        self._fetchers = ReplicaFetchers(
            Surroundings(
                node_id=_FOLLOWER,
                clock=self.clock,
                config=lambda: self.follower.broker.config,
                broker_epoch=lambda: 10,
                connect=lambda broker_id, client_id: self._link,
                throttle=ReplicationThrottle(_FOLLOWER, lambda: None, 11, 1_000),
            )
        )
        topic_id = self.leader.create(_TOPIC, partition_count)
        self.follower.create(_TOPIC, partition_count)
        for index in range(partition_count):
            led = self.leader.partition(_TOPIC, index)
            led.brokers = FakeBrokers(1, _FOLLOWER)
            led.lead(_LED)
            followed = self.follower.partition(_TOPIC, index)
            followed.topic_id = topic_id
            followed.node_id = _FOLLOWER
            followed.follow(_FOLLOWED)
            self._fetchers.follow(followed)
        batch = batch_of(1, record_bytes)
        address = self.leader.node.listeners[0].address
        self._frames = [
            produce_frame(_TOPIC, batch, ALL, index) for index in range(partition_count)
        ]
        # Two for each partition, in turn: the first waits until the next round's Fetch.
        self._producing, self._waiting = (
            [self.leader.net.open(address) for _ in self._frames] for _ in range(2)
        )

    async def round(self, busy: int = 0) -> Costs:
        """One Fetch that gets a batch of each of so many partitions."""
        await _settled()
        start_s = time.process_time()
        for connection, frame in zip(self._producing[:busy], self._frames, strict=False):
            connection.feed(frame)
        self._producing, self._waiting = self._waiting, self._producing
        produced_ms = 1e3 * (time.process_time() - start_s)
        found = await self._link.serve()
        return found._replace(produce_ms=found.produce_ms + produced_ms if busy else 0.0)

    def stop(self) -> None:
        self._fetchers.stop()
        for each in (self.leader, self.follower):
            each.node.abort()


def costs(
    directory: Path,
    partition_count: int,
    busy: Iterable[int] = (1,),
    rounds: int = 50,
    record_bytes: int = 200,
) -> dict[str, Costs]:
    """Return the costs of an idle and of busy rounds: the median of so many of each."""

    async def measure() -> dict[str, Costs]:
        pair = Pair(directory, partition_count, record_bytes)
        for _ in range(3):  # The full request, what it changed, and the first idle one.
            await pair.round()
        found = {"idle": [await pair.round() for _ in range(rounds)]}
        for count in busy:
            name = "one busy partition" if count == 1 else f"{count} busy partitions"
            found[name] = [await pair.round(count) for _ in range(rounds)]
            for _ in range(3):
                await pair.round()
        pair.stop()
        return {name: _median(each) for name, each in found.items()}

    return asyncio.run(measure())


async def _settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def _median(found: list[Costs]) -> Costs:
    middle = len(found) // 2
    return Costs(*(sorted(each)[middle] for each in zip(*found, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--busy", type=int, default=50, help="partitions with new records")
    parser.add_argument("--bytes", type=int, default=200, help="of each new record")
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    gc.set_threshold(50_000, 50, 50)  # As in a broker.
    with tempfile.TemporaryDirectory() as directory:
        found = costs(
            Path(directory),
            arguments.partitions,
            (1, arguments.busy),
            arguments.rounds,
            arguments.bytes,
        )
    for name, (follower_ms, leader_ms, produce_ms) in found.items():
        print(
            f"{name}: {follower_ms:.3f} ms at the follower, {leader_ms:.3f} ms at the leader,"
            f" {produce_ms:.3f} ms for producing"
        )


if __name__ == "__main__":
    main()
