"""What quotas cost a whole broker in the Produce requests that clients usually send.

`python -m benchmarks.quota_process` prints µs of CPU time of the broker's process, with sockets and
event loop, for three clients without quotas, and once two of them have one (Linux only): requests
of one small batch that are sent alone, the same in a version that is decoded, one from each of 50
connections at a time, and batches as librdkafka makes them, some in flight. The clients send in
turn, in short slices, whose median counts. `benchmarks.quota_cost` measures the code alone.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.driver import Connection, batch_of, create_topic
from benchmarks.peers import Wirekafka
from tests.raw_client import RawClient
from tests.server.test_client_quotas import quota_request
from wirekafka.codec.frame import encode_request
from wirekafka.protocol.produce import ProduceRequest

QUOTAS = {"another": None, "producer": "producer_byte_rate", "worker": "request_percentage"}
"""The quota of each client id."""


@dataclass(frozen=True, slots=True)
class Load:
    """How a client sends requests."""

    name: str
    version: int = 9
    connections: int = 1
    in_flight: int = 1
    """Of each connection."""
    records: int = 1
    record_bytes: int = 200
    requests: int = 100
    """In a slice: a multiple of those that are sent at once."""


LOADS = (
    Load("alone"),
    Load("alone, decoded", version=8),
    Load("50 connections", connections=50, requests=100),
    Load("librdkafka's batches", version=10, in_flight=5, records=50, requests=20),
)
_TOPIC = "costs"
_LIMIT = 1e11
_SLICES, _TURNS = 15, 25


class Clients:
    """The connections of each client, and the costs of the requests that it has sent."""

    def __init__(self, address: tuple[str, int], process_id: int):
        most = max(load.connections for load in LOADS)
        self._connections = {name: [Connection(*address) for _ in range(most)] for name in QUOTAS}
        self._frames = {(name, load): _request(name, load) for name in QUOTAS for load in LOADS}
        self._spent = Path(f"/proc/{process_id}/schedstat")
        self.found: dict[tuple[str, Load, bool], list[float]] = defaultdict(list)
        """µs by client, load, and whether quotas are set."""

    def send(self, first: int, are_set: bool) -> None:
        """Send a slice of requests of each load and client, in an order that changes."""
        names = list(QUOTAS)
        at = first % len(names)
        for load in LOADS:
            for name in names[at:] + names[:at]:
                self._send(name, load, 1)
                before_ns = self._spent_ns()
                at_once = load.connections * load.in_flight
                self._send(name, load, load.requests // at_once)
                taken_us = (self._spent_ns() - before_ns) / load.requests / 1000
                self.found[name, load, are_set].append(taken_us)

    def close(self) -> None:
        """Disconnect."""
        for connections in self._connections.values():
            for connection in connections:
                connection.close()

    def _send(self, name: str, load: Load, times: int) -> None:
        connections = self._connections[name][: load.connections]
        frames = self._frames[name, load] * load.in_flight
        for _ in range(times):
            for connection in connections:
                connection.send(frames)
            for connection in connections:
                for _ in range(load.in_flight):
                    connection.response()

    def _spent_ns(self) -> int:
        return int(self._spent.read_text().split()[0])


def _request(client_id: str, load: Load) -> bytes:
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=0, records=batch_of(load.records, load.record_bytes))
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[data(name=_TOPIC, partition_data=[part])]
    )
    return encode_request(1, client_id, request, load.version)


def show(clients: Clients) -> None:
    """Print what each load costs without quotas, and what those of others and its own add.

    The client without a quota sends within milliseconds of the others, so that what else the
    machine does falls on all: what a client's own quota adds is its distance from that one.
    """
    for load in LOADS:
        plain = clients.found["another", load, False]
        bare_us = statistics.median(plain)
        others_us = statistics.median(clients.found["another", load, True]) - bare_us
        print(f"{load.name}: {bare_us:.2f} µs, quotas of others {others_us / bare_us:+.1%}")
        for name, quota in QUOTAS.items():
            if quota is None:
                continue
            added_us = [
                statistics.median(
                    own - other
                    for own, other in zip(
                        clients.found[name, load, are_set],
                        clients.found["another", load, are_set],
                        strict=True,
                    )
                )
                for are_set in (False, True)
            ]
            own_us = added_us[True] - added_us[False]
            print(f"    {quota}: {own_us:+.2f} µs, {own_us / bare_us:+.1%}")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, Wirekafka().start(Path(scratch)) as target:
        address = target.host, target.port
        create_topic(*address, _TOPIC)
        assert target.process is not None
        clients = Clients(address, target.process.pid)
        with RawClient(target.port) as admin:
            for turn in range(2 * _TURNS):
                are_set = bool(turn % 2)
                for name, quota in QUOTAS.items():
                    if quota is not None:
                        limit = _LIMIT if are_set else None
                        admin.call(quota_request(quota, limit, client_id=name), 1)
                for number in range(_SLICES):
                    clients.send(number, are_set)
        clients.close()
    show(clients)


if __name__ == "__main__":
    main()
