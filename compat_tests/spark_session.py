"""One Spark session for the tests of a module; the JVM stays warm for the next."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_examples.session import kafka_session


@contextmanager
def spark_session(master: str = "local[2]") -> Iterator[SparkSession]:
    """A session of this machine, stopped at the end."""
    os.environ.pop("SPARK_HOME", None)
    os.environ["SPARK_MASTER"] = master
    options = {
        "spark.driver.memory": "1g",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    session = kafka_session("compat-tests", **options)
    try:
        yield session
    finally:
        session.stop()
