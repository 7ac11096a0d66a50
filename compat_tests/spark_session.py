"""One Spark session for the tests of a module; the JVM stays warm for the next."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_examples.session import kafka_session

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Limits JIT compilation: tests run each query only a few times."""


def environment(master: str) -> dict[str, str]:
    """The environment variables that the tests set for Spark, in any process."""
    return {"SPARK_MASTER": master, "SPARK_SUBMIT_OPTS": JVM}


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """The progress of a query's last batches, as Spark's JSON in every version."""
    return [json.loads(getattr(each, "json", "null")) or each for each in query.recentProgress]


@contextmanager
def spark_session(master: str = "local[2]") -> Iterator[SparkSession]:
    """A local session, stopped at the end."""
    os.environ.pop("SPARK_HOME", None)
    os.environ.update(environment(master))
    session = kafka_session("compat-tests", **{"spark.driver.memory": "1g"})
    # Set here, because the options that start the JVM hold for all its later sessions.
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        yield session
    finally:
        session.stop()
