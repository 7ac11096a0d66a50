"""Columns of a table that follow a newer schema: more, wider, optional, renamed.

What Iceberg allows without a rewrite of files: a new column at any depth, int to long, float to
double, a decimal of more digits, required to optional, and a new name for the same field id. The
table keeps columns that the newer schema lacks, and types that are wider than the newer schema's.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from wirekafka.tables.iceberg.arrow_types import iceberg_schema
from wirekafka.tables.iceberg.layout import RENAMES_PROPERTY
from wirekafka.tables.iceberg.problems import BadEvolution

Path = tuple[str, ...]
Renames = Mapping[Path, Path]
"""Paths of older names, and of their new names.

Elements of lists are `element`, values of maps `value`. A path has the newer names of structs.
"""


def evolve_table(table: Table, columns: pa.Schema, renames: Renames) -> None:
    """Give a table what the columns need, in one commit.

    The renames are kept: records of older schemas, which still have the older names, may follow.
    Raises BadEvolution, or CommitFailedException if another commit came first.
    """
    known = renames_of(table)
    renames = _merged(known, renames)
    wanted = iceberg_columns(_with_newer_names(columns, renames))
    transaction = table.transaction()
    try:
        if renames != known:
            transaction.set_properties({RENAMES_PROPERTY: json.dumps(list(renames.items()))})
        _rename(transaction, renames)
        _check(transaction.table_metadata.schema(), wanted)
        _widen(transaction, wanted)
    except (ResolveError, ValidationError, ValueError) as error:
        raise BadEvolution(f"{'.'.join(table.name())}: {error}") from error
    transaction.commit_transaction()


def renames_of(table: Table) -> dict[Path, Path]:
    """All renames of the table's fields so far."""
    pairs = json.loads(table.properties.get(RENAMES_PROPERTY, "[]"))
    return {tuple(older): tuple(newer) for older, newer in pairs}


def _merged(known: Renames, given: Renames) -> dict[Path, Path]:
    """All renames, a schema's included, whose names are the newest: fields may be named back."""
    newest = set(given.values())
    kept = {old: given.get(new, new) for old, new in known.items() if old not in newest}
    return {**kept, **given}


def _with_newer_names(columns: pa.Schema, renames: Renames) -> pa.Schema:
    """The columns with the newest name of each field, unless another field has that name."""
    return pa.schema(_renamed_fields(list(columns), (), renames))


def _renamed_fields(fields: Sequence[pa.Field], path: Path, renames: Renames) -> list[pa.Field]:
    present = {field.name for field in fields}
    renamed = []
    for field in fields:
        name = renames.get((*path, field.name), (field.name,))[-1]
        if name in present:
            name = field.name
        type = _with_renamed_fields(field.type, (*path, name), renames)
        renamed.append(field.with_name(name).with_type(type))
    return renamed


def _with_renamed_fields(type: pa.DataType, path: Path, renames: Renames) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct(_renamed_fields(list(type), path, renames))
    if pa.types.is_list(type):
        item = type.value_field
        return pa.list_(
            item.with_type(_with_renamed_fields(item.type, (*path, "element"), renames))
        )
    if pa.types.is_map(type):
        item = type.item_field
        inner = _with_renamed_fields(item.type, (*path, "value"), renames)
        return pa.map_(type.key_type, item.with_type(inner))
    return type


def iceberg_columns(columns: pa.Schema) -> Schema:
    """The columns as Iceberg has them; raises BadEvolution for a type without a match."""
    try:
        return iceberg_schema(columns)
    except (TypeError, UnsupportedPyArrowTypeException, ValidationError, ValueError) as error:
        raise BadEvolution(f"no Iceberg type for a column: {error}") from error


def _rename(transaction: Transaction, renames: Renames) -> None:
    schema = transaction.table_metadata.schema()
    done: set[Path] = set()
    with transaction.update_schema() as update:
        for older, newer in renames.items():
            found = _found(schema, older, renames)
            if found is None or newer in done or _found(schema, newer, renames) is not None:
                continue
            update.rename_column(found, newer[-1])
            done.add(newer)


def _found(schema: Schema, path: Path, renames: Renames) -> str | None:
    """The full name of a column in a table whose structs may still have their older names."""
    type_: IcebergType = schema.as_struct()
    names: list[str] = []
    for depth, name in enumerate(path):
        is_last = depth == len(path) - 1
        outer = path[: depth + 1]
        older = [old[-1] for old, new in renames.items() if new == outer and not is_last]
        inner = _inner(type_, [name, *older])
        if inner is None:
            return None
        names.append(inner.name)
        type_ = inner.field_type
    return ".".join(names)


def _inner(type_: IcebergType, names: list[str]) -> NestedField | None:
    """The first field that has one of the names; `element` and `value` in lists and maps."""
    match type_:
        case StructType():
            fields = {field.name: field for field in type_.fields}
        case ListType():
            fields = {"element": type_.element_field}
        case MapType():
            fields = {"value": type_.value_field}
        case _:
            fields = {}
    return next((fields[name] for name in names if name in fields), None)


def _check(schema: Schema, wanted: Schema) -> None:
    """Raise BadEvolution with all columns whose types or names the table cannot have."""
    present, needed = schema.as_struct(), wanted.as_struct()
    conflicts = [*_conflicts((), present, needed), *_equal_but_for_case((), present, needed)]
    if conflicts:
        raise BadEvolution("; ".join(conflicts))


def _conflicts(path: Path, present: IcebergType, wanted: IcebergType) -> Iterator[str]:
    match present, wanted:
        case StructType(), StructType():
            known = {field.name: field for field in present.fields}
            for field in wanted.fields:
                if field.name in known:
                    inner = (*path, field.name)
                    yield from _conflicts(inner, known[field.name].field_type, field.field_type)
        case ListType(), ListType():
            yield from _conflicts((*path, "element"), present.element_type, wanted.element_type)
        case MapType(), MapType():
            if present.key_type != wanted.key_type:
                yield _conflict((*path, "key"), present.key_type, wanted.key_type)
            yield from _conflicts((*path, "value"), present.value_type, wanted.value_type)
        case _ if not (_widens(present, wanted) or _widens(wanted, present)):
            yield _conflict(path, present, wanted)


def _equal_but_for_case(
    path: Path, present: IcebergType | None, wanted: IcebergType
) -> Iterator[str]:
    """New names that differ only in case from a name beside them.

    With both, queries of Spark that name either fail as ambiguous, which worked before. Names that
    a table has already stay.
    """
    match wanted:
        case StructType():
            old = present.fields if isinstance(present, StructType) else ()
            known = {field.name: field.field_type for field in old}
            spellings: dict[str, set[str]] = defaultdict(set)
            for name in (*known, *(field.name for field in wanted.fields)):
                spellings[name.lower()].add(name)
            for field in wanted.fields:
                inner = (*path, field.name)
                others = spellings[field.name.lower()] - {field.name}
                if others and field.name not in known:
                    yield (
                        f"column {'.'.join(inner)} differs only in case from {min(others)}, and"
                        " both are ambiguous for Spark: give the field another name, or the name of"
                        " the older field as an alias"
                    )
                yield from _equal_but_for_case(inner, known.get(field.name), field.field_type)
        case ListType():
            element = present.element_type if isinstance(present, ListType) else None
            yield from _equal_but_for_case((*path, "element"), element, wanted.element_type)
        case MapType():
            value = present.value_type if isinstance(present, MapType) else None
            yield from _equal_but_for_case((*path, "value"), value, wanted.value_type)


def _conflict(path: Path, present: IcebergType, wanted: IcebergType) -> str:
    return (
        f"column {'.'.join(path)} is {_kind(present)} and cannot become {_kind(wanted)}: give the"
        " field another name, or start a new table (drop it, or rename it in its catalog)"
    )


def _kind(type_: IcebergType) -> str:
    match type_:
        case StructType():
            return "a struct"
        case ListType():
            return "a list"
        case MapType():
            return "a map"
        case _:
            return str(type_)


def _widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Whether each value of one type is one of the other, for Iceberg.

    pyiceberg's `promote` also allows a decimal of another scale, and a string for bytes.
    """
    match narrow, wide:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return narrow.scale == wide.scale and narrow.precision <= wide.precision
        case _:
            return narrow == wide


def _widen(transaction: Transaction, wanted: Schema) -> None:
    schema = transaction.table_metadata.schema()
    additions = _with_optional_additions(schema.as_struct(), wanted.as_struct())
    with transaction.update_schema() as update:
        update.union_by_name(Schema(*additions.fields))
        for path in _unfilled((), schema.as_struct(), wanted.as_struct()):
            update.make_column_optional(path)


def _with_optional_additions(present: StructType, wanted: StructType) -> StructType:
    """The wanted fields, those optional that the table lacks: older rows have no value."""
    known = {field.name: field for field in present.fields}
    fields = []
    for field in wanted.fields:
        old = known.get(field.name)
        type_ = field.field_type if old is None else _additions(old.field_type, field.field_type)
        changed = {"field_type": type_} | ({"required": False} if old is None else {})
        fields.append(field.model_copy(update=changed))
    return StructType(*fields)


def _additions(present: IcebergType, wanted: IcebergType) -> IcebergType:
    match present, wanted:
        case StructType(), StructType():
            return _with_optional_additions(present, wanted)
        case ListType(), ListType():
            element = _additions(present.element_type, wanted.element_type)
            return wanted.model_copy(update={"element_type": element})
        case MapType(), MapType():
            value = _additions(present.value_type, wanted.value_type)
            return wanted.model_copy(update={"value_type": value})
        case _:
            return wanted


def _unfilled(path: Path, present: IcebergType, wanted: IcebergType) -> Iterator[Path]:
    """Required columns of the table that the wanted ones lack: newer rows have no value."""
    match present, wanted:
        case StructType(), StructType():
            known = {field.name: field for field in wanted.fields}
            for field in present.fields:
                inner = (*path, field.name)
                if field.name not in known:
                    if field.required:
                        yield inner
                else:
                    yield from _unfilled(inner, field.field_type, known[field.name].field_type)
        case ListType(), ListType():
            yield from _unfilled((*path, "element"), present.element_type, wanted.element_type)
        case MapType(), MapType():
            yield from _unfilled((*path, "value"), present.value_type, wanted.value_type)
