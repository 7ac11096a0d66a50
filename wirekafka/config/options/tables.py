"""Options of topics that are Iceberg tables as well."""

from __future__ import annotations

from typing import Any

from wirekafka.config.check import at_least, one_of
from wirekafka.config.option import ConfigError, boolean, long, string
from wirekafka.config.table_mode import TableKind, TableMode

APPEND, UPSERT = "append", "upsert"
DLQ_TABLE, DROP = "dlq_table", "drop"

_EXAMPLE = "such as (hour(redpanda.timestamp), bucket(16, region)), or () for no partitions"


def table_mode(name: str, value: Any) -> None:
    """off, key_value, value_schema_id_prefix, value_schema_latest[:subject=S,protobuf_name=N]"""
    try:
        TableMode.parse(value)
    except ValueError as error:
        raise ConfigError(name, value, str(error)) from None


def partition_spec(name: str, value: Any) -> None:
    """a list in parentheses of columns and transforms"""
    depth = 0
    for at, character in enumerate(value):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 1 and at < len(value) - 1:
            break
    else:
        if value and depth == 0:
            return
    reason = f"expected a list in parentheses that are balanced, {_EXAMPLE}"
    raise ConfigError(name, value, reason)


class TableOptions:
    """Topic options of tables, by attribute; described only where a topic sets them."""

    __slots__ = ()

    wirekafka_table_delete = boolean(
        False, internal=True, doc="Whether the table is dropped when the topic is deleted."
    )
    wirekafka_table_hold = boolean(
        False,
        internal=True,
        doc="Whether retention by time and size waits until the records are in the table. Without "
        "knowledge of the table it keeps everything, also on brokers without "
        "`wirekafka.tables.url`, and while the table is paused. DeleteRecords does not wait.",
    )
    wirekafka_table_invalid_record_action = string(
        DLQ_TABLE,
        one_of(DLQ_TABLE, DROP),
        internal=True,
        doc="What becomes of a record that has no place in the table, because its value cannot be "
        "decoded: `dlq_table` writes it to the table `TOPIC~dlq`, with the reason.",
    )
    wirekafka_table_mode = string(
        TableKind.OFF.value,
        table_mode,
        internal=True,
        doc="Whether the topic is an Iceberg table as well, and what its columns are: `key_value` "
        "has the value as bytes, `value_schema_id_prefix` the fields of the value by the schema "
        "whose id it begins with, `value_schema_latest` by the latest schema of a subject, which "
        "values without an id follow. The brokers need `wirekafka.tables.url`.",
    )
    wirekafka_table_partition_spec = string(
        "(hour(redpanda.timestamp))",
        partition_spec,
        internal=True,
        doc="The table's partitions: Iceberg's transforms of columns. Each file keeps the "
        "partitions that it was written with.",
    )
    wirekafka_table_target_lag_ms = long(
        60_000,
        at_least(0),
        internal=True,
        doc="After how long, at the latest, an appended record is to be in the table.",
    )
    wirekafka_table_write = string(
        APPEND,
        one_of(APPEND, UPSERT),
        internal=True,
        doc="How records are written: `append` has a row for each record, `upsert` a row for each "
        "key, which a record with a null value deletes.",
    )
