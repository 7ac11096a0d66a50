"""What the heartbeat of a stable member costs, by the kind of its group.

`python -m benchmarks.heartbeat_cost` prints µs of CPU time from the read of a request to the write
of its response: of a classic Heartbeat, and of those of consumer, share and streams groups. The
socket and the event loop are left out, which every kind needs alike. All are measured in turn in
this process; the best round of each counts, and the median of all.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.without_sockets import connected, timed, use_real_time
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.frame import encode_request
from wirekafka.codec.message import Request
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

GROUPS = 20
"""Groups of one member each, of every kind."""
_REQUESTS = 100
_TOPIC, _PARTITIONS = "topic", 4
_CLIENT = "benchmark"
_MEMBER = "fIqtRp6ESkKV4Pa9RMZvug"
_SESSION_MS = 600_000
_INTERVAL_MS = 4_000
"""More than the initial rebalance delay, and than the least time between two assignments."""

Beat = tuple[Request, int]
"""The heartbeat of a member, and its version."""
Join = Callable[[InProcessBroker, str], Awaitable[Beat]]


async def classic(broker: InProcessBroker, group_id: str) -> Beat:
    """Let a member join a classic group."""
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    request.member_id = broker.call(request, 9, _CLIENT).member_id
    waiting = broker.begin(request, 9, _CLIENT)
    broker.clock.advance(1)
    joined = (await waiting.settled()).response
    share = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"all")
    broker.call(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[share],
        ),
        5,
        _CLIENT,
    )
    beat = HeartbeatRequest(
        group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id
    )
    return beat, 4


async def consumer(broker: InProcessBroker, group_id: str) -> Beat:
    """Let a member join a consumer group (KIP-848)."""
    kind = ConsumerGroupHeartbeatRequest
    request = kind(
        group_id=group_id,
        member_id=_MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[_TOPIC],
        topic_partitions=[],
    )
    epoch = broker.call(request, 1, _CLIENT).member_epoch
    return kind(group_id=group_id, member_id=_MEMBER, member_epoch=epoch), 1


async def share(broker: InProcessBroker, group_id: str) -> Beat:
    """Let a member join a share group (KIP-932)."""
    kind = ShareGroupHeartbeatRequest
    request = kind(
        group_id=group_id, member_id=_MEMBER, member_epoch=0, subscribed_topic_names=[_TOPIC]
    )
    epoch = broker.call(request, 1, _CLIENT).member_epoch
    return kind(group_id=group_id, member_id=_MEMBER, member_epoch=epoch), 1


async def streams(broker: InProcessBroker, group_id: str) -> Beat:
    """Let a member join a streams group (KIP-1071)."""
    kind = StreamsGroupHeartbeatRequest
    part = StreamsGroupTopologyValue.Subtopology(subtopology_id="0", source_topics=[_TOPIC])
    request = kind(
        group_id=group_id,
        member_id=_MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=kind.Topology(epoch=0, subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )
    epoch = broker.call(request, 1, _CLIENT).member_epoch
    return kind(group_id=group_id, member_id=_MEMBER, member_epoch=epoch), 1


KINDS: dict[str, Join] = {
    "classic": classic,
    "consumer": consumer,
    "share": share,
    "streams": streams,
}


async def costs(directory: Path, rounds: int = 1000) -> dict[str, tuple[float, float]]:
    """µs of a heartbeat in the best round, and in the median of all rounds, by the kind."""
    broker = InProcessBroker(directory / "broker", ManualClock())
    broker.create(_TOPIC, _PARTITIONS)
    beats = await beats_of_stable_members(broker, GROUPS)
    frames = {
        name: [encode_request(1, _CLIENT, *beat) for beat in each] for name, each in beats.items()
    }
    use_real_time(broker)
    connection = connected(broker)
    names = list(frames)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)  # No kind always comes first.
        for name in names[turn:] + names[:turn]:
            found[name].append(timed(connection, frames[name][number % GROUPS], _REQUESTS))
    # An orderly stop may wait for a timer, and the manual clock that has it stands still.
    broker.node.abort()
    return {
        name: (min(each) / _REQUESTS * 1e6, statistics.median(each) / _REQUESTS * 1e6)
        for name, each in found.items()
    }


async def beats_of_stable_members(broker: InProcessBroker, groups: int) -> dict[str, list[Beat]]:
    """The heartbeat of the stable member of each group, by the kind of group.

    The groups are called `consumer-0` and so on. A topic "topic" exists.
    """
    beats: dict[str, list[Beat]] = {}
    for name, join in KINDS.items():
        group_ids = [f"{name}-{number}" for number in range(groups)]
        broker.call(FindCoordinatorRequest(coordinator_keys=group_ids), 4, _CLIENT)
        beats[name] = [await join(broker, group_id) for group_id in group_ids]
    for _ in range(3):
        broker.clock.advance(_INTERVAL_MS)
        for each in beats.values():
            for request, version in each:
                _adopt(request, broker.call(request, version, _CLIENT))
    for each in beats.values():
        for request, version in each:
            answer: Any = broker.call(request, version, _CLIENT)
            assert not answer.error_code, answer
            assert not getattr(answer, "assignment", None), "the member is not stable"
    return beats


def _adopt(request: Any, answer: Any) -> None:
    """Give a request the epochs of its last response."""
    for name in ("member_epoch", "endpoint_information_epoch"):
        if hasattr(answer, name):
            setattr(request, name, getattr(answer, name))


async def _print(directory: Path, rounds: int) -> None:
    found = await costs(directory, rounds)
    base = found["classic"]
    for name, each in found.items():
        best, usual = (f"{us:.2f} µs (×{us / of:.2f})" for us, of in zip(each, base, strict=True))
        print(f"{name}: best {best}, median {usual}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_print(Path(directory), rounds))


if __name__ == "__main__":
    main()
