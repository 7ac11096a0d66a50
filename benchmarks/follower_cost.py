"""The CPU that a follower spends for each Fetch of one partition, its system calls included.

    python -m benchmarks.follower_cost                          # records of 200 B
    python -m benchmarks.follower_cost --bytes 10000 --batches 2,3

The follower is the code that runs in a broker, in a process of its own, on the event loop that a
broker uses. Its leader is a script in another process: it answers each request after a pause with
the next batches of one record, as if producers with acks=all had just sent them.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.driver import batch_of
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import with_prefix
from wirekafka.codec.frame import RequestHeader
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.replica import Leadership
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.replica_fetcher import ReplicaFetchers, Surroundings
from wirekafka.server.run import loop_factory, tune_interpreter

_FOLLOWER = 2
_FOLLOWED = Leadership(leader_id=1, leader_epoch=0, partition_epoch=1, isr=(1, 2), replicas=(1, 2))
_WARM_UP_FETCHES = 500
_SPAN_S = 0.1
_START_LIMIT_S = 60.0
_Topic = FetchResponse.FetchableTopicResponse


@dataclass(frozen=True, slots=True)
class Load:
    """What the leader answers with."""

    record_bytes: int = 200
    batches: Sequence[int] = (2, 3)
    """The numbers of batches of the responses, in turn."""
    pause_s: float = 0.0001


def lead(listening: socket.socket, load: Load) -> None:
    """Answer the requests of one follower until it closes the connection."""
    batch, counts = batch_of(1, load.record_bytes), cycle(load.batches)
    connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as received:
        try:
            while size := received.read(4):
                frame = received.read(int.from_bytes(size, "big"))
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if key == ApiVersionsRequest.key:
                    body = _versions().encode(version)
                else:
                    _, at = RequestHeader.decoder(2)(frame, 0, len(frame))
                    time.sleep(load.pause_s)
                    request = FetchRequest.decode(frame, version, at)
                    body = b"\0" + _next(request, batch, next(counts)).encode(version)
                connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)
        except ConnectionResetError:
            pass


def _versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=kind.key, max_version=kind.versions.last)
            for kind in (ApiVersionsRequest, FetchRequest)
        ]
    )


def _next(request: FetchRequest, batch: bytes, count: int) -> FetchResponse:
    [topic] = request.topics
    [partition] = topic.partitions
    offset = partition.fetch_offset
    records = b"".join(
        b"".join(with_prefix(batch, each, 0)) for each in range(offset, offset + count)
    )
    found = _Topic.PartitionData(
        high_watermark=max(offset - 1, 0), log_start_offset=0, records=records
    )
    return FetchResponse(
        session_id=7, responses=[_Topic(topic_id=topic.topic_id, partitions=[found])]
    )


async def _follow(port: int, directory: Path, seconds: float, load: Load) -> list[float]:
    """The µs of CPU for each Fetch in each of many short spans, in ascending order."""
    broker = InProcessBroker(directory, ManualClock(time.time_ns() // 1_000_000))
    clock, net = LoopClock(asyncio.get_running_loop()), SocketNet()
    fetchers = ReplicaFetchers(
        Surroundings(
            node_id=_FOLLOWER,
            clock=clock,
            config=lambda: broker.broker.config,
            broker_epoch=lambda: 10,
            connect=lambda _, client_id: Peer(
                net, clock, PeerOptions("127.0.0.1", port, client_id)
            ),
            throttle=ReplicationThrottle(_FOLLOWER, lambda: None, 11, 1_000),
        )
    )
    broker.create("followed", 1)
    partition = broker.partition("followed", 0)
    partition.node_id = _FOLLOWER
    partition.follow(_FOLLOWED)
    fetchers.follow(partition)
    tune_interpreter()
    per_fetch = sum(load.batches) / len(load.batches)
    log = partition.log
    while log.end_offset < _WARM_UP_FETCHES * per_fetch:
        await asyncio.sleep(_SPAN_S)
    found = []
    for _ in range(max(int(seconds / _SPAN_S), 1)):
        offset, cpu_s = log.end_offset, time.process_time()
        await asyncio.sleep(_SPAN_S)
        cpu_s = time.process_time() - cpu_s
        if log.end_offset > offset:
            found.append(1e6 * cpu_s * per_fetch / (log.end_offset - offset))
    fetchers.stop()
    broker.node.abort()
    return sorted(found)


def _measure(port: int, seconds: float, load: Load, result: Connection) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        asyncio.Runner(loop_factory=loop_factory("auto")) as runner,
    ):
        result.send(runner.run(_follow(port, Path(directory), seconds, load)))


def costs(seconds: float, load: Load) -> list[float]:
    """The µs of CPU for each Fetch in each of many short spans, in ascending order."""
    context: Any = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(_START_LIMIT_S)
        port = listening.getsockname()[1]
        follower = context.Process(target=_measure, args=(port, seconds, load, there))
        follower.start()
        there.close()
        lead(listening, load)
    found: list[float] = here.recv()
    follower.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=200, help="of each record (200)")
    parser.add_argument("--batches", default="2,3", help="in the responses, in turn (2,3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round (5)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    load = Load(arguments.bytes, [int(each) for each in arguments.batches.split(",")])
    for _ in range(arguments.rounds):
        found = costs(arguments.seconds, load)
        print(f"{found[0]:.1f} µs for each Fetch at least, median {found[len(found) // 2]:.1f}")


if __name__ == "__main__":
    main()
