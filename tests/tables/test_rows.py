"""Batches as Arrow: the same rows as by the decoder of single records."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from tests.repetitions import repetitions
from tests.tables.generated import fast_rows, log_of, slow_rows
from wirekafka.tables.rows import HEADERS, SCHEMA, schema

SEEDS = repetitions("WIREKAFKA_TABLE_SEEDS", usual=100, thorough=5000)


def test_generated_logs_have_the_rows_of_the_slow_decoder() -> None:
    for seed in range(SEEDS):
        random = Random(seed)
        log = log_of(random)
        settings = {"headers": True, "limit_rows": random.choice((1, 100, 1 << 17))}
        assert fast_rows(log, **settings).to_pylist() == slow_rows(log), seed


def test_offsets_outside_of_the_range_are_left_out() -> None:
    for seed in range(30):
        random = Random(seed)
        log = log_of(random)
        everything = slow_rows(log)
        offsets = [row["offset"] for row in everything] or [0]
        start, end = sorted((random.choice(offsets), random.choice(offsets) + 1))
        found = fast_rows(log, start, end, headers=True).to_pylist()
        assert found == slow_rows(log, start, end), seed


def test_pruned_columns_have_the_same_values() -> None:
    log = log_of(Random(5))
    whole = fast_rows(log, headers=True)
    for columns in (["offset"], ["value", "key"], ["headers"], ["timestamp", "topic"]):
        found = fast_rows(log, columns=columns)
        assert found == whole.select(columns)
        assert found.schema == schema(columns)


def test_the_schema_is_the_schema_of_sparks_kafka_format() -> None:
    assert [f"{field.name} {field.type}" for field in schema(headers=True)] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int32",
        "offset int64",
        "timestamp timestamp[us, tz=UTC]",
        "timestampType int32",
        "headers list<item: struct<key: string, value: binary>>",
    ]
    assert schema() == SCHEMA
    assert schema(["offset"], headers=True) == pa.schema([SCHEMA.field("offset"), HEADERS])
    with pytest.raises(ValueError, match="no column ofset: the columns are key, value"):
        schema(["ofset"])
    with pytest.raises(ValueError, match="no column is chosen"):
        schema([])
    with pytest.raises(ValueError, match="named twice"):
        schema(["key", "key"])
