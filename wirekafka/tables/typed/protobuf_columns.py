"""The columns of Protobuf messages: each gathers its field from all messages at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from wirekafka.tables.typed.assembly import (
    EARLIEST_SECOND,
    LATEST_SECOND,
    ColumnBudget,
    Failures,
    Owners,
    ValueColumn,
    bounded,
    lengths_of,
    offsets_of,
    present,
    scattered,
    struct_array,
)
from wirekafka.tables.typed.values import UnsupportedSchema

"""For 64 bits without a sign: a long holds half of these numbers."""
_STRING = pa.string()
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_TIMESTAMP_NAME = "google.protobuf.Timestamp"
_JSON_NAMES = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
"""Messages that contain each other, so that no columns can have their values."""
_NANOSECONDS_PER_SECOND = 1_000_000_000

_NUMBERS = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}


def message_column(descriptor: Descriptor, pool: DescriptorPool) -> MessageColumn:
    """The column of a message, a struct of its fields. Raises UnsupportedSchema."""
    return _Planner(pool).message(descriptor, "", ())


@dataclass(frozen=True, slots=True)
class _Field:
    values_of: Callable[[Sequence[Any]], Sequence[Any]]
    """The field of each message, or None where it is absent."""
    column: ValueColumn


class MessageColumn:
    """Messages as structs."""

    def __init__(self, fields: Mapping[str, _Field]) -> None:
        self._fields = list(fields.values())
        self.type = pa.struct([(name, field.column.type) for name, field in fields.items()])
        self.width = 1 + sum(field.column.width for field in self._fields)

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.StructArray:
        """The fields of all messages that are there."""
        indexes = present(values)
        if len(indexes) == len(values):
            return self._array(values, owners, failures)
        if not len(indexes):
            return pa.nulls(len(values), self.type)
        messages = [value for value in values if value is not None]
        return scattered(self._array(messages, owners[indexes], failures), indexes, len(values))

    def _array(self, messages: Sequence[Any], owners: Owners, failures: Failures) -> pa.StructArray:
        arrays = [
            field.column.array(field.values_of(messages), owners, failures)
            for field in self._fields
        ]
        return struct_array(self.type, arrays, len(messages))


@dataclass(frozen=True, slots=True)
class _Plain:
    """Values that Arrow has as they are."""

    type: pa.DataType
    width: int = 1

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        return pa.array(values, self.type)


@dataclass(frozen=True, slots=True)
class _Text:
    path: str
    type: pa.DataType = _STRING
    width: int = 1

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        if bytes in set(map(type, values)):
            # The library returns the bytes of a string that is no UTF-8, which proto2 allows.
            wrong = np.fromiter((isinstance(each, bytes) for each in values), np.bool_)
            failures.add_where(wrong, owners, f"{self.path} is no UTF-8")
            values = ["" if isinstance(each, bytes) else each for each in values]
        return pa.array(values, self.type)


@dataclass(frozen=True, slots=True)
class _Unsigned:
    """Numbers of 64 bits without a sign as text, as Redpanda has them: no long holds them."""

    type: pa.DataType = _STRING
    width: int = 1

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        return pa.array(values, pa.uint64()).cast(self.type)


class _Enumeration:
    """Names; the number, as text, for a number that the schema has no name for."""

    type = pa.string()
    width = 1

    def __init__(self, descriptor: EnumDescriptor) -> None:
        by_number = descriptor.values_by_number
        self._names = _Names({number: each.name for number, each in by_number.items()})
        self._names[None] = None

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        return pa.array(list(map(self._names.__getitem__, values)), self.type)


class _Names(dict[int | None, str | None]):
    def __missing__(self, number: int | None) -> str:
        return str(number)


@dataclass(frozen=True, slots=True)
class _Time:
    path: str
    type: pa.DataType = _TIMESTAMP
    width: int = 1

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        indexes = present(values)
        messages = values if len(indexes) == len(values) else [values[i] for i in indexes]
        seconds = np.fromiter((each.seconds for each in messages), np.int64, len(messages))
        nanoseconds = np.fromiter((each.nanos for each in messages), np.int64, len(messages))
        wrong = (seconds < EARLIEST_SECOND) | (seconds > LATEST_SECOND)
        wrong |= (nanoseconds < 0) | (nanoseconds >= _NANOSECONDS_PER_SECOND)
        if wrong.any():
            failures.add_where(wrong, owners[indexes], f"{self.path} is out of range")
            seconds[wrong] = 0
        microseconds = seconds * 1_000_000 + nanoseconds // 1000
        array = pa.array(microseconds).cast(self.type)
        return array if len(indexes) == len(values) else scattered(array, indexes, len(values))


@dataclass(frozen=True, slots=True)
class _JsonText:
    path: str
    pool: DescriptorPool
    type: pa.DataType = _STRING
    width: int = 1

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        texts = [
            None if value is None else self._text(value, int(owners[i]), failures)
            for i, value in enumerate(values)
        ]
        return pa.array(texts, self.type)

    def _text(self, message: Any, owner: int, failures: Failures) -> str:
        try:
            value = json_format.MessageToDict(message, descriptor_pool=self.pool)
            # Sorted, as the library has no order of its own, so that each decoding is the same.
            return json.dumps(
                value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
            )
        except (json_format.Error, ValueError, TypeError, RecursionError) as error:
            failures.add(owner, f"{self.path} has no JSON: {error}")
            return ""


class _List:
    width = 1

    def __init__(self, path: str, element: ValueColumn) -> None:
        self._path = path
        self._element = element
        self.type = pa.list_(pa.field("element", element.type))

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        lists = bounded(values, owners, failures, path=self._path, width=self._element.width)
        lengths = lengths_of(lists)
        elements = self._element.array(
            list(chain.from_iterable(lists)), np.repeat(owners, lengths), failures
        )
        return pa.ListArray.from_arrays(offsets_of(lengths), elements, type=self.type)


class _Map:
    width = 1

    def __init__(self, path: str, key: ValueColumn, value: ValueColumn) -> None:
        self._path = path
        self._key = key
        self._value = value
        self.type = pa.map_(key.type, value.type)

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        width = self._key.width + self._value.width
        maps = [
            self._entries(each, int(owners[i]), failures) if each else ()
            for i, each in enumerate(
                bounded(values, owners, failures, path=self._path, width=width)
            )
        ]
        lengths = lengths_of(maps)
        owners = np.repeat(owners, lengths)
        entries = list(chain.from_iterable(maps))
        keys = self._key.array([key for key, _ in entries], owners, failures)
        elements = self._value.array([value for _, value in entries], owners, failures)
        return pa.MapArray.from_arrays(offsets_of(lengths), keys, elements, type=self.type)

    def _entries(self, entries: Any, owner: int, failures: Failures) -> Sequence[tuple[Any, Any]]:
        """By key: the library's order is another one in each process."""
        try:
            return [(key, entries[key]) for key in sorted(entries)]
        except (TypeError, UnicodeDecodeError):
            failures.add(owner, f"{self._path} has a key that is no UTF-8")
            return ()


class _Planner:
    """Finds the columns of messages."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._budget = ColumnBudget()

    def message(self, descriptor: Descriptor, path: str, around: tuple[str, ...]) -> MessageColumn:
        name = descriptor.full_name
        if name in around:
            chain_of_names = " -> ".join((*around[around.index(name) :], name))
            raise UnsupportedSchema(f"{path} is recursive: {chain_of_names}")
        extensions = [each.full_name for each in self._pool.FindAllExtensions(descriptor)]
        if extensions:
            raise UnsupportedSchema(f"The message {name} has the extension {min(extensions)}")
        message_class = message_factory.GetMessageClass(descriptor)
        fields = {}
        for field in descriptor.fields:
            field_path = f"{path}.{field.name}" if path else field.name
            column = self._column(field, field_path, (*around, name))
            if column is not None:
                fields[field.name] = _Field(_values_of(field, message_class), column)
        return MessageColumn(fields)

    def _column(
        self, field: FieldDescriptor, path: str, around: tuple[str, ...]
    ) -> ValueColumn | None:
        """The column of a field; None for messages without fields, which no file can have."""
        self._budget.take(path, len(around))
        if field.label != FieldDescriptor.LABEL_REPEATED:
            return self._single(field, path, around)
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            key = self._single(message.fields_by_name["key"], f"{path}.key", around)
            value = self._single(message.fields_by_name["value"], f"{path}.value", around)
            return None if key is None or value is None else _Map(path, key, value)
        element = self._single(field, path, around)
        return None if element is None else _List(path, element)

    def _single(
        self, field: FieldDescriptor, path: str, around: tuple[str, ...]
    ) -> ValueColumn | None:
        match field.type:
            case FieldDescriptor.TYPE_STRING:
                return _Text(path)
            case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
                return _Unsigned()
            case FieldDescriptor.TYPE_ENUM:
                return _Enumeration(field.enum_type)
            case FieldDescriptor.TYPE_GROUP:
                raise UnsupportedSchema(f"{path} of {field.containing_type.full_name} is a group")
            case FieldDescriptor.TYPE_MESSAGE:
                return self._nested(field.message_type, path, around)
        return _Plain(_NUMBERS[field.type])

    def _nested(
        self, descriptor: Descriptor, path: str, around: tuple[str, ...]
    ) -> ValueColumn | None:
        if descriptor.full_name == _TIMESTAMP_NAME:
            return _Time(path)
        if descriptor.full_name in _JSON_NAMES:
            return _JsonText(path, self._pool)
        column = self.message(descriptor, path, around)
        return column if len(column.type) else None


def _values_of(
    field: FieldDescriptor, message_class: Any
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    get = attrgetter(field.name)
    if not field.has_presence or field.has_default_value:
        return lambda messages: list(map(get, messages))
    # Of the class: a field may have the name of the method.
    has, name = message_class.HasField, field.name
    return lambda messages: [get(each) if has(each, name) else None for each in messages]
