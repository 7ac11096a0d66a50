"""Payloads of Avro's binary encoding, decoded to values that JSON has, and encoded from them.

Payloads come from strangers. A schema whose types contain themselves can ask for any depth of
values, and counts of values without bytes, as `null`, can ask for any amount of memory: both are
bounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from struct import Struct
from struct import error as StructError
from typing import Any, assert_never

from wirekafka.schemas.avro import logical as avro_logical
from wirekafka.schemas.avro.payload import AvroPayload
from wirekafka.schemas.avro.types import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    AvroUnresolved,
    branch_name,
)
from wirekafka.schemas.schema import ValueMismatch

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_SPARE_VALUES = 100_000
"""Values without bytes in a payload: each other value has a byte at least."""
_MAX_DEFAULT_BYTES = 1 << 20
_NUMBERS_OF_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_Decode = Callable[["_Payload"], Any]
_Encode = Callable[[Any, bytearray], None]


class AvroCodec:
    """Decodes and encodes values of a schema.

    Bytes are strings of the characters U+0000 to U+00FF, as in Avro's encoding in JSON. Values of
    unions stand without the names of their types; an object with such a name is taken, too.
    """

    def __init__(self, root: AvroType):
        self._root = root
        self._decoders = _Decoders()
        self._encoders = _Encoders()

    def decoded(self, payload: bytes) -> Any:
        """The value of a payload. Raises ValueMismatch."""
        source = _Payload(payload)
        try:
            value = self._decoders.of(self._root)(source)
        except RecursionError:
            raise ValueMismatch("The value is nested too deeply") from None
        left = len(payload) - source.position
        if left:
            raise ValueMismatch(f"{left} bytes follow the value")
        return value

    def encoded(self, value: Any) -> bytes:
        """The payload of a value. Raises ValueMismatch."""
        out = bytearray()
        try:
            self._encoders.of(self._root)(value, out)
        except RecursionError:
            raise ValueMismatch("The value is nested too deeply") from None
        return bytes(out)


class _Payload(AvroPayload):
    """A payload, and how many values without bytes it may still have."""

    def __init__(self, data: bytes):
        super().__init__(data)
        self._spare = len(data) + _SPARE_VALUES

    def spend(self, values: int) -> None:
        self._spare -= values
        if self._spare < 0:
            raise ValueMismatch("The payload has more values than bytes")

    def read_int(self) -> int:
        value = self.read_long()
        if not -1 << 31 <= value < 1 << 31:
            raise ValueMismatch(f"An int has more than 32 bits: {value}")
        return value

    def read_boolean(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise ValueMismatch(f"A boolean is neither 0 nor 1: {byte}")
        return byte == 1

    def read_float(self) -> Any:
        return _json_number(_FLOAT.unpack(self.take(4))[0])

    def read_double(self) -> Any:
        return _json_number(_DOUBLE.unpack(self.take(8))[0])

    def read_bytes(self) -> str:
        return self.take(self.read_long()).decode("latin-1")

    def read_null(self) -> None:
        return None

    def block(self) -> int:
        """The number of values in the next block of an array or map; 0 ends it."""
        count = self.read_long()
        if count < 0:
            self.read_long()
            count = -count
        self.spend(count)
        return count


def _json_number(value: float) -> float | str:
    """A number, or the word for what JSON has no number for."""
    if isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


_READERS: Mapping[str, _Decode] = {
    "null": _Payload.read_null,
    "boolean": _Payload.read_boolean,
    "int": _Payload.read_int,
    "long": _Payload.read_long,
    "float": _Payload.read_float,
    "double": _Payload.read_double,
    "bytes": _Payload.read_bytes,
    "string": _Payload.read_string,
}


class _Decoders:
    """The functions that decode each type, made when a value of the type comes first."""

    def __init__(self) -> None:
        self._made: dict[int, _Decode] = {}

    def of(self, type: AvroType) -> _Decode:
        made = self._made.get(id(type))
        if made is None:
            made = self._made[id(type)] = self._new(type)
        return made

    def _later(self, type: AvroType) -> _Decode:
        """A function whose type may contain it."""
        if not isinstance(type, AvroRecord):
            return self.of(type)
        return lambda source: self.of(type)(source)

    def _new(self, type: AvroType) -> _Decode:
        match type:
            case AvroPrimitive():
                return avro_logical.decoder(type, _READERS[type.word])
            case AvroFixed():
                size = type.size_bytes
                return avro_logical.decoder(
                    type, lambda source: source.take(size).decode("latin-1")
                )
            case AvroEnum():
                return _enum_decoder(type)
            case AvroArray():
                return _array_decoder(self._later(type.items))
            case AvroMap():
                return _map_decoder(self._later(type.values))
            case AvroUnion():
                return _union_decoder([self._later(branch) for branch in type.branches])
            case AvroRecord():
                fields = type.fields or ()
                return _record_decoder([(each.name, self._later(each.type)) for each in fields])
            case AvroUnresolved():
                raise AssertionError(type)
        assert_never(type)


def _enum_decoder(type: AvroEnum) -> _Decode:
    symbols = type.symbols

    def decode(source: _Payload) -> str:
        index = source.read_int()
        if not 0 <= index < len(symbols):
            raise ValueMismatch(f"Enum {type.name.full} has no symbol {index}")
        return symbols[index]

    return decode


def _array_decoder(item: _Decode) -> _Decode:
    def decode(source: _Payload) -> list[Any]:
        items: list[Any] = []
        while count := source.block():
            for _ in range(count):
                items.append(item(source))
        return items

    return decode


def _map_decoder(value: _Decode) -> _Decode:
    def decode(source: _Payload) -> dict[str, Any]:
        entries = {}
        while count := source.block():
            for _ in range(count):
                key = source.read_string()
                entries[key] = value(source)
        return entries

    return decode


def _union_decoder(branches: list[_Decode]) -> _Decode:
    def decode(source: _Payload) -> Any:
        index = source.read_int()
        if not 0 <= index < len(branches):
            raise ValueMismatch(f"A union of {len(branches)} types has no type {index}")
        return branches[index](source)

    return decode


def _record_decoder(fields: list[tuple[str, _Decode]]) -> _Decode:
    def decode(source: _Payload) -> dict[str, Any]:
        source.spend(len(fields))
        values = {}
        name = ""
        try:
            for name, decode_field in fields:
                values[name] = decode_field(source)
        except ValueMismatch as error:
            raise _within(name, error) from None
        return values

    return decode


def _within(name: str, error: ValueMismatch) -> ValueMismatch:
    """The error with the name of the field before it: `a.b: reason`."""
    text = str(error)
    is_path = isinstance(error, _FieldMismatch)
    return _FieldMismatch(f"{name}.{text}" if is_path else f"{name}: {text}")


class _FieldMismatch(ValueMismatch):
    """A mismatch whose text begins with the path of a field."""


class _Encoders:
    """The functions that encode each type, made when a value of the type comes first."""

    def __init__(self) -> None:
        self._made: dict[int, _Encode] = {}

    def of(self, type: AvroType) -> _Encode:
        made = self._made.get(id(type))
        if made is None:
            made = self._made[id(type)] = self._new(type)
        return made

    def _later(self, type: AvroType) -> _Encode:
        if not isinstance(type, AvroRecord):
            return self.of(type)
        return lambda value, out: self.of(type)(value, out)

    def _new(self, type: AvroType) -> _Encode:
        match type:
            case AvroPrimitive():
                return avro_logical.encoder(type, _PRIMITIVES[type.word])
            case AvroFixed():
                return avro_logical.encoder(type, _fixed_encoder(type))
            case AvroEnum():
                return _enum_encoder(type)
            case AvroArray():
                return _array_encoder(self._later(type.items))
            case AvroMap():
                return _map_encoder(self._later(type.values))
            case AvroUnion():
                return _union_encoder(type, [self._later(branch) for branch in type.branches])
            case AvroRecord():
                return self._record(type)
            case AvroUnresolved():
                raise AssertionError(type)
        assert_never(type)

    def _record(self, type: AvroRecord) -> _Encode:
        fields = [(field, self._later(field.type)) for field in type.fields or ()]
        names = {field.name for field, _ in fields}
        defaults: dict[str, bytes] = {}

        def encode(value: Any, out: bytearray) -> None:
            if not isinstance(value, Mapping):
                raise _wrong(f"record {type.name.full}", value)
            unknown = value.keys() - names
            if unknown:
                raise ValueMismatch(
                    f"Record {type.name.full} has no field {min(map(str, unknown))}"
                )
            for field, encode_field in fields:
                if field.name in value:
                    try:
                        encode_field(value[field.name], out)
                    except ValueMismatch as error:
                        raise _within(field.name, error) from None
                    continue
                default = defaults.get(field.name)
                if default is None:
                    default = defaults[field.name] = _default(field, encode_field)
                out += default

        return encode


def _default(field: AvroField, encode: _Encode) -> bytes:
    if not field.has_default:
        raise _FieldMismatch(f"{field.name}: The value is missing, and has no default")
    out = bytearray()
    encode(field.default, out)
    # Defaults within defaults can double at each level.
    if len(out) > _MAX_DEFAULT_BYTES:
        raise _FieldMismatch(f"{field.name}: The default is larger than {_MAX_DEFAULT_BYTES} bytes")
    return bytes(out)


def _wrong(expected: str, value: Any) -> ValueMismatch:
    text = repr(value)
    if len(text) > 60:
        text = f"{text[:60]}..."
    return ValueMismatch(f"Expected {expected}, found {text}")


def put_long(value: int, out: bytearray) -> None:
    """Append an integer, 7 bits a byte, the lowest first."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _integer_encoder(word: str, bits: int) -> _Encode:
    def encode(value: Any, out: bytearray) -> None:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not -1 << (bits - 1) <= value < 1 << (bits - 1):
            raise _wrong(word, value)
        put_long(value, out)

    return encode


def _number_encoder(word: str, layout: Struct) -> _Encode:
    def encode(value: Any, out: bytearray) -> None:
        number = _NUMBERS_OF_WORDS.get(value) if isinstance(value, str) else value
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise _wrong(word, value)
        try:
            out += layout.pack(number)
        except (OverflowError, StructError):
            raise _wrong(word, value) from None

    return encode


def _encode_null(value: Any, out: bytearray) -> None:
    if value is not None:
        raise _wrong("null", value)


def _encode_boolean(value: Any, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise _wrong("boolean", value)
    out.append(value)


def _encode_string(value: Any, out: bytearray) -> None:
    if not isinstance(value, str):
        raise _wrong("string", value)
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise _wrong("string", value) from None
    put_long(len(data), out)
    out += data


def _encode_bytes(value: Any, out: bytearray) -> None:
    data = _bytes_of("bytes", value)
    put_long(len(data), out)
    out += data


def _bytes_of(expected: str, value: Any) -> bytes:
    """The bytes that a string of characters up to U+00FF stands for."""
    try:
        return value.encode("latin-1") if isinstance(value, str) else bytes(memoryview(value))
    except (TypeError, UnicodeEncodeError):
        raise _wrong(expected, value) from None


_PRIMITIVES: Mapping[str, _Encode] = {
    "null": _encode_null,
    "boolean": _encode_boolean,
    "int": _integer_encoder("int", 32),
    "long": _integer_encoder("long", 64),
    "float": _number_encoder("float", _FLOAT),
    "double": _number_encoder("double", _DOUBLE),
    "bytes": _encode_bytes,
    "string": _encode_string,
}


def _fixed_encoder(type: AvroFixed) -> _Encode:
    expected = f"{type.size_bytes} bytes of fixed {type.name.full}"

    def encode(value: Any, out: bytearray) -> None:
        data = _bytes_of(expected, value)
        if len(data) != type.size_bytes:
            raise _wrong(expected, value)
        out += data

    return encode


def _enum_encoder(type: AvroEnum) -> _Encode:
    indexes = {symbol: index for index, symbol in enumerate(type.symbols)}

    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, str) or value not in indexes:
            raise _wrong(f"a symbol of enum {type.name.full}", value)
        put_long(indexes[value], out)

    return encode


def _array_encoder(item: _Encode) -> _Encode:
    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, list | tuple):
            raise _wrong("array", value)
        if value:
            put_long(len(value), out)
            for each in value:
                item(each, out)
        out.append(0)

    return encode


def _map_encoder(encode_value: _Encode) -> _Encode:
    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, Mapping):
            raise _wrong("map", value)
        if value:
            put_long(len(value), out)
            for key, each in value.items():
                _encode_string(key, out)
                encode_value(each, out)
        out.append(0)

    return encode


def _union_encoder(union: AvroUnion, branches: list[_Encode]) -> _Encode:
    names = [branch_name(branch) for branch in union.branches]
    expected = f"one of {', '.join(names):.200}"

    def encode(value: Any, out: bytearray) -> None:
        start = len(out)
        reasons = []
        for index in sorted(range(len(branches)), key=lambda each: _unlikely(names[each], value)):
            put_long(index, out)
            try:
                return branches[index](value, out)
            except ValueMismatch as error:
                reasons.append(error)
                del out[start:]
        if isinstance(value, Mapping) and len(value) == 1:
            [(name, inner)] = value.items()
            if name in names:
                put_long(names.index(name), out)
                return branches[names.index(name)](inner, out)
        paths = [reason for reason in reasons if isinstance(reason, _FieldMismatch)]
        raise paths[0] if paths else _wrong(expected, value)

    return encode


def _unlikely(branch: str, value: Any) -> bool:
    """Whether other branches suit the kind of value better."""
    match value:
        case bool() | None:
            return False
        case int():
            return branch not in ("int", "long")
        case float():
            return branch != "double"
        case str():
            return branch in ("bytes", "float", "double", "int", "long")
    return False
