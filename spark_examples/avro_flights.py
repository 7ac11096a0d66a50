"""Flights as Avro records of registered schemas, which several programs write."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_examples.airline import Record, event_times_ms

Schema = dict[str, Any]

FIRST: Schema = {
    "type": "record",
    "name": "Flight",
    "namespace": "airline",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "distance", "type": "long"}],
}
SECOND: Schema = {
    **FIRST,
    "fields": [
        *FIRST["fields"],
        {"name": "dep_delay", "type": ["null", "double"], "default": None},
    ],
}
"""The next version, which has a field more."""


def serialized(
    registry: SchemaRegistryClient,
    topic: str,
    table: pd.DataFrame,
    versions: Sequence[Schema] = (FIRST, SECOND),
) -> Iterator[Record]:
    """The flights as Confluent's serializer writes them: equal parts, each by the next version."""
    place = SerializationContext(topic, MessageField.VALUE)
    serializers = [AvroSerializer(registry, json.dumps(version)) for version in versions]
    columns = table[["carrier", "distance", "dep_delay"]].astype(object)
    rows = columns.where(columns.notna(), None).to_dict("records")
    for number, (row, time_ms) in enumerate(zip(rows, event_times_ms(table), strict=True)):
        serializer = serializers[number * len(versions) // len(rows)]
        yield Record(row["carrier"].encode(), serializer(row, place), int(time_ms))
