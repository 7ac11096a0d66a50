"""`wirekafka clients` shows the position of a Spark query, which commits no offsets."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from compat_tests.conftest import NewTopicName, RunningBroker
from compat_tests.spark_session import progress
from tests.eventually import eventually
from tests.sink_markers import commit_markers, marker
from wirekafka.spark import Source


def clients(bootstrap: str, *options: str) -> str:
    command = [sys.executable, "-m", "wirekafka", "clients", "--bootstrap-server", bootstrap]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows_of(bootstrap: str, topic: str) -> dict[int, dict[str, Any]]:
    """The row of each partition of a topic, which one client reads."""
    rows = [row for row in json.loads(clients(bootstrap, "--json")) if row["topic"] == topic]
    by_partition = {row["partition"]: row for row in rows}
    assert len(rows) == len(by_partition), rows
    return by_partition


def produce(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0


def read_once(
    spark: SparkSession, form: str, bootstrap: str, topic: str, directory: Path, **options: str
) -> StreamingQuery:
    """Start a query that reads the existing records, and then nothing for the rest of a test."""
    return (
        spark.readStream.format(form)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime="1 hour")
        .start()
    )


def test_the_lag_of_a_running_query_is_shown(
    spark: SparkSession, broker: RunningBroker, new_topic: NewTopicName, tmp_path: Path
) -> None:
    if broker.is_reference:
        pytest.skip("a command that asks wirekafka only")
    bootstrap, topic = broker.bootstrap, new_topic(2)
    produce(bootstrap, topic, 0, 60)
    produce(bootstrap, topic, 1, 30)
    query = read_once(spark, "kafka", bootstrap, topic, tmp_path, groupIdPrefix="etl")
    try:
        eventually(lambda: [each["numInputRows"] for each in progress(query)] == [90], 60)
        rows = rows_of(bootstrap, topic)
        assert {at: (row["last_fetched"], row["lag"]) for at, row in rows.items()} == {
            0: (59, 0),
            1: (29, 0),
        }
        # Each partition has a consumer with a client id of its own: together they are the query.
        [name] = {row["client"] for row in rows.values()}
        assert re.fullmatch(r"etl--?[0-9]+", name)
        assert {row["host"] for row in rows.values()} == {"127.0.0.1"}

        def behind() -> bool:
            # A consumer fetches ahead: it still gets records that arrive during its last fetch.
            produce(bootstrap, topic, 0, 1)
            return bool(rows_of(bootstrap, topic)[0]["lag"] >= 5)

        eventually(behind, 60)
        checkpoint = f"file:{tmp_path / 'checkpoint'}"
        commit_markers(bootstrap, "etl-sink", topic, marker(query.id, 4, checkpoint=checkpoint))
        found = json.loads(clients(bootstrap, "--queries", "--json"))
        [shown] = [row for row in found if row["query"] == "etl-sink"]
        assert (shown["query_id"], shown["batch"]) == (query.id, 4)
        assert shown["source"] == name and shown["lag"] >= 5
        row = rows_of(bootstrap, topic)[0]
        assert row["end"] > 60 and row["lag"] == row["end"] - 1 - row["last_fetched"]
        (line,) = [
            line.split()
            for line in clients(bootstrap).splitlines()
            if topic in line and line.split()[3] == "0"
        ]
        assert line[:3] == [row["client"], row["host"], topic]
        assert line[4:7] == [str(row[name]) for name in ("last_fetched", "end", "lag")]
    finally:
        query.stop()


def test_a_query_of_the_data_source_is_named_by_its_id(
    spark: SparkSession, broker: RunningBroker, new_topic: NewTopicName, tmp_path: Path
) -> None:
    if broker.is_reference:
        pytest.skip("a command that asks wirekafka only")
    bootstrap, topic = broker.bootstrap, new_topic(2)
    produce(bootstrap, topic, 0, 60)
    spark.dataSource.register(Source)
    query = read_once(spark, "wirekafka", bootstrap, topic, tmp_path)
    try:
        eventually(lambda: [each["numInputRows"] for each in progress(query)] == [60], 60)
        produce(bootstrap, topic, 0, 7)
        found = json.loads(clients(bootstrap, "--queries", "--json"))
        [shown] = [row for row in found if row["query"] == f"wirekafka-source-{query.id}"]
        assert (shown["lag"], shown["batch"]) == (7, None)
    finally:
        query.stop()
