"""What joins, reconciliation and a leave cost in a large consumer group (KIP-848).

`python -m benchmarks.group_cost` prints the broker's CPU time in ms for the joins of 100 members,
for the two rounds of heartbeats until all have their share of 1,000 partitions, for the leave of
one and for the round after it, without a least time between two assignments. The socket and the
event loop are left out. The medians of several groups are printed, and the best.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import hashlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.groups import MEMBERS, PARTITIONS
from benchmarks.without_sockets import Transport, connected, receive, use_real_time
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.protocol.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

PHASES = ("100 joins", "first round", "second round", "leave", "round after it")
_VERSION = 1
_MOST_ROUNDS = 5


class _Kept(Transport):
    """Keeps what was written last."""

    data = b""

    def write(self, data: bytes) -> None:
        self.data = bytes(data)


class _Member:
    """A member, its connection, and the request that it sends next."""

    def __init__(self, broker: InProcessBroker, group: str, number: int):
        digest = hashlib.sha256(f"{group} {number}".encode()).digest()[:16]
        self._id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self._group = group
        self._sent = _Kept()
        self._connection = connected(broker, self._sent)
        self._epoch = 0
        self._assigned: list[Any] = []
        self.partitions = 0

    def frame(self, epoch: int | None = None) -> bytes:
        """A heartbeat that reports the assignment as owned; the first one joins."""
        epoch = self._epoch if epoch is None else epoch
        kind = ConsumerGroupHeartbeatRequest
        request = kind(
            group_id=self._group,
            member_id=self._id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 60_000,
            subscribed_topic_names=None if epoch else ["topic"],
            topic_partitions=[
                kind.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in self._assigned
            ],
        )
        return encode_request(1, "benchmark", request, _VERSION)

    def send(self, frame: bytes) -> None:
        """Pass a request to the broker as if it had been read from a socket."""
        receive(self._connection, frame)

    def adopt(self) -> int:
        """Take over what the response says; returns the member epoch."""
        _, response = decode_response(
            ConsumerGroupHeartbeatResponse, _VERSION, memoryview(self._sent.data)[4:]
        )
        assert not response.error_code, response
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned = response.assignment.topic_partitions
            self.partitions = sum(len(each.partitions) for each in self._assigned)
        return self._epoch


async def costs(directory: Path, groups: int) -> dict[str, list[float]]:
    """Seconds of CPU time for each phase of each group."""
    broker = InProcessBroker(
        directory / "broker",
        ManualClock(),
        group_consumer_assignment_interval_ms="0",
        group_consumer_min_assignment_interval_ms="0",
    )
    broker.create("topic", PARTITIONS)
    # Creates the internal topic.
    await broker.begin(FindCoordinatorRequest(coordinator_keys=["group"]), 4).settled()
    use_real_time(broker)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)  # As in a broker.
    found: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for number in range(groups):
        group = f"group-{number}"
        for phase, taken_s in zip(PHASES, _life(broker, group), strict=True):
            found[phase].append(taken_s)
    broker.node.abort()
    return found


def _life(broker: InProcessBroker, group: str) -> list[float]:
    """Seconds of CPU time for each phase of one group."""
    members = [_Member(broker, group, number) for number in range(MEMBERS)]
    taken = [_round(members) for _ in range(3)]
    assert {member.partitions for member in members} == {PARTITIONS // MEMBERS}
    leaver = members.pop()
    taken.append(_timed([(leaver, leaver.frame(-1))]))
    taken.append(_round(members))
    assert sum(member.partitions for member in members) == PARTITIONS, "not settled in a round"
    for member in members:
        member.send(member.frame(-1))
    return taken


def _round(members: Sequence[_Member]) -> float:
    taken_s = _timed([(member, member.frame()) for member in members])
    for member in members:
        member.adopt()
    return taken_s


def _timed(requests: Sequence[tuple[_Member, bytes]]) -> float:
    start = time.process_time()
    for member, frame in requests:
        member.send(frame)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20)
    groups = parser.parse_args().groups
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(costs(Path(directory), groups))
    for phase, each in found.items():
        print(
            f"{phase}: median {statistics.median(each) * 1e3:.2f} ms, best {min(each) * 1e3:.2f} ms"
        )


if __name__ == "__main__":
    main()
