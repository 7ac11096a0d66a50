"""The mode of a topic's table (`wirekafka.table.mode`), in the words of Redpanda's option."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class TableKind(StrEnum):
    """How the value of a record becomes columns."""

    OFF = "off"
    KEY_VALUE = "key_value"
    SCHEMA_ID_PREFIX = "value_schema_id_prefix"
    SCHEMA_LATEST = "value_schema_latest"


@dataclass(frozen=True, slots=True)
class TableMode:
    """A kind of table; `subject` and `protobuf_name` belong to `value_schema_latest`."""

    kind: TableKind
    subject: str | None = None
    """None is the topic's name with `-value`."""
    protobuf_name: str | None = None
    """The full name of the message; None is the first message of the schema."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mode of `off`, `key_value`, `value_schema_id_prefix` or
        `value_schema_latest[:subject=NAME][,protobuf_name=NAME]`. Raises ValueError.
        """
        word, colon, rest = text.strip().partition(":")
        try:
            kind = TableKind(word)
        except ValueError:
            raise ValueError(f"{word!r} is none of {', '.join(TableKind)}") from None
        if not colon:
            return cls(kind)
        if kind is not TableKind.SCHEMA_LATEST:
            raise ValueError(f"{word} has no settings, but {rest!r} follows")
        values: dict[str, str] = {}
        for part in rest.split(","):
            name, equals, value = part.strip().partition("=")
            if name not in ("subject", "protobuf_name") or not equals or not value:
                raise ValueError(f"{part!r} is neither subject=NAME nor protobuf_name=NAME")
            if name in values:
                raise ValueError(f"{name} is set twice")
            values[name] = value
        return cls(kind, values.get("subject"), values.get("protobuf_name"))
