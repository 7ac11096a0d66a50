"""Generated Avro schemas, each with an evolution of it, the same for the same seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

Json = Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "avro.java.string": "String"},
    {"type": "string", "logicalType": "uuid"},
)
DEFAULTS: dict[str, tuple[Json, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, -5, 2147483647),
    "long": (0, 1 << 40),
    "float": (0, 1.5, "NaN", 1e-7),
    "double": (0.0, 1e21, "Infinity", 123456789.5, -2),
    "bytes": ("", "\u00ff\u0001"),
    "string": ("", 'a "quoted" \u2028 text\n\u001f', "\U0001f600"),
}


class Pair(NamedTuple):
    """Texts of two schemas of which one evolved from the other."""

    reader: str
    writer: str


def pairs(seed: int, count: int) -> Iterator[Pair]:
    random = Random(seed)
    for _ in range(count):
        old = Generator(random).schema()
        new = copy.deepcopy(old)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            new = Evolution(random).of(new)
        reader, writer = (new, old) if random.random() < 0.5 else (old, new)
        yield Pair(_text(random, reader), _text(random, writer))


def _text(random: Random, schema: Json) -> str:
    return json.dumps(schema, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 2)))


class Generator:
    """Makes a schema whose named types refer to each other."""

    def __init__(self, random: Random):
        self.random = random
        self.named: list[tuple[str, str]] = []
        self._count = 0

    def schema(self) -> Json:
        make = self.random.choice((self._record,) * 8 + (self._union, self._array, self._enum))
        return make(0, "")

    def type(self, depth: int, namespace: str) -> Json:
        simple = (self._primitive, self._primitive, self._reference, self._enum, self._fixed)
        deep = (self._record, self._union, self._union, self._array, self._map)
        return self.random.choice(simple if depth > 2 else (*simple, *deep))(depth, namespace)

    def _primitive(self, depth: int, namespace: str) -> Json:
        if self.random.random() < 0.2:
            return dict(self.random.choice(LOGICAL))
        word = self.random.choice(PRIMITIVES)
        return {"type": word} if self.random.random() < 0.1 else word

    def _reference(self, depth: int, namespace: str) -> Json:
        if not self.named:
            return "string"
        name, of = self.random.choice(self.named)
        return name if of == namespace and self.random.random() < 0.7 else _full(name, of)

    def _named(self, word: str, namespace: str) -> tuple[dict[str, Json], str]:
        self._count += 1
        name = f"{word[0].upper()}{self._count}"
        made: dict[str, Json] = {"type": word, "name": name}
        style = self.random.random()
        if style < 0.2:
            namespace = self.random.choice(("a", "a.b", "c", ""))
            made["namespace"] = namespace
        elif style < 0.3:
            namespace = self.random.choice(("a", "d.e"))
            made["name"] = f"{namespace}.{name}"
        self.named.append((name, namespace))
        if self.random.random() < 0.2:
            made["doc"] = self.random.choice(("", "some text", "\u00e9\t"))
        if self.random.random() < 0.15:
            made["aliases"] = self.random.sample(("X1", "X2", "q.X3", f"{name}_old"), 2)
        if self.random.random() < 0.15:
            made["connect.version"] = self.random.choice((1, 2.0, [None, {"b": 1, "a": True}]))
        return made, namespace

    def _record(self, depth: int, namespace: str) -> Json:
        record, inner = self._named("record", namespace)
        record["fields"] = [
            self.field(f"f{number}", depth + 1, inner) for number in range(self.random.randrange(5))
        ]
        return record

    def field(self, name: str, depth: int, namespace: str) -> Json:
        field: dict[str, Json] = {"name": name, "type": self.type(depth, namespace)}
        if self.random.random() < 0.4:
            add_default(self.random, field)
        if self.random.random() < 0.1:
            field["doc"] = "of a field"
        if self.random.random() < 0.1:
            field["order"] = self.random.choice(("ascending", "descending", "ignore"))
        if self.random.random() < 0.1:
            field["aliases"] = ["other", "f9"]
        if self.random.random() < 0.1:
            field["custom"] = 9.5
        return field

    def _enum(self, depth: int, namespace: str) -> Json:
        enum, _ = self._named("enum", namespace)
        enum["symbols"] = list("ABCD"[: self.random.randrange(1, 5)])
        if self.random.random() < 0.3:
            enum["default"] = "A"
        return enum

    def _fixed(self, depth: int, namespace: str) -> Json:
        fixed, _ = self._named("fixed", namespace)
        fixed["size"] = self.random.randrange(0, 20)
        return fixed

    def _array(self, depth: int, namespace: str) -> Json:
        return {"type": "array", "items": self.type(depth + 1, namespace)}

    def _map(self, depth: int, namespace: str) -> Json:
        return {"type": "map", "values": self.type(depth + 1, namespace)}

    def _union(self, depth: int, namespace: str) -> Json:
        branches: list[Json] = self.random.sample(PRIMITIVES, self.random.randrange(1, 4))
        for make in self.random.sample((self._record, self._enum, self._array, self._fixed), 2):
            if self.random.random() < 0.3:
                branches.insert(self.random.randrange(3), make(depth + 1, namespace))
        return branches


class Evolution:
    """Changes one place of a schema, as those who maintain schemas do, well or badly."""

    def __init__(self, random: Random):
        self.random = random

    def of(self, schema: Json) -> Json:
        places = list(_places(schema))
        changes = self._changes(self.random.choice(places))
        if changes:
            self.random.choice(changes)()
        return schema

    def _changes(self, place: Json) -> list[Callable[[], None]]:
        match place:
            case {"fields": list()}:
                return [
                    lambda: self._add_field(place),
                    lambda: self._add_field(place),
                    lambda: self._remove(place["fields"]),
                    lambda: self._rename_type(place),
                    lambda: self.random.shuffle(place["fields"]),
                ]
            case {"symbols": list()}:
                return [
                    lambda: place["symbols"].append(f"S{len(place['symbols'])}"),
                    lambda: self._remove(place["symbols"]),
                    lambda: place.update(default=self.random.choice(place["symbols"] or "Z")),
                    lambda: self._rename_type(place),
                ]
            case {"size": int()}:
                return [
                    lambda: place.update(size=place["size"] + 1),
                    lambda: self._rename_type(place),
                ]
            case {"name": str()}:
                return [
                    lambda: self._change_type(place),
                    lambda: self._change_type(place),
                    lambda: self._rename_field(place),
                    lambda: add_default(self.random, place),
                    lambda: place.pop("default", None),
                ]
            case {"items": _}:
                return [lambda: place.update(items=self._other(place["items"]))]
            case {"values": _}:
                return [lambda: place.update(values=self._other(place["values"]))]
            case list():
                return [
                    lambda: place.append(self.random.choice(PRIMITIVES)),
                    lambda: self._remove(place),
                    lambda: self.random.shuffle(place),
                ]
        return []

    def _add_field(self, record: Json) -> None:
        field = Generator(self.random).field(f"g{self.random.randrange(9)}", 3, "")
        record["fields"].insert(self.random.randrange(len(record["fields"]) + 1), field)

    def _remove(self, parts: list[Json]) -> None:
        if parts:
            parts.pop(self.random.randrange(len(parts)))

    def _rename_type(self, type: Json) -> None:
        old = type["name"]
        type["name"] = f"{old}New"
        if self.random.random() < 0.5:
            type["aliases"] = [old]

    def _rename_field(self, field: Json) -> None:
        old = field["name"]
        field["name"] = f"{old}_new"
        if self.random.random() < 0.5:
            field["aliases"] = [old]

    def _change_type(self, field: Json) -> None:
        field["type"] = self._other(field["type"])
        field.pop("default", None)

    def _other(self, type: Json) -> Json:
        wider = {"int": "long", "long": "double", "float": "double", "bytes": "string"}
        narrower = {"long": "int", "double": "float", "string": "bytes"}
        match self.random.randrange(5):
            case 0 if isinstance(type, str):
                return wider.get(type, type)
            case 1 if isinstance(type, str):
                return narrower.get(type, type)
            case 2 if not isinstance(type, list):
                return ["null", type]
            case 3 if isinstance(type, list) and type:
                return type[0]
        return self.random.choice(PRIMITIVES)


def add_default(random: Random, field: Json) -> None:
    """Give a field a default, which is of a wrong type sometimes."""
    type = field["type"]
    while isinstance(type, list | dict):
        if isinstance(type, list):
            type = type[0] if type else "null"
        elif "symbols" in type:
            type = "string"
        else:
            type = {"array": [], "map": {}, "record": {}, "fixed": ""}.get(
                type["type"], type["type"]
            )
            if not isinstance(type, str) or type == "":
                field["default"] = type
                return
    word = random.choice(PRIMITIVES) if random.random() < 0.05 else type
    field["default"] = random.choice(DEFAULTS.get(word, ("A", None, {})))


def _places(schema: Json) -> Iterator[Json]:
    match schema:
        case list():
            yield schema
            for branch in schema:
                yield from _places(branch)
        case dict():
            yield schema
            for attribute in ("items", "values", "type"):
                if attribute in schema:
                    yield from _places(schema[attribute])
            for field in schema.get("fields", ()):
                yield from _places(field)


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace else name
