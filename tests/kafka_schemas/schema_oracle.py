"""An interpreter of Kafka's own JSON schemas, with which the codec's bytes are compared."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka_jars import kafka_schemas

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
NUMBERS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Kafka's types of a fixed size, as `struct` writes them."""
_ZEROS = {
    "bool": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "bytes": b"",
    "records": b"",
}

_FILES = {"ZkMigrationStateRecord": "ZkMigrationRecord"}
"""Files whose names differ from the messages in them."""


@dataclass(frozen=True)
class Range:
    """Versions from first to last, inclusive."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Range:
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), 1 << 15)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class JsonField:
    """One field of a JSON schema."""

    def __init__(self, raw: dict[str, Any], shared: dict[str, Any]):
        self.name = snake(raw["name"])
        self.is_array = raw["type"].startswith("[]")
        self.type = raw["type"].removeprefix("[]")
        self.tag = raw.get("tag")
        self.tagged = Range.parse(raw.get("taggedVersions"))
        self.versions = Range.parse(raw.get("versions", raw.get("taggedVersions")))
        self.nullable = Range.parse(raw.get("nullableVersions"))
        self.flexible = Range.parse(raw.get("flexibleVersions", "0+"))
        self.is_struct = self.type[0].isupper()
        inner = raw.get("fields", shared.get(self.type, []))
        self.fields = [JsonField(f, shared) for f in inner] if self.is_struct else []
        self.default = self._default(raw.get("default"))

    def _default(self, raw: Any) -> Any:
        if raw == "null":
            return None
        if self.is_array:
            return []
        if self.is_struct:
            return {f.name: f.default for f in self.fields}
        if raw is None:
            return _ZEROS.get(self.type, 0)
        if self.type == "bool":
            return str(raw).lower() == "true"
        if self.type in ("string", "float64"):
            return raw if self.type == "string" else float(raw)
        return int(str(raw), 0)


class JsonSchema:
    """A message of a JSON schema, encoded and decoded in each version."""

    def __init__(self, raw: dict[str, Any], unstable: bool):
        shared = {struct["name"]: struct["fields"] for struct in raw.get("commonStructs", [])}
        self.key = raw.get("apiKey")
        self.versions = Range.parse(raw["validVersions"])
        if unstable:
            # A broker refuses it by default, and so it is not supported here.
            self.versions = Range(self.versions.first, self.versions.last - 1)
        self.flexible = Range.parse(raw["flexibleVersions"])
        self.fields = [JsonField(f, shared) for f in raw["fields"]]

    def encode(self, version: int, values: dict[str, Any]) -> bytes:
        return _encode_struct(self.fields, version, version in self.flexible, values)

    def decode(self, version: int, data: bytes) -> dict[str, Any]:
        reader = _Reader(data, version, version in self.flexible)
        values = reader.struct(self.fields)
        assert reader.rest() == 0
        return values


@cache
def schema(name: str) -> JsonSchema:
    """The schema of a message, record or header by Kafka's name of it."""
    raw = _read(name)
    # Only the request's schema marks the last version of both as unstable.
    request = _read(name.replace("Response", "Request")) if "apiKey" in raw else raw
    return JsonSchema(raw, request.get("latestVersionUnstable", False))


def _read(name: str) -> dict[str, Any]:
    for folder in ("message", "metadata"):
        path: Path = kafka_schemas(folder) / f"{_FILES.get(name, name)}.json"
        if path.exists():
            text = _COMMENT.sub(lambda found: found.group(1) or "", path.read_text())
            raw: dict[str, Any] = json.loads(text)
            return raw
    raise LookupError(name)


def snake(name: str) -> str:
    return _WORD_START.sub("_", name.replace("KRaft", "Kraft")).lower()


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def _encode_struct(
    fields: list[JsonField], version: int, flexible: bool, values: dict[str, Any]
) -> bytes:
    out = b""
    tagged: dict[int, bytes] = {}
    for f in fields:
        if version not in f.versions:
            continue
        value = values[f.name]
        if f.tag is None or version not in f.tagged:
            out += _encode_field(f, version, flexible, value)
        elif value != f.default:
            tagged[f.tag] = _encode_field(f, version, flexible, value)
    if flexible:
        out += _varint(len(tagged))
        for tag in sorted(tagged):
            out += _varint(tag) + _varint(len(tagged[tag])) + tagged[tag]
    return out


def _encode_field(f: JsonField, version: int, flexible: bool, value: Any) -> bytes:
    compact = flexible and version in f.flexible
    assert value is not None or version in f.nullable
    if not f.is_array:
        return _encode_value(f, version, flexible, value)
    if value is None:
        return _length(None, compact, ">i")
    return _length(len(value), compact, ">i") + b"".join(
        _encode_element(f, version, flexible, element) for element in value
    )


def _encode_element(f: JsonField, version: int, flexible: bool, value: Any) -> bytes:
    if f.is_struct:
        return _encode_struct(f.fields, version, flexible, value)
    return _encode_primitive(f.type, flexible and version in f.flexible, value)


def _encode_value(f: JsonField, version: int, flexible: bool, value: Any) -> bytes:
    if f.is_struct and version in f.nullable:
        if value is None:
            # Kafka's generator uses a varint here where the field is tagged.
            return b"\x00" if f.tag is not None and version in f.tagged else b"\xff"
        return b"\x01" + _encode_element(f, version, flexible, value)
    return _encode_element(f, version, flexible, value)


def _encode_primitive(kind: str, compact: bool, value: Any) -> bytes:
    if kind in NUMBERS:
        return struct.pack(">" + NUMBERS[kind], value)
    width = ">h" if kind == "string" else ">i"
    if value is None:
        return _length(None, compact, width)
    raw = value.encode() if kind == "string" else value
    return _length(len(raw), compact, width) + raw


def _length(length: int | None, compact: bool, width: str) -> bytes:
    if compact:
        return _varint(0 if length is None else length + 1)
    return struct.pack(width, -1 if length is None else length)


class _Reader:
    def __init__(self, data: bytes, version: int, flexible: bool):
        self.data = data
        self.version = version
        self.flexible = flexible
        self.at = 0

    def rest(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        assert 0 <= size <= self.rest()
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value, weight = 0, 1
        while True:
            byte = self.take(1)[0]
            value += byte % 128 * weight
            weight *= 128
            if byte < 128:
                return value

    def struct(self, fields: list[JsonField]) -> dict[str, Any]:
        values = {f.name: f.default for f in fields}
        present = [f for f in fields if self.version in f.versions]
        for f in present:
            if f.tag is None or self.version not in f.tagged:
                values[f.name] = self.field(f)
        if self.flexible:
            by_tag = {f.tag: f for f in present if f.tag is not None}
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                end = self.at + size
                if tag in by_tag:
                    values[by_tag[tag].name] = self.field(by_tag[tag])
                else:
                    self.take(size)
                assert self.at == end
        return values

    def field(self, f: JsonField) -> Any:
        compact = self.flexible and self.version in f.flexible
        if not f.is_array:
            return self.value(f)
        count = self.varint() - 1 if compact else self.number(">i")
        if count < 0:
            assert self.version in f.nullable
            return None
        return [self.element(f) for _ in range(count)]

    def value(self, f: JsonField) -> Any:
        if f.is_struct and self.version in f.nullable:
            is_tagged = f.tag is not None and self.version in f.tagged
            if self.number(">b") < is_tagged:
                return None
        value = self.element(f)
        assert value is not None or self.version in f.nullable
        return value

    def element(self, f: JsonField) -> Any:
        if f.is_struct:
            return self.struct(f.fields)
        if f.type in NUMBERS:
            return self.number(">" + NUMBERS[f.type])
        width = ">h" if f.type == "string" else ">i"
        compact = self.flexible and self.version in f.flexible
        size = self.varint() - 1 if compact else self.number(width)
        if size < 0:
            return None
        raw = self.take(size)
        return raw.decode() if f.type == "string" else raw

    def number(self, width: str) -> Any:
        return struct.unpack(width, self.take(struct.calcsize(width)))[0]
