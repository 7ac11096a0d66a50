"""Apache Kafka serves a directory whose topics are tables, which then go on in wirekafka."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import apache_kafka_on
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from wirekafka.tables.iceberg.catalog import open_catalog

_OPTIONS = {
    "wirekafka.table.mode": "key_value",
    "wirekafka.table.target.lag.ms": "0",
    "wirekafka.table.hold": "true",
    "retention.ms": "-1",
}


def _produce(bootstrap: str, values: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce("orders", str(value).encode())
    assert producer.flush(30) == 0


def _values(lake: Path) -> list[int]:
    table = open_catalog(str(lake)).load_table("redpanda.orders")
    return sorted(int(value) for value in table.scan().to_arrow()["value"].to_pylist())


@pytest.mark.timeout(200)
def test_a_table_has_what_apache_kafka_appended_meanwhile(tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    setting = f"wirekafka.tables.url={lake}"
    with live_broker(data, setting) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 1, config=_OPTIONS)])["orders"].result(30)
        _produce(bootstrap, range(5))
        eventually(lambda: _values(lake) == list(range(5)), every_s=0.3)
    with apache_kafka_on([data], tmp_path) as bootstrap:
        _produce(bootstrap, range(5, 10))
    with live_broker(data, setting) as bootstrap:
        _produce(bootstrap, range(10, 15))
        eventually(lambda: _values(lake) == list(range(15)), every_s=0.3)
