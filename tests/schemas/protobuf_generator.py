"""Protobuf sources at random, from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
KEYS = tuple(each for each in SCALARS if each not in ("double", "float", "bytes"))


@dataclass
class Source:
    """A source while it is written."""

    random: Random
    is_proto3: bool
    types: list[str] = field(default_factory=list)
    """Full names of messages and enums that exist."""
    names: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        middle = self.random.choice(("", "_x", "_some_value", "Upper"))
        return f"{prefix}{middle}{self.names}"


def source_of(seed: int) -> str:
    """A source that protoc accepts."""
    random = Random(seed)
    source = Source(random, is_proto3=random.random() < 0.7)
    lines = [f'syntax = "{"proto3" if source.is_proto3 else "proto2"}";']
    package = random.choice(("", "p", "a.b"))
    if package:
        lines.append(f"package {package};")
    lines.append('import "google/protobuf/timestamp.proto";')
    source.types.append(".google.protobuf.Timestamp")
    if random.random() < 0.5:
        lines.append('option java_package = "x.y";')
    for _ in range(random.randint(1, 4)):
        lines.append(
            _enum(source, package)
            if random.random() < 0.3
            else _message(source, package, random.randint(0, 3))
        )
    return "\n".join(lines)


def _enum(source: Source, scope: str) -> str:
    name = source.name("E")
    source.types.append(f"{scope and '.'}{scope}.{name}")
    values = "".join(
        f"{source.name('V')} = {number}{source.random.choice(('', ' [deprecated = true]'))}; "
        for number in range(source.random.randint(1, 4))
    )
    return f"enum {name} {{ {values} reserved 50 to 60, 99; }}"


def _message(source: Source, scope: str, depth: int) -> str:
    random = source.random
    name = source.name("M")
    full_name = f"{scope}.{name}" if scope else name
    source.types.append(f".{full_name}")
    numbers = iter(random.sample(range(1, 60), 40))
    parts = []
    for _ in range(random.randint(0, 6)):
        parts.append(_field(source, next(numbers)))
    if random.random() < 0.4:
        key, value = random.choice(KEYS), random.choice((*SCALARS, *source.types))
        parts.append(f"map<{key}, {value}> {source.name('m')} = {next(numbers)};")
    if random.random() < 0.4:
        fields = "".join(
            f"{random.choice((*SCALARS, *source.types))} {source.name('o')} = {next(numbers)}; "
            for _ in range(random.randint(1, 3))
        )
        parts.append(f"oneof {source.name('choice')} {{ {fields} }}")
    if depth:
        for _ in range(random.randint(0, 2)):
            is_enum = random.random() < 0.3
            parts.append(
                _enum(source, full_name) if is_enum else _message(source, full_name, depth - 1)
            )
    if random.random() < 0.3:
        parts.append('reserved 100 to 200, 300; reserved "gone";')
    if not source.is_proto3 and random.random() < 0.3:
        parts.append("extensions 1000 to max;")
    random.shuffle(parts)
    body = "\n".join(parts)
    return f"message {name} {{ // comment\n{body}\n}}"


def _field(source: Source, number: int) -> str:
    random = source.random
    labels = ("", "optional ", "repeated ") if source.is_proto3 else ("optional ", "repeated ")
    label = random.choice(labels)
    if not source.is_proto3 and random.random() < 0.2:
        label = "required "
    type_name = random.choice((*SCALARS, *source.types))
    options = random.choice(
        ("", "", " [deprecated = true]", f' [json_name = "other{number}", deprecated = false]')
    )
    return f"{label}{type_name} {source.name('f')} = {number}{options};"
