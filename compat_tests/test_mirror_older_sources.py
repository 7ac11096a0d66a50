"""Mirrors of older releases of Apache Kafka, as far as these run here."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from compat_tests.mirror_stage import REFRESH, MortalKafka, await_equal
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from compat_tests.test_mirror import CODECS, committed, consume, create, produce
from tests import kafka_jars
from tests.eventually import eventually
from tests.repetitions import swept

_RELEASES = swept([*kafka_jars.EARLIER_VERSIONS, kafka_jars.PREVIOUS_VERSION], every=3)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", _RELEASES)
def test_an_older_release_is_mirrored_with_transactions_groups_and_settings(
    version: str, tmp_path: Path
) -> None:
    is_previous = version == kafka_jars.PREVIOUS_VERSION
    jars = kafka_jars.previous_release_jars() if is_previous else kafka_jars.broker_jars(version)
    source = MortalKafka(tmp_path / "source", jars=jars)
    source.start()
    settings = (
        *REFRESH,
        f"wirekafka.mirror.bootstrap.servers={source.bootstrap}",
        "wirekafka.mirror.groups=.*",
        "wirekafka.mirror.configs=true",
    )
    mirror = MortalBroker(tmp_path / "mirror", *settings)
    try:
        create(source.bootstrap, "orders", retention_ms="-1")
        for codec in CODECS:
            produce(source.bootstrap, "orders", 20, **{"compression.type": codec})
        producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "x"})
        producer.init_transactions(60)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce("orders", b"in a transaction")
            producer.flush(30)
            end(30)
        consume(source.bootstrap, "orders", 60)
        mirror.start()
        await_equal(source.bootstrap, mirror.bootstrap, "orders")
        eventually(lambda: committed(mirror.bootstrap, "orders") == 60)
        source.kill()
        source.start()
        produce(source.bootstrap, "orders", 20)
        await_equal(source.bootstrap, mirror.bootstrap, "orders")
        place = TopicPartition("orders", 0, 0)
        seen = [
            [(each.offset(), each.value()) for each in read_to_end(bootstrap, [place])]
            for bootstrap in (source.bootstrap, mirror.bootstrap)
        ]
        assert seen[0] == seen[1]
        assert "Traceback" not in mirror.log.read_text()
    finally:
        mirror.stop()
        source.stop()
