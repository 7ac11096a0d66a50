"""Records whose keys and values are decoded by their schemas, to be printed."""

from __future__ import annotations

from typing import Any, NamedTuple

from wirekafka.cli.output import note
from wirekafka.client.fetcher import FetchedRecord
from wirekafka.client.schema_registry import DecodedValue, Decoder, SchemaRegistry
from wirekafka.visible_text import json_text

_MOST_NOTES = 100


class DecodedParts(NamedTuple):
    """The decoded parts of a record; None for a part that is printed as it is."""

    key: DecodedValue | None
    value: DecodedValue | None

    def as_text(self, record: FetchedRecord) -> FetchedRecord:
        """The record with JSON in place of the parts that were decoded."""
        return record._replace(
            key=record.key if self.key is None else json_text(self.key.value).encode(),
            value=record.value if self.value is None else json_text(self.value.value).encode(),
        )

    def fields_of(self, name: str) -> dict[str, Any] | None:
        """The part of that name in a JSON line, and its schema; None if it is not decoded."""
        part = {"key": self.key, "value": self.value}.get(name)
        return None if part is None else {name: part.value, f"{name}_schema": _schema(part)}


class RecordDecoder:
    """Decodes records; notes each reason why a part is not decoded once, on standard error."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._decoder = Decoder(registry)
        self._noted: set[str] = set()

    def decoded(self, record: FetchedRecord) -> DecodedParts:
        """The decoded key and value of a record."""
        return DecodedParts(
            self._part(record, "key", record.key), self._part(record, "value", record.value)
        )

    def _part(self, record: FetchedRecord, part: str, data: bytes | None) -> DecodedValue | None:
        found = self._decoder.decoded(data, is_key=part == "key", headers=record.headers)
        if found is not None and found.error is None:
            return found
        if found is not None:
            self._note(record, part, found.error or "")
        elif data is not None and part == "value":
            self._note(record, part, "it names no schema")
        return None

    def _note(self, record: FetchedRecord, part: str, reason: str) -> None:
        if reason in self._noted or len(self._noted) >= _MOST_NOTES:
            return
        self._noted.add(reason)
        place = f"{record.topic}-{record.partition}, offset {record.offset}"
        note(f"wirekafka: {place}: the {part} is shown as it is: {reason}")


def _schema(part: DecodedValue) -> dict[str, Any]:
    assert part.schema is not None
    return {
        "id": part.id,
        **({"guid": str(part.guid)} if part.guid is not None else {}),
        "type": part.schema.format.value,
        "name": part.name,
    }
