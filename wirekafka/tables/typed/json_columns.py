"""The columns of JSON values: each gathers its part of all values at once.

A value that does not fit its column makes its payload fail. The usual values are recognised by
their types, all at once; only columns that have other values look at each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirekafka.tables.typed.assembly import (
    EARLIEST_SECOND,
    LATEST_SECOND,
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

_MAX_SHOWN_CHARS = 60
_INT64_END = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_SECONDS = 86_400
_NULL = type(None)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATE_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_USUAL_DATE = r"^\d{4}-\d{2}-\d{2}$"
_USUAL_DATE_TIME = (
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$"
)


class JsonObject:
    """Objects as structs of their properties."""

    def __init__(self, path: str, fields: Mapping[str, ValueColumn]) -> None:
        self._path = path
        self._fields = dict(fields)
        self.type = pa.struct([(name, column.type) for name, column in fields.items()])
        self.width = 1 + sum(column.width for column in fields.values())

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.StructArray:
        """The properties of all objects that are there."""
        values = _of_type(values, dict, "object", self._path, owners, failures)
        indexes = present(values)
        if len(indexes) == len(values):
            return self._array(values, owners, failures)
        if not len(indexes):
            return pa.nulls(len(values), self.type)
        objects = [value for value in values if value is not None]
        return scattered(self._array(objects, owners[indexes], failures), indexes, len(values))

    def _array(self, objects: Sequence[Any], owners: Owners, failures: Failures) -> pa.StructArray:
        arrays = [
            column.array([each.get(name) for each in objects], owners, failures)
            for name, column in self._fields.items()
        ]
        return struct_array(self.type, arrays, len(objects))


class JsonArray:
    """Arrays as lists."""

    width = 1

    def __init__(self, path: str, item: ValueColumn) -> None:
        self._path = path
        self._item = item
        self.type = pa.list_(pa.field("element", item.type))

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        values = _of_type(values, list, "array", self._path, owners, failures)
        indexes = present(values)
        owners = owners[indexes]
        lists = bounded(
            [value for value in values if value is not None],
            owners,
            failures,
            path=self._path,
            width=self._item.width,
        )
        lengths = lengths_of(lists)
        items = self._item.array(
            list(chain.from_iterable(lists)), np.repeat(owners, lengths), failures
        )
        array = pa.ListArray.from_arrays(offsets_of(lengths), items, type=self.type)
        return array if len(indexes) == len(values) else scattered(array, indexes, len(values))


class JsonMap:
    """Objects of any properties as maps, in the order of the text."""

    width = 1

    def __init__(self, path: str, item: ValueColumn) -> None:
        self._path = path
        self._key = JsonText(path)
        self._item = item
        self.type = pa.map_(pa.string(), item.type)

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        values = _of_type(values, dict, "object", self._path, owners, failures)
        indexes = present(values)
        owners = owners[indexes]
        maps = bounded(
            [value for value in values if value is not None],
            owners,
            failures,
            path=self._path,
            width=1 + self._item.width,
        )
        lengths = lengths_of(maps)
        owners = np.repeat(owners, lengths)
        keys = self._key.array(list(chain.from_iterable(maps)), owners, failures)
        items = [item for each in maps if each for item in each.values()]
        array = pa.MapArray.from_arrays(
            offsets_of(lengths), keys, self._item.array(items, owners, failures), type=self.type
        )
        return array if len(indexes) == len(values) else scattered(array, indexes, len(values))


class JsonBoolean:
    """`true` and `false`."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.bool_()

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        values = _of_type(values, bool, "boolean", self._path, owners, failures)
        return pa.array(values, self.type)


class JsonText:
    """Strings; the empty string stands for values that are no text, whose payloads fail."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.string()

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        values = _of_type(values, str, "string", self._path, owners, failures)
        try:
            return pa.array(values, self.type)
        except (UnicodeEncodeError, pa.ArrowInvalid):
            return pa.array(_each(values, self._path, owners, failures, _text, ""), self.type)


class JsonInteger:
    """Integers of 64 bits; 2.0 is one."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.int64()

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        if set(map(type, values)) <= {int, _NULL}:
            try:
                return pa.array(values, self.type)
            except (OverflowError, pa.ArrowInvalid):
                pass
        return pa.array(_each(values, self._path, owners, failures, _integer, 0), self.type)


class JsonNumber:
    """Numbers of 64 bits."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.float64()

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        if set(map(type, values)) <= {float, _NULL}:
            array = pa.array(values, self.type)
            # A number beyond the largest one is infinite once it is read.
            if not pc.any(pc.is_inf(array)).as_py():
                return array
        return pa.array(_each(values, self._path, owners, failures, _number, 0.0), self.type)


class JsonDateTime:
    """Strings of the format `date-time` as instants."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.timestamp("us", tz="UTC")

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        usual = _cast(
            values, _USUAL_DATE_TIME, self.type, EARLIEST_SECOND * 10**6, LATEST_SECOND * 10**6
        )
        if usual is not None:
            return usual
        microseconds = _each(values, self._path, owners, failures, _instant, 0)
        return pa.array(microseconds, pa.int64()).cast(self.type)


class JsonDate:
    """Strings of the format `date` as days."""

    width = 1

    def __init__(self, path: str) -> None:
        self._path = path
        self.type = pa.date32()

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        earliest, latest = EARLIEST_SECOND // _DAY_SECONDS, LATEST_SECOND // _DAY_SECONDS
        usual = _cast(values, _USUAL_DATE, self.type, earliest, latest)
        if usual is not None:
            return usual
        return pa.array(_each(values, self._path, owners, failures, _day, None), self.type)


def _of_type(
    values: Sequence[Any], kind: type, name: str, path: str, owners: Owners, failures: Failures
) -> Sequence[Any]:
    """The values, None in place of values of another type."""
    if set(map(type, values)) <= {kind, _NULL}:
        return values

    def checked(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"no {name}")
        return value

    return _each(values, path, owners, failures, checked, None)


def _each(
    values: Sequence[Any],
    path: str,
    owners: Owners,
    failures: Failures,
    convert: Callable[[Any], Any],
    otherwise: Any,
) -> list[Any]:
    """The converted values; the payloads fail whose values `convert` raises ValueError for."""
    converted = []
    for index, value in enumerate(values):
        if value is not None:
            try:
                value = convert(value)
            except (ValueError, OverflowError) as error:
                where = f"{path}: " if path else ""
                failures.add(int(owners[index]), f"{where}{_shown(value)} is {error}")
                value = otherwise
        converted.append(value)
    return converted


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case int() if abs(value) >> 256:
            return "a number of many digits"
    text = json.dumps(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("no text: it has half of a surrogate pair") from None
    return value


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not -_INT64_END <= value < _INT64_END:
        raise ValueError("no integer of 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ValueError("no number of 64 bits") from None
    if type(value) is not float or value in (float("inf"), float("-inf")):
        raise ValueError("no number of 64 bits")
    return value


def _instant(value: Any) -> int:
    if type(value) is not str or not _DATE_TIME.fullmatch(value):
        raise ValueError("no date-time with an offset")
    try:
        return (datetime.fromisoformat(value.upper()).astimezone(UTC) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise ValueError("no date-time of the years 1 to 9999") from None


def _day(value: Any) -> date:
    if type(value) is not str or not _DATE.fullmatch(value):
        raise ValueError("no date")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError("no date of the years 1 to 9999") from None


def _cast(
    values: Sequence[Any], pattern: str, kind: pa.DataType, earliest: int, latest: int
) -> pa.Array | None:
    """The array of strings that all have the usual form, from the earliest to the latest."""
    if not set(map(type, values)) <= {str, _NULL}:
        return None
    try:
        texts = pa.array(values, pa.string())
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
            return None
        array = texts.cast(kind)
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return None
    numbers = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is not None and not earliest <= extremes["min"] <= extremes["max"] <= latest:
        return None
    return array
