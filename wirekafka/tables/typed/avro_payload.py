"""One Avro payload at a time, decoded to what Arrow builds a row of: exact, with reasons."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from struct import Struct
from typing import Any, assert_never
from uuid import UUID

from wirekafka.schemas.avro.payload import AvroPayload
from wirekafka.schemas.schema import ValueMismatch
from wirekafka.tables.typed import avro_types
from wirekafka.tables.typed.avro_types import Column, NamedColumn, RecordColumn

_FLOATS = {4: Struct("<f"), 8: Struct("<d")}
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_EXACT = decimal.Context(prec=40)

_Read = Callable[["_Source"], Any]


def decode_payload(record: RecordColumn) -> Callable[[bytes], dict[str, Any]]:
    """A function that decodes a payload to a row of the record's columns.

    It raises ValueMismatch, in time and memory linear in the payload's size.
    """
    read = _reader(record)

    def decode(payload: bytes) -> dict[str, Any]:
        source = _Source(payload)
        row: dict[str, Any] = read(source)
        left = len(payload) - source.position
        if left:
            raise ValueMismatch(f"{left} bytes follow the value")
        return row

    return decode


class _Source(AvroPayload):
    """A payload whose values have a byte at least."""

    def block(self) -> int:
        """The number of items in the next block of an array or map, each of a byte at least."""
        count = self.read_long()
        if count < 0:
            self.read_long()
            count = -count
        left = len(self.data) - self.position
        if count > left:
            raise ValueMismatch(f"{count} items cannot be in {left} bytes")
        return count


def _reader(column: Column) -> _Read:
    match column:
        case avro_types.NothingColumn():
            return lambda source: None
        case avro_types.BooleanColumn():
            return _boolean
        case avro_types.IntegerColumn():
            return _integer_reader(column)
        case avro_types.FloatColumn():
            return _float_reader(column.size_bytes)
        case avro_types.OctetsColumn():
            is_text = column.arrow == "string"
            return (
                _Source.read_string if is_text else lambda source: source.take(source.read_long())
            )
        case avro_types.UuidTextColumn():
            return _uuid
        case avro_types.FixedColumn():
            size = column.size_bytes
            return lambda source: source.take(size)
        case avro_types.DecimalColumn():
            return _decimal_reader(column)
        case avro_types.EnumColumn():
            return _enum_reader(column)
        case avro_types.OptionalColumn():
            return _optional_reader(column)
        case avro_types.UnionColumn():
            return _union_reader(column)
        case RecordColumn():
            return _record_reader(column)
        case avro_types.ListColumn():
            return _list_reader(_reader(column.item))
        case avro_types.MapColumn():
            return _map_reader(_reader(column.value))
    assert_never(column)


def _octets(source: _Source) -> bytes:
    return source.take(source.read_long())


def _boolean(source: _Source) -> bool:
    byte = source.take(1)[0]
    if byte > 1:
        raise ValueMismatch(f"A boolean is neither 0 nor 1: {byte}")
    return byte == 1


def _integer_reader(column: avro_types.IntegerColumn) -> _Read:
    least, largest, factor, arrow = column.least, column.largest, column.factor, column.arrow

    def read(source: _Source) -> int:
        value = source.read_long()
        if not least <= value <= largest:
            raise ValueMismatch(f"{value} is out of the range of {arrow}")
        return value * factor

    return read


def _float_reader(size_bytes: int) -> _Read:
    unpack = _FLOATS[size_bytes].unpack
    return lambda source: unpack(source.take(size_bytes))[0]


def _uuid(source: _Source) -> bytes:
    text = source.read_string()
    if not _UUID.fullmatch(text):
        raise ValueMismatch(f"No UUID: {text!r:.60}")
    return UUID(text).bytes


def _decimal_reader(column: avro_types.DecimalColumn) -> _Read:
    size = column.size_bytes
    precision, scale = column.arrow.precision, column.arrow.scale
    bound = 10**precision

    def read(source: _Source) -> decimal.Decimal:
        data = source.take(source.read_long() if size is None else size)
        unscaled = int.from_bytes(data, "big", signed=True)
        if not -bound < unscaled < bound:
            raise ValueMismatch(f"A decimal has more than {precision} digits")
        return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)

    return read


def _enum_reader(column: avro_types.EnumColumn) -> _Read:
    symbols, name = column.symbols, column.name

    def read(source: _Source) -> str:
        index = source.read_long()
        if not 0 <= index < len(symbols):
            raise ValueMismatch(f"Enum {name} has no symbol {index}")
        return symbols[index]

    return read


def _branch(source: _Source, count: int) -> int:
    index = source.read_long()
    if not 0 <= index < count:
        raise ValueMismatch(f"A union of {count} types has no type {index}")
    return index


def _optional_reader(column: avro_types.OptionalColumn) -> _Read:
    null_index, value = column.null_index, _reader(column.value)
    return lambda source: None if _branch(source, 2) == null_index else value(source)


def _union_reader(column: avro_types.UnionColumn) -> _Read:
    readers = [_reader(each.column) for each in column.branches]
    names = [each.name if _is_column(each) else None for each in column.branches]

    def read(source: _Source) -> dict[str, Any] | None:
        index = _branch(source, len(readers))
        value, name = readers[index](source), names[index]
        return None if name is None else {name: value}

    return read


def _is_column(member: NamedColumn) -> bool:
    return member.column.arrow is not None


def _record_reader(column: RecordColumn) -> _Read:
    readers = [(each.name, _reader(each.column)) for each in column.fields]
    absent = [each.name for each in column.fields if not _is_column(each)]

    def read(source: _Source) -> dict[str, Any]:
        row: dict[str, Any] = {}
        name = ""
        try:
            for name, read_field in readers:
                row[name] = read_field(source)
        except ValueMismatch as error:
            raise _within(name, error) from None
        for name in absent:
            del row[name]
        return row

    return read


def _list_reader(item: _Read) -> _Read:
    def read(source: _Source) -> list[Any]:
        items: list[Any] = []
        while count := source.block():
            items.extend(item(source) for _ in range(count))
        return items

    return read


def _map_reader(value: _Read) -> _Read:
    def read(source: _Source) -> list[tuple[str, Any]]:
        entries: dict[str, Any] = {}
        while count := source.block():
            for _ in range(count):
                key = source.read_string()
                entries[key] = value(source)
        return list(entries.items())

    return read


def _within(name: str, error: ValueMismatch) -> ValueMismatch:
    """The error with the name of the field before it: `a.b: reason`."""
    text = str(error)
    is_path = isinstance(error, _FieldMismatch)
    return _FieldMismatch(f"{name}.{text}" if is_path else f"{name}: {text}")


class _FieldMismatch(ValueMismatch):
    """A mismatch whose text begins with the path of a field."""
