"""`serve --tables` writes topics to tables, once each record, also after kills of its processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.exceptions import NoSuchTableError

from tests.eventually import eventually
from tests.server.several_brokers import SeveralBrokers
from tests.server.test_monitoring import Monitored
from wirekafka.tables.iceberg.catalog import open_catalog

_TABLE = {"wirekafka.table.mode": "key_value", "wirekafka.table.target.lag.ms": "0"}


def _create(bootstrap: str, partitions: int = 1, **options: str) -> None:
    config = _TABLE | {f"wirekafka.table.{name}": value for name, value in options.items()}
    topic = NewTopic("orders", partitions, 1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])["orders"].result(20)


def _produce(bootstrap: str, values: Sequence[int], partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce("orders", str(value).encode(), partition=value % partitions)
    assert producer.flush(20) == 0


def _values(lake: Path) -> list[int]:
    """The values in the table."""
    try:
        table = open_catalog(str(lake)).load_table("redpanda.orders")
    except NoSuchTableError:
        return []
    return sorted(int(value) for value in table.scan().to_arrow()["value"].to_pylist())


def _workers(process: int) -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process(process).children(recursive=True)
        if "wirekafka.translation.worker" in each.cmdline()
    ]


def test_a_table_has_each_record_once_after_kills_of_worker_and_broker(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    options = ("--tables", str(lake))
    served = Monitored(tmp_path / "data", *options)
    with served.serving:
        bootstrap = f"127.0.0.1:{served.serving.port}"
        assert _workers(served.serving.process.pid) == [], "no topic is a table yet"
        _create(bootstrap)
        _produce(bootstrap, range(10))
        eventually(lambda: _values(lake) == list(range(10)), every_s=0.3)
        [first] = _workers(served.serving.process.pid)
        first.kill()
        _produce(bootstrap, range(10, 20))
        eventually(lambda: _values(lake) == list(range(20)), every_s=0.3)
        [second] = _workers(served.serving.process.pid)
        assert served.value("wirekafka_table_worker_failures_total") == 1
        served.serving.process.kill()
        served.serving.process.wait()
        assert psutil.wait_procs([second], timeout=20)[1] == [], "its input has ended"
    served = Monitored(tmp_path / "data", *options)
    with served.serving:
        bootstrap = f"127.0.0.1:{served.serving.port}"
        _produce(bootstrap, range(20, 30))
        eventually(lambda: _values(lake) == list(range(30)), every_s=0.3)
        eventually(lambda: served.value("wirekafka_table_lag_records", topic="orders") == 0)
        state = served.value("wirekafka_table_state", topic="orders", state="running")
        assert state == 1
        [third] = _workers(served.serving.process.pid)
        assert served.serving.stop() == 0
        assert not third.is_running()
        assert not re.search("WARNING|ERROR", served.serving.errors), served.serving.errors


def test_the_table_goes_with_the_topic_if_that_is_wanted(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    served = Monitored(tmp_path / "data", "--tables", str(lake))
    with served.serving:
        bootstrap = f"127.0.0.1:{served.serving.port}"
        _create(bootstrap, delete="true")
        _produce(bootstrap, [1])
        eventually(lambda: _values(lake) == [1], every_s=0.3)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics(["orders"])["orders"].result(20)
        eventually(lambda: _values(lake) == [], every_s=0.3)


def test_the_table_goes_also_with_a_topic_that_was_deleted_while_nobody_wrote_tables(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    served = Monitored(tmp_path / "data", "--tables", str(lake))
    with served.serving:
        _create(f"127.0.0.1:{served.serving.port}", delete="true")
        _produce(f"127.0.0.1:{served.serving.port}", [1])
        eventually(lambda: _values(lake) == [1], every_s=0.3)
        assert served.serving.stop() == 0
    served = Monitored(tmp_path / "data")
    with served.serving:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.serving.port}"})
        admin.delete_topics(["orders"])["orders"].result(20)
        assert served.serving.stop() == 0
    assert _values(lake) == [1]
    served = Monitored(tmp_path / "data", "--tables", str(lake))
    with served.serving:
        eventually(lambda: _values(lake) == [], every_s=0.3)


def test_several_brokers_write_one_table(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with SeveralBrokers(tmp_path / "data", 2, "--tables", str(lake)) as brokers:
        _create(brokers.bootstrap, 4)
        _produce(brokers.bootstrap, range(40), 4)
        eventually(lambda: _values(lake) == list(range(40)), timeout_s=60, every_s=0.3)
        workers = _workers(brokers.process.pid)
        assert len(workers) == 2
        assert brokers.stop() == 0
        assert psutil.wait_procs(workers, timeout=20)[1] == []
