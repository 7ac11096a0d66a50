"""Checks of option values, with Kafka's error messages."""

from __future__ import annotations

import re
from typing import Any

from wirekafka.config.option import Check, ConfigError, no_empty_item

_DURATION = r"P(\d+D)?(?:T(?=\d)(\d+H)?(\d+M)?(\d+(?:\.\d{1,9})?S)?)?"
_LAST_CODEC = 4
_PAIR = r"(\d+:\d+)?"


def at_least(low: float) -> Check:
    """Numbers from `low` up."""

    def check(name: str, value: Any) -> None:
        if value < low:
            raise ConfigError(name, value, f"Value must be at least {low}")

    return _described(check, f"[{low},...]")


def between(low: float, high: float) -> Check:
    """Numbers from `low` to `high`, both included."""

    def check(name: str, value: Any) -> None:
        if value < low:
            raise ConfigError(name, value, f"Value must be at least {low}")
        if value > high:
            raise ConfigError(name, value, f"Value must be no more than {high}")

    return _described(check, f"[{low},...,{high}]")


def one_of(*words: str) -> Check:
    """Exactly one of `words`."""

    def check(name: str, value: Any) -> None:
        if value not in words:
            raise ConfigError(name, value, f"String must be one of: {', '.join(words)}")

    return _described(check, f"[{', '.join(words)}]")


def one_of_any_case(*words: str) -> Check:
    """One of `words`, in upper or lower case."""
    folded = {word.lower() for word in words}

    def check(name: str, value: Any) -> None:
        if value is None or value.lower() not in folded:
            reason = f"String must be one of (case insensitive): {', '.join(words)}"
            raise ConfigError(name, value, reason)

    return _described(check, f"(case insensitive) [{', '.join(words)}]")


def some_items(name: str, value: Any) -> None:
    """at least one item, and no empty one"""
    _check_not_empty(name, value, "any non-empty value")
    no_empty_item(name, value)


def all_of(*words: str, can_be_empty: bool = False) -> Check:
    """A list whose every item is one of `words`."""

    def check(name: str, value: Any) -> None:
        if not can_be_empty:
            _check_not_empty(name, value, f"[{', '.join(words)}]")
        no_empty_item(name, value)
        for item in value:
            if item not in words:
                raise ConfigError(name, item, f"String must be one of: {', '.join(words)}")

    return _described(check, f"[{', '.join(words)}]")


def gzip_level(name: str, value: Any) -> None:
    """A zlib level, or -1 for zlib's own choice."""
    if not (1 <= value <= 9 or value == -1):
        raise ConfigError(name, value, "Value must be between 1 and 9 or equal to -1")


def codec_number(name: str, value: Any) -> None:
    """The number of a codec: 0 for none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    if not 0 <= value <= _LAST_CODEC:
        raise ConfigError(name, value, f"Unknown compression type id: {value}")


def non_empty(name: str, value: Any) -> None:
    """A string that is not empty."""
    if value is not None and not value:
        raise ConfigError(name, value, "String must be non-empty")


def offset_reset(name: str, value: Any) -> None:
    """earliest, latest, or by_duration:<ISO 8601 duration>"""
    if value in ("earliest", "latest"):
        return
    duration = re.fullmatch(_DURATION, value.removeprefix("by_duration:"), re.IGNORECASE)
    if value.startswith("by_duration:") and duration and any(duration.groups()):
        return
    reason = (
        f"Invalid value `{value}` for configuration {name}. The value must be either "
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )
    raise ConfigError(name, value, reason)


def replica_list(name: str, value: Any) -> None:
    """partition:broker pairs, or *"""
    if value == ("*",) or all(re.fullmatch(_PAIR, item) for item in value):
        return
    raise ConfigError(
        name,
        value,
        f"{name} must be the literal '*' or a list of replicas in the following "
        "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def _check_not_empty(name: str, value: Any, valid: str) -> None:
    if not value:
        reason = f"must not be empty. Valid values include: {valid}"
        raise ConfigError(name, value, reason, f"Configuration '{name}' {reason}")


def _described(check: Check, bounds: str) -> Check:
    check.__doc__ = bounds
    return check
