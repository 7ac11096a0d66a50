"""Random Avro schemas, and random payloads of them by an encoder of their own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa

Json = Any

PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("string", "uuid"),
)
NANOSECONDS = (("long", "timestamp-nanos"), ("long", "local-timestamp-nanos"))
_KINDS = ("record", "array", "map", "union", "optional")
_EDGES = (0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 27, 1 << 55, -1 << 55)
_LONG = 1 << 63
_DAY_MS = 86_400_000
_YEAR_9000_MS = 221_845_392_000_000


class AvroGenerator:
    """Makes schemas, and payloads for them. Each definition of a type has another name."""

    def __init__(self, random: Random, *, is_moderate: bool = False):
        self._random = random
        self._names = 0
        self._is_moderate = is_moderate
        """Whether times are between years that Python has, and numbers are no NaN."""

    def record(self, depth: int = 3) -> Json:
        fields = []
        for _ in range(self._random.randint(1, 6)):
            field = {"name": self._name("f"), "type": self.type(depth)}
            fields.append(field)
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def type(self, depth: int) -> Json:
        kinds = ["plain", "plain", "logical", "decimal", "enum", "fixed", "null"]
        kind = self._random.choice([*kinds, *_KINDS] if depth else kinds)
        match kind:
            case "plain":
                return self._random.choice(PLAIN)
            case "logical":
                pairs = LOGICAL if self._is_moderate else LOGICAL + NANOSECONDS
                word, logical = self._random.choice(pairs)
                return {"type": word, "logicalType": logical}
            case "decimal":
                return self._decimal()
            case "enum":
                symbols = [f"S{each}" for each in range(self._random.choice((1, 3, 70)))]
                return {"type": "enum", "name": self._name("E"), "symbols": symbols}
            case "fixed":
                size = self._random.choice((1, 4, 12, 16, 40))
                return {"type": "fixed", "name": self._name("F"), "size": size}
            case "null":
                return "null"
            case "record":
                return self.record(depth - 1)
            case "array":
                return {"type": "array", "items": self._part(depth - 1)}
            case "map":
                return {"type": "map", "values": self._part(depth - 1)}
            case "optional":
                branches = ["null", self._branch(depth - 1)]
                self._random.shuffle(branches)
                return branches
        return self._union(depth - 1)

    def _part(self, depth: int) -> Json:
        """A type whose values are not always null."""
        made = self.type(depth)
        return made if is_column(made) else "int"

    def _branch(self, depth: int) -> Json:
        made = self._part(depth)
        return "string" if isinstance(made, list) else made

    def _union(self, depth: int) -> Json:
        branches: dict[str, Json] = {}
        for _ in range(self._random.randint(1, 5)):
            made = self.type(depth)
            if not isinstance(made, list):
                branches.setdefault(_branch_key(made), made)
        return list(branches.values()) or ["int"]

    def _decimal(self) -> Json:
        precision = self._random.choice((1, 5, 18, 38))
        made: dict[str, Any] = {"logicalType": "decimal", "precision": precision}
        made["scale"] = self._random.randint(0, precision)
        if self._random.random() < 0.5:
            return {"type": "bytes", **made}
        return {"type": "fixed", "name": self._name("F"), "size": 17, **made}

    def _name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def payload(self, schema: Json) -> bytes:
        """The bytes of a random value."""
        match schema:
            case list():
                index = self._random.randrange(len(schema))
                return zigzag(index) + self.payload(schema[index])
            case {"type": "record"}:
                return b"".join(self.payload(each["type"]) for each in schema["fields"])
            case {"type": "array"}:
                return b"".join(self._blocks(lambda: self.payload(schema["items"])))
            case {"type": "map"}:
                entry = lambda: self._text() + self.payload(schema["values"])  # noqa: E731
                return b"".join(self._blocks(entry))
            case {"type": "enum"}:
                return zigzag(self._random.randrange(len(schema["symbols"])))
            case {"logicalType": "decimal"}:
                return self._unscaled(schema)
            case {"type": "fixed"}:
                return self._random.randbytes(schema["size"])
            case {"logicalType": logical, "type": word}:
                return self._logical(word, logical)
        return self._plain(schema)

    def _blocks(self, item: Callable[[], bytes]) -> Iterator[bytes]:
        while self._random.random() < 0.6:
            items = [item() for _ in range(self._random.choice((1, 2, 5)))]
            data = b"".join(items)
            if self._random.random() < 0.3:
                yield zigzag(-len(items)) + zigzag(len(data)) + data
            else:
                yield zigzag(len(items)) + data
        yield zigzag(0)

    def _unscaled(self, schema: Json) -> bytes:
        bound = 10 ** self._random.randint(0, schema["precision"])
        value = self._random.randint(-bound + 1, bound - 1)
        least = (value if value >= 0 else ~value).bit_length() // 8 + 1
        if schema["type"] == "fixed":
            return value.to_bytes(schema["size"], "big", signed=True)
        size = least + self._random.choice((0, 0, 0, 1, 20))
        return zigzag(size) + value.to_bytes(size, "big", signed=True)

    def _logical(self, word: str, logical: str) -> bytes:
        if logical == "uuid":
            digits = self._random.randbytes(16).hex()
            if self._random.random() < 0.3:
                digits = digits.upper()
            text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            return zigzag(len(text)) + text.encode()
        if logical.startswith("time-"):
            return zigzag(self._random.randrange(_DAY_MS * (1 if word == "int" else 1000)))
        if self._is_moderate:
            unit = 1000 if logical.endswith("micros") else 1
            time_ms = self._random.randint(-_YEAR_9000_MS // 4, _YEAR_9000_MS)
            return zigzag(time_ms // _DAY_MS if logical == "date" else time_ms * unit)
        bound = _LONG // 1000 if logical.endswith("millis") else _LONG
        return zigzag(self._integer(1 << 31 if word == "int" else bound))

    def _plain(self, word: str) -> bytes:
        match word:
            case "null":
                return b""
            case "boolean":
                return self._random.choice((b"\0", b"\1"))
            case "int":
                return zigzag(self._integer(1 << 31))
            case "long":
                return zigzag(self._integer(_LONG))
            case "float" | "double":
                kind = "<f" if word == "float" else "<d"
                if self._is_moderate:
                    return struct.pack(kind, self._random.uniform(-1000, 1000))
                return self._random.randbytes(struct.calcsize(kind))
            case "bytes":
                data = self._random.randbytes(self._random.choice((0, 3, 12, 13, 200)))
                return zigzag(len(data)) + data
        return self._text()

    def _integer(self, bound: int) -> int:
        if self._random.random() < 0.5:
            edge = self._random.choice((*_EDGES, bound - 1, -bound + 1))
            return edge if -bound < edge < bound else 0
        return self._random.randrange(-bound + 1, bound)

    def _text(self) -> bytes:
        size = self._random.choice((0, 1, 5, 12, 13, 100))
        text = "".join(self._random.choice("abcxyz 09ä€😀") for _ in range(size)).encode()
        return zigzag(len(text)) + text


def damaged(random: Random, payload: bytes) -> bytes:
    """A payload of which some bytes are other ones, missing or too many."""
    place = random.randint(0, len(payload))
    match random.choice(("cut", "more", "bytes", "ones")):
        case "cut":
            return payload[:place]
        case "more":
            return payload + random.randbytes(random.randint(1, 9))
        case "bytes":
            size = random.randint(1, 3)
            return payload[:place] + random.randbytes(size) + payload[place + size :]
    size = random.randint(1, 11)
    return payload[:place] + b"\xff" * size + payload[place + size :]


def zigzag(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def is_column(schema: Json) -> bool:
    match schema:
        case "null":
            return False
        case list():
            return any(map(is_column, schema))
        case {"type": "record"}:
            return any(is_column(each["type"]) for each in schema["fields"])
    return True


def _branch_key(schema: Json) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def shown(rows: pa.Array) -> str:
    """All values of an array, as a text: Python's dates and times end in the year 9999."""
    return repr(rows.cast(_plain_type(rows.type)).to_pylist())


def _plain_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct([pa.field(each.name, _plain_type(each.type)) for each in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _plain_type(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(pa.string(), pa.field("value", _plain_type(type.item_type)))
    if isinstance(type, pa.BaseExtensionType):
        return type.storage_type
    if pa.types.is_date32(type):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(type) else type
