"""Rows in the columns of a table's files: by field id, with missing columns null.

pyiceberg has the like for reading and writing, but a null list or map of structs is an empty one
after it.
"""

import pyarrow as pa
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from wirekafka.tables.iceberg.arrow_types import arrow_schema


class FileColumns:
    """Converts rows with the column names of one schema into rows of files of another schema.

    Both are schemas of one table: a field id is the same column, whatever its name and place.
    """

    def __init__(self, layout: Schema, schema: Schema):
        self.schema = sanitize_column_names(schema)
        """The columns of files: Parquet has no names with dots or spaces from any writer."""
        self._types = arrow_schema(self.schema, has_field_ids=True)
        self._layout = layout.as_struct()

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows; ValueError if they have a column that the layout lacks."""
        if rows.num_rows == 0:
            return self._types.empty_table()
        struct = self.schema.as_struct()
        type_ = pa.struct(list(self._types))
        batches = [
            pa.RecordBatch.from_struct_array(
                _struct(batch.to_struct_array(), self._layout, struct, type_)
            )
            for batch in rows.to_batches()
        ]
        arrays = [batch.columns for batch in batches]
        columns = [pa.chunked_array(list(chunks)) for chunks in zip(*arrays, strict=True)]
        return pa.Table.from_arrays(columns, schema=self._types)


def _converted(
    array: pa.Array, source: IcebergType, target: IcebergType, type_: pa.DataType
) -> pa.Array:
    if array.type == type_ and source == target:
        return array
    match source, target:
        case StructType(), StructType():
            return _struct(array, source, target, type_)
        case ListType(), ListType():
            values = _converted(
                array.values, source.element_type, target.element_type, type_.value_type
            )
            return _of_offsets(array, type_, values)
        case MapType(), MapType():
            keys = _converted(array.keys, source.key_type, target.key_type, type_.key_type)
            items = _converted(array.items, source.value_type, target.value_type, type_.item_type)
            fields = [type_.key_field, type_.item_field]
            return _of_offsets(
                array, type_, pa.StructArray.from_arrays([keys, items], fields=fields)
            )
        case _:
            return _primitive(array, type_)


def _struct(
    array: pa.StructArray, source: StructType, target: StructType, type_: pa.StructType
) -> pa.StructArray:
    known = {field.name: field for field in source.fields}
    if unknown := [field.name for field in array.type if field.name not in known]:
        raise ValueError(f"rows have columns that the table lacks: {', '.join(unknown)}")
    present = {known[field.name].field_id: known[field.name] for field in array.type}
    children = [
        pa.nulls(len(array), inner.type)
        if (found := present.get(field.field_id)) is None
        else _converted(array.field(found.name), found.field_type, field.field_type, inner.type)
        for field, inner in zip(target.fields, type_, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)


def _of_offsets(array: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with the nulls and offsets of another, and a child of its own."""
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        type_, len(array), [validity, offsets], offset=array.offset, children=[child]
    )


def _primitive(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.BaseExtensionType) and array.type == type_.storage_type:
        return pa.ExtensionArray.from_storage(type_, array)
    return array if array.type == type_ else array.cast(type_)
