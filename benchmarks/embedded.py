"""`python -m benchmarks.embedded`: the cost of a broker in a test's process, in milliseconds."""

from __future__ import annotations

import argparse
import statistics
import time

from confluent_kafka import Consumer, Producer

from wirekafka import Broker

_RECORDS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, value in _round().items():
            figures.setdefault(name, []).append(value)
    for name, values in figures.items():
        print(
            f"{name:44} median {statistics.median(values) * 1000:8.1f} ms"
            f"   worst {max(values) * 1000:8.1f} ms"
        )
    print(f"{'100,000 records of 100 bytes, produced':44} {_throughput():8.0f} records/s")


def _round() -> dict[str, float]:
    began = time.perf_counter()
    broker = Broker(topics=["t"]).start()
    started = time.perf_counter()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("t", b"v")
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    message = consumer.poll(10)
    assert message is not None and message.value() == b"v"
    consumed = time.perf_counter()
    consumer.close()
    at = time.perf_counter()
    broker.reset()
    reset = time.perf_counter()
    broker.stop()
    stopped = time.perf_counter()
    return {
        "start": started - began,
        "start, produce one, consume it in a group": consumed - began,
        "reset": reset - at,
        "stop": stopped - reset,
    }


def _throughput() -> float:
    """Through the rules and the recorder, which every request of such a broker passes."""
    with Broker(topics=["t"]) as broker:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "linger.ms": 5,
                "queue.buffering.max.messages": _RECORDS,
            }
        )
        value = bytes(100)
        began = time.perf_counter()
        for _ in range(_RECORDS):
            producer.produce("t", value)
        assert producer.flush(60) == 0
        return _RECORDS / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
