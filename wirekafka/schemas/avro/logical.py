"""Avro's logical types: dates, times, decimals and UUIDs as people write them.

A value that the logical type has no text for, as a date after the year 9999, stays a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from struct import Struct
from typing import Any, TypeVar
from uuid import UUID

from wirekafka.schemas.avro.types import AvroFixed, AvroPrimitive
from wirekafka.schemas.schema import ValueMismatch

_FIRST_DAY = date(1970, 1, 1)
_DAY_S = 86_400
_UUID_BYTES = 16
_DURATION_PARTS = Struct("<III")
_MAX_SCALE = 1000
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]([\d:.]+)(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)
_DURATION = re.compile(r"P(\d+)M(\d+)DT(\d+)\.(\d{3})S", re.ASCII)
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}

_Source = TypeVar("_Source")


@dataclass(frozen=True, slots=True)
class _Logical:
    """How values of a logical type become texts, and texts become values again.

    `is_number` says that a plain number is the value itself, not the text of one.
    """

    text: Callable[[Any], str]
    value: Callable[[str], Any]
    is_number: bool


def decoder(
    type: AvroPrimitive | AvroFixed, decode: Callable[[_Source], Any]
) -> Callable[[_Source], Any]:
    """A function that decodes a type to the text of its logical type, if it has one."""
    logical = _logical(type)
    if logical is None:
        return decode
    text = logical.text

    def decode_text(source: _Source) -> Any:
        value = decode(source)
        with suppress(ValueError, OverflowError):
            return text(value)
        return value

    return decode_text


def encoder(
    type: AvroPrimitive | AvroFixed, encode: Callable[[Any, bytearray], None]
) -> Callable[[Any, bytearray], None]:
    """A function that encodes the text of a logical type, or a plain value."""
    logical = _logical(type)
    if logical is None:
        return encode
    parsed, is_number = logical.value, logical.is_number

    def encode_text(value: Any, out: bytearray) -> None:
        if isinstance(value, str) or (not is_number and isinstance(value, int | float)):
            try:
                value = parsed(str(value))
            except (ValueError, OverflowError):
                word = type.properties["logicalType"]
                raise ValueMismatch(f"Expected {word}, found {value!r:.60}") from None
        encode(value, out)

    return encode_text


def _logical(type: AvroPrimitive | AvroFixed) -> _Logical | None:
    """The logical type of a type; None if it has none that its values can have."""
    word = type.properties.get("logicalType")
    size = type.size_bytes if isinstance(type, AvroFixed) else -1
    match type.word, word:
        case "int", "date":
            return _Logical(_date_text, _date_value, is_number=True)
        case "int", "time-millis":
            return _time(3)
        case "long", "time-micros":
            return _time(6)
        case "long", "timestamp-millis" | "timestamp-micros" | "timestamp-nanos":
            return _instant(_DIGITS[word.rpartition("-")[2]], "Z")
        case "long", (
            "local-timestamp-millis" | "local-timestamp-micros" | "local-timestamp-nanos"
        ):
            return _instant(_DIGITS[word.rpartition("-")[2]], "")
        case "bytes" | "fixed", "decimal":
            scale = type.properties.get("scale", 0)
            if isinstance(scale, int) and 0 <= scale <= _MAX_SCALE:
                return _decimal(type, scale)
        case "fixed", "uuid" if size == _UUID_BYTES:
            return _Logical(_uuid_text, _uuid_value, is_number=False)
        case "fixed", "duration" if size == _DURATION_PARTS.size:
            return _Logical(_duration_text, _duration_value, is_number=False)
    return None


def _date_text(days: int) -> str:
    return (_FIRST_DAY + timedelta(days=days)).isoformat()


def _date_value(text: str) -> int:
    return (date.fromisoformat(text) - _FIRST_DAY).days


def _time(digits: int) -> _Logical:
    per_s: int = 10**digits

    def text(value: int) -> str:
        if not 0 <= value < _DAY_S * per_s:
            raise ValueError(value)
        return _clock(value, digits)

    return _Logical(text, lambda text: _since_midnight(text, digits), is_number=True)


def _clock(value: int, digits: int) -> str:
    seconds, fraction = divmod(value, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}"


def _since_midnight(text: str, digits: int) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second = (int(part) for part in match.group(1, 2, 3))
    fraction = match[4] or "0"
    if hour > 23 or minute > 59 or second > 59 or fraction[digits:].strip("0"):
        raise ValueError(text)
    per_s: int = 10**digits
    since_s = hour * 3600 + minute * 60 + second
    return since_s * per_s + int(fraction.ljust(digits, "0")[:digits])


def _instant(digits: int, zone: str) -> _Logical:
    per_day: int = _DAY_S * 10**digits

    def text(value: int) -> str:
        days, rest = divmod(value, per_day)
        return f"{_date_text(days)}T{_clock(rest, digits)}{zone}"

    def value(text: str) -> int:
        match = _INSTANT.fullmatch(text)
        if match is None or bool(match[3]) != bool(zone):
            raise ValueError(text)
        ahead_s = _ahead_s(match[3] or "Z")
        rest = _since_midnight(match[2], digits)
        return _date_value(match[1]) * per_day + rest - ahead_s * per_day // _DAY_S

    return _Logical(text, value, is_number=True)


def _ahead_s(zone: str) -> int:
    """By how much the clocks of a zone such as +02:00 are ahead of UTC."""
    if zone == "Z":
        return 0
    ahead_s = (int(zone[1:3]) * 60 + int(zone[4:6])) * 60
    return -ahead_s if zone[0] == "-" else ahead_s


def _decimal(type: AvroPrimitive | AvroFixed, scale: int) -> _Logical:
    precision = type.properties.get("precision")

    def text(value: str) -> str:
        unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        whole = digits if scale == 0 else f"{digits[:-scale]}.{digits[-scale:]}"
        return f"-{whole}" if unscaled < 0 else whole

    def value(text: str) -> bytes:
        match = _DECIMAL.fullmatch(text)
        if match is None:
            raise ValueError(text)
        fraction = match[3] or ""
        if fraction[scale:].strip("0"):
            raise ValueError(text)
        digits = match[2] + fraction[:scale].ljust(scale, "0")
        if isinstance(precision, int) and len(digits.lstrip("0")) > precision:
            raise ValueError(text)
        unscaled = -int(digits) if match[1] == "-" else int(digits)
        least = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        size = type.size_bytes if isinstance(type, AvroFixed) else least
        return unscaled.to_bytes(size, "big", signed=True)

    return _Logical(text, value, is_number=False)


def _uuid_text(value: str) -> str:
    return str(UUID(bytes=value.encode("latin-1")))


def _uuid_value(text: str) -> bytes:
    return UUID(text).bytes


def _duration_text(value: str) -> str:
    months, days, millis = _DURATION_PARTS.unpack(value.encode("latin-1"))
    return f"P{months}M{days}DT{millis // 1000}.{millis % 1000:03}S"


def _duration_value(text: str) -> bytes:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    months, days, seconds, millis = (int(part) for part in match.groups())
    parts = (months, days, seconds * 1000 + millis)
    if max(parts) >= 1 << 32:
        raise ValueError(text)
    return _DURATION_PARTS.pack(*parts)
