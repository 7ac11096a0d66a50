"""A row of the option table: name, type, default, checks, and how it can be updated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

T = TypeVar("T")
D = TypeVar("D")

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

# Compiled on first use: a start from defaults needs none of them, and must be quick.
_WHOLE_NUMBER = r"[+-]?\d+"
_REAL_NUMBER = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)"
_COMMA = r"\s*,\s*"


class Type(IntEnum):
    """A value's type, numbered as DescribeConfigs v3+ reports it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """How the option can be changed while brokers run (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    """How much attention the option deserves, as Kafka ranks it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
CLUSTER_WIDE, PER_BROKER = Update.CLUSTER_WIDE, Update.PER_BROKER


class ConfigError(ValueError):
    """A value that an option cannot take; the message is worded as Kafka's ConfigException."""

    def __init__(self, name: str, value: object, reason: str, message: str = "") -> None:
        self.name, self.value, self.reason = name, value, reason
        message = message or f"Invalid value {shown(value)} for configuration {name}: {reason}"
        super().__init__(message)


def shown(value: object) -> str:
    """A value as Java's string conversion shows it in a message."""
    if isinstance(value, tuple):
        return "[" + ", ".join(f"{each}" for each in value) + "]"
    return text_of(value) or ("null" if value is None else "")


class Password(str):
    """A secret string, hidden in its repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


Check = Callable[[str, Any], None]
"""Raises ConfigError when the parsed value of the named option is out of bounds."""


class Row(TypedDict, total=False):
    """The optional properties of an option."""

    importance: Importance
    update: Update
    internal: bool
    required: bool
    doc: str


class Option(Generic[T]):
    """A named, typed setting, declared as a class attribute; on instances it reads as its value.

    Instances keep parsed values in their `__dict__`, which wins over this non-data descriptor.
    `chain` holds the broker options that are the default of a topic or group option.
    """

    def __init__(self, type: Type, default: T, check: Check | None, row: Row) -> None:
        self.name = self.attribute = ""
        self.type, self.default, self.check = type, default, check
        self.importance = row.get("importance", MEDIUM)
        self.update = row.get("update", Update.READ_ONLY)
        self.internal = row.get("internal", False)
        self.required = row.get("required", False)
        self.doc = row.get("doc", "")
        self.unset_reads_empty = False
        self.chain: tuple[Option[Any], ...] = ()

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Option[T] | T:
        return self if instance is None else self.default

    @property
    def has_default(self) -> bool:
        """Whether the option has a value when it is not set."""
        return not (self.default is None or self.unset_reads_empty or self.required)

    @property
    def sensitive(self) -> bool:
        """Whether DescribeConfigs must withhold the value."""
        return self.type is Type.PASSWORD

    def parse(self, text: str, name: str | None = None) -> T:
        """Parse and check a value. Raises ConfigError."""
        name = name or self.name
        value = _PARSERS[self.type](name, text)
        if self.check is not None:
            self.check(name, value)
        return value  # type: ignore[no-any-return]


def boolean(default: bool, check: Check | None = None, **row: Unpack[Row]) -> Option[bool]:
    """A boolean option."""
    return Option(Type.BOOLEAN, default, check, row)


def string(default: D, check: Check | None = None, **row: Unpack[Row]) -> Option[str | D]:
    """A string option; surrounding blanks are removed."""
    return Option(Type.STRING, default, check, row)


def integer(default: D, check: Check | None = None, **row: Unpack[Row]) -> Option[int | D]:
    """A 32-bit integer option."""
    return Option(Type.INT, default, check, row)


def short(default: D, check: Check | None = None, **row: Unpack[Row]) -> Option[int | D]:
    """A 16-bit integer option."""
    return Option(Type.SHORT, default, check, row)


def long(default: D, check: Check | None = None, **row: Unpack[Row]) -> Option[int | D]:
    """A 64-bit integer option."""
    return Option(Type.LONG, default, check, row)


def double(default: float, check: Check | None = None, **row: Unpack[Row]) -> Option[float]:
    """A double-precision option."""
    return Option(Type.DOUBLE, default, check, row)


def no_empty_item(name: str, value: Any) -> None:
    """no empty item"""
    if "" in value:
        reason = "values must not be empty."
        raise ConfigError(name, value, reason, f"Configuration '{name}' {reason}")


def listing(
    default: Sequence[str] | None = (), check: Check | None = no_empty_item, **row: Unpack[Row]
) -> Option[tuple[str, ...]]:
    """An option of comma-separated strings; default None is "not set" and reads as empty."""
    option = Option(Type.LIST, tuple(default or ()), check, row)
    option.unset_reads_empty = default is None
    return option


def class_name(default: D, check: Check | None = None, **row: Unpack[Row]) -> Option[str | D]:
    """An option with the name of a Java class."""
    return Option(Type.CLASS, default, check, row)


def password(**row: Unpack[Row]) -> Option[Password | None]:
    """An option with a secret."""
    return Option(Type.PASSWORD, None, None, row)


def _boolean(name: str, text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ConfigError(name, text, "Expected value to be either true or false")
    return folded == "true"


def _whole_number(type: Type, bits: int) -> Callable[[str, str], int]:
    limit = 1 << (bits - 1)

    def parse(name: str, text: str) -> int:
        trimmed = text.strip()
        # A signed 64-bit number has 19 digits: longer text is refused before int() sees it.
        if not re.fullmatch(_WHOLE_NUMBER, trimmed) or len(trimmed.lstrip("+-0")) > 19:
            raise ConfigError(name, text, f"Not a number of type {type.name}")
        value = int(trimmed)
        if not -limit <= value < limit:
            raise ConfigError(name, text, f"Not a number of type {type.name}")
        return value

    return parse


def _double(name: str, text: str) -> float:
    trimmed = text.strip()
    if not re.fullmatch(_REAL_NUMBER, trimmed):
        raise ConfigError(name, text, "Not a number of type DOUBLE")
    return float(trimmed.rstrip("dDfF") if trimmed[-1] in "dDfF" else trimmed)


def _listing(name: str, text: str) -> tuple[str, ...]:
    trimmed = text.strip()
    # Kafka drops repeated words, keeping the first of each.
    return tuple(dict.fromkeys(re.split(_COMMA, trimmed))) if trimmed else ()


def _text(name: str, text: str) -> str:
    return text.strip()


def _password(name: str, text: str) -> Password:
    return Password(text)


_PARSERS: dict[Type, Callable[[str, str], Any]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: _text,
    Type.INT: _whole_number(Type.INT, 32),
    Type.SHORT: _whole_number(Type.SHORT, 16),
    Type.LONG: _whole_number(Type.LONG, 64),
    Type.DOUBLE: _double,
    Type.LIST: _listing,
    Type.CLASS: _text,
    Type.PASSWORD: _password,
}


def text_of(value: object) -> str | None:
    """A parsed value as Kafka prints it; None for "not set"."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return ",".join(f"{each}" for each in value)
        case _:
            return str(value)


def _java_double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value!r}" if "e" not in repr(value) else f"{value:.1f}"
    mantissa, exponent = f"{value:e}".split("e")
    shortest = repr(value)
    if "e" in shortest:
        mantissa, exponent = shortest.split("e")
    else:
        digits = shortest.replace("-", "").replace(".", "").strip("0") or "0"
        sign = "-" if value < 0 else ""
        mantissa = sign + digits[0] + "." + (digits[1:] or "0")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
