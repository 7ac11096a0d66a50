"""A streaming query from topic to topic in a process of its own, which a campaign kills.

`python -m compat_tests.sink_query SETTINGS` copies what there is, in steps, and ends with status 0.
It prints a line for each batch.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from compat_tests.spark_session import JVM, progress
from spark_examples.session import kafka_session

BATCH = "batch "
"""The start of the line for a batch; its id follows, and the number of its records."""
READY = "ready"
_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class QuerySettings:
    """What a query copies, and how."""

    bootstrap: str
    source: str
    target: str
    checkpoint: str
    sink: str
    """The format of the sink: "kafka" or "wirekafka"."""
    records_per_batch: int

    @classmethod
    def parsed(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def text(self) -> str:
        """The settings as an argument of the program."""
        return json.dumps(asdict(self))


def start(spark: SparkSession, settings: QuerySettings) -> StreamingQuery:
    """Start the query; it ends when it has read what is in the source."""
    writer = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.records_per_batch)
        .load()
        # In Python workers, as in a program that has functions of its own.
        .mapInArrow(lambda batches: batches, _COLUMNS)
        .select("key", "value")
        .writeStream.format(settings.sink)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("topic", settings.target)
        .option("checkpointLocation", settings.checkpoint)
        .trigger(availableNow=True)
    )
    if settings.sink == "wirekafka":
        from wirekafka.spark import Source

        spark.dataSource.register(Source)
        writer = writer.option("transactional.id", f"copy-to-{settings.target}")
    return writer.start()


_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int"
)


def _report(query: StreamingQuery, is_over: threading.Event) -> None:
    """Print each batch as it ends."""
    printed = -1
    while not is_over.wait(_EVERY_S):
        for each in progress(query):
            if each["batchId"] > printed:
                printed = each["batchId"]
                print(f"{BATCH}{printed} {each['numInputRows']}", flush=True)


def main() -> None:
    settings = QuerySettings.parsed(sys.argv[1])
    options = {"spark.driver.memory": "1g", "spark.executor.extraJavaOptions": JVM}
    spark = kafka_session("killed", **options)
    print(READY, flush=True)
    query = start(spark, settings)
    is_over = threading.Event()
    threading.Thread(target=_report, args=(query, is_over), daemon=True).start()
    query.awaitTermination()
    is_over.set()
    spark.stop()


if __name__ == "__main__":
    main()
