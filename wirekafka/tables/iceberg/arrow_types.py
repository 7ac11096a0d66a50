"""Arrow's types of a table's columns, and Iceberg's types of Arrow's.

Arrow's are the plain ones, not the types with 64-bit offsets that pyiceberg prefers.
"""

from itertools import count

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema

_FIELD_ID = b"PARQUET:field_id"


def arrow_schema(schema: Schema, *, has_field_ids: bool = False) -> pa.Schema:
    """The columns of an Iceberg schema; a Parquet file takes over the field ids of its columns."""
    fields = schema_to_pyarrow(schema, include_field_ids=has_field_ids)
    return pa.schema([_plain_field(field) for field in fields])


def iceberg_schema(columns: pa.Schema) -> Schema:
    """The columns as Iceberg has them, with field ids that no table knows.

    Raises ValueError, TypeError or UnsupportedPyArrowTypeException for a type without a match.
    """
    ids = count(1)
    numbered = pa.schema([_numbered(field, ids) for field in columns])
    return pyarrow_to_schema(numbered, format_version=2)


def _numbered(field: pa.Field, ids: "count[int]") -> pa.Field:
    number = str(next(ids)).encode()
    type_ = _numbered_type(field.type, ids)
    return pa.field(field.name, type_, field.nullable, metadata={_FIELD_ID: number})


def _numbered_type(type_: pa.DataType, ids: "count[int]") -> pa.DataType:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_numbered(type_.value_field, ids))
    if pa.types.is_struct(type_):
        return pa.struct([_numbered(field, ids) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_numbered(type_.key_field, ids), _numbered(type_.item_field, ids))
    return type_


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def plain_type(type_: pa.DataType) -> pa.DataType:
    """A type of Arrow without 64-bit offsets at any depth."""
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain_field(type_.key_field), _plain_field(type_.item_field))
    return type_
