"""Redpanda's partition specs, such as `(hour(redpanda.timestamp), bucket(16, user.id))`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import Transform, VoidTransform, parse_transform
from pyiceberg.types import NestedField

from wirekafka.tables.iceberg.evolution import Renames
from wirekafka.tables.iceberg.problems import BadSpec

_LIST = re.compile(r"\s*\((.*)\)\s*", re.DOTALL)
_COLUMN = r"[^\s,()]+"
_TERM = re.compile(
    rf"\s*(?:(?P<transform>[A-Za-z]+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<source>{_COLUMN})\s*\)"
    rf"|(?P<column>{_COLUMN}))(?:\s+as\s+(?P<name>[^\s,()]+))?\s*(?P<end>,|$)",
    re.DOTALL | re.IGNORECASE,
)
_NUMBERED = {"bucket", "truncate"}
_PLAIN = {"identity", "void", "year", "month", "day", "hour"}


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One field of a partition spec: a column's dotted path, its transform, perhaps a name."""

    source: str
    transform: Transform[Any, Any]
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.transform} of {self.source}"


def parse_spec(text: str) -> tuple[PartitionTerm, ...]:
    """The terms of a spec; `()` and an empty text are no partitioning. Raises BadSpec."""
    listed = _LIST.fullmatch(text)
    if listed is None:
        if text.strip():
            raise BadSpec(f"partition spec {text!r} is not in parentheses")
        return ()
    inner = listed[1]
    terms: list[PartitionTerm] = []
    position = 0
    while position < len(inner.rstrip()):
        found = _TERM.match(inner, position)
        if found is None:
            raise BadSpec(f"partition spec {text!r}: cannot read {inner[position:].strip()!r}")
        terms.append(_term(found, text))
        position = found.end()
    if inner.rstrip().endswith(","):
        raise BadSpec(f"partition spec {text!r} ends with a comma")
    if len({(term.source, str(term.transform)) for term in terms}) < len(terms):
        raise BadSpec(f"partition spec {text!r} has a term twice")
    return tuple(terms)


def check_spec(terms: tuple[PartitionTerm, ...], schema: Schema) -> None:
    """Raise BadSpec unless the columns exist and have types that their transforms take."""
    for term in terms:
        try:
            column = schema.find_field(term.source)
        except ValueError:
            raise BadSpec(f"partition spec: the table has no column {term.source}") from None
        if not _is_value(schema, column) or not term.transform.can_transform(column.field_type):
            raise BadSpec(
                f"partition spec: {term.transform} does not take {term.source},"
                f" which is {column.field_type}"
            )


def with_newer_names(
    terms: tuple[PartitionTerm, ...], schema: Schema, renames: Renames
) -> tuple[PartitionTerm, ...]:
    """The terms with the present names of columns that were renamed since the spec was written."""
    return tuple(
        term
        if term.source in schema.column_names
        else replace(term, source=_newer_name(term.source, renames))
        for term in terms
    )


def _newer_name(source: str, renames: Renames) -> str:
    names: tuple[str, ...] = ()
    for name in source.split("."):
        path = (*names, name)
        names = (*names, renames.get(path, path)[-1])
    return ".".join(names)


def has_columns(terms: tuple[PartitionTerm, ...], schema: Schema) -> bool:
    """Whether all columns of the terms are in the schema, perhaps with wrong types."""
    names = schema.column_names
    return all(term.source in names for term in terms)


def is_settled(terms: tuple[PartitionTerm, ...], metadata: TableMetadata) -> bool:
    """Whether the terms are the table's current spec, in any order."""
    is_present = _wanted(terms, metadata) == _present(metadata)
    return is_present and not list(_not_optional(terms, metadata.schema()))


def settle_spec(transaction: Transaction, terms: tuple[PartitionTerm, ...]) -> None:
    """Make the terms the spec of files written from now on; files that exist keep theirs."""
    metadata = transaction.table_metadata
    schema = metadata.schema()
    check_spec(terms, schema)
    wanted, present = _wanted(terms, metadata), _present(metadata)
    try:
        with transaction.update_schema() as columns:
            for source in _not_optional(terms, schema):
                columns.make_column_optional(source)
        with transaction.update_spec() as spec:
            for field in metadata.spec().fields:
                if (field.source_id, str(field.transform)) not in wanted:
                    spec.remove_field(field.name)
            for term, key in zip(terms, wanted, strict=True):
                if key not in present:
                    spec.add_field(term.source, term.transform, term.name)
    except (ValidationError, ValueError) as error:
        raise BadSpec(f"partition spec: {error}") from error


def _not_optional(terms: tuple[PartitionTerm, ...], schema: Schema) -> Iterator[str]:
    """Required columns whose partition values may be null all the same.

    pyiceberg writes partition values of required columns as required, though the struct around the
    column may be null, and `void` is always.
    """
    for term in terms:
        outer = [
            schema.find_field(name)
            for name in schema.column_names
            if term.source.startswith(f"{name}.")
        ]
        is_void = isinstance(term.transform, VoidTransform)
        is_nullable = is_void or any(field.optional for field in outer)
        if is_nullable and schema.find_field(term.source).required:
            yield term.source


def _is_value(schema: Schema, column: NestedField) -> bool:
    """Whether a row has at most one value of the column: none in lists and maps."""
    try:
        schema.accessor_for_field(column.field_id)
    except ValueError:
        return False
    return column.field_type.is_primitive


def _term(found: re.Match[str], text: str) -> PartitionTerm:
    name = found["name"]
    if found["column"]:
        return PartitionTerm(found["column"], parse_transform("identity"), name)
    kind, number = found["transform"].lower(), found["number"]
    if kind in _NUMBERED and number is not None and int(number) > 0:
        return PartitionTerm(found["source"], parse_transform(f"{kind}[{int(number)}]"), name)
    if kind in _PLAIN and number is None:
        return PartitionTerm(found["source"], parse_transform(kind), name)
    if kind in _NUMBERED:
        raise BadSpec(
            f"partition spec {text!r}: {kind} takes a number above 0 and a column,"
            f" as in {kind}(16, {found['source']})"
        )
    if kind in _PLAIN:
        raise BadSpec(f"partition spec {text!r}: {kind} takes a column and no number")
    raise BadSpec(f"partition spec {text!r}: no transform is named {kind}")


def _wanted(
    terms: tuple[PartitionTerm, ...], metadata: TableMetadata
) -> dict[tuple[int, str], None]:
    schema = metadata.schema()
    return {(schema.find_field(term.source).field_id, str(term.transform)): None for term in terms}


def _present(metadata: TableMetadata) -> dict[tuple[int, str], None]:
    return {(field.source_id, str(field.transform)): None for field in metadata.spec().fields}
