"""Tables of topics as pyiceberg, DuckDB and Spark read them, and as Spark decodes the topics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from compat_tests.spark_process import SparkProcess, spark_process
from compat_tests.table_readers import (
    NAMESPACE,
    READERS,
    Row,
    by_pyiceberg,
    by_spark,
    duckdb_with_iceberg,
    frame_rows,
)
from compat_tests.typed_values import AVRO, FORMATS, START, protobuf_class
from spark_examples.live_broker import live_broker
from spark_examples.session import AVRO as SPARK_AVRO
from spark_examples.session import ICEBERG, TABLES, TIMEOUTS, topic_tables
from tests.eventually import eventually
from tests.ports import free_ports

pytestmark = pytest.mark.timeout(300)

PREFIX_BYTES = 5
PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "tables.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Lake:
    """A broker with a registry and tables."""

    bootstrap: str
    registry: SchemaRegistryClient
    tables: Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(root: Path) -> Iterator[SparkProcess]:
    packages = (SPARK_AVRO, *ICEBERG)
    with spark_process(*packages, **topic_tables(root / "tables")) as process:
        yield process


@pytest.fixture(scope="module")
def lake(root: Path, spark: SparkProcess) -> Iterator[Lake]:
    """Begins while Spark starts."""
    [port] = free_ports(1)
    with (
        live_broker(root / "data", *settings(root, port)) as bootstrap,
        SchemaRegistryClient({"url": f"http://127.0.0.1:{port}"}) as registry,
    ):
        yield Lake(bootstrap, registry, root / "tables")


def settings(root: Path, registry_port: int) -> list[str]:
    return [
        f"wirekafka.tables.url={root / 'tables'}",
        f"wirekafka.schema.registry.listener=127.0.0.1:{registry_port}",
    ]


def create(bootstrap: str, topic: str, mode: str, **options: str) -> None:
    config = {"wirekafka.table.mode": mode, "wirekafka.table.target.lag.ms": "100", **options}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [created] = admin.create_topics([NewTopic(topic, PARTITIONS, config=config)]).values()
    created.result(30)


def produce(bootstrap: str, topic: str, values: Iterator[bytes | None]) -> int:
    """Produce values a minute apart, every other one with headers; returns how many there are."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    count = 0
    for count, value in enumerate(values, 1):
        time_ms = int(START.timestamp() * 1000) + count * 60_000
        headers: list[Any] = [("a", b"\0\xff"), ("a", None)] if count % 2 else []
        producer.produce(
            topic, value, b"k%d" % count, count % PARTITIONS, timestamp=time_ms, headers=headers
        )
    assert producer.flush(30) == 0
    return count


def table_rows(lake: Lake, table: str, count: int) -> list[Row]:
    """The rows of a table once there are so many."""

    def rows() -> list[Row]:
        found = by_pyiceberg(lake.tables, table)
        assert len(found) == count, len(found)
        return found

    return eventually(rows, 60)


@pytest.mark.parametrize("name", FORMATS)
def test_all_readers_see_what_confluents_serializers_wrote_and_what_spark_decodes(
    name: str, lake: Lake, spark: SparkProcess
) -> None:
    create(lake.bootstrap, name, "value_schema_id_prefix")
    count = produce(lake.bootstrap, name, FORMATS[name].serialized(lake.registry, name))
    rows = table_rows(lake, name, count)
    for reader, read in READERS.items():
        assert read(lake.tables, name) == rows, reader
    assert spark.call(by_spark, name) == rows

    rows = [compared(row) for row in rows]
    decoded = spark.call(decoded_rows, lake.bootstrap, name, name)
    assert rows == [compared(row) for row in decoded]
    written = FORMATS[name].columns()
    in_order = (*written[1::2], *written[0::2])  # Partition 0 has the second one first.
    assert [{**row, NAMESPACE: None} for row in rows] == [
        {NAMESPACE: None, **compared(row)} for row in in_order
    ]


def compared(row: Row) -> Row:
    """A row with a union as the value of its branch."""
    either = row.get("either")
    if isinstance(either, dict):
        [either] = [each for each in either.values() if each is not None] or [None]
    return {**row, "either": either}


def decoded_rows(spark: SparkSession, bootstrap: str, topic: str, name: str) -> list[Row]:
    """The records of Spark's `kafka` format, with values that Spark's own functions decode."""
    records = kafka_records(spark, bootstrap, topic)
    payload = f.expr(f"substring(value, {PREFIX_BYTES + 1})")
    columns = spark.table(f"{TABLES}.{NAMESPACE}.`{topic}`").drop(NAMESPACE).schema
    if name == "avro":
        return frame_rows(with_value(records, from_avro(payload, AVRO)))
    if name == "json":
        return frame_rows(with_value(records, f.from_json(payload.cast("string"), columns)))
    # Spark's from_protobuf is a jar of its own; the message's class decodes the same values.
    rows = frame_rows(records.select(place(), "value"))
    return [{NAMESPACE: row[NAMESPACE], **protobuf_row(row["value"])} for row in rows]


def kafka_records(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .options(**TIMEOUTS)
        .load()
    )


def with_value(records: DataFrame, value: Column) -> DataFrame:
    return records.select(place(), value.alias("decoded")).select(NAMESPACE, "decoded.*")


def place() -> Column:
    """The column that a table has of each record, made of Spark's."""
    return f.struct(
        "partition",
        "timestamp",
        "offset",
        "headers",
        "key",
        f.col("timestampType").alias("timestamp_type"),
    ).alias(NAMESPACE)


@cache
def deserializer() -> ProtobufDeserializer:
    return ProtobufDeserializer(protobuf_class(), {"use.deprecated.format": False})


def protobuf_row(value: bytes) -> Row:
    """A message, as Confluent's deserializer reads it, in the columns of a table."""
    place = SerializationContext("any", MessageField.VALUE)
    message = deserializer()(value, place)
    assert message is not None
    row: Row = {}
    for field in message.DESCRIPTOR.fields:
        found = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        elif field.name == "at":
            row["at"] = found.ToDatetime(START.tzinfo)
        elif field.name in ("large", "fixed"):
            row[field.name] = Decimal(found)
        elif field.name == "color":
            row["color"] = field.enum_type.values_by_number[found].name
        elif field.name == "points":
            row["points"] = [point_row(each) for each in found]
        elif field.name == "home":
            row["home"] = point_row(found)
        elif field.name == "counts":
            row["counts"] = dict(found)
        else:
            row[field.name] = list(found) if field.name == "numbers" else found
    return row


def point_row(point: Any) -> Row:
    return {"x": point.x, "y": point.y if point.HasField("y") else None}


ORDER: dict[str, Any] = {
    "id": "int",
    "name": "string",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    "color": {"type": "enum", "name": "Color", "symbols": ["RED"], "default": "RED"},
}
POINT: dict[str, Any] = {"type": "record", "name": "Point"}
X, Y = {"name": "x", "type": "double"}, {"name": "y", "type": "long", "default": 0}
EVOLUTIONS: list[dict[str, Any]] = [
    {"note": ["null", "string"]},
    {"id": "long"},
    {"name": ["null", "string"]},
    {"home": ["null", {**POINT, "fields": [{**X, "type": "float"}]}]},
    {"home": ["null", {**POINT, "fields": [X]}]},
    {"home": ["null", {**POINT, "fields": [X, Y]}]},
    {"price": {**ORDER["price"], "precision": 10}},
    {"title": ["null", "string"], "name": None},
    {"tags": {"type": "array", "items": "string"}},
    {"color": {**ORDER["color"], "symbols": ["RED", "GREEN"]}},
]
"""The fields of the next version: new, wider, optional, nested, and one with a new name."""


def versions() -> list[str]:
    """The schemas of the first version and of each evolution after it."""
    fields, found = dict(ORDER), []
    for change in ({}, *EVOLUTIONS):
        fields = {name: type for name, type in {**fields, **change}.items() if type is not None}
        listed = [field(name, type) for name, type in fields.items()]
        found.append(json.dumps({"type": "record", "name": "Order", "fields": listed}))
    return found


def field(name: str, type: Any) -> dict[str, Any]:
    made = {"name": name, "type": type}
    if name == "title":
        made["aliases"] = ["name"]
    if isinstance(type, list):
        made["default"] = None
    if name == "tags":
        made["default"] = []
    return made


def order(version: int, number: int) -> Row:
    """What a producer of a version knows of an order."""
    row: Row = {"id": number, "name": f"n{number}", "price": Decimal(number) / 100, "color": "RED"}
    known = set().union(*EVOLUTIONS[:version])
    if "note" in known and number % 2:
        row["note"] = "noted"
    if "home" in known:
        row["home"] = {"x": 0.5, **({"y": number} if version >= 6 else {})}
    if "title" in known:
        row["title"] = row.pop("name")
    if "tags" in known:
        row["tags"] = ["a", "b"]
    return row


def test_a_table_follows_ten_evolutions_while_two_versions_are_produced(
    lake: Lake, spark: SparkProcess
) -> None:
    topic = "evolving"
    create(lake.bootstrap, topic, "value_schema_id_prefix")
    place = SerializationContext(topic, MessageField.VALUE)
    serializers = [AvroSerializer(lake.registry, each) for each in versions()]
    written: list[Row] = []
    for version in range(len(serializers)):
        # Some producers have the version before still.
        used = [max(0, version - number % 2) for number in range(6)]
        rows = [order(each, len(written) + number) for number, each in enumerate(used)]
        values = [serializers[each](row, place) for each, row in zip(used, rows, strict=True)]
        produce(lake.bootstrap, topic, iter(values))
        written += rows
        table_rows(lake, topic, len(written))
    names = ("id", "title", "price", "color", "note", "home", "tags")
    rows = table_rows(lake, topic, len(written))
    assert set(rows[0]) == {NAMESPACE, *names}
    found = sorted(rows, key=lambda row: row["id"])
    for row, known in zip(found, written, strict=True):
        home = known.get("home")
        title = known.get("title", known.get("name"))
        expected = {**known, "title": title, "home": home and {"x": home["x"], "y": home.get("y")}}
        assert {name: row[name] for name in names} == {name: expected.get(name) for name in names}
    for reader, read in READERS.items():
        assert read(lake.tables, topic) == rows, reader
    assert spark.call(by_spark, topic) == rows


def example(containing: str) -> str:
    """The only example in Python of the page with a text."""
    [found] = [each for each in EXAMPLES if containing in each]
    return found


def test_the_page_opens_the_catalog_for_spark_as_the_tests_do() -> None:
    """They would not see that it is locked for the broker, if it were."""
    written = dict(re.findall(r'config\(f"\{catalog\}([^"]*)", "([^"]*)"\)', example("Spark")))
    used = topic_tables(Path("/srv/lake"))
    prefix = f"spark.sql.catalog.{TABLES}"
    assert written == {name.removeprefix(prefix): used[name] for name in used if name != prefix}


def test_the_page_reads_a_table_with_pyiceberg_and_duckdb(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    create(lake.bootstrap, "flights", "value_schema_id_prefix")
    schema = {"type": "record", "name": "F", "fields": [{"name": "carrier", "type": "string"}]}
    serializer = AvroSerializer(lake.registry, json.dumps(schema))
    value = serializer({"carrier": "UA"}, SerializationContext("flights", MessageField.VALUE))
    produce(lake.bootstrap, "flights", iter([value] * 3))
    table_rows(lake, "flights", 3)
    exec(example("selected_fields").replace("/srv/lake", str(lake.tables)), {})
    with duckdb_with_iceberg() as connection:
        code = example("iceberg_scan").replace("/srv/lake", str(lake.tables))
        code = re.sub(r"duckdb\.sql\(.*\)\n", "", code).replace("import duckdb\n", "")
        exec(code, {"duckdb": connection})
    assert capsys.readouterr().out.splitlines() == ["3", "[(3,)]"]
