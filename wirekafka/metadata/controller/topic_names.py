"""Validation of topic names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wirekafka.errors import Error, KafkaError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST = 249


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an illegal name, with Kafka's message."""
    if not name:
        raise _invalid("the empty string is not allowed")
    if name in (".", ".."):
        raise _invalid(f"'{name}' is not allowed")
    if len(name) > _LONGEST:
        raise _invalid(f"the length of '{name}' is longer than the max allowed length {_LONGEST}")
    if not _LEGAL.fullmatch(name):
        raise _invalid(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for `a.b` beside `a_b`, which have the same metric names."""
    if "." not in name and "_" not in name:
        return
    flattened = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == flattened:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )


def _invalid(reason: str) -> KafkaError:
    return KafkaError(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
