"""The settings of one topic's table, as its topic options and the node say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from wirekafka.config.table_mode import TableMode


class InvalidAction(StrEnum):
    """What happens to a record whose value cannot be decoded."""

    DEAD_LETTERS = "dlq_table"
    DROP = "drop"


class TableWrite(StrEnum):
    """Whether each record becomes a row, or each key has one row: its newest record."""

    APPEND = "append"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The options `wirekafka.table.*` of a topic."""

    mode: TableMode
    write: TableWrite = TableWrite.APPEND
    invalid_action: InvalidAction = InvalidAction.DEAD_LETTERS
    partition_spec: str = "(hour(redpanda.timestamp))"
    target_lag_ms: int = 60_000
    is_deleted_with_topic: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The settings by the short names of the options. Raises ValueError."""
        return cls(
            mode=TableMode.parse(options["mode"]),
            write=TableWrite(options["write"]),
            invalid_action=InvalidAction(options["invalid_record_action"]),
            partition_spec=options["partition_spec"],
            target_lag_ms=int(options["target_lag_ms"]),
            is_deleted_with_topic=bool(options["delete"]),
        )
