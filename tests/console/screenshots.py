"""Makes the pictures in docs/how-to: `python -m tests.console.screenshots [SECONDS]`."""

from __future__ import annotations

import math
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.console.browser import browser
from tests.console.walk import Walk
from tests.server.serving import Serving

DOCS = Path(__file__).resolve().parents[2] / "docs" / "how-to"
TOPICS = {"orders": 6, "clicks": 12, "audit": 1}
READERS = (("billing", "orders", 0.0), ("search-index", "orders", 0.02), ("fraud", "clicks", 0.05))


def main(seconds: float = 240.0) -> None:
    """Run a broker with traffic for some time, and take the pictures."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Serving(Path(directory) / "data", "--console", "0") as serving,
    ):
        assert serving.process.stderr is not None
        found = None
        while found is None:
            found = re.search(r"served at (http://\S+)/", serving.process.stderr.readline())
        stop = threading.Event()
        traffic = threading.Thread(target=_traffic, args=(f"127.0.0.1:{serving.port}", stop))
        traffic.start()
        time.sleep(seconds)
        _shoot(found[1])
        stop.set()
        traffic.join()


def _shoot(base: str) -> None:
    pictures = (("overview", "/", "light"), ("group", "/group?name=search-index", "dark"))
    with browser() as chromium:
        for name, path, scheme in pictures:
            walk = Walk.open(chromium, base, scheme=scheme)
            walk.visit([path])
            walk.page.screenshot(path=DOCS / f"console-{name}.png", full_page=name == "overview")


def _traffic(bootstrap: str, stop: threading.Event) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 3) for name in (*TOPICS, "payments")]
    for made in admin.create_topics(topics).values():
        made.result()
    writer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "payments-writer",
            "transaction.timeout.ms": 900_000,
        }
    )
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce("payments", b"12.50")
    writer.flush()
    threads = [threading.Thread(target=_read, args=(bootstrap, each, stop)) for each in READERS]
    threads.append(threading.Thread(target=_assign, args=(bootstrap, stop)))
    for thread in threads:
        thread.start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "client.id": "shop"})
    beat = 0
    while not stop.wait(0.05):
        for topic, rate in TOPICS.items():
            for _ in range(round(rate * (1 + math.sin(beat / 300)))):
                producer.produce(topic, b'{"item": "book", "price": 12.5}', key=b"%d" % (beat % 50))
        producer.poll(0)
        beat += 1
    producer.flush()
    writer.abort_transaction()
    for thread in threads:
        thread.join()


def _read(bootstrap: str, reader: tuple[str, str, float], stop: threading.Event) -> None:
    group, topic, pause_s = reader
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": group}
    often = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
    consumer = Consumer({**settings, **often, "queued.min.messages": 1})
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.poll(0.2)
        time.sleep(pause_s)
    consumer.close()


def _assign(bootstrap: str, stop: threading.Event) -> None:
    settings = {"bootstrap.servers": bootstrap, "client.id": "spark-report", "group.id": "unused"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "queued.min.messages": 1})
    consumer.assign([TopicPartition("clicks", index, 0) for index in range(3)])
    while not stop.is_set():
        consumer.poll(0.2)
        time.sleep(0.01)
    consumer.close()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
