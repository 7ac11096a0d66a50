"""The columns that a sink writes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.sink_columns import check_columns
from wirekafka.spark.sink_options import SinkOptions

TOPIC = SinkOptions("host:9092", topic="orders")
NO_TOPIC = SinkOptions("host:9092")
ALL = {
    "topic": "string",
    "partition": "integer",
    "key": "binary",
    "value": "string",
    "timestamp": "timestamp",
}


def schema(**types: str) -> StructType:
    found = StructType()
    for name, text in types.items():
        found.add(name, text)
    return found


def test_columns_of_sparks_sink_and_the_time_are_accepted() -> None:
    check_columns(schema(**ALL), NO_TOPIC)
    check_columns(schema(value="binary"), TOPIC)


def test_other_columns_are_left_out() -> None:
    check_columns(schema(value="string", offset="long", timestampType="integer"), TOPIC)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"key": "string"}, "the column value is missing"),
        ({"value": "integer"}, "value is int; it has to be a string or binary"),
        ({"value": "string", "key": "long"}, "key is bigint; it has to be"),
        ({"value": "string", "partition": "string"}, "partition is string; it has to be an int"),
        ({"value": "string", "timestamp": "long"}, "timestamp is bigint; it has to be a time"),
        ({"value": "string", "headers": "string"}, "headers is string; it has to be array"),
    ],
)
def test_refusals_name_the_column(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        check_columns(schema(**given), TOPIC)


def test_topic_has_to_come_from_somewhere() -> None:
    with pytest.raises(OptionError, match="give the option topic, or a column topic"):
        check_columns(schema(value="string"), NO_TOPIC)
