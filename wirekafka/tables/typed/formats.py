"""The typed values of each schema format, imported when a schema of the format comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from wirekafka.schemas.schema import Format, ParsedSchema
from wirekafka.tables.typed.values import RESERVED_NAME, TypedValues, UnsupportedSchema


def typed_values(schema: ParsedSchema, indexes: Sequence[int] = (0,)) -> TypedValues:
    """The values of a schema; `indexes` leads to the message of a Protobuf schema.

    Raises UnsupportedSchema.
    """
    values = _values(schema, indexes)
    if RESERVED_NAME in values.type.names:
        raise UnsupportedSchema(
            f"The value has a field {RESERVED_NAME}, which is the name of the column with a"
            " record's partition, offset, timestamp, headers and key: rename the field"
        )
    return values


def _values(schema: ParsedSchema, indexes: Sequence[int]) -> TypedValues:
    match schema.format:
        case Format.AVRO:
            from wirekafka.tables.typed.avro import Avro

            return Avro(schema)
        case Format.JSON:
            from wirekafka.tables.typed.json import Json

            return Json(schema)
        case Format.PROTOBUF:
            from wirekafka.tables.typed.protobuf import Protobuf

            return Protobuf(schema, indexes)
    assert_never(schema.format)
