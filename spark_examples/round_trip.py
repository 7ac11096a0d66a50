"""End to end: Spark's sink, a consumer group in plain Python, and back, in order for each key.

usage: python -m spark_examples.round_trip HOST:PORT [--rows 30000]

Spark writes the flights, numbered for each aircraft, through its Kafka sink. Two members of a
consumer group read them, check the order, and pass them on by an idempotent producer; Spark reads
the result and checks the order again.
"""

import json
import threading
import time

import pandas as pd
from confluent_kafka import Consumer, KafkaException, Producer
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, console
from spark_examples.session import TIMEOUTS, kafka_session, run

PARTITIONS = 4


def main() -> None:
    arguments = airline.parser(__doc__, rows=30_000).parse_args()
    bootstrap = arguments.bootstrap
    airline.require(bootstrap)
    flights = airline.flights(arguments.rows).dropna(subset=["tailnum"])
    there = airline.create_topic(bootstrap, airline.unique("there"), PARTITIONS)
    back = airline.create_topic(bootstrap, airline.unique("back"), PARTITIONS)
    spark = kafka_session("round-trip")
    write(spark, bootstrap, there, flights)
    console.print(f"Spark's sink wrote {len(flights):,} flights to {there}.")
    members = pass_on(bootstrap, there, back, len(flights))
    for member in members:
        console.print(f"Member {member.name} passed {member.passed:,} flights on.")
    read, disordered = read_back(spark, bootstrap, back)
    spark.stop()
    airline.delete_topics(bootstrap, there, back)
    if read != len(flights) or disordered:
        raise ExampleFailed(f"{read} of {len(flights)} came back, {disordered} out of order")
    print(f"round_trip: {read} flights there and back, in order for each aircraft")


def write(spark: SparkSession, bootstrap: str, topic: str, flights: pd.DataFrame) -> None:
    columns = ["tailnum", "carrier", "origin", "dest", "time_hour"]
    numbered = flights[columns].assign(number=flights.groupby("tailnum").cumcount())
    rows = spark.createDataFrame(
        [tuple(row) for row in numbered.itertuples(index=False)], [*columns, "number"]
    )
    (
        # All rows of a key in one task, in order: else two tasks write a key in any order.
        rows.repartition(PARTITIONS, "tailnum")
        .sortWithinPartitions("tailnum", "number")
        .select(f.col("tailnum").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.linger.ms", "20")
        .option("topic", topic)
        .save()
    )


def pass_on(bootstrap: str, source: str, target: str, total: int) -> list["Member"]:
    """Two members pass on everything, then leave the group."""
    members = [Member(name, bootstrap, source, target) for name in ("one", "two")]
    for member in members:
        member.start()
    deadline = time.monotonic() + 120
    while sum(member.passed for member in members) < total and time.monotonic() < deadline:
        time.sleep(0.1)
        if any(member.failure for member in members):
            break
    for member in members:
        member.stopping.set()
    for member in members:
        member.join()
        if member.failure:
            raise ExampleFailed(member.failure)
    return members


class Member(threading.Thread):
    """A member of the group, which forwards its records and commits once they are acknowledged."""

    def __init__(self, name: str, bootstrap: str, source: str, target: str):
        super().__init__(name=name)
        self.passed = 0
        self.failure = ""
        self.stopping = threading.Event()
        self._source = source
        self._target = target
        self._last: dict[bytes, int] = {}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{source}-passers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # Not the cooperative one, with which it may rejoin before `commit`.
                "partition.assignment.strategy": "range",
            }
        )

    def run(self) -> None:
        try:
            self._consumer.subscribe([self._source])
            while not self.stopping.is_set():
                self._pass(self._consumer.consume(1000, timeout=0.2))
        except (ExampleFailed, KafkaException) as failure:
            self.failure = str(failure)
        finally:
            self._consumer.close()

    def _pass(self, messages: list) -> None:  # type: ignore[type-arg]
        fresh = 0
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            key, number = message.key(), json.loads(message.value())["number"]
            last = self._last.get(key)
            if last is not None and number > last + 1:
                raise ExampleFailed(f"{key.decode()}: flight {number} came after {last}")
            # After a rebalance some are read again; they were passed on already.
            if last is None or number > last:
                self._last[key] = number
                self._producer.produce(self._target, message.value(), key)
                fresh += 1
        if fresh:
            self._producer.flush(30)
            self._consumer.commit(asynchronous=False)
            self.passed += fresh


def read_back(spark: SparkSession, bootstrap: str, topic: str) -> tuple[int, int]:
    """How many flights came back, and how many of them not after the one before."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**TIMEOUTS)
        .load()
    )
    number = f.get_json_object(f.col("value").cast("string"), "$.number").cast("int")
    by_offset = Window.partitionBy("key").orderBy("partition", "offset")
    row = records.select(
        number.alias("number"), (f.row_number().over(by_offset) - 1).alias("place")
    ).agg(f.count("*").alias("read"), f.count_if(f.col("number") != f.col("place")).alias("bad"))
    found = row.collect()[0]
    return found.read, found.bad


if __name__ == "__main__":
    run("round_trip", main)
