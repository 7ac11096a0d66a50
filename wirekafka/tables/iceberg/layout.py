"""Columns, names and properties of a topic's table, as of Redpanda 25.3 and newer."""

import pyarrow as pa

RECORD_COLUMN = "redpanda"
"""The column of a record's position, time, headers and key."""
DEAD_LETTER_SUFFIX = "~dlq"
DEFAULT_NAMESPACE = "redpanda"
DEFAULT_PARTITION_SPEC = "(hour(redpanda.timestamp))"

YEAR_1_US, YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of these years: Python has no other times."""

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORD_TYPE = pa.struct(
    [
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("offset", pa.int64()),
        ("headers", pa.list_(HEADER_TYPE)),
        ("key", pa.binary()),
        ("timestamp_type", pa.int32()),
    ]
)
"""timestamp_type is 0 for a time of the producer, 1 for a time of the broker."""

KEY_VALUE_COLUMNS = pa.schema([(RECORD_COLUMN, RECORD_TYPE), ("value", pa.binary())])
DEAD_LETTER_COLUMNS = pa.schema([*KEY_VALUE_COLUMNS, ("error", pa.string())])
"""Records whose values do not decode, and why."""

TABLE_PROPERTIES = {
    "format-version": "2",
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "zstd",
    "write.target-file-size-bytes": str(512 << 20),
    "write.metadata.previous-versions-max": "100",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.manifest-merge.enabled": "true",
}
TOPIC_ID_PROPERTY = "wirekafka.topic-id"
"""The id of the topic, for a table without a snapshot too."""
DELETION_PROPERTY = "wirekafka.deleted-with-topic"
"""A `DeletionMark`: the table goes with its topic."""
RENAMES_PROPERTY = "wirekafka.renames"
"""Fields that were renamed, as JSON: pairs of an older path and its newer path."""


def typed_columns(value: pa.StructType) -> pa.Schema:
    """The record's column, then the fields of its value; ValueError if two have one name."""
    if value.get_field_index(RECORD_COLUMN) >= 0:
        raise ValueError(
            f"the value has a field {RECORD_COLUMN}, which is the name of the column of positions,"
            " times, headers and keys: rename the field, or set wirekafka.table.mode=key_value"
        )
    return pa.schema([(RECORD_COLUMN, RECORD_TYPE), *value])


def dead_letter_table(topic: str) -> str:
    """The name of the table of records whose values do not decode."""
    return topic + DEAD_LETTER_SUFFIX
