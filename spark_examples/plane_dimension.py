"""A compacted topic as a dimension: planes by tail number, joined to the stream of flights.

usage: python -m spark_examples.plane_dimension HOST:PORT [--rows 20000]

Each micro-batch reads the planes' latest records from the compacted topic and joins its flights
with them. Half-way one plane changes, and one is deleted by a tombstone: the join shows both.
"""

import json
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from spark_examples import airline
from spark_examples.airline import ExampleFailed, Record, console
from spark_examples.session import TIMEOUTS, fits, kafka_session, run

PLANE = "tailnum STRING, manufacturer STRING, model STRING, seats INT"
CHANGED = "Changed for the example"


def main() -> None:
    parser = airline.parser(__doc__, rows=20_000)
    parser.add_argument("--topics", help="FLIGHTS,PLANES: read these as they are")
    arguments = parser.parse_args()
    topics = arguments.topics.split(",") if arguments.topics else []
    if len(topics) not in (0, 2):
        raise ExampleFailed("--topics needs two names with a comma between them")
    airline.require(arguments.bootstrap, *topics)
    with tempfile.TemporaryDirectory() as scratch:
        spark = kafka_session("plane-dimension")
        join = Join(spark, arguments.bootstrap, Path(scratch))
        if topics:
            join.flights, join.planes = topics
            join.run_until_read()
            found = join.result()
        else:
            found = publish_and_join(join, arguments.rows)
        spark.stop()
    console.print(found["manufacturer"].value_counts().head(6).to_string())
    known = int(found["model"].notna().sum())
    print(f"plane_dimension: {len(found)} flights, {known} with a known plane")


def publish_and_join(join: "Join", rows: int) -> pd.DataFrame:
    bootstrap = join.bootstrap
    planes = airline.table("planes")
    join.flights = airline.create_topic(bootstrap, airline.unique("flights"))
    join.planes = airline.create_topic(
        bootstrap, airline.unique("planes"), cleanup_policy="compact"
    )
    airline.publish(bootstrap, join.planes, dimension(planes), len(planes))
    first, second = airline.flights(rows // 2), airline.flights(rows // 2, rows // 2)
    changed, deleted = seen_in_both(first, second, planes)
    for half in (first, second):
        airline.publish(bootstrap, join.flights, airline.as_records(half, "tailnum"), len(half))
        join.run_until_read()
        if half is first:
            row = planes[planes["tailnum"] == changed].assign(model=CHANGED)
            gone = Record(deleted.encode(), None, 0)
            airline.publish(bootstrap, join.planes, [*dimension(row), gone], 2)
    found = join.result()
    airline.delete_topics(bootstrap, join.flights, join.planes)
    check(found, changed, deleted, planes)
    return found


def dimension(planes: pd.DataFrame) -> list[Record]:
    rows = planes.astype(object).where(planes.notna(), None).to_dict("records")
    return [Record(row["tailnum"].encode(), json.dumps(row).encode(), 0) for row in rows]


def seen_in_both(first: pd.DataFrame, second: pd.DataFrame, planes: pd.DataFrame) -> list[str]:
    """Two planes that fly in both halves."""
    both = first["tailnum"].isin(second["tailnum"]) & first["tailnum"].isin(planes["tailnum"])
    names = first.loc[both, "tailnum"].unique()
    if len(names) < 2:
        raise ExampleFailed("too few flights: no two planes fly in both halves, so use more --rows")
    return [str(name) for name in names[:2]]


def check(found: pd.DataFrame, changed: str, deleted: str, planes: pd.DataFrame) -> None:
    models = dict(zip(planes["tailnum"], planes["model"], strict=True))
    for tailnum, after in ((changed, CHANGED), (deleted, None)):
        seen = found.loc[found["tailnum"] == tailnum, "model"]
        if {None if pd.isna(model) else model for model in seen} != {models[tailnum], after}:
            raise ExampleFailed(f"plane {tailnum} was {models[tailnum]}, {after}, not {set(seen)}")
    others = found[~found["tailnum"].isin([changed, deleted])]
    wrong = int((others["model"].fillna("") != others["tailnum"].map(models).fillna("")).sum())
    if wrong:
        raise ExampleFailed(f"{wrong} flights have the wrong plane")
    console.print(f"{changed} changed half-way, {deleted} was deleted: the join shows both.")


class Join:
    """A stream joined, batch by batch, with what a compacted topic says at the time."""

    def __init__(self, spark: SparkSession, bootstrap: str, output: Path):
        self.spark = spark
        self.bootstrap = bootstrap
        self.output = output
        self.flights = self.planes = ""

    def run_until_read(self) -> None:
        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.flights)
            .option("startingOffsets", "earliest")
            .options(**TIMEOUTS)
            .load()
        )
        flight = fits(f.from_json(f.col("value").cast("string"), airline.FLIGHT), "carrier")
        (
            records.select(flight.alias("flight"))
            .select("flight.*")
            .writeStream.foreachBatch(self.join_batch)
            .option("checkpointLocation", str(self.output / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    def join_batch(self, flights: DataFrame, number: int) -> None:
        """A repeated batch overwrites its own directory, so nothing is there twice."""
        planes = latest_by_key(self.spark, self.bootstrap, self.planes)
        joined = flights.join(f.broadcast(planes), "tailnum", "left")
        joined.write.mode("overwrite").parquet(str(self.output / "joined" / f"batch={number}"))

    def result(self) -> pd.DataFrame:
        return self.spark.read.parquet(str(self.output / "joined")).toPandas()


def latest_by_key(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The last value of each key, without those that a tombstone deleted.

    Compaction runs in its own time: until then a reader meets older records too.
    """
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**TIMEOUTS)
        .load()
    )
    # A key lives in one partition, so its greatest offset is its last.
    newest_first = Window.partitionBy("key").orderBy(f.col("offset").desc())
    last = records.withColumn("rank", f.row_number().over(newest_first)).where("rank = 1")
    plane = fits(f.from_json(f.col("value").cast("string"), PLANE), "tailnum")
    return last.where("value IS NOT NULL").select(plane.alias("plane")).select("plane.*")


if __name__ == "__main__":
    run("plane_dimension", main)
