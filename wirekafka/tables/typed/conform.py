"""Rows of one schema in the columns of a table that has newer, older or wider columns, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wirekafka.tables.typed.values import Path

_ELEMENT, _VALUE = "element", "value"
_OldNames = Mapping[Path, Sequence[str]]
"""By the path of a field: the names that it had before."""


class RowsMismatch(ValueError):
    """Rows that the columns of a table cannot hold; the text names the column and says why."""


def conformed(
    rows: pa.StructArray, to: pa.StructType, renames: Mapping[Path, Path]
) -> pa.StructArray:
    """The rows in other columns: fields that the rows lack are null, and no value is changed.

    A field may have an older name, or a narrower type: an int where the table has a long or a
    double, a float for a double, a decimal of fewer digits. `renames` leads from the path of an
    older name to the field's path. Raises RowsMismatch.
    """
    old_names: dict[Path, list[str]] = {}
    for old, new in renames.items():
        if old[:-1] == new[:-1]:
            old_names.setdefault(new, []).append(old[-1])
    return _conformed(rows, to, (), old_names)


def _conformed(array: pa.Array, to: pa.DataType, path: Path, old_names: _OldNames) -> pa.Array:
    found = array.type
    if found == to:
        return array
    if pa.types.is_struct(found) and pa.types.is_struct(to):
        return _struct(array, to, path, old_names)
    if _is_list(found) and _is_list(to):
        return _list(array, to, path, old_names)
    if pa.types.is_map(found) and pa.types.is_map(to):
        return _map(array, to, path, old_names)
    if _is_wider(found, to):
        return array.cast(to)
    raise RowsMismatch(f"Column {'.'.join(path)} of the table is {to}, and cannot hold {found}")


def _struct(
    array: pa.StructArray, to: pa.StructType, path: Path, old_names: _OldNames
) -> pa.StructArray:
    names = array.type.names
    mask = array.is_null() if array.null_count else None
    sources = {each.name: _source(each.name, names, path, old_names) for each in to}
    for name in names:
        if name not in sources.values():
            raise RowsMismatch(f"The table has no column {'.'.join((*path, name))}")
    children = []
    for each in to:
        source, place = sources[each.name], (*path, each.name)
        if source is None:
            child = pa.nulls(len(array), each.type)
        else:
            child = _conformed(array.field(names.index(source)), each.type, place, old_names)
        children.append(_checked(child, each, mask, place))
    return _struct_of(children, to, len(array), mask)


def _struct_of(
    children: Sequence[pa.Array], type: pa.StructType, length: int, mask: pa.BooleanArray | None
) -> pa.StructArray:
    if not children:
        # A struct without fields has no length of its own.
        return pa.Array.from_buffers(type, length, [None])
    return pa.StructArray.from_arrays(children, fields=list(type), mask=mask)


def _source(name: str, names: Sequence[str], path: Path, old_names: _OldNames) -> str | None:
    """The name that the rows have for a field of the table."""
    if name in names:
        return name
    old = (each for each in old_names.get((*path, name), ()) if each in names)
    return next(old, None)


def _checked(
    child: pa.Array, field: pa.Field, mask: pa.BooleanArray | None, path: Path
) -> pa.Array:
    """The values of a field, if it may be null where they are."""
    if not field.nullable and child.null_count:
        nulls = child.is_null()
        if mask is not None:
            nulls = pc.and_not(nulls, mask)
        if pc.any(nulls).as_py():
            raise RowsMismatch(f"Column {'.'.join(path)} is required, and rows have no value of it")
    return child


def _is_list(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type))


def _list(array: Any, to: Any, path: Path, old_names: _OldNames) -> pa.Array:
    path = (*path, _ELEMENT)
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    items = _conformed(array.values, to.value_type, path, old_names)
    items = _checked(items, to.value_field, None, path)
    made = _nested(array, pa.list_(to.value_field), items)
    return made.cast(to) if pa.types.is_large_list(to) else made


def _map(array: Any, to: Any, path: Path, old_names: _OldNames) -> pa.Array:
    path = (*path, _VALUE)
    keys = _conformed(array.keys, to.key_type, path, old_names)
    values = _conformed(array.items, to.item_type, path, old_names)
    values = _checked(values, to.item_field, None, path)
    entries = pa.StructArray.from_arrays([keys, values], fields=[to.key_field, to.item_field])
    return _nested(array, to, entries)


def _nested(array: pa.Array, type: pa.DataType, items: pa.Array) -> pa.Array:
    """A list or map with other items: where each begins, and which are null, is shared."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        type, len(array), [validity, offsets], offset=array.offset, children=[items]
    )


def _is_wider(found: pa.DataType, to: pa.DataType) -> bool:
    """Whether a type has each value of another one."""
    types = pa.types
    if types.is_decimal128(found) and types.is_decimal128(to):
        whole_digits = found.precision - found.scale
        return bool(to.precision - to.scale >= whole_digits and to.scale >= found.scale)
    return bool(
        (types.is_int32(found) and (types.is_int64(to) or types.is_float64(to)))
        or (types.is_float32(found) and types.is_float64(to))
        or (types.is_string(found) and types.is_large_string(to))
        or (types.is_binary(found) and types.is_large_binary(to))
    )
