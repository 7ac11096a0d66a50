"""The columns that a sink writes: as Spark's kafka format, and the time of a record."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.sink_options import SinkOptions

_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_TEXT_OR_BINARY = (StringType, BinaryType)
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "topic": ((StringType,), "a string"),
    "partition": ((IntegerType,), "an int"),
    "key": (_TEXT_OR_BINARY, "a string or binary"),
    "value": (_TEXT_OR_BINARY, "a string or binary"),
    "headers": ((ArrayType,), _HEADERS.simpleString()),
    "timestamp": ((TimestampType,), "a timestamp"),
}
"""The columns, the types of each, and their description. Other columns are left out."""


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Check the columns of the rows. Raises OptionError."""
    fields = {field.name: field.dataType for field in schema}
    if "value" not in fields:
        raise OptionError("the column value is missing")
    if options.topic is None and "topic" not in fields:
        raise OptionError("give the option topic, or a column topic")
    for name, (types, description) in _TYPES.items():
        given = fields.get(name)
        if given is None:
            continue
        fits = isinstance(given, types) and (name != "headers" or _are_headers(given))
        if not fits:
            raise OptionError(
                f"the column {name} is {given.simpleString()}; it has to be {description}"
            )


def _are_headers(given: DataType) -> bool:
    return given.simpleString() == _HEADERS.simpleString()
