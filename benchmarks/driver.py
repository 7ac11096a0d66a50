"""A raw-socket driver: keeps requests in flight on a few connections, so that the broker is the
limit, and tells what they cost the broker.

    python benchmarks/driver.py produce --port 9092 --pid $(pidof ...) --depth 10
    python benchmarks/driver.py fetch --port 9092

Requests are made once and sent over and over; responses are counted by their size prefix alone.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wirekafka.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.apis.fetch import FetchRequest, FetchResponse
from wirekafka.apis.produce import ProduceRequest, ProduceResponse
from wirekafka.codec.batch import batches
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.record import BatchOptions, Record, encode_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 11
CREATE_VERSION = 5


class Connection:
    """One socket with requests in flight; `send` keeps the count."""

    def __init__(self, host: str, port: int):
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def send(self, frames: bytes) -> None:
        self.socket.sendall(frames)

    def count(self) -> int:
        """How many responses one read has completed; they are not looked at."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the broker hung up")
        received = self._received
        received += data
        at, end, count = 0, len(received), 0
        while end - at >= 4:
            stop = at + 4 + int.from_bytes(received[at:at + 4], "big")
            if stop > end:
                break
            count += 1
            at = stop
        del received[:at]
        return count

    def response(self) -> bytearray:
        """The next response, without its size; none may have been counted in part before."""
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view, at = memoryview(received), 0
        while at < size:
            count = self.socket.recv_into(view[at:])
            if not count:
                raise ConnectionError("the broker hung up")
            at += count
        return received


def main() -> None:
    arguments = _parser().parse_args()
    _create_topic(arguments)
    run = {"produce": produce, "fetch": fetch}[arguments.case]
    print(json.dumps(run(arguments)))


def produce(arguments: argparse.Namespace) -> dict[str, Any]:
    """Produce one batch a request, `depth` requests in flight on each connection."""
    frame = encode_request(1, "driver", _produce_request(arguments), PRODUCE_VERSION)
    connections = [Connection(arguments.host, arguments.port) for _ in range(arguments.connections)]
    for connection in connections:
        _check_produced(connection, frame)
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(frame * arguments.depth)

    def step() -> int:
        done = 0
        for key, _ in selector.select():
            count = key.data.count()
            if count:
                key.data.send(frame * count)
            done += count
        return done

    result = _measure(arguments, step)
    result["records_per_s"] = round(result["per_s"] * arguments.records)
    return result


def fetch(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read the topic from its start to its end again and again."""
    connection = Connection(arguments.host, arguments.port)
    offset = total_bytes = 0

    def step() -> int:
        nonlocal offset, total_bytes
        connection.send(encode_request(
            1, "driver", _fetch_request(arguments, offset), FETCH_VERSION))
        _, response = decode_response(FetchResponse, FETCH_VERSION, connection.response())
        [topic] = response.responses
        [partition] = topic.partitions
        assert partition.error_code == 0, partition.error_code
        found = list(batches(partition.records or b""))
        total_bytes += len(partition.records or b"")
        offset = found[-1][1].end_offset if found else 0
        return 1

    result = _measure(arguments, step)
    result["mb_per_s"] = round(total_bytes / 1e6 / result["seconds"], 1)
    if "cpu_us" in result:
        result["cpu_ms_per_mb"] = round(
            result["cpu_us"] * result["requests"] / 1e3 / (total_bytes / 1e6), 3)
    return result


def _measure(arguments: argparse.Namespace, step: Callable[[], int]) -> dict[str, Any]:
    """Warm up, then count steps for the time given, and the broker's CPU if its pid is known."""
    until = time.perf_counter() + arguments.warm_up
    while time.perf_counter() < until:
        step()
    cpu = _cpu_seconds(arguments.pid)
    start = time.perf_counter()
    done = 0
    while (elapsed := time.perf_counter() - start) < arguments.seconds:
        done += step()
    result: dict[str, Any] = {
        "case": arguments.case, "requests": done, "seconds": round(elapsed, 3),
        "per_s": round(done / elapsed)}
    if arguments.pid:
        result["cpu_us"] = round((_cpu_seconds(arguments.pid) - cpu) / done * 1e6, 2)
    return result


def _cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, to the nanosecond on Linux."""
    if not pid:
        return 0.0
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _produce_request(arguments: argparse.Namespace) -> ProduceRequest:
    now_ms = time.time_ns() // 1_000_000
    batch = encode_batch(
        [Record(index, now_ms, None, b"x" * arguments.record_bytes, ())
         for index in range(arguments.records)], options=BatchOptions())
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(acks=arguments.acks, timeout_ms=30_000, topic_data=[
        topic(name=arguments.topic, partition_data=[
            topic.PartitionProduceData(index=0, records=batch)])])


def _check_produced(connection: Connection, frame: bytes) -> None:
    connection.send(frame)
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, connection.response())
    error = response.responses[0].partition_responses[0].error_code
    if error:
        sys.exit(f"produce failed with error {error}")


def _fetch_request(arguments: argparse.Namespace, offset: int) -> FetchRequest:
    topic = FetchRequest.Topic
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, session_epoch=-1,
        topics=[topic(topic=arguments.topic, partitions=[
            topic.Partition(partition=0, fetch_offset=offset,
                            partition_max_bytes=arguments.fetch_bytes)])])


def _create_topic(arguments: argparse.Namespace) -> None:
    connection = Connection(arguments.host, arguments.port)
    request = CreateTopicsRequest(timeout_ms=30_000, topics=[CreateTopicsRequest.CreatableTopic(
        name=arguments.topic, num_partitions=1, replication_factor=1)])
    connection.send(encode_request(1, "driver", request, CREATE_VERSION))
    _, response = decode_response(CreateTopicsResponse, CREATE_VERSION, connection.response())
    connection.socket.close()
    error = response.topics[0].error_code
    if error not in (0, 36):
        sys.exit(f"the topic cannot be created: error {error}")
    time.sleep(0 if error else 0.5)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=("produce", "fetch"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--pid", type=int, default=0, help="the broker's, to tell its CPU time")
    parser.add_argument("--topic", default="driver")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--depth", type=int, default=10, help="requests in flight per connection")
    parser.add_argument("--records", type=int, default=1, help="records in each batch")
    parser.add_argument("--record-bytes", type=int, default=200)
    parser.add_argument("--acks", type=int, default=1, choices=(1, -1))
    parser.add_argument("--fetch-bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm-up", type=float, default=0.5)
    return parser


if __name__ == "__main__":
    main()
