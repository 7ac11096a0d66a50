"""What quotas cost a Produce request from the read of its bytes to the write of its response.

`python -m benchmarks.quota_cost` prints µs of CPU time for a request of one small batch that is
read alone, without quotas and with each kind. The socket and the event loop are left out: with them
the share of quotas is smaller. All are measured in turn in this process, the best round counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.driver import PRODUCE_VERSION, batch_of, produce_frame
from benchmarks.without_sockets import connected, timed, use_real_time
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.frame import encode_request
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.quotas.client_quotas import ClientQuotas

KINDS: Mapping[str, tuple[str, str] | None] = {
    "without quotas": None,
    "another client's quota": ("somebody", "producer_byte_rate"),
    "another client's work": ("somebody", "request_percentage"),
    "producer_byte_rate": ("benchmark", "producer_byte_rate"),
    "consumer_byte_rate": ("benchmark", "consumer_byte_rate"),
    "request_percentage": ("benchmark", "request_percentage"),
}
_REQUESTS = 50
_LIMIT = 1e9
_BODY_AT, _DECODED_VERSION = 24, 8


def costs(directory: Path, rounds: int = 1000) -> dict[str, tuple[float, float]]:
    """µs of a request served from the cache, and of one that is decoded, by the kind of quota."""
    topic = "costs"
    frame = produce_frame(topic, batch_of(1, 200), 1)
    request = ProduceRequest.decode(memoryview(frame), PRODUCE_VERSION, _BODY_AT)
    decoded = encode_request(1, "benchmark", request, _DECODED_VERSION)
    broker = InProcessBroker(directory / "broker", ManualClock())
    use_real_time(broker)
    broker.create(topic)
    prepared = [(name, _quotas(broker, quota), connected(broker)) for name, quota in KINDS.items()]
    best: dict[tuple[str, int], float] = {}
    for number in range(rounds):
        turn = number % len(prepared)  # No kind always comes first.
        for name, quotas, connection in prepared[turn:] + prepared[:turn]:
            broker.broker.quotas = quotas
            for kind, sent in enumerate((frame, decoded)):
                taken_s = timed(connection, sent, _REQUESTS)
                best[name, kind] = min(taken_s, best.get((name, kind), taken_s))
    broker.stop()
    return {
        name: (best[name, 0] / _REQUESTS * 1e6, best[name, 1] / _REQUESTS * 1e6) for name in KINDS
    }


def _quotas(broker: InProcessBroker, quota: tuple[str, str] | None) -> ClientQuotas | None:
    if quota is None:
        return None
    quotas = ClientQuotas.of_broker(broker.broker.config)
    client_id, name = quota
    quotas.change((("client-id", client_id),), name, _LIMIT)
    return quotas


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = costs(Path(directory))
    bare = found["without quotas"]
    for name, each in found.items():
        shown = ", ".join(
            f"{kind} {us:.2f} µs ({us / base - 1:+.1%})"
            for kind, us, base in zip(("cached", "decoded"), each, bare, strict=True)
        )
        print(f"{name}: {shown}")


if __name__ == "__main__":
    main()
