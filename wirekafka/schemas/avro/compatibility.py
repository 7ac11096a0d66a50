"""Why a schema cannot read data of another: the rules of Avro, with the reasons of Java's library.

A reason names the place in the reader's schema. Java remembers the result for two types, and gives
the same reasons again where it meets the two again: so do the reasons here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from wirekafka.schemas.avro.types import (
    PRIMITIVES,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroRecord,
    AvroType,
    AvroUnion,
)

_MOST_PAIRS = 20_000
"""After so many pairs of types, unions are compared by the names of their types first."""
_MOST_NAMES = 5_000_000
_MOST_REASONS = 1000

_WIDER = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""The primitive types that a reader of a type can read beside the type."""

_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{0.path}' in the {{reader}} schema "
        "does not match with the {{writer}} schema"
    ),
    "MISSING_ENUM_SYMBOLS": (
        "The {{reader}} schema is missing enum symbols '{0.message}' "
        "at path '{0.path}' in the {{writer}} schema"
    ),
    "MISSING_UNION_BRANCH": (
        "The {{reader}} schema is missing a type inside a union field "
        "at path '{0.path}' in the {{writer}} schema"
    ),
    "NAME_MISMATCH": "The name of the schema has changed (path '{0.path}')",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{0.message}' at path '{0.path}' in the {{reader}} schema "
        "has no default value and is missing in the {{writer}} schema"
    ),
    "TYPE_MISMATCH": (
        "The type (path '{0.path}') of a field in the {{reader}} schema "
        "does not match with the {{writer}} schema"
    ),
}


Path = tuple["Path", str] | None
"""The last step to a place, after the path to the step before it; None is the root."""


class AvroIncompatibility(NamedTuple):
    """A difference because of which a reader cannot read a writer's data."""

    kind: str
    place: Path
    message: str

    @property
    def path(self) -> str:
        """The place in the reader's schema, as a JSON pointer."""
        steps, place = [], self.place
        while place is not None:
            place, step = place
            steps.append(step.replace("~", "~0").replace("/", "~1"))
        return "/" + "/".join(reversed(steps))

    def __str__(self) -> str:
        """The difference as Confluent's registry reports it, without names for the schemas."""
        description = _DESCRIPTIONS[self.kind].format(self)
        return (
            f"{{errorType:'{self.kind}', description:'{description}', "
            f"additionalInfo:'{self.message}'}}"
        )


class TooComplex(Exception):
    """Two schemas have more pairs of types than can be compared in seconds."""


def incompatibilities(reader: AvroType, writer: AvroType) -> Sequence[AvroIncompatibility]:
    """Each difference because of which `reader` cannot read data of `writer`.

    Raises TooComplex.
    """
    pair = _Pair(reader, writer, None)
    try:
        return _Comparison(_MOST_PAIRS).result(pair)
    except TooComplex:
        return _BriefComparison(_MOST_NAMES).result(pair)


class _Pair(NamedTuple):
    reader: AvroType
    writer: AvroType
    path: Path


_Found = list[AvroIncompatibility]
_Steps = Generator[_Pair, _Found, _Found]


class _Comparison:
    """The results for all pairs of types that have been compared, or are being compared."""

    def __init__(self, most_pairs: int) -> None:
        self._most_pairs = most_pairs
        self._results: dict[tuple[int, int], _Found] = {}

    def result(self, pair: _Pair) -> _Found:
        """Compare two types. Types that refer to each other form chains too long for recursion."""
        running = [self._started(pair)]
        found: _Found | None = None
        while running:
            key, steps = running[-1]
            try:
                inner = next(steps) if found is None else steps.send(found)
            except StopIteration as done:
                running.pop()
                # A reason repeats wherever its type does, so the number can double at each level.
                self._results[key] = found = done.value[:_MOST_REASONS]
                continue
            # Two types that are being compared are compatible unless a difference is found.
            found = self._results.get(_key(inner))
            if found is None:
                running.append(self._started(inner))
        assert found is not None
        return found

    def _started(self, pair: _Pair) -> tuple[tuple[int, int], _Steps]:
        self._spend(1)
        self._results[_key(pair)] = []
        return _key(pair), self._compared(pair)

    def _spend(self, pairs: int) -> None:
        self._most_pairs -= pairs
        if self._most_pairs < 0:
            raise TooComplex("The schemas are too complex to be compared")

    def _candidates(self, union: AvroUnion, writer: AvroType) -> Iterable[AvroType]:
        """The branches of a reader's union that may be able to read data of a type."""
        return union.branches

    def _compared(self, pair: _Pair) -> _Steps:
        reader, writer = pair.reader, pair.writer
        match reader, writer:
            case AvroArray(), AvroArray():
                return (yield _Pair(reader.items, writer.items, (pair.path, "items")))
            case AvroMap(), AvroMap():
                return (yield _Pair(reader.values, writer.values, (pair.path, "values")))
            case AvroFixed(), AvroFixed():
                return [*_names(reader, writer, pair), *_sizes(reader, writer, pair)]
            case AvroEnum(), AvroEnum():
                return [*_names(reader, writer, pair), *_symbols(reader, writer, pair)]
            case AvroRecord(), AvroRecord():
                fields = yield from _fields(reader, writer, pair)
                return [*_names(reader, writer, pair), *fields]
            case AvroUnion(), AvroUnion():
                return (yield from _branches(reader, writer, pair))
            case _, AvroUnion():
                found = []
                for position, branch in enumerate(writer.branches):
                    found += yield _Pair(reader, branch, (pair.path, str(position)))
                return found
            case AvroUnion(), _:
                for branch in self._candidates(reader, writer):
                    if not (yield _Pair(branch, writer, None)):
                        return []
                return [_missing_branch(writer, pair.path)]
        if reader.word == writer.word or writer.word in _WIDER.get(reader.word, ()):
            return []
        words = (reader.word.upper(), writer.word.upper())
        message = "reader type: {} not compatible with writer type: {}".format(*words)
        return [AvroIncompatibility("TYPE_MISMATCH", pair.path, message)]


class _BriefComparison(_Comparison):
    """A comparison of unions of many named types, which have little in common but fields.

    Java compares the fields of all of them with each other. Its verdict is the same; its reasons
    may name other places for types that it has seen in the course of that.
    """

    def _candidates(self, union: AvroUnion, writer: AvroType) -> Iterable[AvroType]:
        self._spend(len(union.branches))
        if not isinstance(writer, AvroNamed):
            return union.branches
        return [
            branch
            for branch in union.branches
            if isinstance(branch, AvroNamed) and _has_name(branch, writer)
        ]


def _key(pair: _Pair) -> tuple[int, int]:
    return id(pair.reader), id(pair.writer)


def _fields(reader: AvroRecord, writer: AvroRecord, pair: _Pair) -> _Steps:
    found = []
    written = {field.name: field for field in writer.fields or ()}
    fields: Path = (pair.path, "fields")
    for position, field in enumerate(reader.fields or ()):
        place = (fields, str(position))
        source = _writer_field(field, written)
        if source is not None:
            if field.type.word != source.type.word or field.type.word not in PRIMITIVES:
                found += yield _Pair(field.type, source.type, (place, "type"))
        elif not field.has_default:
            if isinstance(field.type, AvroEnum) and field.type.default is not None:
                # Java looks at the default of the enum, and compares it with the whole record.
                found += yield _Pair(field.type, writer, (place, "type"))
            else:
                kind = "READER_FIELD_MISSING_DEFAULT_VALUE"
                found.append(AvroIncompatibility(kind, place, field.name))
    return found


def _writer_field(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _branches(reader: AvroUnion, writer: AvroUnion, pair: _Pair) -> _Steps:
    found = []
    for position, branch in enumerate(writer.branches):
        if (yield _Pair(reader, branch, None)):
            found.append(_missing_branch(branch, (pair.path, str(position))))
    return found


def _missing_branch(writer: AvroType, path: Path) -> AvroIncompatibility:
    message = f"reader union lacking writer type: {writer.word.upper()}"
    return AvroIncompatibility("MISSING_UNION_BRANCH", path, message)


def _names(reader: AvroNamed, writer: AvroNamed, pair: _Pair) -> _Found:
    if _has_name(reader, writer):
        return []
    message = f"expected: {writer.name.full}"
    return [AvroIncompatibility("NAME_MISMATCH", (pair.path, "name"), message)]


def _has_name(reader: AvroNamed, writer: AvroNamed) -> bool:
    """Whether a reader takes the writer's type for its own; namespaces do not count."""
    return reader.name.name == writer.name.name or writer.name in reader.aliases


def _sizes(reader: AvroFixed, writer: AvroFixed, pair: _Pair) -> _Found:
    if reader.size_bytes == writer.size_bytes:
        return []
    message = f"expected: {writer.size_bytes}, found: {reader.size_bytes}"
    return [AvroIncompatibility("FIXED_SIZE_MISMATCH", (pair.path, "size"), message)]


def _symbols(reader: AvroEnum, writer: AvroEnum, pair: _Pair) -> _Found:
    missing = set(writer.symbols) - set(reader.symbols)
    if not missing or reader.default is not None:
        return []
    message = f"[{', '.join(sorted(missing))}]"
    return [AvroIncompatibility("MISSING_ENUM_SYMBOLS", (pair.path, "symbols"), message)]
