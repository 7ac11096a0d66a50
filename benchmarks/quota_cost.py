"""What quotas cost a Produce request within the pipeline, in CPU time.

`python -m benchmarks.quota_cost` prints µs for a request of one small batch, without quotas and
with each kind. All are measured in turn in this process, and the best round counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.driver import PRODUCE_VERSION, batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.apis.produce import ProduceRequest
from wirekafka.apis.registry import Call
from wirekafka.codec.frame import encode_request
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.server.pipeline import Pipeline
from wirekafka.server.replies import Replies

KINDS: Mapping[str, tuple[str, str] | None] = {
    "without quotas": None,
    "another client's quota": ("somebody", "producer_byte_rate"),
    "another client's work": ("somebody", "request_percentage"),
    "producer_byte_rate": ("benchmark", "producer_byte_rate"),
    "consumer_byte_rate": ("benchmark", "consumer_byte_rate"),
    "request_percentage": ("benchmark", "request_percentage"),
}
_REQUESTS = 50
_BODY_AT, _DECODED_VERSION = 24, 8


def costs(directory: Path, rounds: int = 400) -> dict[str, tuple[float, float]]:
    """µs of a request served from the cache, and of one that is decoded, by the kind of quota."""
    topic = "costs"
    frame = memoryview(bytearray(produce_frame(topic, batch_of(1, 200), 1)))
    request = ProduceRequest.decode(frame, PRODUCE_VERSION, _BODY_AT)
    decoded = memoryview(bytearray(encode_request(1, "benchmark", request, _DECODED_VERSION)))
    clock = ManualClock(time.time_ns() // 1_000_000)
    clock.work_ns = time.perf_counter_ns  # type: ignore[method-assign]
    broker = InProcessBroker(directory / "broker", clock)
    broker.create(topic)
    prepared = [(name, *_with(broker, quota)) for name, quota in KINDS.items()]
    best: dict[tuple[str, int], float] = {}
    for _ in range(rounds):
        clock.advance(1)
        for name, quotas, pipeline, call in prepared:
            broker.broker.quotas = quotas
            for number, sent in enumerate((frame, decoded)):
                replies = Replies()
                start = time.process_time()
                for _ in range(_REQUESTS):
                    pipeline.serve(sent, 4, len(sent), call, replies)
                taken_s = time.process_time() - start
                best[name, number] = min(taken_s, best.get((name, number), taken_s))
    broker.stop()
    return {
        name: (best[name, 0] / _REQUESTS * 1e6, best[name, 1] / _REQUESTS * 1e6) for name in KINDS
    }


def _with(
    broker: InProcessBroker, quota: tuple[str, str] | None
) -> tuple[ClientQuotas | None, Pipeline, Call]:
    pipeline, call = Pipeline(), Call(broker.broker)
    if quota is None:
        return None, pipeline, call
    quotas = ClientQuotas.of_broker(broker.broker.config)
    client_id, name = quota
    quotas.change((("client-id", client_id),), name, 1e15)
    return quotas, pipeline, call


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
