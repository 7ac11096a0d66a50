"""The types of an Avro schema as the columns that a table has for them, in Redpanda's mapping.

Where Avro's specification says that a logical type is to be ignored, as a decimal without a
precision, the column has the type below it; so it has for times in nanoseconds, for which Iceberg
has no type before its third version, and for decimals of more than 38 digits. A time of day is an
int of milliseconds or a long of microseconds, as Spark decodes it: Spark refuses to read any row of
a table that has a column of Iceberg's type `time`. Every column is nullable, as in Redpanda: a
later schema may lack a field that this one requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from wirekafka.schemas.avro.types import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    AvroUnresolved,
)
from wirekafka.tables.typed.values import ROOT_NAME, Path, UnsupportedSchema

MOST_COLUMNS = 10_000
"""Of a table, nested ones included: a type that is used often has columns for each use."""
_MOST_LEVELS = 100
_MOST_DIGITS = 38
_UUID_BYTES = 16
_LARGEST_LONG = (1 << 63) - 1
_LARGEST_FIXED_BYTES = 1024
"""Of a fixed type that its column has, too: a null takes as many bytes as a value there."""
_ELEMENT, _VALUE = "element", "value"


@dataclass(frozen=True, slots=True, eq=False)
class NothingColumn:
    """A null: no bytes, no column."""

    arrow: None = None


@dataclass(frozen=True, slots=True, eq=False)
class BooleanColumn:
    arrow: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class IntegerColumn:
    """An int or long from `least` to `largest`, which the column has times `factor`."""

    arrow: pa.DataType
    least: int
    largest: int
    factor: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class FloatColumn:
    """A float or double, as IEEE 754 has them, the lowest byte first."""

    arrow: pa.DataType
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class OctetsColumn:
    """A string or bytes after their length."""

    arrow: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class UuidTextColumn:
    """A UUID as a string."""

    arrow: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class FixedColumn:
    arrow: pa.DataType
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class DecimalColumn:
    """An unscaled number, the highest byte first, of `size_bytes`, or after its length if None."""

    arrow: pa.Decimal128Type
    size_bytes: int | None


@dataclass(frozen=True, slots=True, eq=False)
class EnumColumn:
    arrow: pa.DataType
    symbols: Sequence[str]
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class OptionalColumn:
    """A union of null and another type: null if the branch `null_index` is."""

    arrow: pa.DataType | None
    null_index: int
    value: Column


@dataclass(frozen=True, slots=True, eq=False)
class UnionColumn:
    """Any other union: a struct that has a field for each branch but null."""

    arrow: pa.StructType | None
    branches: Sequence[NamedColumn]


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumn:
    arrow: pa.StructType | None
    fields: Sequence[NamedColumn]


@dataclass(frozen=True, slots=True, eq=False)
class ListColumn:
    arrow: pa.ListType
    item: Column


@dataclass(frozen=True, slots=True, eq=False)
class MapColumn:
    arrow: pa.MapType
    value: Column


Column = (
    NothingColumn
    | BooleanColumn
    | IntegerColumn
    | FloatColumn
    | OctetsColumn
    | UuidTextColumn
    | FixedColumn
    | DecimalColumn
    | EnumColumn
    | OptionalColumn
    | UnionColumn
    | RecordColumn
    | ListColumn
    | MapColumn
)
"""How values of a type are encoded, and `arrow`, the type of their column; None without one."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedColumn:
    """A field of a record, or a branch of a union."""

    name: str
    column: Column


def root_record(root: AvroType) -> RecordColumn:
    """The columns of a table for values of a type. Raises UnsupportedSchema."""
    builder = _Builder()
    if isinstance(root, AvroRecord):
        column = builder.column(root)
        assert isinstance(column, RecordColumn)
        # A table has the column of each record's place, even if the value has none.
        return column if column.arrow is not None else RecordColumn(pa.struct([]), column.fields)
    column = builder.column(root)
    if column.arrow is None:
        raise UnsupportedSchema("A value of the schema is always null: no column has its type")
    return _record([NamedColumn(ROOT_NAME, column)])


class _Builder:
    """Builds columns, and counts them."""

    def __init__(self) -> None:
        self._around: list[AvroRecord] = []
        self._levels = 0
        self._columns = 0

    def column(self, type: AvroType) -> Column:
        self._columns += 1
        self._levels += 1
        if self._columns > MOST_COLUMNS:
            raise UnsupportedSchema(f"The schema has more than {MOST_COLUMNS} columns")
        if self._levels > _MOST_LEVELS:
            raise UnsupportedSchema(f"The schema has more than {_MOST_LEVELS} nested types")
        made = self._new(type)
        self._levels -= 1
        return made

    def _new(self, type: AvroType) -> Column:
        match type:
            case AvroPrimitive():
                return _primitive(type)
            case AvroFixed():
                return _fixed(type)
            case AvroEnum():
                return EnumColumn(pa.string(), type.symbols, type.name.full)
            case AvroArray():
                item = self._part(type.items, "Items of an array")
                return ListColumn(pa.list_(pa.field(_ELEMENT, item.arrow)), item)
            case AvroMap():
                value = self._part(type.values, "Values of a map")
                return MapColumn(pa.map_(pa.string(), pa.field(_VALUE, value.arrow)), value)
            case AvroUnion():
                return self._union(type)
            case AvroRecord():
                return self._record(type)
            case AvroUnresolved():
                raise AssertionError(type)
        assert_never(type)

    def _part(self, type: AvroType, what: str) -> Column:
        column = self.column(type)
        if column.arrow is None:
            raise UnsupportedSchema(f"{what} are always null: no column has their type")
        return column

    def _union(self, type: AvroUnion) -> Column:
        columns = [self.column(each) for each in type.branches]
        nulls = [index for index, each in enumerate(columns) if isinstance(each, NothingColumn)]
        if len(columns) == 2 and len(nulls) == 1:
            value = columns[1 - nulls[0]]
            return OptionalColumn(value.arrow, nulls[0], value)
        labels = branch_labels(type.branches)
        members = [NamedColumn(*each) for each in zip(labels, columns, strict=True)]
        return UnionColumn(_struct(members), members)

    def _record(self, type: AvroRecord) -> RecordColumn:
        if any(type is each for each in self._around):
            raise UnsupportedSchema(f"Record {type.name.full} contains itself: no table has that")
        self._around.append(type)
        members = [NamedColumn(each.name, self.column(each.type)) for each in type.fields or ()]
        self._around.pop()
        return _record(members)


def branch_labels(branches: Sequence[AvroType]) -> Sequence[str]:
    """The fields of a union's struct: the branch's word, or the name without its namespace."""
    short = [each.name.name if isinstance(each, AvroNamed) else each.word for each in branches]
    return [
        each.name.full if isinstance(each, AvroNamed) and short.count(label) > 1 else label
        for each, label in zip(branches, short, strict=True)
    ]


def _record(members: Sequence[NamedColumn]) -> RecordColumn:
    return RecordColumn(_struct(members), members)


def _struct(members: Sequence[NamedColumn]) -> pa.StructType | None:
    """The type of a struct with the members that have a column, if any has."""
    arrow = [pa.field(each.name, each.column.arrow) for each in members if each.column.arrow]
    return pa.struct(arrow) if arrow else None


def _primitive(type: AvroPrimitive) -> Column:
    match type.word:
        case "null":
            return NothingColumn()
        case "boolean":
            return BooleanColumn(pa.bool_())
        case "int" | "long":
            return _integer(type.word, type.properties.get("logicalType"))
        case "float":
            return FloatColumn(pa.float32(), 4)
        case "double":
            return FloatColumn(pa.float64(), 8)
        case "bytes":
            return _decimal(type, None) or OctetsColumn(pa.binary())
    if type.properties.get("logicalType") == "uuid":
        return UuidTextColumn(pa.uuid())
    return OctetsColumn(pa.string())


def _integer(word: str, logical: object) -> IntegerColumn:
    match word, logical:
        case "int", "date":
            return IntegerColumn(pa.date32(), -1 << 31, (1 << 31) - 1)
        case "int", _:
            return IntegerColumn(pa.int32(), -1 << 31, (1 << 31) - 1)
        case _, "timestamp-millis" | "local-timestamp-millis":
            largest = _LARGEST_LONG // 1000
            return IntegerColumn(_timestamp(logical), -largest, largest, 1000)
        case _, "timestamp-micros" | "local-timestamp-micros":
            return IntegerColumn(_timestamp(logical), -_LARGEST_LONG - 1, _LARGEST_LONG)
    return IntegerColumn(pa.int64(), -_LARGEST_LONG - 1, _LARGEST_LONG)


def _timestamp(logical: object) -> pa.TimestampType:
    return pa.timestamp("us", None if str(logical).startswith("local-") else "UTC")


def _fixed(type: AvroFixed) -> Column:
    size = type.size_bytes
    if size == 0:
        raise UnsupportedSchema(f"Fixed {type.name.full} has no bytes: no column has its type")
    decimal = _decimal(type, size)
    if decimal is not None:
        return decimal
    is_uuid = type.properties.get("logicalType") == "uuid" and size == _UUID_BYTES
    if size > _LARGEST_FIXED_BYTES:
        return FixedColumn(pa.binary(), size)
    return FixedColumn(pa.uuid() if is_uuid else pa.binary(size), size)


def _decimal(type: AvroPrimitive | AvroFixed, size_bytes: int | None) -> DecimalColumn | None:
    """The decimal column of bytes or a fixed type, if they have a valid decimal type."""
    if type.properties.get("logicalType") != "decimal":
        return None
    precision, scale = type.properties.get("precision"), type.properties.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not (0 < precision <= _MOST_DIGITS and 0 <= scale <= precision):
        return None
    return DecimalColumn(pa.decimal128(precision, scale), size_bytes)


def renames_of(root: AvroType) -> Mapping[Path, Path]:
    """The path of each column under an alias of its field, or of its branch of a union."""
    path = () if isinstance(root, AvroRecord) else (ROOT_NAME,)
    return dict(_renames(root, path))


def _renames(type: AvroType, path: Path) -> Iterator[tuple[Path, Path]]:
    match type:
        case AvroArray():
            yield from _renames(type.items, (*path, _ELEMENT))
        case AvroMap():
            yield from _renames(type.values, (*path, _VALUE))
        case AvroRecord():
            for each in type.fields or ():
                yield from _aliases_of(each, path)
                yield from _renames(each.type, (*path, each.name))
        case AvroUnion():
            yield from _branch_renames(type, path)


def _aliases_of(field: AvroField, path: Path) -> Iterator[tuple[Path, Path]]:
    for alias in field.aliases:
        yield (*path, alias), (*path, field.name)


def _branch_renames(type: AvroUnion, path: Path) -> Iterator[tuple[Path, Path]]:
    values = [each for each in type.branches if each.word != "null"]
    if len(values) == 1 and len(type.branches) == 2:
        yield from _renames(values[0], path)
        return
    for each, label in zip(type.branches, branch_labels(type.branches), strict=True):
        if isinstance(each, AvroNamed):
            for alias in each.aliases:
                if alias.name != label:
                    yield (*path, alias.name), (*path, label)
        yield from _renames(each, (*path, label))
