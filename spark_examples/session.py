"""A Spark session with the Kafka connector that fits the installed PySpark, and quiet logs."""

import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import pyspark
from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

TIMEOUTS = {"kafka.request.timeout.ms": "15000", "kafka.default.api.timeout.ms": "20000"}
"""Reader options that turn a wrong address into an error within seconds instead of a minute."""

_REASONS = (
    ("UnknownTopicOrPartition", "the topic does not exist"),
    ("TimeoutException", "no broker answers at that address"),
    ("No resolvable bootstrap urls", "the bootstrap address cannot be resolved"),
    ("Invalid url in bootstrap.servers", "the bootstrap address is not of the form HOST:PORT"),
    ("Failed to find data source: kafka", "Spark was started without the Kafka connector's jar"),
    ("unresolved dependency", "the Kafka connector's jars could not be downloaded"),
    ("JAVA_GATEWAY_EXITED", "Java did not start, or the connector's jars could not be downloaded"),
)


def kafka_session(name: str, **options: str) -> SparkSession:
    """A session on this machine unless spark-submit set another master; options override."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    quiet = f"-Dlog4j2.configurationFile=file:{HERE}/log4j2.properties"
    settings = {
        "spark.master": os.environ.get("SPARK_MASTER", "local[*]"),
        "spark.jars.packages": CONNECTOR,
        "spark.jars.ivy": str(HERE.parent / ".cache" / "spark-ivy"),
        "spark.driver.extraJavaOptions": quiet,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **options,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def fail(program: str, error: Exception) -> NoReturn:
    """End the program with one sentence instead of a Java stack trace."""
    text = str(error)
    for sign, reason in _REASONS:
        if sign in text:
            sys.exit(f"{program}: {reason}.")
    messages = re.findall(r"(?:Exception|Error): (.+)", text) or [text.strip() or repr(error)]
    sys.exit(f"{program}: {messages[-1].splitlines()[0]}")
