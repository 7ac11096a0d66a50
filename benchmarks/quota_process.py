"""What quotas cost a whole broker in a Produce request of one small batch that is sent alone.

`python -m benchmarks.quota_process` prints µs of CPU time of the broker's process, with sockets and
event loop, for three clients without quotas, and once two of them have one (Linux only). The
clients send in turn, in short slices; the first quartile counts. `benchmarks.quota_cost` measures
the code alone.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.driver import Connection, batch_of, create_topic
from benchmarks.peers import Wirekafka
from tests.raw_client import RawClient
from tests.server.test_client_quotas import quota_request
from wirekafka.apis.produce import ProduceRequest
from wirekafka.codec.frame import encode_request

QUOTAS = {"another": None, "producer": "producer_byte_rate", "worker": "request_percentage"}
"""The quota of each client id."""
VERSIONS = {"cached": 9, "decoded": 8}
_TOPIC = "costs"
_LIMIT = 1e9
_SLICE, _SLICES, _TURNS = 100, 60, 4


class Clients:
    """A connection of each client, and the costs of the requests that it has sent."""

    def __init__(self, address: tuple[str, int], process_id: int):
        self._connections = {name: Connection(*address) for name in QUOTAS}
        self._frames = {
            (name, kind): _request(name, version)
            for name in QUOTAS
            for kind, version in VERSIONS.items()
        }
        self._spent = Path(f"/proc/{process_id}/schedstat")
        self.found: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
        """µs by client, kind of request, and whether quotas are set."""

    def send(self, first: int, are_set: bool) -> None:
        """Send a slice of requests of each kind and client, in an order that changes."""
        names = list(QUOTAS)
        turn = first % len(names)
        for kind in VERSIONS:
            for name in names[turn:] + names[:turn]:
                self._send(name, kind, 5)
                before_ns = self._spent_ns()
                self._send(name, kind, _SLICE)
                taken_us = (self._spent_ns() - before_ns) / _SLICE / 1000
                self.found[name, kind, are_set].append(taken_us)

    def close(self) -> None:
        """Disconnect."""
        for connection in self._connections.values():
            connection.close()

    def _send(self, name: str, kind: str, count: int) -> None:
        connection, frame = self._connections[name], self._frames[name, kind]
        for _ in range(count):
            connection.send(frame)
            connection.response()

    def _spent_ns(self) -> int:
        return int(self._spent.read_text().split()[0])


def _request(client_id: str, version: int) -> bytes:
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=0, records=batch_of(1, 200))
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[data(name=_TOPIC, partition_data=[part])]
    )
    return encode_request(1, client_id, request, version)


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
    costs = {key: statistics.quantiles(each, n=4)[0] for key, each in clients.found.items()}
    for kind in VERSIONS:
        for name, quota in QUOTAS.items():
            without, with_quotas = (costs[name, kind, are_set] for are_set in (False, True))
            print(
                f"{kind}, {quota or 'quotas of other clients'}: {with_quotas:.2f} µs, "
                f"{without:.2f} without quotas ({with_quotas / without - 1:+.1%})"
            )


if __name__ == "__main__":
    main()
