"""Spark writes and reads through a listener with TLS, a login and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.sasl_over_tls import MECHANISMS, Secured, secured_broker, token_file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_spark_logs_in_over_tls(
    spark: SparkSession, secured: Secured, mechanism: str, unique: str, tmp_path: Path
) -> None:
    topic = f"shared-{unique}"
    _allow_token(spark, tmp_path)
    options = {
        f"kafka.{name}": value for name, value in secured.java(tmp_path, mechanism).items()
    } | {"kafka.bootstrap.servers": secured.bootstrap}
    spark.range(100).selectExpr("CAST(id AS STRING) AS value").write.format("kafka").options(
        **options, topic=topic
    ).save()
    rows = (
        spark.read.format("kafka")
        .options(**options, subscribe=topic, groupIdPrefix=topic)
        .load()
        .selectExpr("CAST(CAST(value AS STRING) AS INT) AS number")
        .orderBy("number")
        .collect()
    )
    assert [row.number for row in rows] == list(range(100))


def _allow_token(spark: SparkSession, directory: Path) -> None:
    """Let Kafka's client read the file of its token, which newer ones refuse otherwise."""
    jvm = spark._jvm
    assert jvm is not None, "a local session"
    name = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    jvm.java.lang.System.setProperty(name, token_file(directory).as_uri())
