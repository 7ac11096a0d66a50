"""A mirror of Apache Kafka under kills of either side, with transactions, codecs and many batches.

WIREKAFKA_MIRROR_RECORDS sets how many records are written, WIREKAFKA_MIRROR_KILLS how often either
side is killed.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from compat_tests.mirror_stage import REFRESH, MortalKafka, await_equal
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from compat_tests.test_mirror import create
from tests.repetitions import repetitions

_RECORDS = repetitions("WIREKAFKA_MIRROR_RECORDS", usual=20_000, thorough=5_000_000)
_KILLS = repetitions("WIREKAFKA_MIRROR_KILLS", usual=2, thorough=20)
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PARTITIONS = 3
_TOPICS = ("plain", "transactions")


class Writer(threading.Thread):
    """Writes until it has written enough, whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str, count: int, seed: int):
        super().__init__(daemon=True)
        self._brokers, self._topic, self._count = bootstrap, topic, count
        self._random = Random(seed)
        self.written = 0

    def run(self) -> None:
        while self.written < self._count:
            try:
                self._write()
            except KafkaException:
                time.sleep(0.5)  # The broker is down, or has fenced this producer.

    def _write(self) -> None:
        is_transactional = self._topic == "transactions"
        settings = {
            "bootstrap.servers": self._brokers,
            "compression.type": self._random.choice(_CODECS),
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
        }
        if is_transactional:
            settings |= {"transactional.id": "writer", "transaction.timeout.ms": 60_000}
        producer = Producer(settings)
        if is_transactional:
            producer.init_transactions(60)
        for _ in range(20):
            if is_transactional:
                producer.begin_transaction()
            count = self._random.randint(1, max(self._count // 40, 2))
            for number in range(count):
                value = b"%d" % number * self._random.randint(1, 40)
                producer.produce(self._topic, value, partition=self._random.randrange(_PARTITIONS))
                if number % 1_000 == 999:
                    producer.poll(0)
                    producer.flush(60)
            producer.flush(60)
            if is_transactional:
                end = self._random.choice(
                    [producer.commit_transaction] * 3 + [producer.abort_transaction]
                )
                end(60)
            self.written += count
            if self.written >= self._count:
                return


@pytest.mark.timeout(3_600)
def test_a_mirror_equals_its_source_however_often_either_is_killed(tmp_path: Path) -> None:
    random = Random(7)
    source = MortalKafka(tmp_path / "source")
    source.start()
    mirror = MortalBroker(
        tmp_path / "mirror", *REFRESH, f"wirekafka.mirror.bootstrap.servers={source.bootstrap}"
    )
    try:
        for topic in _TOPICS:
            create(source.bootstrap, topic, _PARTITIONS, segment_bytes="1048576")
        mirror.start()
        writers = [
            Writer(source.bootstrap, topic, _RECORDS // len(_TOPICS), seed)
            for seed, topic in enumerate(_TOPICS)
        ]
        for writer in writers:
            writer.start()
        for kill in range(_KILLS):
            _await_share(writers, (kill + 1) / (_KILLS + 1))
            side = mirror if kill % 2 == 0 else source
            side.kill()
            time.sleep(random.random())
            side.start()
        for writer in writers:
            writer.join(1_800)
            assert not writer.is_alive()
        await_equal(source.bootstrap, mirror.bootstrap, *_TOPICS, timeout_s=300)
        places = [TopicPartition("transactions", index, 0) for index in range(_PARTITIONS)]
        seen = [
            sorted(
                (each.partition(), each.offset(), each.value())
                for each in read_to_end(bootstrap, places, "read_committed", 600)
            )
            for bootstrap in (source.bootstrap, mirror.bootstrap)
        ]
        assert seen[0] == seen[1] and seen[0]
        assert "Traceback" not in mirror.log.read_text()
    finally:
        mirror.stop()
        source.stop()


def _await_share(writers: list[Writer], share: float) -> None:
    """Wait until so much is written."""
    deadline = time.monotonic() + 1_800
    while sum(each.written for each in writers) < _RECORDS * share:
        assert time.monotonic() < deadline
        time.sleep(0.05)
