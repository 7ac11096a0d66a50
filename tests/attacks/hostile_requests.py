"""Requests with hostile values in each field of each API's schema, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.attacks.hostile_values import EXPRESSIONS, LONG_NAME, OPTIONS, PREFIX, TEXTS, Values
from tests.raw_client import frame
from wirekafka.codec.message import Request, UnencodableMessage
from wirekafka.codec.schema import Field

_CLIENT_IDS = ("", "\n forged", "\x1b[2J", "../..", "x" * 30_000)
_BROKER, _IDS = 4, ("1", "", "2")
"""The type of a broker's resources, and names: this broker, all brokers, and another one."""
_TRIES = 4
_PATTERNS = ("pattern", "regex")
_MANY = 150
_LONG = 60
_COUNT_BYTES = 8
"""What the number of elements takes in a request, and more."""
_IN_A_FLOOD = 8
_MOST_BYTES = 4 << 20

Path = tuple[Field, ...]
"""The fields from a request down to a primitive."""


@dataclass(frozen=True)
class Attack:
    """One request, and what is hostile about it."""

    request: type[Request]
    version: int
    payload: bytes
    """The request's frame, without its size."""
    reason: str

    def __str__(self) -> str:
        return f"{self.request.__name__} v{self.version}, {self.reason}"


class Attacks:
    """Makes attacks by one API from a source of randomness."""

    def __init__(self, random: Random, values: Values, request: type[Request], version: int):
        self._random = random
        self._values = values
        self._request = request
        self.version = version
        self._paths = tuple(_paths(request.fields, version))
        self.names = sum(path[-1].kind == "string" for path in self._paths)
        """How many of its fields are texts."""

    def __str__(self) -> str:
        return f"{self._request.__name__} v{self.version}"

    def honest(self) -> Attack:
        """A request whose values a handler is likely to accept."""
        found = self._attack(self._message(), "known values")
        assert found is not None, self._request
        return found

    def one_by_one(self, most: int) -> Iterator[Attack]:
        """Requests with a hostile value in one field, at most so many, chosen at random."""
        wanted = [(path, value) for path in self._paths for value in self._hostile(path[-1])]
        if len(wanted) > most:
            wanted = self._random.sample(wanted, most)
        for path, value in wanted:
            message = self._message()
            if self._place(message, path, value):
                reason = ".".join(_names(path))
                yield from self._encoded(message, f"{reason} = {_short(value)}")

    def all_at_once(self, count: int) -> Iterator[Attack]:
        """Requests with hostile values in every field."""
        for _ in range(count):
            message = self._message()
            for path in self._paths:
                self._place(message, path, self._random.choice(self._hostile(path[-1])))
            yield from self._encoded(message, "hostile values in every field")

    def crowded(self) -> Iterator[Attack]:
        """Requests with many elements in each array, which are equal or have long names."""
        for path in self._array_paths():
            for name in ("equal elements", "distinct elements", "long names"):
                message = self._message()
                if self._crowd(message, path, name):
                    reason = ".".join(_names(path))
                    yield from self._encoded(message, f"{name} in {reason}")

    def arrays(self) -> list[Path]:
        """The paths of all arrays."""
        return list(self._array_paths())

    def with_many(self, paths: Iterable[Path], count: int) -> Iterator[Attack]:
        """Requests with so many elements in one of the arrays, each with a name of its own."""
        for path in paths:
            *above, field = path
            for _ in range(_TRIES):
                message = self._message()
                if self._place(message, path, []):
                    element = self._element(field, tuple(each.name for each in above))
                    elements = [copy(element) for _ in range(count)]
                    _name_apart(elements, field, "{}-distinct")
                    self._place(message, path, elements)
                    reason = f"{count} elements in {'.'.join(_names(path))}"
                    yield from self._encoded(message, reason)
                    break

    def with_small(self, paths: Iterable[Path], size_bytes: int) -> Iterator[Attack]:
        """Requests of at most this size with as many elements as possible in one of the arrays."""
        for path in paths:
            for _ in range(_TRIES):
                message = self._message()
                if self._place(message, path, []):
                    empty_bytes = len(self._frame(message))
                    element = _smallest(path[-1], self.version)
                    self._place(message, path, [element] * _MANY)
                    each_bytes = (len(self._frame(message)) - empty_bytes) / _MANY
                    count = int((size_bytes - empty_bytes - _COUNT_BYTES) / each_bytes)
                    self._place(message, path, [element] * count)
                    reason = f"{count} elements of few bytes in {'.'.join(_names(path))}"
                    yield Attack(self._request, self.version, self._frame(message), reason)
                    break

    def flood(self, size_bytes: int) -> Iterator[Attack]:
        """Requests of so many bytes in all whose names are long, and never sent before."""
        sent_bytes = 0
        while sent_bytes < size_bytes:
            message = self._message()
            for path in self._paths:
                self._place(message, path, self._distinct(path[-1], _value_at(message, path)))
            tail = f"{self._random.getrandbits(64):x}"
            payload = frame(message, self.version, 1, LONG_NAME + tail)
            sent_bytes += len(payload)
            yield Attack(self._request, self.version, payload, "names that are never repeated")

    def _distinct(self, field: Field, known: Any) -> Any:
        """A long value that was never sent before, where the kind of the field has such."""
        kind, random = field.kind, self._random
        if kind == "string":
            # A prefix that is allowed to one of the attackers, or to nobody.
            start = random.choice((PREFIX, ""))
            names = [f"{start}{random.getrandbits(64):x}{LONG_NAME}" for _ in range(_IN_A_FLOOD)]
            return names if field.is_array else names[0]
        if kind == "16s" and not field.is_array:
            return random.randbytes(16)
        if kind == "bytes" and not field.is_array:
            return random.randbytes(len(LONG_NAME))
        return known

    def by_option(self) -> Iterator[Attack]:
        """Requests that set options of brokers to each reference, and to one of other values."""
        wanted = ["resources", "configs", "value"]
        path = next((each for each in self._paths if _names(each) == wanted), None)
        if path is None:
            return
        resources, configs, _ = path
        others = (self._values.paths, EXPRESSIONS, TEXTS)
        for option in OPTIONS:
            one_of_each = [self._random.choice(kind) for kind in others]
            for text in (*self._values.references, *one_of_each):
                message = self._message()
                resource = getattr(message, resources.name)[0]
                resource.resource_type, resource.resource_name = _BROKER, self._random.choice(_IDS)
                config = getattr(resource, configs.name)[0]
                config.name, config.value = option, text
                yield from self._encoded(message, f"{option} = {_short(text)}")

    def by_expression(self) -> Iterator[Attack]:
        """Requests with each regular expression in each field that is one."""
        for path in self._paths:
            field = path[-1]
            if field.kind == "string" and not field.is_array and field.name.endswith(_PATTERNS):
                # Several times: what other fields have decides on whether it is matched at all.
                for expression in EXPRESSIONS * _TRIES:
                    message = self._message()
                    if self._place(message, path, expression):
                        yield from self._encoded(message, f"{field.name} = {_short(expression)}")

    def _array_paths(self) -> Iterator[Path]:
        seen = set()
        for path in self._paths:
            for depth, field in enumerate(path, 1):
                names = tuple(each.name for each in path[:depth])
                if field.is_array and names not in seen:
                    seen.add(names)
                    yield path[:depth]

    def _hostile(self, field: Field) -> tuple[Any, ...]:
        values = self._values.hostile(str(field.kind))
        if field.is_array:
            several = self._random.sample(values, min(4, len(values)))
            values = ([], *([value] for value in values), several, [values[0]] * 3)
        if self.version in field.nullable:
            values = (*values, None)
        return values

    def _message(self) -> Any:
        return self._struct(self._request, ())

    def _struct(self, cls: type[Any], parents: tuple[str, ...]) -> Any:
        return cls(
            **{
                field.name: self._value(field, parents)
                for field in cls.fields
                if self.version in field.versions
            }
        )

    def _value(self, field: Field, parents: tuple[str, ...]) -> Any:
        if field.is_array and "filter" in field.name and self._random.random() < 0.7:
            return []
        one = self._element(field, parents)
        if not field.is_array:
            return one
        return [one] if self._random.random() < 0.8 else [one, self._element(field, parents)]

    def _element(self, field: Field, parents: tuple[str, ...]) -> Any:
        if field.part is not None:
            return self._struct(field.part, (*parents, field.name))
        return self._values.known(self._random, field.name, str(field.kind), parents)

    def _place(self, message: Any, path: Path, value: Any) -> bool:
        """Set the value in the first element of each array on the path; whether there is one."""
        for field in path[:-1]:
            inner = getattr(message, field.name)
            if not inner and field.is_array:
                return False
            message = inner[0] if field.is_array else inner
        setattr(message, path[-1].name, value)
        return True

    def _crowd(self, message: Any, path: Path, how: str) -> bool:
        *above, field = path
        for each in above:
            inner = getattr(message, each.name)
            if not inner and each.is_array:
                return False
            message = inner[0] if each.is_array else inner
        parents = tuple(each.name for each in above)
        if how == "equal elements":
            elements = [self._element(field, parents)] * _MANY
        else:
            elements = [self._element(field, parents) for _ in range(_MANY)]
            if how == "distinct elements":
                _name_apart(elements, field, "{}-distinct")
            else:
                del elements[_LONG:]
                _name_apart(elements, field, "{}" + LONG_NAME)
        setattr(message, field.name, elements)
        return True

    def _encoded(self, message: Any, reason: str) -> Iterator[Attack]:
        found = self._attack(message, reason)
        if found is not None:
            yield found

    def _frame(self, message: Any) -> bytes:
        return frame(message, self.version, 1, "attacker")

    def _attack(self, message: Any, reason: str) -> Attack | None:
        client_id = self._random.choice((None, "attacker", "attacker", *_CLIENT_IDS))
        try:
            payload = frame(message, self.version, 1, client_id)
        except UnencodableMessage:
            return None
        if len(payload) > _MOST_BYTES:
            return None
        return Attack(self._request, self.version, payload, reason)


def _name_apart(elements: list[Any], field: Field, text: str) -> None:
    """Give each element a name of its own, where it has one."""
    for number, element in enumerate(elements):
        if field.part is None:
            if field.kind == "string":
                elements[number] = text.format(number)
            continue
        for inner in field.part.fields:
            if inner.kind == "string" and not inner.is_array:
                setattr(element, inner.name, text.format(number))
                break


def _smallest(field: Field, version: int) -> Any:
    """An element of an array, with as few bytes as possible."""
    if field.part is not None:
        parts = {
            each.name: [] if each.is_array else _smallest(each, version)
            for each in field.part.fields
            if version in each.versions
        }
        return field.part(**parts)
    return {"string": "", "bytes": b"", "records": b"", "16s": bytes(16), "d": 0.0}.get(
        str(field.kind), 0
    )


def _paths(fields: Iterable[Field], version: int) -> Iterator[Path]:
    for field in fields:
        if version not in field.versions:
            continue
        if field.part is None:
            yield (field,)
        else:
            for path in _paths(field.part.fields, version):
                yield (field, *path)


def _value_at(message: Any, path: Path) -> Any:
    """The value in the first element of each array on the path; None if there is none."""
    for field in path:
        if field is not path[-1] and field.is_array:
            elements = getattr(message, field.name)
            if not elements:
                return None
            message = elements[0]
        else:
            message = getattr(message, field.name)
    return message


def _names(path: Path) -> list[str]:
    return [field.name for field in path]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:80]}... ({len(text)} characters)"
